// FU6 and FU2: every rule that is registered, over every case of its operator: fused and unfused agree, also where the
// planner lets the result take over an input's storage. Nothing here names a rule, so new ones are tested by being
// there.
//
//   test_FU6_equal [ROUNDS]     ROUNDS random variations of cases instead of the default 300
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fusion_pair.h"
#include "testing/helper_ops.h"
#include "testing/random_case.h"

static uint32_t n_rounds = 300;
static bool is_long;

static graft_context *open_context(void) {
  const graft_context_options options = {.struct_size = sizeof options, .n_threads = 2};
  graft_context *context = NULL;
  assert_int_equal(graft_context_create(&options, NULL, &context), GRAFT_OK);
  assert_int_equal(graft_context_register(context, graft_testing_helper_ops()), GRAFT_OK);
  return context;
}

// Returns how many groups were replaced.
static uint32_t check(graft_context *context, const graft_fusion_def *rule, const graft_op_case *sample, uint64_t seed,
                      uint32_t flags) {
  fusion_pair pair;
  fusion_pair_create(context, rule, sample, seed, flags, &pair);
  const uint32_t n = fusion_count(pair.fused, rule->name);
  fusion_pair_run(&pair);
  const double difference = fusion_pair_difference(&pair);
  if (difference > 1) {
    fail_msg("rule %s, case %s, seed %llu, flags 0x%x: %g of the bound", rule->name, sample->name,
             (unsigned long long)seed, (unsigned)flags, difference);
  }
  fusion_pair_destroy(&pair);
  return n;
}

static bool is_form(const graft_fusion_def *rule, const graft_op_case *sample) {
  return rule->forms != NULL && sample >= rule->forms && sample < rule->forms + rule->n_forms;
}

static void check_all(uint32_t flags) {
  graft_context *context = open_context();
  assert_true(graft_context_n_fusions(context) >= 8);
  for (uint32_t r = 0; r < graft_context_n_fusions(context); ++r) {
    const graft_fusion_def *rule = graft_context_fusion(context, r);
    const graft_op_def *op = graft_context_find_op(context, rule->op);
    uint32_t n_fused = 0;
    for (uint32_t i = 0; i < op->n_cases; ++i) {
      if (op->cases[i].flags & GRAFT_CASE_BENCH) continue;
      const uint32_t n = check(context, rule, &op->cases[i], 1, flags);
      if (n == 0 && is_form(rule, &op->cases[i])) fail_msg("%s misses its form %s", rule->name, op->cases[i].name);
      n_fused += n;
    }
    if (n_fused == 0) fail_msg("no case uses rule %s", rule->name);
  }
  graft_context_destroy(context);
}

static void FU6_every_rule_changes_nothing(void **state) {
  (void)state;
  check_all(0);
}

static void FU2_results_may_take_over_inputs(void **state) {
  (void)state;
  check_all(FUSION_PAIR_INTERMEDIATES);
  check_all(FUSION_PAIR_INTERMEDIATES | GRAFT_PLAN_NO_IN_PLACE | GRAFT_PLAN_NO_REUSE);
}

static void FU6_random_sizes(void **state) {
  (void)state;
  graft_context *context = open_context();
  const uint32_t n_rules = graft_context_n_fusions(context);
  for (uint32_t round = 0; round < n_rounds; ++round) {
    const graft_fusion_def *rule = graft_context_fusion(context, round % n_rules);
    const graft_op_def *op = graft_context_find_op(context, rule->op);
    graft_testing_random_case drawn;
    if (!graft_testing_random_case_draw(op, 7, round, &drawn)) continue;
    // What inference refuses is no use of the operator.
    graft_error error = {0};
    graft_testing_example *example = NULL;
    graft_testing_form form = {.name = "declared"};
    for (uint32_t i = 0; i < GRAFT_CASE_MAX_INPUTS; ++i) {
      form.repeated[i] = -1;
      if (i < drawn.sample.n_inputs) form.dtypes[i] = drawn.sample.inputs[i].dtype;
    }
    if (graft_testing_example_create(op, &drawn.sample, &form, 7, &error, &example) != GRAFT_OK) continue;
    graft_testing_example_destroy(example);
    (void)check(context, rule, &drawn.sample, 7 + round, drawn.choice % 2 ? FUSION_PAIR_INTERMEDIATES : 0);
  }
  graft_context_destroy(context);
}

// Results that are too large for the caches go past them.
static void FU6_large_results(void **state) {
  (void)state;
  graft_context *context = open_context();
  for (uint32_t r = 0; r < graft_context_n_fusions(context); ++r) {
    const graft_fusion_def *rule = graft_context_fusion(context, r);
    if (rule->propose != NULL) continue;  // of products, which would take long
    const graft_op_def *op = graft_context_find_op(context, rule->op);
    const graft_op_case *last = &op->cases[op->n_cases - 1];
    // Some take hundreds of megabytes.
    const bool is_small = strcmp(rule->name, "rms_norm_modulate") == 0 || strcmp(rule->name, "upsample_conv2d") == 0;
    if (!is_long && !is_small) continue;
    if (last->flags & GRAFT_CASE_BENCH) assert_int_equal(check(context, rule, last, 1, 0), 1);
  }
  graft_context_destroy(context);
}

int main(int argc, char **argv) {
  is_long = argc > 1;
  if (is_long) n_rounds = (uint32_t)strtoul(argv[1], NULL, 10);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(FU6_every_rule_changes_nothing),
      cmocka_unit_test(FU2_results_may_take_over_inputs),
      cmocka_unit_test(FU6_random_sizes),
      cmocka_unit_test(FU6_large_results),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
