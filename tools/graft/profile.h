// profile.h — collects what a generation's plans did, step by step, as a Chrome trace (chrome://tracing, Perfetto).
#ifndef GRAFT_TOOLS_GRAFT_PROFILE_H
#define GRAFT_TOOLS_GRAFT_PROFILE_H

#include "graft/diffusion.h"

typedef struct tool_profile tool_profile;

// Errors: GRAFT_E_NO_MEMORY.
GRAFT_NODISCARD graft_status tool_profile_create(graft_error *error, tool_profile **out_profile);
void tool_profile_destroy(tool_profile *profile);

// Notes the begin or end of a plan's step; for graft_generate_callbacks.on_plan_step. Running out of memory is
// remembered and reported by tool_profile_write.
void tool_profile_step(tool_profile *profile, graft_pipeline_stage stage, const graft_plan *plan, uint32_t step,
                       bool is_end);

// Writes {"traceEvents": […]} to |path|, whole or not at all.
GRAFT_NODISCARD graft_status tool_profile_write(tool_profile *profile, const char *path, graft_error *error);

#endif
