// graft bench transformer — one evaluation of a Z-Image transformer as large as the real one, with weights that are
// made up: no files are needed.
#include "tools/graft/bench_transformer.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/made_up.h"
#include "diffusion/samplers/noise.h"
#include "diffusion/transformers/z_image_made_up.h"
#include "formats/file.h"
#include "tools/graft/bench.h"
#include "tools/graft/device_list.h"
#include "tools/graft/gpu_runs.h"
#include "tools/graft/progress.h"

enum { PIXELS_PER_LATENT = 8, N_WARM_UP = 3, MOST_RUNS = 1000 };

// Tongyi-MAI/Z-Image-Turbo's transformer/config.json.
static const graft_z_image_config six_billion = {
    .dim = 3840,
    .n_heads = 30,
    .head_dim = 128,
    .n_layers = 30,
    .n_refiner_layers = 2,
    .in_channels = 16,
    .caption_dim = 2560,
    .patch = 2,
    .axes_dims = {32, 48, 48},
    .axes_lens = {1536, 512, 512},
    .norm_eps = 1e-5,
    .rope_theta = 256,
    .t_scale = 1000,
};

typedef struct measurement {
  const tool_bench_transformer_wishes *wishes;
  graft_context *context;
  graft_error *error;
  tool_device_list devices;
  graft_dtype activations;
  graft_z_image_config config;
  graft_z_image_shape shape;
  graft_made_up *weights;
  graft_graph *graph;
  graft_plan *plan;
  double plan_seconds, median, best, flops;
} measurement;

static graft_status read_config(measurement *m) {
  char *path = NULL;
  graft_json *json = NULL;
  m->config = six_billion;
  if (m->wishes->model == NULL) return GRAFT_OK;
  GRAFT_TRY(graft_file_join(m->wishes->model, "transformer/config.json", m->error, &path));
  graft_status status = graft_json_open(path, GRAFT_JSON_MAX_CONFIG_BYTES, m->error, &json);
  free(path);
  GRAFT_TRY(status);
  status = graft_z_image_read(json, m->error, &m->config);
  graft_json_close(json);
  return status;
}

static graft_status choose_shape(measurement *m) {
  const tool_bench_transformer_wishes *w = m->wishes;
  const int64_t multiple = PIXELS_PER_LATENT * m->config.patch;
  if (w->width % multiple != 0 || w->height % multiple != 0) {
    return GRAFT_FAIL(m->error, GRAFT_E_INVALID, "width and height must be multiples of %lld, not %lld and %lld",
                      (long long)multiple, (long long)w->width, (long long)w->height);
  }
  m->shape = (graft_z_image_shape){.batch = 1,
                                   .height = w->height / PIXELS_PER_LATENT,
                                   .width = w->width / PIXELS_PER_LATENT,
                                   .n_caption = graft_z_image_padded(w->n_tokens)};
  return GRAFT_OK;
}

static graft_status build(measurement *m) {
  const graft_made_up_options options = {.shape_of = graft_z_image_made_up_shape,
                                         .config = &m->config,
                                         .profile = &graft_z_image_profile,
                                         .type = m->wishes->type,
                                         .most_elements = graft_z_image_made_up_largest(&m->config)};
  GRAFT_TRY(graft_made_up_create(&options, m->error, &m->weights));
  GRAFT_TRY(graft_graph_create(m->context, &m->graph));
  const graft_weight_source source = {.type = m->wishes->type, .activations = m->activations, .made_up = m->weights};
  graft_model model;
  graft_model_init_source(&model, m->graph, &source, "");
  graft_z_image_build(&model, &m->config, &m->shape);
  return graft_model_finish(&model);
}

static graft_status plan(measurement *m) {
  const graft_plan_options options = {
      .struct_size = sizeof options, .devices = m->devices.items, .n_devices = m->devices.n};
  const double begun = tool_now();
  GRAFT_TRY(graft_plan_create(m->graph, &options, &m->plan));
  m->plan_seconds = tool_now() - begun;
  for (uint32_t i = 0; i < graft_plan_n_steps(m->plan); ++i) {
    graft_step_info info = {.struct_size = sizeof info};
    graft_plan_step(m->plan, i, &info);
    m->flops += info.flops;
  }
  return GRAFT_OK;
}

// Positions, tokens that are there, and noise for everything else.
static void fill_input(const measurement *m, const char *name, float *values, size_t n) {
  if (strcmp(name, "rotary") == 0) {
    graft_z_image_rotary(&m->config, &m->shape, m->shape.n_caption, values);
  } else if (strcmp(name, "caption_keep") == 0) {
    for (size_t i = 0; i < n; ++i) values[i] = (int64_t)i < m->wishes->n_tokens ? 1 : 0;
  } else if (strcmp(name, "time") == 0) {
    values[0] = 0.5f;
  } else {
    graft_noise_fill(n, values, n);
  }
}

static graft_status write_inputs(const measurement *m) {
  static const char *const names[] = {"latents", "time", "caption", "caption_keep", "rotary"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    uint32_t index;
    GRAFT_TRY(graft_plan_find_input(m->plan, names[i], &index));
    const graft_tensor_desc *desc = graft_tensor_describe(graft_graph_input_at(m->graph, index));
    const size_t n = (size_t)graft_tensor_desc_elements(desc);
    float *values = calloc(n + 1, sizeof *values);
    if (values == NULL) return GRAFT_FAIL(m->error, GRAFT_E_NO_MEMORY, "no memory for the input %s", names[i]);
    fill_input(m, names[i], values, n);
    graft_status status = graft_plan_write(m->plan, index, values, n * sizeof *values);
    free(values);
    GRAFT_TRY(status);
  }
  return GRAFT_OK;
}

static graft_status time_runs(measurement *m) {
  double times[MOST_RUNS];
  const graft_run_control control = {.struct_size = sizeof control, .abort = tool_is_interrupted};
  const size_t n = (size_t)m->wishes->n_runs;
  // The first run sets up, the second captures, the third replays.
  for (int i = 0; i < N_WARM_UP; ++i) GRAFT_TRY(graft_plan_run(m->plan, &control));
  m->best = 1e300;
  for (size_t i = 0; i < n; ++i) {
    const double begun = tool_now();
    GRAFT_TRY(graft_plan_run(m->plan, NULL));
    times[i] = tool_now() - begun;
    if (times[i] < m->best) m->best = times[i];
    if (tool_is_interrupted(NULL)) return GRAFT_FAIL(m->error, GRAFT_E_CANCELLED, "interrupted");
  }
  m->median = tool_median(times, n);
  return GRAFT_OK;
}

// A time is worth nothing where the numbers have left the range.
static graft_status check_flow(const measurement *m) {
  uint32_t index;
  GRAFT_TRY(graft_plan_find_output(m->plan, "flow", &index));
  const graft_z_image_shape *s = &m->shape;
  const size_t n = (size_t)(m->config.in_channels * s->height * s->width);
  float *flow = malloc(n * sizeof *flow + 1);
  if (flow == NULL) return GRAFT_FAIL(m->error, GRAFT_E_NO_MEMORY, "no memory for the result");
  graft_status status = graft_plan_read(m->plan, index, flow, n * sizeof *flow);
  for (size_t i = 0; i < n && status == GRAFT_OK; ++i) {
    if (!isfinite(flow[i])) status = GRAFT_FAIL(m->error, GRAFT_E_DEVICE, "the result holds no finite numbers");
  }
  free(flow);
  return status;
}

static graft_status measure(measurement *m) {
  GRAFT_TRY(tool_device_list_open(m->context, m->wishes->devices, &m->devices));
  m->activations = graft_weight_type_activations(m->wishes->type, m->devices.items[0]);
  GRAFT_TRY(read_config(m));
  GRAFT_TRY(choose_shape(m));
  GRAFT_TRY(build(m));
  GRAFT_TRY(plan(m));
  GRAFT_TRY(write_inputs(m));
  GRAFT_TRY(time_runs(m));
  return check_flow(m);
}

static json_t *describe(const measurement *m) {
  graft_device_info info = {.struct_size = sizeof info};
  graft_memory_report memory = {.struct_size = sizeof memory};
  graft_device_describe(m->devices.items[0], &info);
  graft_plan_memory(m->plan, &memory);
  const tool_bench_transformer_wishes *w = m->wishes;
  json_t *json =
      json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:I}", "device", info.name,
                "activations", m->activations->name, "weights", w->type_name, "width", (json_int_t)w->width, "height",
                (json_int_t)w->height, "prompt_tokens", (json_int_t)w->n_tokens, "tokens",
                (json_int_t)(graft_z_image_n_image_tokens(&m->config, &m->shape) + m->shape.n_caption), "steps",
                (int)graft_plan_n_steps(m->plan), "seconds", m->median, "best_seconds", m->best, "plan_seconds",
                m->plan_seconds, "flops", m->flops, "tflop_per_s", 1e-12 * m->flops / m->median, "peak_bytes",
                (double)memory.peak_bytes, "runs", (json_int_t)w->n_runs);
  tool_gpu_runs_describe(m->devices.items[0], json);
  return json;
}

static void print(const measurement *m) {
  char text[32];
  graft_memory_report memory = {.struct_size = sizeof memory};
  graft_plan_memory(m->plan, &memory);
  printf("one evaluation     %8.2f ms        median of %lld, best %.2f ms\n", 1e3 * m->median,
         (long long)m->wishes->n_runs, 1e3 * m->best);
  printf("  work             %8.4g TFLOP     %.3g TFLOP/s\n", 1e-12 * m->flops, 1e-12 * m->flops / m->median);
  printf("  steps            %8u           planned and loaded in %.2f s\n", graft_plan_n_steps(m->plan),
         m->plan_seconds);
  printf("  memory           %s, of it weights %s\n", tool_format_bytes((double)memory.peak_bytes, text),
         tool_format_bytes((double)(memory.constant_bytes + memory.packed_bytes), (char[32]){0}));
  tool_gpu_runs_print(m->devices.items[0], stdout);
}

int tool_bench_transformer(graft_context *context, const tool_bench_transformer_wishes *wishes) {
  measurement m = {.wishes = wishes, .context = context, .error = graft_context_error_slot(context)};
  int code = TOOL_FAILED;
  tool_catch_interrupt();
  if (measure(&m) != GRAFT_OK) {
    code = tool_report(graft_context_error(context));
  } else if (wishes->as_json) {
    code = tool_print_json(describe(&m));
  } else {
    print(&m);
    code = tool_finish_output(TOOL_OK);
  }
  graft_plan_destroy(m.plan);
  if (m.graph != NULL) graft_graph_destroy(m.graph);
  graft_made_up_free(m.weights);
  return code;
}
