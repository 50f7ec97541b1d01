// Benchmarks and peaks must give numbers that a person can believe.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "broken_kernels.h"
#include "graft/cpu.h"
#include "testing/bench.h"
#include "testing/peak.h"

typedef struct fixture {
  graft_context *context;
  graft_device *device;
} fixture;

static int set_up(void **state) {
  static fixture made;
  graft_context_options options = {.struct_size = sizeof options, .n_threads = 2, .ignore_environment = true};
  if (graft_context_create(&options, NULL, &made.context) != GRAFT_OK) return 1;
  if (graft_context_register(made.context, &broken_extension) != GRAFT_OK) return 1;
  *state = &made;
  return graft_device_open(made.context, "cpu", &made.device) == GRAFT_OK ? 0 : 1;
}

static int tear_down(void **state) {
  graft_context_destroy(((fixture *)*state)->context);
  return 0;
}

static graft_bench_options options_for(const fixture *made, const char *kernel) {
  graft_bench_options options = {.struct_size = sizeof options,
                                 .context = made->context,
                                 .device = made->device,
                                 .op = graft_context_find_op(made->context, "broken.double.v1"),
                                 .kernel = graft_context_find_kernel(made->context, kernel),
                                 .min_seconds = 1e-6};
  options.sample = &options.op->cases[0];
  return options;
}

static void bench_times_the_kernel_asked_for(void **state) {
  graft_bench_options options = options_for(*state, "double_f32_right");
  graft_bench_result result;
  graft_error error = {0};
  if (graft_bench_run(&options, &error, &result) != GRAFT_OK) fail_msg("%s", error.message);
  assert_string_equal(result.kernel, "double_f32_right");
  assert_true(result.n_runs >= 15);
  assert_true(result.best_seconds > 0 && result.best_seconds <= result.median_seconds);
  assert_int_equal((int)result.flops, 150);
  assert_int_equal((int)result.bytes, 2 * 150 * 4);
}

static void bench_takes_turns_with_a_peak(void **state) {
  const fixture *made = *state;
  graft_bench_options options = options_for(made, "double_f32_right");
  graft_bench_result result;
  options.peak = graft_peak_loop_of(GRAFT_PEAK_F32, graft_cpu_describe(made->device)->features);
  options.n_peak_threads = 2;
  assert_int_equal(graft_bench_run(&options, NULL, &result), GRAFT_OK);
  assert_true(result.of_peak > 0 && result.of_peak < 1);
  options.peak = NULL;
  assert_int_equal(graft_bench_run(&options, NULL, &result), GRAFT_OK);
  assert_true(result.of_peak == 0);
  options.peak = graft_peak_loop_of(GRAFT_PEAK_F32, 0);
  options.n_peak_threads = 0;
  assert_int_equal(graft_bench_run(&options, NULL, &result), GRAFT_E_INVALID);
}

static void bench_refuses_with_a_reason(void **state) {
  graft_bench_options options = options_for(*state, "double_f32_idle");
  graft_bench_result result;
  graft_error error = {0};
  assert_int_equal(graft_bench_run(&options, &error, &result), GRAFT_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "it never runs"));
}

// A shared machine may lose any run to a neighbour, so the best of several counts.
static void peak_uses_whole_ports(void **state) {
  const fixture *made = *state;
  const graft_peak_loop *loops[3];
  uint32_t n = graft_peak_loops(graft_cpu_describe(made->device)->features, loops);
  assert_true(n >= 1);
  for (uint32_t i = 0; i < n; ++i) {
    graft_peak_flops best = {.utilisation = 0};
    for (int attempt = 0; attempt < 5 && best.utilisation < 0.95; ++attempt) {
      graft_peak_flops flops;
      assert_int_equal(graft_peak_measure_flops(loops[i], 1, NULL, &flops), GRAFT_OK);
      if (flops.utilisation > best.utilisation) best = flops;
    }
    print_message("%s: %.1f GFLOP/s, %.2f GHz, %.3f multiply-adds per clock, %.1f %% of whole ports\n", best.target,
                  best.gflops, best.clock_ghz, best.n_ports, 100 * best.utilisation);
    if (loops[i]->is_fused) assert_true(best.utilisation >= 0.95 && best.n_ports < 2.2);
  }
}

// Products of narrow types are as fast as f32's where the processor has them: the loop must not be what limits them.
static void narrow_products_use_whole_ports(void **state) {
  const fixture *made = *state;
  const graft_peak_kind kinds[] = {GRAFT_PEAK_BF16, GRAFT_PEAK_I8};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
    const graft_peak_loop *loop = graft_peak_loop_of(kinds[i], graft_cpu_describe(made->device)->features);
    double best = 0;
    for (int attempt = 0; loop != NULL && attempt < 5 && best < 0.95; ++attempt) {
      graft_peak_flops flops;
      assert_int_equal(graft_peak_measure_flops(loop, 1, NULL, &flops), GRAFT_OK);
      if (flops.utilisation > best) best = flops.utilisation;
    }
    if (loop != NULL) assert_true(best >= 0.95);
  }
}

static void bandwidth_is_measured(void **state) {
  (void)state;
  graft_peak_bandwidth bandwidth;
  assert_int_equal(graft_peak_measure_bandwidth(2, (size_t)64 << 20, NULL, &bandwidth), GRAFT_OK);
  print_message("read %.1f GB/s, copy %.1f GB/s\n", bandwidth.read_gbytes, bandwidth.copy_gbytes);
  assert_true(bandwidth.read_gbytes > 0 && bandwidth.copy_gbytes > 0);
  graft_error error = {0};
  assert_int_equal(graft_peak_measure_bandwidth(0, 1 << 20, &error, &bandwidth), GRAFT_E_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bench_times_the_kernel_asked_for), cmocka_unit_test(bench_takes_turns_with_a_peak),
      cmocka_unit_test(bench_refuses_with_a_reason),      cmocka_unit_test(peak_uses_whole_ports),
      cmocka_unit_test(narrow_products_use_whole_ports),  cmocka_unit_test(bandwidth_is_measured),
  };
  return cmocka_run_group_tests_name("measuring", tests, set_up, tear_down);
}
