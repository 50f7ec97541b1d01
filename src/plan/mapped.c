// Constants that a device copies from where they lie, such as a mapped file, without the host.
#include <unistd.h>

#include "src/plan/plan_internal.h"

// Registering less costs more than copying it.
static const size_t least_bytes = (size_t)1 << 20;

graft_status graft_plan_map(const graft_plan_device *device, const void *source, size_t bytes,
                            graft_plan_mapped *out_mapped) {
  *out_mapped = (graft_plan_mapped){.bytes = 0};
  if (device->backend->register_host == NULL) return GRAFT_E_UNSUPPORTED;
  // Neighbours on the outer pages may be registered, too.
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (page - (uintptr_t)source % page) % page;
  if (bytes < least_bytes || bytes - before < page) return GRAFT_OK;
  const graft_plan_mapped mapped = {.offset = before, .bytes = (bytes - before) / page * page};
  graft_error ignored = {0};
  void *state = graft_device_state(device->device);
  GRAFT_TRY(device->backend->register_host(state, (const char *)source + before, mapped.bytes, &ignored));
  *out_mapped = mapped;
  return GRAFT_OK;
}

void graft_plan_unmap(const graft_plan_device *device, const void *source, graft_plan_mapped *mapped) {
  if (mapped->bytes == 0) return;
  device->backend->unregister_host(graft_device_state(device->device), (const char *)source + mapped->offset,
                                   mapped->bytes);
  mapped->bytes = 0;
}
