#include "testing/peak.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "testing/peak_loops.h"

// Tries of arithmetic are many and of a few milliseconds, so that some fall between a neighbour's turns.
enum { N_TRIES = 7, N_SHORT_TRIES = 60, MAX_THREADS = 1024 };

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

uint32_t graft_peak_loops(uint64_t features, const graft_peak_loop *out_loops[3]) {
  static const graft_peak_loop *const all[] = {
#if defined(__x86_64__)
    &graft_peak_loop__avx512,
    &graft_peak_loop__avx2,
#endif
    &graft_peak_loop__baseline
  };
  uint32_t count = 0;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
    if ((all[i]->required_features & ~features) == 0) out_loops[count++] = all[i];
  }
  return count;
}

const graft_peak_loop *graft_peak_loop_of(graft_peak_kind kind, uint64_t features) {
#if defined(__x86_64__)
  static const graft_peak_loop *const products[] = {&graft_peak_loop_bf16__avx512, &graft_peak_loop_i8__avx512,
                                                    &graft_peak_loop_i8__avx2};
  for (size_t i = 0; i < sizeof products / sizeof products[0]; ++i) {
    if (products[i]->kind == kind && (products[i]->required_features & ~features) == 0) return products[i];
  }
#endif
  const graft_peak_loop *loops[3];
  return kind == GRAFT_PEAK_F32 && graft_peak_loops(features, loops) > 0 ? loops[0] : NULL;
}

// One thread's share of a measurement. All threads begin together, and the slowest one's end counts.
typedef struct share {
  pthread_barrier_t *start;
  const graft_peak_loop *loop;
  int64_t n_passes;
  char *source, *target;  // of |bytes|; target NULL: only read
  size_t bytes;
  double begin, end;
  float result;  // keeps the work from being dropped
} share;

typedef uint64_t words __attribute__((vector_size(64)));

static uint64_t read_all(const char *source, size_t bytes) {
  words sums[4] = {{0}}, sum;
  for (size_t i = 0; i + sizeof sums <= bytes; i += sizeof sums) {
    const words *from = (const void *)(source + i);
    for (int k = 0; k < 4; ++k) sums[k] ^= from[k];
  }
  sum = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
  return sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7];
}

static void *do_share(void *arg) {
  share *mine = arg;
  pthread_barrier_wait(mine->start);
  mine->begin = seconds_now();
  if (mine->loop != NULL) {
    mine->result = mine->loop->run(mine->n_passes);
  } else if (mine->target != NULL) {
    memcpy(mine->target, mine->source, mine->bytes);
  } else {
    mine->result = (float)read_all(mine->source, mine->bytes);
  }
  mine->end = seconds_now();
  return NULL;
}

// Runs |shares| at once, the first on this thread; returns the seconds from the first begin to the last end, or a
// negative number when the threads could not be started.
static double run_shares(share *shares, int32_t n) {
  pthread_barrier_t start;
  pthread_t threads[MAX_THREADS];
  if (pthread_barrier_init(&start, NULL, (unsigned)n) != 0) return -1;
  for (int32_t i = 0; i < n; ++i) shares[i].start = &start;
  int32_t n_started = 1;
  while (n_started < n && pthread_create(&threads[n_started], NULL, do_share, &shares[n_started]) == 0) ++n_started;
  if (n_started < n) {
    // Those that wait at the barrier cannot be let through without the missing ones.
    for (int32_t i = 1; i < n_started; ++i) {
      pthread_cancel(threads[i]);
      pthread_join(threads[i], NULL);
    }
    for (int32_t i = 0; i < n; ++i) shares[i].start = NULL;
    return -1;
  }
  do_share(&shares[0]);
  double begin = shares[0].begin, end = shares[0].end;
  for (int32_t i = 1; i < n; ++i) {
    pthread_join(threads[i], NULL);
    begin = fmin(begin, shares[i].begin);
    end = fmax(end, shares[i].end);
  }
  for (int32_t i = 0; i < n; ++i) shares[i].start = NULL;
  pthread_barrier_destroy(&start);
  return end - begin;
}

// Clocks per second, from a chain of integer multiplications: 3 clocks each on every x86-64 and arm64 core of note.
static double measure_clock(void) {
  const int64_t n = 400000;
  const double latency = 3;
  double best = 0;
  for (int i = 0; i < N_SHORT_TRIES; ++i) {
    uint64_t x = (uint64_t)n | 1u;
    double begin = seconds_now();
    for (int64_t k = 0; k < n; k += 8) {
#pragma GCC unroll 8
      for (int step = 0; step < 8; ++step) {
        x *= x;
        // The compiler must neither fold the chain nor keep the products for later.
        __asm__ volatile("" : "+r"(x));
      }
    }
    best = fmax(best, latency * (double)n / (seconds_now() - begin));
  }
  return best;
}

static graft_status check_threads(int32_t n_threads, graft_error *error) {
  if (n_threads >= 1 && n_threads <= MAX_THREADS) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_INVALID, "%d threads asked for; 1 to %d are possible", n_threads, MAX_THREADS);
}

static graft_status no_threads(int32_t n_threads, graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_DEVICE, "%d threads could not be started", n_threads);
}

graft_status graft_peak_measure_block(const graft_peak_loop *loop, int32_t n_threads, int64_t n_passes,
                                      graft_error *error, double *out_gflops) {
  GRAFT_TRY(check_threads(n_threads, error));
  share *shares = calloc((size_t)n_threads, sizeof *shares);
  if (shares == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for %d threads", n_threads);
  for (int32_t t = 0; t < n_threads; ++t) shares[t] = (share){.loop = loop, .n_passes = n_passes};
  const double seconds = run_shares(shares, n_threads);
  free(shares);
  if (seconds <= 0) return no_threads(n_threads, error);
  const double n_products = (double)n_passes * loop->n_per_pass * n_threads * loop->n_lanes * loop->n_terms;
  *out_gflops = 2e-9 * n_products / seconds;
  return GRAFT_OK;
}

graft_status graft_peak_measure_flops(const graft_peak_loop *loop, int32_t n_threads, graft_error *error,
                                      graft_peak_flops *out_flops) {
  const int64_t n_passes = 400000;
  double best = 0, clock = measure_clock();
  for (int i = 0; i < N_SHORT_TRIES; ++i) {
    double gflops;
    GRAFT_TRY(graft_peak_measure_block(loop, n_threads, n_passes, error, &gflops));
    best = fmax(best, gflops);
  }
  graft_peak_flops flops = {.target = loop->target,
                            .n_threads = n_threads,
                            .n_lanes = loop->n_lanes,
                            .gflops = best,
                            .clock_ghz = 1e-9 * clock,
                            .n_ports = 0.5e9 * best / (loop->n_lanes * loop->n_terms) / n_threads / clock};
  flops.utilisation = flops.n_ports / fmax(1, round(flops.n_ports));
  *out_flops = flops;
  return GRAFT_OK;
}

static void divide(share *shares, int32_t n_threads, char *source, char *target, size_t bytes) {
  size_t each = bytes / (size_t)n_threads / 4096 * 4096;
  for (int32_t t = 0; t < n_threads; ++t) {
    shares[t] = (share){.source = source + (size_t)t * each, .bytes = each};
    if (target != NULL) shares[t].target = target + (size_t)t * each;
  }
}

static double best_of(share *shares, int32_t n_threads, char *source, char *target, size_t bytes) {
  double best = HUGE_VAL;
  for (int i = 0; i < N_TRIES && best > 0; ++i) {
    divide(shares, n_threads, source, target, bytes);
    best = fmin(best, run_shares(shares, n_threads));
  }
  return best;
}

graft_status graft_peak_measure_bandwidth(int32_t n_threads, size_t bytes, graft_error *error,
                                          graft_peak_bandwidth *out_bandwidth) {
  GRAFT_TRY(check_threads(n_threads, error));
  size_t each = bytes / (size_t)n_threads / 4096 * 4096, whole = each * (size_t)n_threads;
  if (each == 0) return GRAFT_FAIL(error, GRAFT_E_INVALID, "%zu bytes are too few for %d threads", bytes, n_threads);
  share *shares = calloc((size_t)n_threads, sizeof *shares);
  char *source = aligned_alloc(4096, whole), *target = aligned_alloc(4096, whole);
  graft_status status = GRAFT_OK;
  if (shares == NULL || source == NULL || target == NULL) {
    status = GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for two buffers of %zu bytes", whole);
    goto end;
  }
  memset(source, 1, whole);
  memset(target, 2, whole);
  double read = best_of(shares, n_threads, source, NULL, whole);
  double copy = best_of(shares, n_threads, source, target, whole);
  if (read <= 0 || copy <= 0) {
    status = no_threads(n_threads, error);
    goto end;
  }
  *out_bandwidth = (graft_peak_bandwidth){
      .n_threads = n_threads, .read_gbytes = 1e-9 * (double)whole / read, .copy_gbytes = 2e-9 * (double)whole / copy};
end:
  free(shares);
  free(source);
  free(target);
  return status;
}
