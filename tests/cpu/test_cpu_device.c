// The CPU device: what it says about itself, targets, memory, and refusals.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/features.h"
#include "backends/cpu/topology.h"
#include "plan_mock.h"

static const uint64_t everything =
    GRAFT_CPU_AVX2 | GRAFT_CPU_AVX512 | GRAFT_CPU_AVX512_VNNI | GRAFT_CPU_AVX512_BF16 | GRAFT_CPU_AVX_VNNI;

static void BE1_targets_limit_features(void **state) {
  (void)state;
  uint64_t features = 1;
  assert_int_equal(graft_cpu_limit_features(everything, "baseline", NULL, &features), GRAFT_OK);
  assert_int_equal(features, 0);
  assert_int_equal(graft_cpu_limit_features(everything, "avx2", NULL, &features), GRAFT_OK);
  assert_int_equal(features, GRAFT_CPU_AVX2 | GRAFT_CPU_AVX_VNNI);
  assert_int_equal(graft_cpu_limit_features(everything, "avx512", NULL, &features), GRAFT_OK);
  assert_int_equal(features, everything);
  assert_int_equal(graft_cpu_limit_features(GRAFT_CPU_NEON_I8MM, NULL, NULL, &features), GRAFT_OK);
  assert_int_equal(features, GRAFT_CPU_NEON_I8MM);
}

static void BE1_impossible_targets_are_refused(void **state) {
  (void)state;
  uint64_t features = 77;
  graft_error error = {0};
  assert_int_equal(graft_cpu_limit_features(GRAFT_CPU_AVX2, "avx512", &error, &features), GRAFT_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "AVX-512"));
  assert_int_equal(graft_cpu_limit_features(everything, "avx3", &error, &features), GRAFT_E_INVALID);
  assert_non_null(strstr(error.message, "avx3"));
  assert_int_equal(features, 77);
}

#if defined(__x86_64__)
static void BE1_detection_agrees_with_the_compiler(void **state) {
  (void)state;
  __builtin_cpu_init();
  uint64_t features = graft_cpu_detect_features();
  assert_int_equal((features & GRAFT_CPU_AVX2) != 0, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  assert_int_equal((features & GRAFT_CPU_AVX512) != 0,
                   __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
  assert_int_equal((features & GRAFT_CPU_AVX512_VNNI) != 0, __builtin_cpu_supports("avx512vnni") != 0);
}
#endif

static void BE9_the_device_describes_itself(void **state) {
  (void)state;
  graft_context *context = plan_mock_context(3);
  graft_device *device = plan_mock_device(context, "cpu:0");
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(device, &info);
  assert_true(info.flags & GRAFT_DEVICE_HOST_MEMORY);
  assert_non_null(strstr(info.name, "3 threads"));
  assert_int_equal(info.alignment, GRAFT_DEVICE_ALIGNMENT);
  const graft_cpu_info *cpu = graft_cpu_describe(device);
  assert_int_equal(cpu->n_threads, 3);
  assert_int_equal(cpu->features, info.features);
  assert_in_range(cpu->l1_bytes, 4096, 1 << 20);
  assert_true(cpu->l2_bytes >= cpu->l1_bytes);
  assert_in_range(graft_cpu_count_cores(), 1, 4096);
  graft_context_destroy(context);
}

static void memory_is_aligned_and_counted(void **state) {
  (void)state;
  graft_context *context = plan_mock_context(1);
  graft_device *device = plan_mock_device(context, "cpu");
  const graft_backend_def *backend = graft_device_backend(device);
  void *own = graft_device_state(device), *memory[3];
  const size_t sizes[] = {1, 1000, ((size_t)9 << 20) + 5};
  size_t sum = 0;
  graft_device_info info = {.struct_size = sizeof info};
  for (int i = 0; i < 3; ++i) {
    assert_int_equal(backend->allocate(own, sizes[i], NULL, &memory[i]), GRAFT_OK);
    assert_int_equal((uintptr_t)memory[i] % GRAFT_DEVICE_ALIGNMENT, 0);
    memset(memory[i], 0xa5, sizes[i]);
    sum += sizes[i];
  }
  graft_device_describe(device, &info);
  assert_int_equal(info.allocated_bytes, sum);
  for (int i = 0; i < 3; ++i) backend->release(own, memory[i], sizes[i]);
  backend->release(own, NULL, 0);
  graft_device_describe(device, &info);
  assert_int_equal(info.allocated_bytes, 0);
  assert_int_equal(info.peak_bytes, sum);
  graft_error error = {0};
  assert_int_equal(backend->allocate(own, SIZE_MAX - 3, &error, &memory[0]), GRAFT_E_NO_MEMORY);
  assert_int_equal(backend->allocate(own, SIZE_MAX / 2 + 1, &error, &memory[0]), GRAFT_E_NO_MEMORY);
  graft_context_destroy(context);
}

static void count_call(void *arg, int64_t i) {
  atomic_int *calls = arg;
  ++calls[i];
}

static void parallel_calls_everything_once(void **state) {
  (void)state;
  for (int32_t n_threads = 1; n_threads <= 3; ++n_threads) {
    graft_context *context = plan_mock_context(n_threads);
    graft_device *device = plan_mock_device(context, "cpu");
    atomic_int calls[257] = {0};
    graft_device_backend(device)->parallel(graft_device_state(device), count_call, calls, 257);
    for (int i = 0; i < 257; ++i) assert_int_equal(calls[i], 1);
    graft_context_destroy(context);
  }
}

static void an_unusable_configuration_is_a_sentence(void **state) {
  (void)state;
  const graft_context_options options = {.struct_size = sizeof options,
                                         .n_threads = 1,
                                         .cpu_target = "avx3",
                                         .without_builtins = true,
                                         .ignore_environment = true};
  graft_context *context = NULL;
  if (graft_context_create(&options, NULL, &context) != GRAFT_OK) return;  // refused there already
  assert_int_equal(graft_context_register(context, &graft_extension_cpu_backend), GRAFT_OK);
  graft_device *device = NULL;
  assert_int_not_equal(graft_device_open(context, "cpu", &device), GRAFT_OK);
  assert_non_null(strstr(graft_context_error(context)->message, "avx3"));
  graft_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(BE1_targets_limit_features),
    cmocka_unit_test(BE1_impossible_targets_are_refused),
#if defined(__x86_64__)
    cmocka_unit_test(BE1_detection_agrees_with_the_compiler),
#endif
    cmocka_unit_test(BE9_the_device_describes_itself),
    cmocka_unit_test(memory_is_aligned_and_counted),
    cmocka_unit_test(parallel_calls_everything_once),
    cmocka_unit_test(an_unusable_configuration_is_a_sentence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
