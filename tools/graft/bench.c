// graft bench — how fast this machine is and how fast graft is on it.
#include "tools/graft/bench.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graft/diffusion.h"
#include "tools/graft/bench_transformer.h"
#include "tools/graft/gpu_runs.h"
#include "tools/graft/placement.h"
#include "tools/graft/progress.h"
#include "tools/graft/tool.h"
#include "tools/graft/weight_type.h"

enum { MAX_RUNS = 1000 };

typedef struct bench_wishes {
  const char *model, *prompt, *fusion, *transformer, *type_name, *devices;
  graft_weight_type type;
  int64_t n_runs, n_threads, n_steps, n_tokens, size[2];
  bool as_json, has_steps, has_size;
} bench_wishes;

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double tool_median(double *values, size_t n) {
  qsort(values, n, sizeof *values, compare_doubles);
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

static int bench_peak(graft_context *context, const bench_wishes *wishes) {
  tool_peaks peaks;
  tool_device_list devices;
  graft_status status = tool_device_list_open(context, wishes->devices, &devices);
  if (status == GRAFT_OK) status = tool_peaks_measure(context, devices.items[0], &peaks);
  if (status != GRAFT_OK) return tool_report(graft_context_error(context));
  if (peaks.kind == TOOL_PEAKS_NONE) return tool_report(graft_context_error(context));
  if (wishes->as_json) return tool_print_json(tool_peaks_describe(&peaks));
  tool_peaks_print(&peaks);
  return tool_finish_output(TOOL_OK);
}

// Times of one generation, by phase.
typedef struct phases {
  double begun[GRAFT_PHASE_DECODE + 1], ended[GRAFT_PHASE_DECODE + 1];
  double first_step;  // the end of the first one of drawing
} phases;

static void on_progress(void *user, graft_generate_phase phase, uint32_t n_done, uint32_t n_steps) {
  phases *p = user;
  if (n_done == 0) p->begun[phase] = tool_now();
  if (n_done == n_steps) p->ended[phase] = tool_now();
  if (n_done == 1 && phase == GRAFT_PHASE_DENOISE) p->first_step = tool_now();
}

// Work of all steps of all plans, counted while they run, and where they do.
typedef struct work_count {
  phases phases;
  tool_placement placement;
  double flops;
} work_count;

static void count_step(void *user, graft_pipeline_stage stage, const graft_plan *plan, uint32_t step, bool is_end) {
  (void)stage;
  if (is_end) return;
  graft_step_info info = {.struct_size = sizeof info};
  graft_plan_step(plan, step, &info);
  ((work_count *)user)->flops += info.flops;
}

static void on_plan(void *user, graft_pipeline_stage stage, const graft_plan *plan) {
  (void)stage;
  tool_placement_add(&((work_count *)user)->placement, plan);
}

static graft_status generate_once(graft_pipeline *pipeline, const bench_wishes *w, work_count *count, bool counts_work,
                                  double *out_seconds) {
  graft_generate_request request = {.struct_size = sizeof request};
  graft_generate_request_init(pipeline, &request);
  request.prompt = w->prompt != NULL ? w->prompt : "a red apple on a blue background";
  if (w->has_steps) request.n_steps = w->n_steps < INT32_MAX ? (int32_t)w->n_steps : INT32_MAX;
  if (w->has_size) request.width = (int32_t)w->size[0];
  if (w->has_size) request.height = (int32_t)w->size[1];
  graft_generate_callbacks callbacks = {
      .struct_size = sizeof callbacks, .user = count, .abort = tool_is_interrupted, .on_progress = on_progress};
  if (counts_work) {
    callbacks.on_plan_step = count_step;
    callbacks.on_plan = on_plan;
  }
  graft_generate_result result = {.struct_size = sizeof result};
  double begun = tool_now();
  GRAFT_TRY(graft_pipeline_generate(pipeline, &request, &callbacks, &result));
  *out_seconds = tool_now() - begun;
  graft_generate_result_release(&result);
  return GRAFT_OK;
}

typedef struct generate_times {
  double first, total, denoise, decode, flops;  // seconds, medians after the first; floating-point operations of a run
  double first_step;                            // from opening the model to the end of the first step
  const graft_device *device;
  tool_peaks peaks;  // of the CPU; for other devices none
} generate_times;

static graft_status time_generations(graft_context *context, const bench_wishes *w, const char *path,
                                     generate_times *out_times) {
  double totals[MAX_RUNS], denoise[MAX_RUNS], decode[MAX_RUNS];
  graft_pipeline *pipeline = NULL;
  work_count count = {0};
  double begun = tool_now(), unused;
  graft_pipeline_options options = {.struct_size = sizeof options, .transformer = w->transformer, .type = w->type};
  tool_device_list devices;
  GRAFT_TRY(tool_device_list_open(context, w->devices, &devices));
  options.devices = devices.items;
  options.n_devices = devices.n;
  GRAFT_TRY(graft_pipeline_open(context, path, &options, &pipeline));
  graft_status status = generate_once(pipeline, w, &count, false, &unused);
  out_times->first = tool_now() - begun;
  out_times->first_step = count.phases.first_step - begun;
  for (int64_t i = 0; i < w->n_runs && status == GRAFT_OK; ++i) {
    status = generate_once(pipeline, w, &count, false, &totals[i]);
    denoise[i] = count.phases.ended[GRAFT_PHASE_DENOISE] - count.phases.begun[GRAFT_PHASE_DENOISE];
    decode[i] = count.phases.ended[GRAFT_PHASE_DECODE] - count.phases.begun[GRAFT_PHASE_DECODE];
  }
  if (status == GRAFT_OK) status = generate_once(pipeline, w, &count, true, &unused);
  out_times->device = devices.items[0];
  graft_pipeline_close(pipeline);
  GRAFT_TRY(status);
  tool_placement_print(&count.placement);
  const bool is_host = strcmp(graft_device_backend(devices.items[0])->name, "cpu") == 0;
  if (is_host) GRAFT_TRY(tool_peaks_measure(context, devices.items[0], &out_times->peaks));
  out_times->total = tool_median(totals, (size_t)w->n_runs);
  out_times->denoise = tool_median(denoise, (size_t)w->n_runs);
  out_times->decode = tool_median(decode, (size_t)w->n_runs);
  out_times->flops = count.flops;
  return GRAFT_OK;
}

static void print_generate(const bench_wishes *w, const generate_times *times) {
  const double gflops = times->flops / times->total * 1e-9, peak = tool_peaks_gflops(&times->peaks, GRAFT_PRODUCT_F32);
  printf("first picture      %8.3f s         opening the model included; its first step ends after %.3f s\n",
         times->first, times->first_step);
  printf("a picture          %8.3f s         median of %lld\n", times->total, (long long)w->n_runs);
  printf("  drawing          %8.3f s\n  decoding         %8.3f s\n", times->denoise, times->decode);
  printf("  work             %8.1f GFLOP     %.1f GFLOP/s", 1e-9 * times->flops, gflops);
  if (peak > 0) printf(", %.0f %% of the f32 peak", 100 * gflops / peak);
  printf("\n");
  tool_gpu_runs_print(times->device, stdout);
  tool_peaks_print(&times->peaks);
}

static json_t *describe_generate(const bench_wishes *w, const generate_times *times) {
  json_t *json = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:I}", "first_seconds", times->first, "first_step_seconds",
                           times->first_step, "seconds", times->total, "denoise_seconds", times->denoise,
                           "decode_seconds", times->decode, "flops", times->flops, "runs", (json_int_t)w->n_runs);
  tool_gpu_runs_describe(times->device, json);
  if (times->peaks.kind != TOOL_PEAKS_NONE) json_object_set_new(json, "peak", tool_peaks_describe(&times->peaks));
  return json;
}

static int bench_generate(graft_context *context, const bench_wishes *wishes) {
  char path[TOOL_PATH_BYTES];
  if (!tool_find_model(wishes->model, path)) return TOOL_FAILED;
  tool_catch_interrupt();
  generate_times times = {.first = 0};
  graft_status status = time_generations(context, wishes, path, &times);
  if (status != GRAFT_OK) return tool_report(graft_context_error(context));
  if (wishes->as_json) return tool_print_json(describe_generate(wishes, &times));
  print_generate(wishes, &times);
  return tool_finish_output(TOOL_OK);
}

static int bench_transformer(graft_context *context, const bench_wishes *w) {
  enum { SIDE = 1024, TOKENS = 77 };
  const tool_bench_transformer_wishes wishes = {
      .model = w->model,
      .devices = w->devices,
      .type = w->type_name != NULL ? w->type : GRAFT_WEIGHT_BF16,
      .type_name = w->type_name != NULL ? w->type_name : "bf16",
      .width = w->has_size ? w->size[0] : SIDE,
      .height = w->has_size ? w->size[1] : SIDE,
      .n_tokens = w->n_tokens > 0 ? w->n_tokens : TOKENS,
      .n_runs = w->n_runs,
      .as_json = w->as_json,
  };
  return tool_bench_transformer(context, &wishes);
}

typedef int bench_fn(graft_context *context, const bench_wishes *wishes);

static bench_fn *find_subject(const char *what) {
  static const struct {
    const char *name;
    bench_fn *run;
  } subjects[] = {{"generate", bench_generate}, {"transformer", bench_transformer}, {"peak", bench_peak}};
  for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; ++i) {
    if (strcmp(what, subjects[i].name) == 0) return subjects[i].run;
  }
  return NULL;
}

static int run(const tool_command *self, int argc, char **argv) {
  bench_wishes w = {.n_runs = 5};
  const tool_option options[] = {
      {"model", 'm', TOOL_TEXT, "FOLDER",
       "generate, transformer: model; of it transformer takes the sizes alone (default: the one that ships with graft; "
       "transformer: Z-Image with 6 billion parameters).",
       &w.model, 0, 0, NULL},
      {"prompt", 'p', TOOL_TEXT, "TEXT", "generate: what to draw.", &w.prompt, 0, 0, NULL},
      {"device", 0, TOOL_TEXT, "NAMES", TOOL_DEVICES_HELP, &w.devices, 0, 0, NULL},
      {"transformer", 0, TOOL_TEXT, "FILE", "generate: " TOOL_TRANSFORMER_HELP, &w.transformer, 0, 0, NULL},
      {"type", 0, TOOL_TEXT, "TYPE", "generate, transformer: " TOOL_TYPE_HELP, &w.type_name, 0, 0, NULL},
      {"steps", 0, TOOL_INT, "N", "generate: sampler steps (default: the model's).", &w.n_steps, 1, TOOL_NO_LIMIT,
       &w.has_steps},
      {"size", 0, TOOL_SIZE, "WxH",
       "generate, transformer: size in pixels (default: the model's; transformer: 1024x1024).", w.size, 1, 1e6,
       &w.has_size},
      {"tokens", 0, TOOL_INT, "N", "transformer: tokens of the prompt (default: 77).", &w.n_tokens, 1, 1 << 20, NULL},
      {"runs", 0, TOOL_INT, "N", "generate, transformer: runs after the first (default: 5).", &w.n_runs, 1, MAX_RUNS,
       NULL},
      {"threads", 0, TOOL_INT, "N", "CPU threads (default: all cores).", &w.n_threads, 1, 1024, NULL},
      {"fusion", 0, TOOL_TEXT, "RULES",
       "generate, transformer: fusion: on, off, or rules to leave out: -swiglu,-gated_residual.", &w.fusion, 0, 0,
       NULL},
      {"json", 0, TOOL_FLAG, NULL, "Print JSON for programs.", &w.as_json, 0, 0, NULL},
  };
  const char *what = NULL;
  size_t n = 0;
  int parsed = tool_parse(self, argc, argv, options, sizeof options / sizeof options[0], &what, 1, &n);
  if (parsed == TOOL_PARSED) parsed = tool_weight_type(self, w.type_name, &w.type);
  if (parsed != TOOL_PARSED) return parsed;
  bench_fn *bench = n == 1 ? find_subject(what) : NULL;
  if (bench == NULL)
    return tool_usage(self, "say what to measure: graft bench generate, graft bench transformer, or graft bench peak");
  graft_context *context = tool_open_planning_context(&(tool_planning){w.n_threads, w.fusion, w.devices});
  if (context == NULL) return TOOL_FAILED;
  int code = bench(context, &w);
  graft_context_destroy(context);
  return code;
}

const tool_command tool_bench = {"bench", "Measures this machine, and graft on it.",
                                 "generate|transformer|peak [OPTIONS]", run};
