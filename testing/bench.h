// bench.h — times a kernel on a case of its operator, through the planner, as an application would run it.
#ifndef GRAFT_TESTING_BENCH_H
#define GRAFT_TESTING_BENCH_H

#include "graft/graft.h"
#include "testing/peak.h"

// Zero-initialise and set struct_size, context, device, op and sample.
typedef struct graft_bench_options {
  uint32_t struct_size;
  graft_context *context;
  graft_device *device;
  const graft_op_def *op;
  const graft_op_case *sample;       // one of op->cases; those flagged GRAFT_CASE_BENCH are meant
  const graft_kernel_def *kernel;    // NULL: the planner's choice
  graft_dtype weights, activations;  // instead of the case's dtypes of constants and of other floats; NULL: as declared
  uint32_t n_runs;                   // at least; 0: 15
  double min_seconds;                // measured at least so long; 0: 0.1, on a card 0.3
  uint64_t seed;
  const graft_peak_loop *peak;  // what the kernel is compared with, in turns with it; NULL: nothing
  int32_t n_peak_threads;
} graft_bench_options;

typedef struct graft_bench_result {
  char kernel[64];  // "" when a reference ran
  uint32_t n_runs;  // with a peak: turns, each of as many runs as make it long enough to compare, and their mean counts
  double median_seconds, best_seconds;
  double of_peak;  // median over turns of the kernel's share of the peak beside it; 0 without one
  double gflops;   // per second, at the median
  double gbytes;   // per second at the median, everything read and written once
  double flops, bytes;
} graft_bench_result;

// Errors: GRAFT_E_UNSUPPORTED with the reason when the kernel does not support the case, what planning and running
// report.
GRAFT_NODISCARD graft_status graft_bench_run(const graft_bench_options *options, graft_error *error,
                                             graft_bench_result *out_result);

#endif
