// plan.h — what the formats of `graft plan` share.
#ifndef GRAFT_TOOLS_GRAFT_PLAN_H
#define GRAFT_TOOLS_GRAFT_PLAN_H

#include "graft/diffusion.h"
#include "tools/graft/tool.h"

struct json_t;

// One stage as it was planned. |seconds| (of each step) is NULL where nothing was measured.
typedef struct tool_planned_stage {
  const char *name;  // "transformer"
  const graft_plan *plan;
  const double *seconds;
} tool_planned_stage;

// plan_json.c: the whole stage as JSON; NULL when memory ends.
struct json_t *tool_plan_describe(const tool_planned_stage *stage);

// plan_text.c: tables of 80 columns. |has_reasons|: with why other kernels were not chosen.
graft_status tool_plan_print(const tool_planned_stage *stage, bool has_reasons);

// plan_measure.c: runs |plan| (not one that was only measured for memory) on made-up inputs and writes the least time
// of each step to |out_seconds|. Errors: what running reports, GRAFT_E_CANCELLED after Ctrl-C.
graft_status tool_plan_measure(graft_plan *plan, const graft_graph *graph, graft_error *error, double *out_seconds);

// plan_html.c: |stages| (an array of what tool_plan_describe gives) as one page that needs nothing else. Errors:
// GRAFT_E_NO_MEMORY, GRAFT_E_IO.
graft_status tool_plan_write_html(const char *title, const struct json_t *stages, graft_writer writer,
                                  graft_error *error);

#endif
