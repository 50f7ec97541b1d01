// Models with quantised transformers: written, loaded under either naming, converted while loading, and refused.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diffusion/quantize.h"
#include "formats/quantized.h"
#include "formats/safetensors_writer.h"
#include "studio.h"

// The tiny model with other weights.
static graft_pipeline *open_pipeline(const studio *s, const char *transformer, graft_weight_type type) {
  graft_pipeline *pipeline = NULL;
  const graft_pipeline_options options = {.struct_size = sizeof options, .transformer = transformer, .type = type};
  if (graft_pipeline_open(s->context, s->folder.path, &options, &pipeline) != GRAFT_OK)
    fail_msg("%s", studio_message(s));
  return pipeline;
}

enum { SAMPLES = 3 * 16 * 16 };

static void draw(const studio *s, graft_pipeline *pipeline, float samples[SAMPLES]) {
  const graft_generate_request request = studio_request(s);
  graft_generate_result result = {.struct_size = sizeof result};
  if (graft_pipeline_generate(pipeline, &request, NULL, &result) != GRAFT_OK) fail_msg("%s", studio_message(s));
  memcpy(samples, result.samples, SAMPLES * sizeof(float));
  graft_generate_result_release(&result);
}

static void draw_with(const studio *s, const char *transformer, graft_weight_type type, float samples[SAMPLES]) {
  graft_pipeline *pipeline = open_pipeline(s, transformer, type);
  draw(s, pipeline, samples);
  graft_pipeline_close(pipeline);
}

static double distance(const float *a, const float *b) {
  double difference = 0, size = 0;
  for (int i = 0; i < SAMPLES; ++i) {
    difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    size += (double)b[i] * (double)b[i];
  }
  return difference / size;
}

static graft_quantize_options quantize_options(const studio *s, const char *output, graft_quantize_kind kind) {
  return (graft_quantize_options){.struct_size = sizeof(graft_quantize_options),
                                  .model = s->folder.path,
                                  .output = output,
                                  .kind = kind,
                                  .group = 256};
}

static graft_quantize_report *quantize(const studio *s, const graft_quantize_options *options) {
  graft_quantize_report *report = NULL;
  if (graft_quantize_model(s->context, options, &report) != GRAFT_OK) fail_msg("%s", studio_message(s));
  return report;
}

static temp_path write_quantized(const studio *s, const char *name, graft_quantize_kind kind) {
  const temp_path path = temp_folder_join(&s->folder, name);
  const graft_quantize_options options = quantize_options(s, path.text, kind);
  graft_quantize_report_free(quantize(s, &options));
  return path;
}

static void same_picture_from_a_file_and_while_loading(void **state) {
  (void)state;
  static const struct {
    graft_quantize_kind kind;
    graft_weight_type type;
  } kinds[] = {{GRAFT_QUANTIZE_KIND_INT8_CONVROT, GRAFT_WEIGHT_INT8_CONVROT},
               {GRAFT_QUANTIZE_KIND_INT8, GRAFT_WEIGHT_INT8}};
  studio s = studio_open(0);
  float exact[SAMPLES], loaded[SAMPLES], converted[SAMPLES];
  draw(&s, s.pipeline, exact);
  for (int i = 0; i < 2; ++i) {
    const temp_path path = write_quantized(&s, "int8.safetensors", kinds[i].kind);
    draw_with(&s, path.text, GRAFT_WEIGHT_AS_STORED, loaded);
    draw_with(&s, NULL, kinds[i].type, converted);
    assert_memory_equal(loaded, converted, sizeof loaded);
    // Something was quantised, and not much was lost.
    assert_true(distance(loaded, exact) > 0 && distance(loaded, exact) < 0.01);
  }
  studio_close(&s);
}

static void float8_files(void **state) {
  (void)state;
  studio s = studio_open(0);
  float exact[SAMPLES], scaled[SAMPLES], widened[SAMPLES];
  const temp_path path = write_quantized(&s, "fp8.safetensors", GRAFT_QUANTIZE_KIND_FP8);
  draw(&s, s.pipeline, exact);
  draw_with(&s, path.text, GRAFT_WEIGHT_AS_STORED, scaled);
  draw_with(&s, path.text, GRAFT_WEIGHT_F32, widened);
  assert_true(distance(scaled, exact) > 0 && distance(scaled, exact) < 0.01);
  assert_true(distance(scaled, widened) < 1e-9);
  studio_close(&s);
}

// ComfyUI's names with q, k and v in one tensor are the same model, and quantise to the same file.
static void either_naming(void **state) {
  (void)state;
  studio s = studio_open(0);
  float exact[SAMPLES], renamed[SAMPLES];
  const graft_quantize_rule all_f32 = {".", GRAFT_QUANTIZE_KIND_F32};
  const temp_path comfy = temp_folder_join(&s.folder, "comfy.safetensors");
  graft_quantize_options options = quantize_options(&s, comfy.text, GRAFT_QUANTIZE_KIND_INT8);
  options.rules = &all_f32;
  options.n_rules = 1;
  graft_quantize_report *report = quantize(&s, &options);
  assert_int_equal(report->n_layers, 0);
  graft_quantize_report_free(report);
  draw(&s, s.pipeline, exact);
  draw_with(&s, comfy.text, GRAFT_WEIGHT_AS_STORED, renamed);
  assert_memory_equal(exact, renamed, sizeof exact);

  const temp_path first = write_quantized(&s, "a.safetensors", GRAFT_QUANTIZE_KIND_INT8_CONVROT);
  const temp_path second = temp_folder_join(&s.folder, "b.safetensors");
  options = quantize_options(&s, second.text, GRAFT_QUANTIZE_KIND_INT8_CONVROT);
  options.model = comfy.text;
  graft_quantize_report_free(quantize(&s, &options));
  size_t n_first, n_second;
  char *a = temp_folder_read(first.text, &n_first), *b = temp_folder_read(second.text, &n_second);
  assert_int_equal(n_first, n_second);
  assert_memory_equal(a, b, n_first);
  free(a);
  free(b);
  studio_close(&s);
}

static const graft_quantize_layer *layer_named(const graft_quantize_report *report, const char *name) {
  for (size_t i = 0; i < report->n_layers; ++i)
    if (strcmp(report->layers[i].name, name) == 0) return &report->layers[i];
  return NULL;
}

static void rules_and_groups(void **state) {
  (void)state;
  studio s = studio_open(0);
  const graft_quantize_rule rules[] = {{"feed_forward", GRAFT_QUANTIZE_KIND_FP8},
                                       {"^layers.*w2$", GRAFT_QUANTIZE_KIND_INT8_CONVROT},
                                       {"adaLN", GRAFT_QUANTIZE_KIND_BF16},
                                       {"norm", GRAFT_QUANTIZE_KIND_INT8}};
  const temp_path path = temp_folder_join(&s.folder, "mixed.safetensors");
  graft_quantize_options options = quantize_options(&s, path.text, GRAFT_QUANTIZE_KIND_INT8_CONVROT);
  options.rules = rules;
  options.n_rules = 4;
  graft_quantize_report *report = quantize(&s, &options);
  assert_int_equal(layer_named(report, "layers.0.attention.qkv")->group, 16);
  assert_int_equal(layer_named(report, "layers.0.attention.qkv")->rows, 48);
  assert_int_equal(layer_named(report, "layers.0.feed_forward.w1")->kind, GRAFT_QUANTIZE_KIND_FP8);
  // 24 columns: four is the largest power that divides them.
  assert_int_equal(layer_named(report, "layers.0.feed_forward.w2")->group, 4);
  assert_null(layer_named(report, "layers.0.adaLN_modulation.0"));
  assert_null(layer_named(report, "layers.0.attention_norm1"));
  for (size_t i = 0; i < report->n_layers; ++i) {
    const graft_quantize_layer *l = &report->layers[i];
    assert_true(l->error > 0 && l->error < 0.05 && l->worst_row_error >= l->error && l->worst_row < l->rows);
  }
  graft_quantize_report_free(report);
  float samples[SAMPLES];
  draw_with(&s, path.text, GRAFT_WEIGHT_AS_STORED, samples);
  studio_close(&s);
}

// Steps of the transformer's plan by operator.
static uint32_t count_steps(const studio *s, graft_weight_type type, const char *op) {
  graft_pipeline *pipeline = open_pipeline(s, NULL, type);
  const graft_stage_request request = {.struct_size = sizeof request, .stage = GRAFT_STAGE_TRANSFORMER};
  graft_graph *graph = NULL;
  graft_plan *plan = NULL;
  graft_device *device = NULL;
  assert_int_equal(graft_device_open(s->context, "cpu", &device), GRAFT_OK);
  assert_int_equal(graft_pipeline_stage_graph(pipeline, &request, &graph), GRAFT_OK);
  const graft_plan_options options = {
      .struct_size = sizeof options, .flags = GRAFT_PLAN_MEASURE_ONLY | GRAFT_PLAN_KEEP_NODES, .device = device};
  if (graft_plan_create(graph, &options, &plan) != GRAFT_OK) fail_msg("%s", studio_message(s));
  uint32_t n = 0;
  for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) {
    graft_step_info info = {.struct_size = sizeof info};
    graft_plan_step(plan, i, &info);
    if (strcmp(info.op->name, op) == 0) ++n;
  }
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
  graft_pipeline_close(pipeline);
  return n;
}

static void shared_activations_are_quantised_once(void **state) {
  (void)state;
  studio s = studio_open(0);
  // Three blocks with seven layers each, two of them with one for the modulation as well.
  assert_int_equal(count_steps(&s, GRAFT_WEIGHT_INT8_CONVROT, "graft.linear_i8.v1"), 3 * 7 + 2);
  // Before attention, before its output, before w1 and w3, before w2; and the time, once for all.
  assert_int_equal(count_steps(&s, GRAFT_WEIGHT_INT8_CONVROT, "graft.quantize_convrot_i8_packed.v1"), 3 * 4 + 1);
  assert_int_equal(count_steps(&s, GRAFT_WEIGHT_F32, "graft.linear_i8.v1"), 0);
  studio_close(&s);
}

static void threads_do_not_matter(void **state) {
  (void)state;
  float one[SAMPLES], several[SAMPLES];
  for (int32_t n_threads = 1; n_threads <= 5; n_threads += 2) {
    studio s = studio_open(n_threads);
    draw_with(&s, NULL, GRAFT_WEIGHT_INT8_CONVROT, n_threads == 1 ? one : several);
    if (n_threads > 1) assert_memory_equal(one, several, sizeof one);
    studio_close(&s);
  }
}

static void types_of_a_quantised_file(void **state) {
  (void)state;
  studio s = studio_open(0);
  float exact[SAMPLES], widened[SAMPLES], narrowed[SAMPLES];
  const temp_path path = write_quantized(&s, "int8.safetensors", GRAFT_QUANTIZE_KIND_INT8_CONVROT);
  draw(&s, s.pipeline, exact);
  draw_with(&s, path.text, GRAFT_WEIGHT_F32, widened);
  draw_with(&s, NULL, GRAFT_WEIGHT_BF16, narrowed);
  assert_true(distance(widened, exact) > 0 && distance(widened, exact) < 0.01);
  assert_true(distance(narrowed, exact) > 0 && distance(narrowed, exact) < 0.01);
  studio_close(&s);
}

static void expect_refusal(const studio *s, const graft_quantize_options *options, graft_status status,
                           const char *text) {
  graft_quantize_report *report = NULL;
  assert_int_equal(graft_quantize_model(s->context, options, &report), status);
  if (strstr(studio_message(s), text) == NULL) fail_msg("'%s' does not say '%s'", studio_message(s), text);
}

static bool abort_now(void *user) {
  (void)user;
  return true;
}

static void refusals_leave_files_alone(void **state) {
  (void)state;
  studio s = studio_open(0);
  const temp_path path = temp_folder_write_text(&s.folder, "out.safetensors", "precious");
  const temp_path quantized = write_quantized(&s, "int8.safetensors", GRAFT_QUANTIZE_KIND_INT8_CONVROT);
  const size_t n_files = temp_folder_count(&s.folder);
  graft_quantize_options options = quantize_options(&s, path.text, GRAFT_QUANTIZE_KIND_INT8);
  options.model = quantized.text;
  expect_refusal(&s, &options, GRAFT_E_UNSUPPORTED, "quantised already");
  options.model = "/nowhere/at/all";
  expect_refusal(&s, &options, GRAFT_E_NOT_FOUND, "/nowhere/at/all");
  const temp_path vae = temp_folder_join(&s.folder, "vae");
  options.model = vae.text;
  expect_refusal(&s, &options, GRAFT_E_UNSUPPORTED, "no family");
  options.model = s.folder.path;
  options.rules = &(graft_quantize_rule){"(", GRAFT_QUANTIZE_KIND_INT8};
  options.n_rules = 1;
  expect_refusal(&s, &options, GRAFT_E_INVALID, "no regular expression");
  options.rules = &(graft_quantize_rule){"no_such_layer", GRAFT_QUANTIZE_KIND_F16};
  expect_refusal(&s, &options, GRAFT_E_NOT_FOUND, "matches the rule's pattern 'no_such_layer'");
  options.n_rules = 0;
  options.group = 0;
  expect_refusal(&s, &options, GRAFT_E_INVALID, "group");
  options.group = 256;
  options.abort = abort_now;
  expect_refusal(&s, &options, GRAFT_E_CANCELLED, "cancelled");
  size_t n;
  char *kept = temp_folder_read(path.text, &n);
  assert_string_equal(kept, "precious");
  free(kept);
  assert_int_equal(temp_folder_count(&s.folder), n_files);
  studio_close(&s);
}

static bool abort_when_written(void *user) {
  return access(user, F_OK) == 0;
}

static void whole_file_is_compared_to_the_end(void **state) {
  (void)state;
  studio s = studio_open(0);
  temp_path path = temp_folder_join(&s.folder, "late.safetensors");
  graft_quantize_options options = quantize_options(&s, path.text, GRAFT_QUANTIZE_KIND_INT8);
  options.user = path.text;
  options.abort = abort_when_written;
  graft_quantize_report *report = NULL;
  const graft_status status = graft_quantize_model(s.context, &options, &report);
  if (status != GRAFT_OK) fail_msg("a whole file was left with '%s'", studio_message(&s));
  graft_quantize_report_free(report);
  studio_close(&s);
}

static void empty_tensors_are_no_work(void **state) {
  (void)state;
  studio s = studio_open(0);
  temp_folder odd = {0};
  snprintf(odd.path, sizeof odd.path, "%s", temp_folder_join(&s.folder, "odd").text);
  assert_int_equal(mkdir(odd.path, 0700), 0);
  tiny_model_write(&odd, &(tiny_fault){.has_empty = true});
  const temp_path path = temp_folder_join(&s.folder, "int8.safetensors");
  graft_quantize_options options = quantize_options(&s, path.text, GRAFT_QUANTIZE_KIND_INT8);
  options.model = odd.path;
  graft_quantize_report_free(quantize(&s, &options));
  studio_close(&s);
}

// A weight that is no number is refused by name rather than spread over a row.
static void not_finite(void **state) {
  (void)state;
  studio s = studio_open(0);
  graft_error error = {0};
  const temp_path comfy = temp_folder_join(&s.folder, "nan.safetensors");
  const float values[16] = {1, 2, (float)HUGE_VAL, 4};
  const graft_safetensors_source tensors[] = {
      {"x_embedder.weight", GRAFT_F32, 2, {4, 4}, values},
      {"layers.0.feed_forward.w1.weight", GRAFT_F32, 2, {4, 4}, values},
  };
  assert_int_equal(
      graft_safetensors_write(comfy.text, &(graft_safetensors_contents){tensors, 2, NULL, 0, false}, &error), GRAFT_OK);
  const temp_path path = temp_folder_join(&s.folder, "out.safetensors");
  for (int kind = GRAFT_QUANTIZE_KIND_FP8; kind <= GRAFT_QUANTIZE_KIND_INT8_CONVROT; ++kind) {
    graft_quantize_options options = quantize_options(&s, path.text, (graft_quantize_kind)kind);
    options.model = comfy.text;
    expect_refusal(&s, &options, GRAFT_E_FORMAT, "layers.0.feed_forward.w1 holds values");
  }
  studio_close(&s);
}

static const char *type_of(studio *s, graft_weight_type type) {
  graft_pipeline *pipeline = NULL;
  const graft_pipeline_options options = {.struct_size = sizeof options, .type = type};
  graft_pipeline_info info = {.struct_size = sizeof info};
  assert_int_equal(graft_pipeline_open(s->context, s->folder.path, &options, &pipeline), GRAFT_OK);
  graft_pipeline_describe(pipeline, &info);
  graft_pipeline_close(pipeline);
  return info.weight_type;
}

// What a model's folder recommends is taken where that is asked for, and for its own weights only.
static void recommended_types(void **state) {
  (void)state;
  studio s = studio_open(0);
  float exact[SAMPLES], got[SAMPLES], want[SAMPLES];
  const temp_path file = write_quantized(&s, "fp8.safetensors", GRAFT_QUANTIZE_KIND_FP8);
  draw(&s, s.pipeline, exact);
  draw_with(&s, NULL, GRAFT_WEIGHT_RECOMMENDED, got);
  assert_memory_equal(got, exact, sizeof got);
  draw_with(&s, NULL, GRAFT_WEIGHT_INT8_CONVROT, want);
  temp_folder_write_text(&s.folder, "graft_defaults.json",
                         "{\"width\": 16, \"height\": 16, \"steps\": 2, \"guidance\": 2, \"type\": \"int8_convrot\"}");
  draw_with(&s, NULL, GRAFT_WEIGHT_RECOMMENDED, got);
  assert_memory_equal(got, want, sizeof got);
  assert_string_equal(type_of(&s, GRAFT_WEIGHT_RECOMMENDED), "int8_convrot");
  assert_string_equal(type_of(&s, GRAFT_WEIGHT_BF16), "bf16");
  assert_null(type_of(&s, GRAFT_WEIGHT_AS_STORED));
  draw_with(&s, NULL, GRAFT_WEIGHT_AS_STORED, got);
  assert_memory_equal(got, exact, sizeof got);
  draw_with(&s, file.text, GRAFT_WEIGHT_AS_STORED, want);
  draw_with(&s, file.text, GRAFT_WEIGHT_RECOMMENDED, got);
  assert_memory_equal(got, want, sizeof got);
  temp_folder_write_text(&s.folder, "graft_defaults.json", "{\"type\": \"int3\"}");
  graft_pipeline *pipeline = NULL;
  const graft_pipeline_options options = {.struct_size = sizeof options, .type = GRAFT_WEIGHT_RECOMMENDED};
  assert_int_equal(graft_pipeline_open(s.context, s.folder.path, &options, &pipeline), GRAFT_E_FORMAT);
  assert_non_null(strstr(studio_message(&s), "int3"));
  studio_close(&s);
}

static void transformers_that_do_not_fit(void **state) {
  (void)state;
  studio s = studio_open(0);
  graft_pipeline *pipeline = NULL;
  graft_pipeline_options options = {.struct_size = sizeof options, .transformer = "/nowhere/q.safetensors"};
  assert_int_equal(graft_pipeline_open(s.context, s.folder.path, &options, &pipeline), GRAFT_E_NOT_FOUND);
  assert_non_null(strstr(studio_message(&s), "/nowhere/q.safetensors"));
  const temp_path vae = temp_folder_join(&s.folder, "vae");
  options.transformer = vae.text;
  assert_int_equal(graft_pipeline_open(s.context, s.folder.path, &options, &pipeline), GRAFT_OK);
  const graft_generate_request request = studio_request(&s);
  graft_generate_result result = {.struct_size = sizeof result};
  assert_int_equal(graft_pipeline_generate(pipeline, &request, NULL, &result), GRAFT_E_NOT_FOUND);
  assert_non_null(strstr(studio_message(&s), "missing"));
  graft_pipeline_close(pipeline);
  studio_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_picture_from_a_file_and_while_loading),
      cmocka_unit_test(float8_files),
      cmocka_unit_test(either_naming),
      cmocka_unit_test(rules_and_groups),
      cmocka_unit_test(shared_activations_are_quantised_once),
      cmocka_unit_test(threads_do_not_matter),
      cmocka_unit_test(types_of_a_quantised_file),
      cmocka_unit_test(refusals_leave_files_alone),
      cmocka_unit_test(whole_file_is_compared_to_the_end),
      cmocka_unit_test(empty_tensors_are_no_work),
      cmocka_unit_test(not_finite),
      cmocka_unit_test(recommended_types),
      cmocka_unit_test(transformers_that_do_not_fit),
  };
  return cmocka_run_group_tests_name("quant.model", tests, NULL, NULL);
}
