// What fusion is for: each rule's group against the operators apart, and where it replaces another rule against what
// that makes of the group, on the shapes of real models, runs in turn.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "fusion_pair.h"
#include "graft/cpu.h"

enum { N_RUNS = 21, N_LONG_RUNS = 5, MOST_PLANS = 4 };

static const double WANTED = 1.3;            // times faster, where the data is larger than a core's caches; what
                                             // multiplies most of the time only must not lose
static const double WANTED_QUANTISED = 1.1;  // where most of the time goes into exponentials and rotations
static const double NOT_SLOWER = 0.99;       // where nearly all of the time goes into a float product, but for noise
static const double EPILOGUE_COST = 1.03;    // of the bare product's time
static const double LONG_RUN = 5e10;         // operations from which a few runs tell as much
// Of the time that smaller rules take, which are there anyway. One thread computes exponentials while it reads, so that
// going through memory once less saves it little: gated_convrot_i8 takes 1.05 to 1.12 of swiglu and quantising apart.
static const double SMALLER_COST = 1.15;

// Bytes read and written from which a core's own caches are of no help.
static double bytes_beyond_core(graft_context *context) {
  graft_device *device = NULL;
  assert_int_equal(graft_device_open(context, "cpu", &device), GRAFT_OK);
  return 3 * (double)graft_cpu_describe(device)->l2_bytes;
}

// Of one thread's work, so that other programs on this machine do not count.
static double seconds(graft_plan *plan) {
  struct timespec begin, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}

static int compare(const void *left, const void *right) {
  const double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

// Medians of runs that take turns, the first two of each left out; 0 for plans that are NULL.
static void measure(graft_plan *const *plans, int n_plans, int n_runs, double *out_medians) {
  double times[MOST_PLANS][N_RUNS];
  for (int run = -2; run < n_runs; ++run) {
    for (int i = 0; i < n_plans; ++i) {
      if (plans[i] == NULL) continue;
      const double t = seconds(plans[i]);
      if (run >= 0) times[i][run] = t;
    }
  }
  for (int i = 0; i < n_plans; ++i) {
    out_medians[i] = 0;
    if (plans[i] == NULL) continue;
    qsort(times[i], (size_t)n_runs, sizeof times[i][0], compare);
    out_medians[i] = times[i][n_runs / 2];
  }
}

static double bytes_of(const graft_testing_example *e) {
  double bytes = (double)graft_tensor_desc_bytes(&e->outputs[0]);
  for (uint32_t i = 0; i < e->n_inputs; ++i) {
    if (e->present >> i & 1) bytes += (double)graft_tensor_desc_bytes(&e->inputs[i]);
  }
  return bytes;
}

static double flops_of(const graft_testing_example *e) {
  const graft_tensor_desc *inputs[GRAFT_CASE_MAX_INPUTS];
  for (uint32_t i = 0; i < e->n_inputs; ++i) inputs[i] = e->present >> i & 1 ? &e->inputs[i] : NULL;
  return e->op->flops != NULL ? e->op->flops(e->attrs, inputs, e->n_inputs, e->outputs) : 0;
}

// The product without what follows it.
static graft_plan *plan_bare(const fusion_pair *pair, graft_context *context, const char *op, graft_graph **out_graph) {
  const graft_testing_example *e = pair->example;
  graft_device *device = NULL;
  graft_graph *graph = NULL;
  graft_plan *plan = NULL;
  assert_int_equal(graft_device_open(context, "cpu", &device), GRAFT_OK);
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  graft_tensor *inputs[3], *y = NULL;
  for (uint32_t i = 0; i < 3; ++i) {
    graft_constant constant = {.struct_size = sizeof constant, .data = e->values[i]};
    if (e->present >> i & 1) constant.bytes = graft_tensor_desc_bytes(&e->inputs[i]);
    const char *names[] = {"x", "w", "b"};
    inputs[i] = !(e->present >> i & 1) ? graft_graph_none()
                : i == 0               ? graft_graph_input(graph, "x", &e->inputs[0])
                                       : graft_graph_constant(graph, names[i], &e->inputs[i], &constant);
  }
  const graft_op_def *def = graft_context_find_op(context, op);
  graft_graph_apply(graph, op, def->attrs_bytes > 0 ? e->attrs : NULL, def->attrs_bytes, inputs, 3, &y);
  graft_graph_output(graph, y, "y");
  const graft_plan_options options = {.struct_size = sizeof options, .device = device};
  assert_int_equal(graft_plan_create(graph, &options, &plan), GRAFT_OK);
  assert_int_equal(graft_plan_write(plan, 0, e->values[0], graft_tensor_desc_bytes(&e->inputs[0])), GRAFT_OK);
  *out_graph = graph;
  return plan;
}

// Whether what follows a product takes whole rows or heads of it.
static bool goes_on_with_rows(const char *rule) {
  return strncmp(rule, "linear_i8_", 10) == 0 || strcmp(rule, "linear_rms_norm_rotary") == 0;
}

static double wanted_of(const char *rule) {
  if (strstr(rule, "attention") != NULL || strncmp(rule, "linear_i8_", 10) == 0) return 1;
  if (goes_on_with_rows(rule)) return NOT_SLOWER;
  return strstr(rule, "convrot") != NULL ? WANTED_QUANTISED : WANTED;
}

// What other rules make of the group where |rule| is left out; NULL where none of them applies, or one makes the same.
static graft_plan *plan_smaller(fusion_pair *pair, const char *rule) {
  char without[80];
  snprintf(without, sizeof without, "-%s", rule);
  graft_plan *plan = fusion_pair_plan(pair, without);
  bool is_fused = false;
  for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) {
    graft_step_info step = {.struct_size = sizeof step};
    graft_plan_step(plan, i, &step);
    is_fused = is_fused || step.fusion != NULL;
  }
  if (is_fused && graft_plan_n_steps(plan) > 1) return plan;
  graft_plan_destroy(plan);
  return NULL;
}

static bool check_case(graft_context *context, const graft_fusion_def *rule, const graft_op_case *sample,
                       const char *product) {
  fusion_pair pair;
  fusion_pair_create(context, rule, sample, 1, 0, &pair);
  const bool is_fused = fusion_count(pair.fused, rule->name) == 1;
  // By another rule of the same operator, or apart, which is as fast.
  if (!is_fused && (graft_plan_n_steps(pair.fused) == 1 || fusion_has_no_room(pair.fused))) {
    fusion_pair_destroy(&pair);
    return true;
  }
  graft_graph *graph = NULL;
  graft_plan *bare = product != NULL ? plan_bare(&pair, context, product, &graph) : NULL;
  graft_plan *smaller = plan_smaller(&pair, rule->name);
  graft_plan *const plans[MOST_PLANS] = {pair.fused, pair.plain, bare, smaller};
  double t[MOST_PLANS];
  measure(plans, MOST_PLANS, flops_of(pair.example) < LONG_RUN ? N_RUNS : N_LONG_RUNS, t);
  const double gain = t[1] / t[0], megabytes = bytes_of(pair.example) / 1e6;
  const bool is_large = bytes_of(pair.example) > bytes_beyond_core(context);
  printf("%-22s %-24s %7.1f MB  apart %8.3f ms  fused %8.3f ms  %5.2f x", rule->name, sample->name, megabytes,
         1e3 * t[1], 1e3 * t[0], gain);
  if (bare != NULL) printf("  bare %8.3f ms, fused/bare %.3f", 1e3 * t[2], t[0] / t[2]);
  if (smaller != NULL) printf("  smaller %8.3f ms, fused/smaller %.3f", 1e3 * t[3], t[0] / t[3]);
  printf("%s\n", is_fused ? "" : "  NOT FUSED");
  graft_plan_destroy(smaller);
  graft_plan_destroy(bare);
  graft_graph_destroy(graph);
  fusion_pair_destroy(&pair);
  if (is_large && t[3] > 0 && t[0] > SMALLER_COST * t[3]) return false;
  if (bare != NULL) return is_fused && t[0] <= EPILOGUE_COST * t[2];
  return is_fused && (!is_large || gain >= wanted_of(rule->name));
}

static const char *product_of(const char *rule) {
  if (goes_on_with_rows(rule)) return NULL;
  if (strncmp(rule, "linear_", 7) == 0) return "graft.linear.v1";
  if (strcmp(rule, "conv2d_epilogue") == 0) return "graft.conv2d.v1";
  return NULL;
}

static const char *only_rule;  // NULL: all

static void every_rule_pays(void **state) {
  (void)state;
  const graft_context_options options = {.struct_size = sizeof options, .n_threads = 1};
  graft_context *context = NULL;
  assert_int_equal(graft_context_create(&options, NULL, &context), GRAFT_OK);
  uint32_t n_bad = 0;
  for (uint32_t r = 0; r < graft_context_n_fusions(context); ++r) {
    const graft_fusion_def *rule = graft_context_fusion(context, r);
    const graft_op_def *op = graft_context_find_op(context, rule->op);
    if (only_rule != NULL && strcmp(rule->name, only_rule) != 0) continue;
    for (uint32_t i = 0; i < op->n_cases; ++i) {
      if (!(op->cases[i].flags & GRAFT_CASE_BENCH)) continue;
      // Noise of the machine is not the rule's fault: it may try again.
      bool is_good = false;
      for (int attempt = 0; attempt < 3 && !is_good; ++attempt) {
        is_good = check_case(context, rule, &op->cases[i], product_of(rule->name));
      }
      n_bad += !is_good;
    }
  }
  graft_context_destroy(context);
  assert_int_equal(n_bad, 0);
}

int main(int argc, char **argv) {
  if (argc > 1) only_rule = argv[1];
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_rule_pays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
