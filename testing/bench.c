#include "testing/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "testing/example_graph.h"

enum { DEFAULT_RUNS = 15, MAX_RUNS = 4096, N_WARM_UP = 2, MAX_NODES = 16 };

// A run on a card is started and waited for, which takes some microseconds that a node among others does not cost:
// there the node is repeated until a run lasts so long.
static const double least_run_seconds = 2e-3;
// So long a card is measured: its clock gets slower under load within a tenth of a second.
static const double least_card_seconds = 0.3;

// Blocks of the peak and of runs take turns of some milliseconds: too long for starting threads to matter, and so short
// that a neighbour's load or a change of the clock meets both.
static const double turn_seconds = 8e-3;
enum { N_PEAK_PASSES = 2000000 };

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static bool is_card(const graft_device *device) {
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(device, &info);
  return (info.flags & GRAFT_DEVICE_HOST_MEMORY) == 0;
}

// Runs for |least| seconds, at least once.
static graft_status time_runs(graft_plan *plan, double least, double *out_seconds_per_run) {
  const double begin = seconds_now();
  double elapsed;
  int32_t n = 0;
  do {
    GRAFT_TRY(graft_plan_run(plan, NULL));
    elapsed = seconds_now() - begin;
    ++n;
  } while (elapsed < least);
  *out_seconds_per_run = elapsed / n;
  return GRAFT_OK;
}

static graft_status time_plan(graft_plan *plan, const graft_bench_options *options, graft_bench_result *result) {
  const double default_seconds = is_card(options->device) ? least_card_seconds : 0.1;
  double times[MAX_RUNS], shares[MAX_RUNS], begin = seconds_now();
  uint32_t n = 0, n_least = options->n_runs > 0 ? options->n_runs : DEFAULT_RUNS;
  double least = options->min_seconds > 0 ? options->min_seconds : default_seconds;
  graft_error *error = graft_context_error_slot(options->context);
  for (int i = 0; i < N_WARM_UP; ++i) GRAFT_TRY(graft_plan_run(plan, NULL));
  while (n < MAX_RUNS && (n < n_least || seconds_now() - begin < least)) {
    double peak = HUGE_VAL;
    if (options->peak != NULL)
      GRAFT_TRY(graft_peak_measure_block(options->peak, options->n_peak_threads, N_PEAK_PASSES, error, &peak));
    GRAFT_TRY(time_runs(plan, options->peak != NULL ? turn_seconds : 0, &times[n]));
    shares[n] = 1e-9 * result->flops / times[n] / peak;
    ++n;
  }
  qsort(times, n, sizeof times[0], compare_doubles);
  qsort(shares, n, sizeof shares[0], compare_doubles);
  result->n_runs = n;
  result->best_seconds = times[0];
  result->median_seconds = times[n / 2];
  result->of_peak = shares[n / 2];
  return GRAFT_OK;
}

static graft_status inspect(const graft_plan *plan, const graft_bench_options *options, graft_error *error,
                            graft_bench_result *result) {
  int64_t step = graft_testing_find_step(plan, options->op, options->kernel);
  graft_step_info info = {.struct_size = sizeof info};
  if (step >= 0) {
    graft_plan_step(plan, (uint32_t)step, &info);
    snprintf(result->kernel, sizeof result->kernel, "%s", info.kernel != NULL ? info.kernel->name : "");
    result->flops = info.flops;
    result->bytes = info.bytes;
    return GRAFT_OK;
  }
  const char *reasons = "";
  for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) {
    graft_plan_step(plan, i, &info);
    if (info.op == options->op && info.rejections != NULL) reasons = info.rejections;
  }
  return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED, "%s does not run case '%s': %.200s",
                    options->kernel != NULL ? options->kernel->name : options->op->name, options->sample->name,
                    reasons);
}

// Some operators want tables of angles and the like in float32 whatever they work on: then of the floats that are no
// constants |only_first| changes.
static graft_testing_form form_of(const graft_bench_options *options, bool only_first) {
  graft_testing_form form = {.name = "bench"};
  for (uint32_t i = 0; i < GRAFT_CASE_MAX_INPUTS; ++i) {
    form.repeated[i] = -1;
    if (i >= options->sample->n_inputs) continue;
    const graft_case_input *input = &options->sample->inputs[i];
    graft_dtype wanted = input->is_constant ? options->weights : options->activations;
    bool is_changed = wanted != NULL && input->dtype != NULL && input->dtype->is_float &&
                      (i == 0 || input->is_constant || !only_first);
    form.dtypes[i] = is_changed ? wanted : input->dtype;
  }
  return form;
}

static graft_status bench_plan(const graft_bench_options *options, const graft_testing_graph *graph, graft_error *error,
                               graft_bench_result *result) {
  graft_plan_options plan_options = {.struct_size = sizeof plan_options,
                                     .flags = GRAFT_PLAN_KEEP_NODES,
                                     .device = options->device,
                                     .force_kernel = options->kernel != NULL ? options->kernel->name : NULL};
  graft_plan *plan = NULL;
  graft_status status = graft_plan_create(graph->graph, &plan_options, &plan);
  if (status == GRAFT_OK) {
    status = graft_testing_graph_write(graph, plan);
    graft_status inspected = status == GRAFT_OK ? inspect(plan, options, error, result) : GRAFT_OK;
    if (inspected != GRAFT_OK) {
      graft_plan_destroy(plan);
      return inspected;
    }
    if (status == GRAFT_OK) status = time_plan(plan, options, result);
  }
  if (status != GRAFT_OK && error != NULL) *error = *graft_context_error(options->context);
  graft_plan_destroy(plan);
  return status;
}

static graft_status bench_nodes(const graft_bench_options *options, const graft_testing_example *example,
                                uint32_t n_nodes, graft_error *error, graft_bench_result *result) {
  graft_testing_graph graph = {0};
  const graft_testing_graph_setup setup = {.context = options->context, .example = example, .n_nodes = n_nodes};
  graft_status status = graft_testing_graph_create(&setup, &graph);
  if (status == GRAFT_OK) {
    status = bench_plan(options, &graph, error, result);
  } else if (error != NULL) {
    *error = *graft_context_error(options->context);
  }
  graft_testing_graph_destroy(&graph);
  result->best_seconds /= n_nodes;
  result->median_seconds /= n_nodes;
  return status;
}

static uint32_t nodes_for(const graft_bench_options *options, const graft_bench_result *alone) {
  if (!is_card(options->device) || alone->median_seconds >= least_run_seconds) return 1;
  const double n = least_run_seconds / alone->median_seconds;
  return n < MAX_NODES ? (uint32_t)n + 1 : MAX_NODES;
}

graft_status graft_bench_run(const graft_bench_options *options, graft_error *error, graft_bench_result *out_result) {
  graft_testing_example *example = NULL;
  graft_testing_form form = form_of(options, false);
  graft_bench_result result = {.n_runs = 0};
  if (graft_testing_example_create(options->op, options->sample, &form, options->seed, error, &example) != GRAFT_OK) {
    form = form_of(options, true);
    GRAFT_TRY(graft_testing_example_create(options->op, options->sample, &form, options->seed, error, &example));
  }
  graft_status status = bench_nodes(options, example, 1, error, &result);
  const uint32_t n_nodes = status == GRAFT_OK ? nodes_for(options, &result) : 1;
  // What has no room several times is timed alone.
  graft_bench_result repeated = {.n_runs = 0};
  if (n_nodes > 1 && bench_nodes(options, example, n_nodes, NULL, &repeated) == GRAFT_OK) result = repeated;
  graft_testing_example_destroy(example);
  if (status != GRAFT_OK) return status;
  result.gflops = 1e-9 * result.flops / result.median_seconds;
  result.gbytes = 1e-9 * result.bytes / result.median_seconds;
  *out_result = result;
  return GRAFT_OK;
}
