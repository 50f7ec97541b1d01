// Cuts the steps into stretches that one device runs in one go. What lies between devices is moved by the host.
#include "src/plan/plan_internal.h"

static bool continues(const graft_plan_segment *segment, const graft_planned_step *step) {
  bool is_transfer = graft_plan_is_transfer(step);
  return segment->is_transfer == is_transfer && (is_transfer || segment->device == step->node->device);
}

graft_status graft_plan_cut(graft_plan *plan) {
  // At most one for every step; an empty plan has an empty segment.
  plan->segments = graft_arena_alloc_array(&plan->arena, (size_t)plan->steps.n + 1, sizeof *plan->segments);
  if (plan->segments == NULL) return graft_plan_no_memory(plan);
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    const graft_planned_step *step = graft_plan_step_at(plan, s);
    graft_plan_device *device = &plan->devices[step->node->device];
    graft_plan_segment *segment = plan->n_segments > 0 ? &plan->segments[plan->n_segments - 1] : NULL;
    if (segment == NULL || !continues(segment, step)) {
      segment = &plan->segments[plan->n_segments++];
      *segment = (graft_plan_segment){.device = step->node->device,
                                      .is_transfer = graft_plan_is_transfer(step),
                                      .first = s,
                                      .first_local = device->n_steps};
    }
    segment->end = s + 1;
    if (!segment->is_transfer) ++device->n_steps;
  }
  if (plan->n_segments == 0) plan->n_segments = 1;
  return GRAFT_OK;
}
