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

// The source, or its aligned copy in the staging memory; what is packed goes behind that, at a multiple of 4096.
static const void *align_source(const graft_plan *plan, const graft_plan_resident *resident, char **out_behind) {
  const void *source = resident->entry.key.source;
  *out_behind = plan->staging;
  if (!is_misaligned(resident)) return source;
  const size_t bytes = graft_tensor_desc_bytes(&resident->tensor->desc);
  *out_behind += (bytes + 4095) / 4096 * 4096;
  return memcpy(plan->staging, source, bytes);
}

graft_status graft_plan_stage_constant(const graft_plan *plan, const graft_plan_resident *resident,
                                       const void **out_bytes) {
  *out_bytes = resident->entry.key.source;
  if (resident->step == NULL) return GRAFT_OK;
  char *packed = NULL;
  const void *source = align_source(plan, resident, &packed);
  *out_bytes = packed;
  return pack(resident, source, packed);
}

static graft_status bring_staged(const graft_plan *plan, const graft_plan_resident *resident, graft_error *error) {
  const graft_plan_device *device = &plan->devices[resident->device];
  void *target = resident->entry.memory.address;
  char *behind = NULL;
  if (graft_plan_is_host(plan, resident->device)) return pack(resident, align_source(plan, resident, &behind), target);
  const void *bytes = NULL;
  GRAFT_TRY(graft_plan_stage_constant(plan, resident, &bytes));
  return device->backend->upload(graft_device_state(device->device), target, bytes, resident->entry.key.bytes, error);
}

static graft_status fail(const graft_plan_resident *resident, graft_status status, graft_error *error) {
  if (error->status == GRAFT_OK) {
    (void)GRAFT_FAIL(error, status, "constant %s cannot be brought: %s", resident->tensor->name,
                     graft_status_name(status));
  }
  return status;
}

graft_status graft_plan_bring(graft_plan *plan, const graft_plan_segment *segment, const graft_run_control *control,
                              graft_error *error) {
  uint32_t n = segment->end_resident - segment->first_resident;
  if (n == 0) return GRAFT_OK;
  const graft_plan_device *device = &plan->devices[segment->device];
  if (device->prefetch != NULL) return graft_prefetch_await(plan, segment, control, error);
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
    graft_plan_discard(&graft_plan_root(resident->tensor)->constant);
  }
  return GRAFT_OK;
}

void graft_plan_give_back(const graft_plan *plan, uint32_t segment) {
  if (plan->memory_budget == 0) return;
  for (uint32_t i = 0; i < plan->n_constants; ++i) {
    const graft_plan_constant *constant = &plan->constants[i];
    if (!constant->is_read || constant->copy != NULL || constant->last_segment != segment) continue;
    graft_plan_discard(&constant->tensor->constant);
  }
}
