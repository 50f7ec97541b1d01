// What a plan tells about the stages of a run.
#include "graft/versioned.h"
#include "src/plan/plan_internal.h"

uint32_t graft_plan_n_stages(const graft_plan *plan) {
  return plan->n_segments;
}

// Constants that the stage reads where they lie, and those that stay on the device for all runs.
static size_t constants_of(const graft_plan *plan, const graft_plan_segment *segment) {
  size_t bytes = graft_plan_segment_constants(plan, segment);
  for (uint32_t s = segment->first; s < segment->end; ++s) {
    const graft_planned_step *step = graft_plan_step_at(plan, s);
    for (uint32_t i = 0; i < step->node->n_inputs; ++i) {
      graft_constant_entry *entry = NULL;
      if (graft_plan_constant_use(plan, step, i, &entry) == NULL || entry == NULL) continue;
      if (!entry->is_resident) bytes += entry->key.bytes;
    }
  }
  return bytes;
}

void graft_plan_stage(const graft_plan *plan, uint32_t index, graft_stage_info *out_info) {
  graft_stage_info info = {.struct_size = sizeof info};
  graft_versioned_fill(out_info, &info, sizeof info);
  if (index >= plan->n_segments) return;
  const graft_plan_segment *segment = &plan->segments[index];
  info = (graft_stage_info){.device = graft_device_name(plan->devices[segment->device].device),
                            .is_transfer = segment->is_transfer,
                            .first_step = segment->first,
                            .n_steps = segment->end - segment->first,
                            .constant_bytes = constants_of(plan, segment)};
  for (uint32_t s = segment->first; s < segment->end; ++s) {
    size_t live = graft_plan_live_bytes(plan, segment->device, s);
    if (live > info.live_bytes) info.live_bytes = live;
    const graft_planned_step *step = graft_plan_step_at(plan, s);
    if (segment->is_transfer) info.moved_bytes += graft_tensor_desc_bytes(step->info.outputs[0]);
  }
  for (uint32_t i = segment->first_resident; i < segment->end_resident; ++i) {
    const graft_plan_resident *resident = plan->residents.items[i];
    info.brought_bytes += resident->entry.key.bytes;
  }
  graft_versioned_fill(out_info, &info, sizeof info);
}
