// placement.h — what each of several devices has to do with a picture, in one line.
#ifndef GRAFT_TOOLS_GRAFT_PLACEMENT_H
#define GRAFT_TOOLS_GRAFT_PLACEMENT_H

#include "tools/graft/device_list.h"

// Zero-initialise.
typedef struct tool_placement {
  struct {
    const char *name;
    uint32_t n_steps;
    size_t peak_bytes;  // of the plan that needs most
  } devices[TOOL_MAX_DEVICES];
  uint32_t n_devices, n_steps, n_copies;
} tool_placement;

// Counts the steps of |plan|, which is for the same devices as those before.
void tool_placement_add(tool_placement *placement, const graft_plan *plan);

// Says on standard error which device runs how many steps; nothing where there is only one.
void tool_placement_print(const tool_placement *placement);

#endif
