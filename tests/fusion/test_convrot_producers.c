// Operators that quantise what they make give the bytes of the operators apart, on numbers of every kind and for every
// instruction set of this machine. The operators' own cases (test_FU6_equal) hold numbers on which references agree.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "fusion_pair.h"
#include "graft/cpu.h"
#include "ops/fused/rms_norm_convrot_i8/rms_norm_convrot_i8.h"
#include "testing/helper_ops.h"

#define TENSOR(...)                                                                                          \
  {                                                                                                          \
    .dtype = GRAFT_F32, .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .shape = { __VA_ARGS__ } \
  }
#define WEIGHT(type, n) \
  { .dtype = type, .rank = 1, .shape = {n}, .is_constant = true }
#define SWIGLU(text, size, ...)                                                                                  \
  {                                                                                                              \
    .name = text, .attrs = &(const graft_quantize_convrot_i8_attrs){.group = (size)}, .n_inputs = 2, .inputs = { \
      TENSOR(__VA_ARGS__),                                                                                       \
      TENSOR(__VA_ARGS__)                                                                                        \
    }                                                                                                            \
  }
#define NORM(text, size, ...)                                                                                    \
  {                                                                                                              \
    .name = text, .attrs = &(const graft_rms_norm_convrot_i8_attrs){.eps = 1e-5, .quantize = {.group = (size)}}, \
    .n_inputs = 3, .inputs = {                                                                                   \
      __VA_ARGS__                                                                                                \
    }                                                                                                            \
  }
#define OMITTED \
  { .dtype = NULL }

static void check(graft_context *context, const char *name, const graft_op_case *sample, uint64_t seed) {
  fusion_pair pair;
  fusion_pair_create(context, fusion_rule(context, name), sample, seed, seed % 2 ? 0 : FUSION_PAIR_INTERMEDIATES,
                     &pair);
  if (fusion_count(pair.fused, name) != 1) fail_msg("%s: case %s is not fused", name, sample->name);
  fusion_pair_run(&pair);
  if (memcmp(pair.got, pair.want, graft_tensor_desc_bytes(&pair.example->outputs[0])) != 0) {
    fail_msg("%s: case %s, seed %llu: other bytes than apart", name, sample->name, (unsigned long long)seed);
  }
  fusion_pair_destroy(&pair);
}

// The last sample is too large for the caches.
static void check_all(const char *name, const graft_op_case *samples, size_t n_samples) {
  const char *const targets[] = {"baseline", "avx2", "avx512"};
  for (size_t t = 0; t < 3; ++t) {
    const graft_context_options options = {
        .struct_size = sizeof options, .n_threads = 1 + (int32_t)t, .cpu_target = targets[t]};
    graft_context *context = NULL;
    assert_int_equal(graft_context_create(&options, NULL, &context), GRAFT_OK);
    graft_device *device = NULL;
    const graft_status status = graft_device_open(context, "cpu", &device);
    if (status == GRAFT_E_UNSUPPORTED && t > 0) {  // this machine lacks the instructions
      graft_context_destroy(context);
      continue;
    }
    assert_int_equal(status, GRAFT_OK);
    assert_int_equal(graft_context_register(context, graft_testing_helper_ops()), GRAFT_OK);
    for (size_t i = 0; i < n_samples; ++i) {
      const uint64_t n_seeds = i + 1 < n_samples ? 2 : 1;
      for (uint64_t seed = 1; seed <= n_seeds; ++seed) check(context, name, &samples[i], seed);
    }
    graft_context_destroy(context);
  }
}

static void swiglu_gives_the_same_bytes(void **state) {
  (void)state;
  const graft_op_case samples[] = {
      SWIGLU("odd", 1, 5, 31),           SWIGLU("group_4", 4, 2, 3, 36),         SWIGLU("group_16", 16, 3, 48),
      SWIGLU("group_64", 64, 1, 5, 320), SWIGLU("demo", 256, 1, 288, 1024),      SWIGLU("image", 256, 1, 37, 10240),
      SWIGLU("one_row", 1024, 1, 1024),  SWIGLU("past_caches", 256, 650, 10240),
  };
  check_all("swiglu_convrot_i8", samples, sizeof samples / sizeof samples[0]);
}

static void norms_give_the_same_bytes(void **state) {
  (void)state;
  const graft_op_case samples[] = {
      NORM("odd", 1, TENSOR(5, 31), WEIGHT(GRAFT_F32, 31), TENSOR(31)),
      NORM("no_weight", 4, TENSOR(2, 3, 36), OMITTED, TENSOR(2, 1, 36)),
      NORM("plain", 16, TENSOR(2, 3, 48), WEIGHT(GRAFT_F32, 48), OMITTED),
      NORM("plain_bf16", 64, TENSOR(3, 320), WEIGHT(GRAFT_BF16, 320), OMITTED),
      NORM("plain_no_weight", 1, TENSOR(3, 67), OMITTED, OMITTED),
      NORM("f16", 64, TENSOR(2, 5, 192), WEIGHT(GRAFT_F16, 192), TENSOR(2, 5, 192)),
      NORM("demo", 64, TENSOR(1, 288, 384), WEIGHT(GRAFT_F32, 384), TENSOR(1, 1, 384)),
      NORM("batch", 64, TENSOR(2, 67, 384), WEIGHT(GRAFT_BF16, 384), TENSOR(2, 1, 384)),
      NORM("image", 256, TENSOR(1, 67, 3840), WEIGHT(GRAFT_BF16, 3840), TENSOR(1, 1, 3840)),
      NORM("refiner", 256, TENSOR(1, 67, 3840), WEIGHT(GRAFT_F32, 3840), OMITTED),
      NORM("past_caches", 256, TENSOR(1, 1700, 3840), WEIGHT(GRAFT_BF16, 3840), TENSOR(1, 1, 3840)),
  };
  check_all("rms_norm_convrot_i8", samples, sizeof samples / sizeof samples[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(swiglu_gives_the_same_bytes),
      cmocka_unit_test(norms_give_the_same_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
