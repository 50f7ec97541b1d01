// bench.h — the measurements behind `graft bench` and `graft ops bench`.
#ifndef GRAFT_TOOLS_GRAFT_BENCH_H
#define GRAFT_TOOLS_GRAFT_BENCH_H

#include <jansson.h>

#include "graft/graft.h"
#include "tools/graft/peaks.h"
#include "tools/graft/tool.h"

// Writes |results|, as `graft ops bench --json` prints them, as a page. Errors: GRAFT_E_NO_MEMORY, what |writer| says.
GRAFT_NODISCARD graft_status tool_bench_write_html(const char *title, const tool_peaks *peaks, const json_t *results,
                                                   graft_writer writer, graft_error *error);

// Middle value of |n| numbers, which are sorted in place.
double tool_median(double *values, size_t n);

#endif
