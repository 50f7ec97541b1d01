// cuda_session.h — what tests of plans on the driver's double begin and end with.
#ifndef GRAFT_TESTS_CUDA_CUDA_SESSION_H
#define GRAFT_TESTS_CUDA_CUDA_SESSION_H

#include "fake_libcuda.h"
#include "graft/graft.h"

// The double's functions; those without a type of their own are the driver's.
typedef struct cuda_double {
  fake_cuda_reset_fn reset;
  fake_cuda_counts_fn get_counts;
  fake_cuda_memory_fn set_memory;
  fake_cuda_lack_fn lack;
  fake_cuda_pinning_fn limit_pinning;
  int (*begin_capture)(void *stream, int mode);
  int (*end_capture)(void *stream, void **graph);
  int (*destroy_graph)(void *graph);
  fake_cuda_on_capture_fn on_capture;
  int (*synchronize_context)(void);
} cuda_double;

bool cuda_double_find(cuda_double *out_double);

typedef struct cuda_session {
  graft_context *context;
  graft_device *cpu, *gpu, *second;  // |second| only with "virtual=2"
  graft_graph *graph;
  int64_t live_objects;  // before: what lost devices held stays
  int n_warnings;
  char warning[512];  // the last one in the log
} cuda_session;

// A context without built-in operators that knows tests.layer.v1 and both devices; |words| are the entry for "cuda".
void cuda_session_open(const char *words, cuda_session *s);
graft_status cuda_session_open_devices(const char *words, cuda_session *s);
void cuda_session_close(cuda_session *s);

// y = layers of x, both |rows| × |columns|. Every fourth packs its weights. |work| has what each says that it has to
// do; NULL: 1.
typedef struct cuda_layers {
  int n;
  int64_t rows, columns;
  const void *(*weights_of)(int layer);
  const int64_t *work;
} cuda_layers;

void cuda_session_build(cuda_session *s, const cuda_layers *layers);

// A plan of the session's graph, the caller's to destroy; one that cannot be made fails the test. Sets struct_size.
graft_plan *cuda_session_plan(const cuda_session *s, graft_plan_options options);

// Writes the input, runs, and reads the output; |bytes| each.
graft_status cuda_session_run(graft_plan *plan, const void *x, void *y, size_t bytes);

#endif
