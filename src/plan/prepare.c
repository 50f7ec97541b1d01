// What the chosen kernels need: state, workspace, packed constants.
#include <string.h>

#include "src/plan/plan_internal.h"

static bool is_power_of_two(size_t n) {
  return n != 0 && (n & (n - 1)) == 0;
}

static const char *find_fault(const graft_planned_step *step) {
  const graft_prepared *prepared = &step->prepared;
  if (prepared->workspace_alignment > 4096 ||
      (prepared->workspace_alignment != 0 && !is_power_of_two(prepared->workspace_alignment))) {
    return "a workspace alignment that is no power of two up to 4096";
  }
  if (prepared->n_packed > GRAFT_MAX_PACKED) return "more packed inputs than there may be";
  if (prepared->n_packed > 0 && step->kernel->pack == NULL) return "packed inputs, but has no pack function";
  for (uint32_t i = 0; i < prepared->n_packed; ++i) {
    const graft_packed_input *packed = &prepared->packed[i];
    if (packed->input >= step->info.n_inputs || !(step->info.constant_inputs >> packed->input & 1)) {
      return "a packed input that is no constant";
    }
    for (uint32_t j = 0; j < i; ++j) {
      if (prepared->packed[j].input == packed->input) return "the same packed input twice";
    }
    if (packed->bytes == 0 || packed->alignment > 4096 || !is_power_of_two(packed->alignment)) {
      return "a packed input without size, or with an alignment that is no power of two up to 4096";
    }
    if (packed->layout[0] == 0 || memchr(packed->layout, 0, sizeof packed->layout) == NULL) {
      return "a packed input whose layout has no name";
    }
  }
  return NULL;
}

static graft_status name_step(graft_plan *plan, const graft_planned_step *step, graft_status status) {
  plan->error->status = status;
  graft_error_note(plan->error, "preparing kernel %s for %s", step->kernel->name, step->node->label);
  return status;
}

graft_status graft_plan_prepare_step(graft_plan *plan, graft_planned_step *step) {
  step->prepared = (graft_prepared){.struct_size = sizeof step->prepared};
  if (step->kernel->prepare == NULL) return GRAFT_OK;
  (void)GRAFT_FAIL(plan->error, GRAFT_E_INVALID, "the kernel gave no reason");
  graft_status status = step->kernel->prepare(&step->info, plan->error, &step->prepared);
  if (status != GRAFT_OK) return name_step(plan, step, status);
  *plan->error = (graft_error){0};
  step->is_prepared = true;
  const char *fault = find_fault(step);
  if (fault == NULL) return GRAFT_OK;
  return name_step(plan, step, GRAFT_FAIL(plan->error, GRAFT_E_INVALID, "the kernel reports %s", fault));
}

void graft_plan_unprepare_step(graft_planned_step *step) {
  if (step->is_prepared && step->kernel->destroy != NULL) step->kernel->destroy(step->prepared.state);
  step->is_prepared = false;
}

graft_status graft_plan_prepare(graft_plan *plan) {
  for (uint32_t i = 0; i < plan->steps.n; ++i) GRAFT_TRY(graft_plan_prepare_step(plan, graft_plan_step_at(plan, i)));
  return GRAFT_OK;
}
