// Cuts the steps into stretches that one device runs in one go. What lies between devices is moved by the host.
#include <stdlib.h>

#include "src/plan/plan_internal.h"

// What the constants of one segment take.
typedef struct segment_load {
  uint32_t stamp;  // of the segment, from 1 on
  size_t bytes;
  uint32_t *marked;  // by constant, then by resident: the stamp of the segment that was charged last
} segment_load;

// Bytes that |step| adds to the segment; with |marks| they are charged.
static size_t load_of(const graft_plan *plan, const graft_planned_step *step, segment_load *load, bool marks) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < step->node->n_inputs; ++i) {
    graft_constant_entry *entry = NULL;
    const graft_plan_constant *constant = graft_plan_constant_use(plan, step, i, &entry);
    if (constant == NULL) continue;
    const graft_plan_resident *resident = graft_plan_resident_of(entry);
    if (entry != NULL && resident == NULL) continue;  // stays on the device
    size_t index = resident != NULL ? plan->n_constants + resident->index : (size_t)(constant - plan->constants);
    if (load->marked[index] == load->stamp) continue;
    bytes += resident != NULL ? entry->key.bytes + entry->key.alignment : constant->bytes;
    if (marks) load->marked[index] = load->stamp;
  }
  return bytes;
}

static bool continues(const graft_plan *plan, const graft_plan_segment *segment, const graft_planned_step *step,
                      size_t limit, segment_load *load) {
  bool is_transfer = graft_plan_is_transfer(step);
  if (segment->is_transfer != is_transfer) return false;
  if (is_transfer) return true;
  if (segment->device != step->node->device) return false;
  return load == NULL || load_of(plan, step, load, false) <= limit - (load->bytes < limit ? load->bytes : limit);
}

static void cut_before(graft_plan *plan, uint32_t s, segment_load *load) {
  const graft_planned_step *step = graft_plan_step_at(plan, s);
  plan->segments[plan->n_segments++] = (graft_plan_segment){.device = step->node->device,
                                                            .is_transfer = graft_plan_is_transfer(step),
                                                            .first = s,
                                                            .first_local = plan->devices[step->node->device].n_steps};
  if (load == NULL) return;
  ++load->stamp;
  load->bytes = 0;
}

static void cut_all(graft_plan *plan, const size_t *limits, segment_load *load) {
  plan->n_segments = 0;
  for (uint32_t d = 0; d < plan->n_devices; ++d) plan->devices[d].n_steps = 0;
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    const graft_planned_step *step = graft_plan_step_at(plan, s);
    size_t limit = limits != NULL ? limits[step->node->device] : SIZE_MAX;
    bool is_open = plan->n_segments > 0 && continues(plan, &plan->segments[plan->n_segments - 1], step, limit, load);
    if (!is_open) cut_before(plan, s, load);
    graft_plan_segment *segment = &plan->segments[plan->n_segments - 1];
    segment->end = s + 1;
    if (segment->is_transfer) continue;
    ++plan->devices[segment->device].n_steps;
    if (load != NULL) load->bytes += load_of(plan, step, load, true);
  }
  if (plan->n_segments == 0) plan->segments[plan->n_segments++] = (graft_plan_segment){0};
}

graft_status graft_plan_cut_steps(graft_plan *plan, const size_t *limits) {
  // At most one for every step; an empty plan has an empty segment.
  if (plan->segments == NULL) {
    plan->segments = graft_arena_alloc_array(&plan->arena, (size_t)plan->steps.n + 1, sizeof *plan->segments);
  }
  if (plan->segments == NULL) return graft_plan_no_memory(plan);
  if (limits == NULL) {
    cut_all(plan, NULL, NULL);
    return GRAFT_OK;
  }
  segment_load load = {.marked = calloc((size_t)plan->n_constants + plan->residents.n + 1, sizeof *load.marked)};
  if (load.marked == NULL) return graft_plan_no_memory(plan);
  cut_all(plan, limits, &load);
  free(load.marked);
  return GRAFT_OK;
}
