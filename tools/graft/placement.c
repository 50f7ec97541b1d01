#include "tools/graft/placement.h"

#include <stdio.h>
#include <string.h>

#include "tools/graft/tool.h"

static void add_step(tool_placement *placement, const graft_step_info *step) {
  if (strcmp(step->op->name, "transfer") == 0) {
    ++placement->n_copies;
    return;
  }
  ++placement->n_steps;
  for (uint32_t i = 0; i < placement->n_devices; ++i) {
    if (strcmp(placement->devices[i].name, step->device) == 0) ++placement->devices[i].n_steps;
  }
}

void tool_placement_add(tool_placement *placement, const graft_plan *plan) {
  placement->n_devices = graft_plan_n_devices(plan);
  for (uint32_t i = 0; i < placement->n_devices; ++i) {
    graft_memory_report memory = {.struct_size = sizeof memory};
    graft_plan_device_memory(plan, i, &memory);
    placement->devices[i].name = graft_device_name(graft_plan_used_device(plan, i));
    if (memory.peak_bytes > placement->devices[i].peak_bytes) placement->devices[i].peak_bytes = memory.peak_bytes;
  }
  for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) {
    graft_step_info step = {.struct_size = sizeof step};
    graft_plan_step(plan, i, &step);
    add_step(placement, &step);
  }
}

void tool_placement_print(const tool_placement *placement) {
  char bytes[32];
  if (placement->n_devices < 2) return;
  fprintf(stderr, "graft: of %u step%s", (unsigned)placement->n_steps, tool_s(placement->n_steps));
  for (uint32_t i = 0; i < placement->n_devices; ++i) {
    fprintf(stderr, "%s %s runs %u in %s", i > 0 ? "," : "", placement->devices[i].name,
            (unsigned)placement->devices[i].n_steps,
            tool_format_bytes((double)placement->devices[i].peak_bytes, bytes));
  }
  fprintf(stderr, "; %u %s between them\n", (unsigned)placement->n_copies,
          placement->n_copies == 1 ? "copy" : "copies");
}
