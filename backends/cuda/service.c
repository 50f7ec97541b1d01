// What CUDA devices offer by name.
#include <string.h>

#include "backends/cuda/device.h"
#include "graft/versioned.h"

static const graft_cuda_info *describe(const graft_device *device) {
  const graft_cuda_device *state = graft_device_state(device);
  return &state->info;
}

static const graft_cuda_context_service context_service = {
    .struct_size = sizeof context_service, .runtime = "cuda", .describe = describe};

static const graft_cuda_blas_service *blas_service_of(const graft_cuda_device *device) {
  static const graft_cuda_blas_service tables[2] = {
      {.struct_size = sizeof tables[0], .open = graft_cuda_blas_open},
      {.struct_size = sizeof tables[0], .has_int8 = true, .open = graft_cuda_blas_open}};
  enum { FIRST_WITH_INT8 = 72 };  // whose tensor cores multiply integers
  return &tables[10 * device->info.compute_major + device->info.compute_minor >= FIRST_WITH_INT8];
}

static void count_runs(const graft_device *device, graft_cuda_run_counts *out_counts) {
  graft_cuda_device *state = graft_device_state(device);
  pthread_mutex_lock(&state->turn);
  graft_cuda_run_counts counts = state->runs;
  pthread_mutex_unlock(&state->turn);
  counts.pinned_bytes = atomic_load(&state->pinned_bytes);
  counts.peak_pinned_bytes = atomic_load(&state->peak_pinned_bytes);
  graft_versioned_fill(out_counts, &counts, sizeof counts);
}

static const graft_cuda_runs_service runs_service = {.struct_size = sizeof runs_service, .count = count_runs};

const void *graft_cuda_service(void *state, const char *name) {
  const void *blas_service = blas_service_of(state);
  const struct {
    const char *name;
    const void *table;
  } services[] = {
      {GRAFT_CUDA_CONTEXT_SERVICE, &context_service}, {GRAFT_CUDA_DEVICE_SERVICE, &context_service},
      {GRAFT_CUDA_BLAS_SERVICE, blas_service},        {GRAFT_GPU_CONTEXT_SERVICE, &context_service},
      {GRAFT_GPU_DEVICE_SERVICE, &context_service},   {GRAFT_GPU_BLAS_SERVICE, blas_service},
      {GRAFT_CUDA_RUNS_SERVICE, &runs_service},
  };
  for (size_t i = 0; i < sizeof services / sizeof services[0]; ++i) {
    if (strcmp(services[i].name, name) == 0) return services[i].table;
  }
  return NULL;
}
