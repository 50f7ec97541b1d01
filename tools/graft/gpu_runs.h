// gpu_runs.h — how a GPU's plans have run: what benchmarks print of it.
#ifndef GRAFT_TOOLS_GRAFT_GPU_RUNS_H
#define GRAFT_TOOLS_GRAFT_GPU_RUNS_H

#include <stdio.h>

#include "graft/device.h"

struct json_t;

// Lines below the times of a benchmark: replays among the runs, why plans could not be captured, pinned memory. Nothing
// for devices that do not count their runs.
void tool_gpu_runs_print(const graft_device *device, FILE *file);

// The same as members of |object|.
void tool_gpu_runs_describe(const graft_device *device, struct json_t *object);

#endif
