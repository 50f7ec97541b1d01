// graft ops bench — every kernel at the shapes of real models, beside what this machine can do at best.
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "graft/cpu.h"
#include "testing/bench.h"
#include "tools/graft/bench.h"
#include "tools/graft/device_list.h"
#include "tools/graft/ops.h"

typedef struct bench_run {
  graft_context *context;
  graft_device *device;
  const tool_ops_wishes *wishes;
  tool_peaks peaks;
  json_t *list;  // NULL: a table
  uint32_t n_measured;
} bench_run;

static graft_dtype dtype_of(const bench_run *run, const graft_case_input *input) {
  const bool is_changed = run->wishes->dtype != NULL && input->dtype != NULL && input->dtype->is_float;
  return is_changed ? run->wishes->dtype : input->dtype;
}

// What is multiplied: bytes where there are any, else the type of the first floats, which are the activations.
static graft_device_product product_of(const bench_run *run, const graft_op_case *sample) {
  graft_dtype floats = NULL;
  for (uint32_t i = 0; i < sample->n_inputs; ++i) {
    const graft_dtype dtype = dtype_of(run, &sample->inputs[i]);
    if (dtype == GRAFT_I8) return GRAFT_PRODUCT_I8;
    if (floats == NULL && dtype != NULL && dtype->is_float) floats = dtype;
  }
  return floats == GRAFT_BF16 ? GRAFT_PRODUCT_BF16 : floats == GRAFT_F16 ? GRAFT_PRODUCT_F16 : GRAFT_PRODUCT_F32;
}

// What a kernel of the CPU is made of: bytes, pairs of bf16 where it needs that instruction, else f32. NULL for others.
static const graft_peak_loop *loop_of(const bench_run *run, const graft_op_case *sample,
                                      const graft_kernel_def *kernel) {
  if (run->peaks.kind != TOOL_PEAKS_CPU) return NULL;
  graft_peak_kind kind = kernel->required_features & GRAFT_CPU_AVX512_BF16 ? GRAFT_PEAK_BF16 : GRAFT_PEAK_F32;
  if (product_of(run, sample) == GRAFT_PRODUCT_I8 && run->peaks.i8.gflops > 0) kind = GRAFT_PEAK_I8;
  return graft_peak_loop_of(kind, graft_cpu_describe(run->device)->features);
}

// Of what the device can do: arithmetic or memory, whichever the kernel uses more of. Negative where that is not known.
static double percent_of_peak(const bench_run *run, const graft_op_case *sample, const graft_bench_result *result) {
  const double gflops = tool_peaks_gflops(&run->peaks, product_of(run, sample));
  const double gbytes = tool_peaks_gbytes(&run->peaks);
  if (gbytes <= 0 || (gflops <= 0 && result->flops > 0)) return -1;
  double of_flops = gflops > 0 ? result->gflops / gflops : 0, of_memory = result->gbytes / gbytes;
  if (result->of_peak > 0) of_flops = result->of_peak;
  return 100 * (of_flops > of_memory ? of_flops : of_memory);
}

static json_t *describe_shapes(const graft_op_case *sample) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < sample->n_inputs; ++i) {
    json_t *shape = json_array();
    for (int32_t d = 0; sample->inputs[i].dtype != NULL && d < sample->inputs[i].rank; ++d)
      json_array_append_new(shape, json_integer((json_int_t)sample->inputs[i].shape[d]));
    json_array_append_new(list, shape);
  }
  return list;
}

static json_t *describe(const bench_run *run, const graft_bench_options *options, const graft_bench_result *result) {
  const double percent = percent_of_peak(run, options->sample, result);
  json_t *json = json_pack(
      "{s:s, s:s, s:o, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "op", options->op->name, "case",
      options->sample->name, "shapes", describe_shapes(options->sample), "kernel", options->kernel->name, "products",
      graft_device_product_name(product_of(run, options->sample)), "ms", 1e3 * result->median_seconds, "best_ms",
      1e3 * result->best_seconds, "gflop_per_s", result->gflops, "gb_per_s", result->gbytes, "flops", result->flops,
      "bytes", result->bytes, "runs", (int)result->n_runs);
  if (percent >= 0) json_object_set_new(json, "percent_of_peak", json_real(percent));
  return json;
}

static void print_result(const bench_run *run, const graft_bench_options *options, const graft_bench_result *result) {
  const double percent = percent_of_peak(run, options->sample, result);
  printf("  %-41s %9.4f %8.1f %8.1f", options->kernel->name, 1e3 * result->median_seconds, result->gflops,
         result->gbytes);
  if (percent >= 0) printf(" %5.1f %%", percent);
  printf("\n");
  fflush(stdout);
}

// A kernel that is not for the case is left out; what else fails ends the run.
static graft_status bench_kernel(bench_run *run, const graft_op_def *op, const graft_op_case *sample,
                                 const graft_kernel_def *kernel) {
  graft_error error = {0};
  graft_bench_result result;
  const graft_bench_options options = {.struct_size = sizeof options,
                                       .context = run->context,
                                       .device = run->device,
                                       .op = op,
                                       .sample = sample,
                                       .kernel = kernel,
                                       .weights = run->wishes->dtype,
                                       .activations = run->wishes->dtype,
                                       .seed = run->wishes->seed,
                                       .peak = loop_of(run, sample, kernel),
                                       .n_peak_threads = run->peaks.flops.n_threads};
  graft_status status = graft_bench_run(&options, &error, &result);
  if (status == GRAFT_E_UNSUPPORTED) return GRAFT_OK;
  if (status != GRAFT_OK) {
    *graft_context_error_slot(run->context) = error;
    return status;
  }
  ++run->n_measured;
  if (run->list != NULL) json_array_append_new(run->list, describe(run, &options, &result));
  else print_result(run, &options, &result);
  return GRAFT_OK;
}

static bool is_wanted(const bench_run *run, const graft_op_def *op, const graft_kernel_def *kernel) {
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(run->device, &info);
  const graft_backend_def *backend = graft_device_backend(run->device);
  bool runs_it = strcmp(kernel->backend, backend->name) == 0 ||
                 (backend->kernels_of != NULL && strcmp(kernel->backend, backend->kernels_of) == 0);
  return kernel->op != NULL && strcmp(kernel->op, op->name) == 0 && (kernel->required_features & ~info.features) == 0 &&
         runs_it && tool_ops_matches(run->wishes->kernel, kernel->name);
}

static graft_status bench_case(bench_run *run, const graft_op_def *op, const graft_op_case *sample) {
  bool has_title = run->list != NULL;
  for (uint32_t i = 0; i < graft_context_n_kernels(run->context) && !tool_is_interrupted(NULL); ++i) {
    const graft_kernel_def *kernel = graft_context_kernel(run->context, i);
    if (!is_wanted(run, op, kernel)) continue;
    if (!has_title) printf("%s, %s\n", op->name, sample->name);
    has_title = true;
    GRAFT_TRY(bench_kernel(run, op, sample, kernel));
  }
  return GRAFT_OK;
}

static graft_status bench_all(bench_run *run) {
  const tool_ops_wishes *wishes = run->wishes;
  for (uint32_t i = 0; i < graft_context_n_ops(run->context); ++i) {
    const graft_op_def *op = graft_context_op(run->context, i);
    if (!tool_ops_matches(wishes->op, op->name)) continue;
    for (uint32_t c = 0; c < op->n_cases; ++c) {
      const graft_op_case *sample = &op->cases[c];
      // A case that is asked for by name may be one of the small ones.
      bool is_meant = wishes->case_name != NULL || (sample->flags & GRAFT_CASE_BENCH);
      if (is_meant && tool_ops_matches(wishes->case_name, sample->name)) GRAFT_TRY(bench_case(run, op, sample));
    }
  }
  graft_error *error = graft_context_error_slot(run->context);
  if (tool_is_interrupted(NULL)) return GRAFT_FAIL(error, GRAFT_E_CANCELLED, "interrupted");
  if (run->n_measured > 0) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND,
                    "nothing to time: no operator matches '%s' with a benchmark case and a "
                    "kernel for %s that match",
                    wishes->op == NULL ? "*" : wishes->op, graft_device_name(run->device));
}

static int print_page(const bench_run *run) {
  char title[160];
  graft_error *error = graft_context_error_slot(run->context);
  snprintf(title, sizeof title, "graft ops bench on %s", graft_device_name(run->device));
  graft_status status = tool_bench_write_html(title, &run->peaks, run->list, tool_stdout_writer(), error);
  json_decref(run->list);
  return status == GRAFT_OK ? tool_finish_output(TOOL_OK) : tool_report(error);
}

int tool_ops_bench(graft_context *context, const tool_ops_wishes *wishes) {
  bench_run run = {.context = context, .wishes = wishes};
  tool_device_list devices;
  tool_catch_interrupt();
  graft_status status = tool_device_list_open(context, wishes->device, &devices);
  if (status == GRAFT_OK) run.device = devices.items[0];
  if (status == GRAFT_OK) status = tool_peaks_measure(context, run.device, &run.peaks);
  if (status != GRAFT_OK) return tool_report(graft_context_error(context));
  run.list = wishes->as_json || wishes->as_html ? json_array() : NULL;
  if (run.list == NULL) {
    tool_peaks_print(&run.peaks);
    printf("  %-41s %9s %8s %8s%s\n", "kernel", "ms", "GFLOP/s", "GB/s",
           run.peaks.kind != TOOL_PEAKS_NONE ? " of peak" : "");
  }
  status = bench_all(&run);
  if (status != GRAFT_OK) {
    json_decref(run.list);
    return tool_report(graft_context_error(context));
  }
  if (wishes->as_html) return print_page(&run);
  return wishes->as_json ? tool_print_json(run.list) : tool_finish_output(TOOL_OK);
}
