// Plans for people at a terminal.
#include <stdio.h>
#include <string.h>

#include "tools/graft/plan.h"

static void print_reasons(const graft_plan *plan) {
  printf("\nWhy not other kernels:\n");
  bool has_any = false;
  for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) {
    graft_step_info info = {.struct_size = sizeof info};
    graft_plan_step(plan, i, &info);
    if (info.rejections == NULL || info.rejections[0] == '\0') continue;
    has_any = true;
    printf("  %s, run by %s\n", info.label, info.kernel->name);
    for (const char *line = info.rejections; *line != '\0';) {
      size_t n = strcspn(line, "\n");
      printf("    %.*s\n", (int)n, line);
      line += n + (line[n] == '\n');
    }
  }
  if (!has_any) printf("  every step has its first choice\n");
}

// The steps that take the most time, until little is left.
static void print_times(const tool_planned_stage *stage) {
  enum { N_SHOWN = 20 };
  double total = 0, below = 1e300;
  uint32_t n = graft_plan_n_steps(stage->plan);
  for (uint32_t i = 0; i < n; ++i) total += stage->seconds[i];
  printf("\nMeasured: %.3f ms in %u step%s; the longest:\n%9s %6s %9s %9s  %s\n", 1e3 * total, n, tool_s(n), "ms",
         "share", "GFLOP/s", "GB/s", "node");
  for (uint32_t shown = 0; shown < N_SHOWN && shown < n; ++shown) {
    uint32_t longest = n;
    for (uint32_t i = 0; i < n; ++i) {
      bool is_left = stage->seconds[i] < below && stage->seconds[i] > 0;
      if (is_left && (longest == n || stage->seconds[i] > stage->seconds[longest])) longest = i;
    }
    if (longest == n) break;
    below = stage->seconds[longest];
    graft_step_info info = {.struct_size = sizeof info};
    graft_plan_step(stage->plan, longest, &info);
    printf("%9.4f %4.1f %% %9.1f %9.1f  %.43s\n", 1e3 * below, 100 * below / total, 1e-9 * info.flops / below,
           1e-9 * info.bytes / below, info.label);
  }
}

graft_status tool_plan_print(const tool_planned_stage *stage, bool has_reasons) {
  printf("== %s\n", stage->name);
  GRAFT_TRY(graft_plan_print(stage->plan, tool_stdout_writer()));
  if (stage->seconds != NULL) print_times(stage);
  if (has_reasons) print_reasons(stage->plan);
  printf("\n");
  return GRAFT_OK;
}
