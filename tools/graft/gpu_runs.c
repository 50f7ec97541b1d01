#include "tools/graft/gpu_runs.h"

#include <jansson.h>

#include "graft/cuda.h"
#include "tools/graft/tool.h"

static bool count(const graft_device *device, graft_cuda_run_counts *out_counts) {
  const graft_cuda_runs_service *service = graft_device_service(device, GRAFT_CUDA_RUNS_SERVICE);
  *out_counts = (graft_cuda_run_counts){.struct_size = sizeof *out_counts};
  if (service != NULL) service->count(device, out_counts);
  return service != NULL;
}

void tool_gpu_runs_print(const graft_device *device, FILE *file) {
  graft_cuda_run_counts counts;
  if (!count(device, &counts)) return;
  const uint64_t n_runs = counts.n_replayed + counts.n_dispatched;
  fprintf(file, "  replayed         %8llu           of %llu run%s\n", (unsigned long long)counts.n_replayed,
          (unsigned long long)n_runs, tool_s(n_runs));
  if (counts.n_failed_captures > 0) {
    fprintf(file, "  not captured     %8llu           and dispatched instead: %s\n",
            (unsigned long long)counts.n_failed_captures, counts.capture_failure);
  }
  fprintf(file, "  pinned memory    %8.1f MiB       at most\n", (double)counts.peak_pinned_bytes / (1 << 20));
}

void tool_gpu_runs_describe(const graft_device *device, json_t *object) {
  graft_cuda_run_counts counts;
  if (!count(device, &counts)) return;
  json_object_set_new(object, "replayed_runs", json_integer((json_int_t)counts.n_replayed));
  json_object_set_new(object, "dispatched_runs", json_integer((json_int_t)counts.n_dispatched));
  json_object_set_new(object, "failed_captures", json_integer((json_int_t)counts.n_failed_captures));
  if (counts.n_failed_captures > 0) json_object_set_new(object, "capture_failure", json_string(counts.capture_failure));
  json_object_set_new(object, "peak_pinned_bytes", json_integer((json_int_t)counts.peak_pinned_bytes));
}
