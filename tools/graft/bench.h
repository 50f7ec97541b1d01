// bench.h — the measurements behind `graft bench` and `graft ops bench`.
#ifndef GRAFT_TOOLS_GRAFT_BENCH_H
#define GRAFT_TOOLS_GRAFT_BENCH_H

#include <jansson.h>

#include "graft/graft.h"
#include "testing/peak.h"
#include "tools/graft/tool.h"

// What this machine can do at best with the context's CPU device and its threads.
typedef struct tool_peaks {
  graft_peak_flops flops;
  graft_peak_flops bf16, i8;  // gflops 0 where the processor has no instructions for them
  graft_peak_bandwidth bandwidth;
} tool_peaks;

GRAFT_NODISCARD graft_status tool_measure_peaks(graft_context *context, tool_peaks *out_peaks);

// The same as JSON.
json_t *tool_describe_peaks(const tool_peaks *peaks);

// Writes |results|, as `graft ops bench --json` prints them, as a page. Errors: GRAFT_E_NO_MEMORY, what |writer| says.
GRAFT_NODISCARD graft_status tool_bench_write_html(const char *title, const tool_peaks *peaks, const json_t *results,
                                                   graft_writer writer, graft_error *error);

// Middle value of |n| numbers, which are sorted in place.
double tool_median(double *values, size_t n);

#endif
