// Bringing constants to their devices while a plan runs within a memory budget, and giving them back.
#include <string.h>

#include "src/plan/plan_internal.h"

// What one parallel call brings.
typedef struct bring_pass {
  graft_plan *plan;
  const graft_plan_segment *segment;
} bring_pass;

static bool is_misaligned(const graft_plan_resident *resident) {
  return (uintptr_t)resident->entry.key.source % resident->tensor->desc.dtype->alignment != 0;
}

// Whether it takes the plan's staging memory, so that it must be brought alone.
static bool needs_staging(const graft_plan *plan, const graft_plan_resident *resident) {
  if (resident->step == NULL) return false;
  return !graft_plan_is_host(plan, resident->device) || is_misaligned(resident);
}

static graft_status pack(const graft_plan_resident *resident, const void *source, void *target) {
  const graft_planned_step *step = resident->step;
  return step->kernel->pack(&step->info, step->prepared.state, resident->input, source, target);
}

static void bring_on_host(void *arg, int64_t index) {
  const bring_pass *pass = arg;
  graft_plan_resident *resident = pass->plan->residents.items[pass->segment->first_resident + (uint32_t)index];
  resident->status = GRAFT_OK;
  const graft_constant_key *key = &resident->entry.key;
  void *target = resident->entry.memory.address;
  if (!graft_plan_is_host(pass->plan, resident->device) || needs_staging(pass->plan, resident)) return;
  if (resident->step == NULL) {
    memcpy(target, key->source, key->bytes);
  } else {
    resident->status = pack(resident, key->source, target);
  }
}

// The staging memory has the aligned source first and the packed bytes behind it, at a multiple of 4096.
static graft_status bring_staged(const graft_plan *plan, const graft_plan_resident *resident, graft_error *error) {
  const graft_plan_device *device = &plan->devices[resident->device];
  const graft_constant_key *key = &resident->entry.key;
  void *state = graft_device_state(device->device), *target = resident->entry.memory.address;
  const void *source = key->source;
  if (resident->step == NULL) return device->backend->upload(state, target, source, key->bytes, error);
  char *packed = plan->staging;
  if (is_misaligned(resident)) {
    size_t bytes = graft_tensor_desc_bytes(&resident->tensor->desc);
    source = memcpy(plan->staging, source, bytes);
    packed += (bytes + 4095) / 4096 * 4096;
  }
  if (graft_plan_is_host(plan, resident->device)) return pack(resident, source, target);
  GRAFT_TRY(pack(resident, source, packed));
  return device->backend->upload(state, target, packed, key->bytes, error);
}

static graft_status fail(const graft_plan_resident *resident, graft_status status, graft_error *error) {
  if (error->status == GRAFT_OK) {
    (void)GRAFT_FAIL(error, status, "constant %s cannot be brought: %s", resident->tensor->name,
                     graft_status_name(status));
  }
  return status;
}

graft_status graft_plan_bring(graft_plan *plan, const graft_plan_segment *segment, graft_error *error) {
  uint32_t n = segment->end_resident - segment->first_resident;
  if (n == 0) return GRAFT_OK;
  const graft_plan_device *device = &plan->devices[segment->device];
  if (device->prefetch != NULL) return graft_prefetch_await(plan, segment, error);
  bring_pass pass = {plan, segment};
  if (device->backend->parallel != NULL) {
    device->backend->parallel(graft_device_state(device->device), bring_on_host, &pass, n);
  } else {
    for (uint32_t i = 0; i < n; ++i) bring_on_host(&pass, i);
  }
  for (uint32_t i = segment->first_resident; i < segment->end_resident; ++i) {
    graft_plan_resident *resident = plan->residents.items[i];
    bool is_staged = !graft_plan_is_host(plan, resident->device) || needs_staging(plan, resident);
    if (is_staged) resident->status = bring_staged(plan, resident, error);
    if (resident->status != GRAFT_OK) return fail(resident, resident->status, error);
    const graft_constant *source = &graft_plan_root(resident->tensor)->constant;
    if (source->discard != NULL && source->bytes > 0) source->discard(source->user, source->data, source->bytes);
  }
  return GRAFT_OK;
}

void graft_plan_give_back(const graft_plan *plan, uint32_t segment) {
  if (plan->memory_budget == 0) return;
  for (uint32_t i = 0; i < plan->n_constants; ++i) {
    const graft_plan_constant *constant = &plan->constants[i];
    const graft_constant *source = &constant->tensor->constant;
    if (!constant->is_read || constant->copy != NULL || constant->last_segment != segment) continue;
    if (source->discard != NULL && source->bytes > 0) source->discard(source->user, source->data, source->bytes);
  }
}
