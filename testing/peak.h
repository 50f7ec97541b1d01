// peak.h — what this machine can do at best: floating-point operations out of registers, and memory traffic.
#ifndef GRAFT_TESTING_PEAK_H
#define GRAFT_TESTING_PEAK_H

#include "graft/graft.h"

// What is multiplied; sums are float32, of bytes int32.
typedef enum graft_peak_kind { GRAFT_PEAK_F32, GRAFT_PEAK_BF16, GRAFT_PEAK_I8 } graft_peak_kind;

// Arithmetic of one build of the loop: how many lanes of sums a vector has and whether products and sums are one
// operation.
typedef struct graft_peak_loop {
  const char *target;          // "baseline", "avx2", "avx512"
  uint64_t required_features;  // graft_cpu_feature
  int32_t n_lanes;
  int32_t n_per_pass;  // vector multiply-adds in one pass
  graft_peak_kind kind;
  int32_t n_terms;  // products that one lane adds at a time: 1, of bf16 2, of bytes 4
  bool is_fused;    // else a multiply and an add, which are two instructions
  // Does |n_passes| passes in registers; returns a number that depends on all of them.
  float (*run)(int64_t n_passes);
} graft_peak_loop;

typedef struct graft_peak_flops {
  const char *target;
  int32_t n_threads, n_lanes;
  double gflops;       // all threads together, 2 operations per multiply-add
  double clock_ghz;    // of one core, from a chain of dependent multiplications
  double n_ports;      // vector multiply-adds per clock and thread, as measured
  double utilisation;  // of the nearest whole number of ports (1, 2, …)
} graft_peak_flops;

typedef struct graft_peak_bandwidth {
  int32_t n_threads;
  double read_gbytes;  // per second
  double copy_gbytes;  // read + written, per second
} graft_peak_bandwidth;

// Loops that |features| (graft_cpu_info.features) allow, best first; returns their number, at most 3. Static storage.
uint32_t graft_peak_loops(uint64_t features, const graft_peak_loop *out_loops[3]);

// The best loop of |kind| that |features| allow, or NULL where the processor has no instruction for it. Static storage.
const graft_peak_loop *graft_peak_loop_of(graft_peak_kind kind, uint64_t features);

// Best of several runs of |loop| on |n_threads| threads, about 0.3 s. Errors: GRAFT_E_INVALID, GRAFT_E_NO_MEMORY,
// GRAFT_E_DEVICE (a thread could not be started).
GRAFT_NODISCARD graft_status graft_peak_measure_flops(const graft_peak_loop *loop, int32_t n_threads,
                                                      graft_error *error, graft_peak_flops *out_flops);

// One block of |n_passes| passes on each of |n_threads| threads, to be run in turns with what is compared with it: 10^9
// operations per second. Errors: as above.
GRAFT_NODISCARD graft_status graft_peak_measure_block(const graft_peak_loop *loop, int32_t n_threads, int64_t n_passes,
                                                      graft_error *error, double *out_gflops);

// Best of several passes over |bytes| (more than the caches hold; split between threads). Errors: as above.
GRAFT_NODISCARD graft_status graft_peak_measure_bandwidth(int32_t n_threads, size_t bytes, graft_error *error,
                                                          graft_peak_bandwidth *out_bandwidth);

#endif
