// Times of steps, from runs on inputs that are made up.
#include <stdlib.h>
#include <string.h>

#include "tools/graft/plan.h"
#include "tools/graft/progress.h"

enum { N_RUNS = 4, CHUNK = 1024 };

typedef struct step_clock {
  double begun, *seconds;
} step_clock;

static void on_step(void *user, uint32_t step, bool is_end) {
  step_clock *clock = user;
  if (!is_end) {
    clock->begun = tool_now();
    return;
  }
  double seconds = tool_now() - clock->begun;
  if (clock->seconds[step] == 0 || seconds < clock->seconds[step]) clock->seconds[step] = seconds;
}

// Numbers between -1 and 1; in integers, which may be indices, zeros.
static void fill(graft_dtype dtype, void *bytes, size_t n_bytes) {
  float values[CHUNK];
  memset(bytes, 0, n_bytes);
  if (!dtype->is_float || dtype->block_elements != 1) return;
  uint32_t bits = 1;
  for (size_t at = 0; at < n_bytes; at += CHUNK * dtype->block_bytes) {
    size_t left = (n_bytes - at) / dtype->block_bytes, n = left < CHUNK ? left : CHUNK;
    for (size_t i = 0; i < n; ++i) {
      bits = bits * 1664525u + 1013904223u;
      values[i] = (float)(bits >> 8) * 0x1p-23f - 1;
    }
    dtype->from_f32(values, (char *)bytes + at, n);
  }
}

static graft_status write_inputs(graft_plan *plan, const graft_graph *graph, graft_error *error) {
  for (uint32_t i = 0; i < graft_graph_n_inputs(graph); ++i) {
    const graft_tensor_desc *desc = graft_tensor_describe(graft_graph_input_at(graph, i));
    size_t bytes = graft_tensor_desc_bytes(desc);
    void *values = malloc(bytes > 0 ? bytes : 1);
    if (values == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for %zu bytes of an input", bytes);
    fill(desc->dtype, values, bytes);
    graft_status status = graft_plan_write(plan, i, values, bytes);
    free(values);
    GRAFT_TRY(status);
  }
  return GRAFT_OK;
}

graft_status tool_plan_measure(graft_plan *plan, const graft_graph *graph, graft_error *error, double *out_seconds) {
  step_clock clock = {.seconds = out_seconds};
  const graft_run_control warm = {.struct_size = sizeof warm, .abort = tool_is_interrupted};
  const graft_run_control timed = {
      .struct_size = sizeof timed, .abort = tool_is_interrupted, .on_step = on_step, .on_step_user = &clock};
  for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) out_seconds[i] = 0;
  GRAFT_TRY(write_inputs(plan, graph, error));
  GRAFT_TRY(graft_plan_run(plan, &warm));
  for (int i = 0; i < N_RUNS; ++i) GRAFT_TRY(graft_plan_run(plan, &timed));
  return GRAFT_OK;
}
