// Which layers of a file are quantised: every convention that is met, and every way in which one can be wrong.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format_files.h"
#include "formats/quantized.h"
#include "formats/safetensors_writer.h"

static const char zeros[1024];

static graft_safetensors_source tensor(const char *name, graft_dtype dtype, int64_t rows, int64_t columns) {
  return (graft_safetensors_source){.name = name,
                                    .dtype = dtype,
                                    .rank = columns < 0 ? (rows < 0 ? 0 : 1) : 2,
                                    .shape = {rows < 0 ? 0 : rows, columns < 0 ? 0 : columns},
                                    .data = zeros};
}

static graft_safetensors_source text(const char *name, const char *json) {
  return (graft_safetensors_source){
      .name = name, .dtype = GRAFT_U8, .rank = 1, .shape = {(int64_t)strlen(json)}, .data = json};
}

// A file of tensors, opened, with what was read of it.
typedef struct sample {
  temp_folder folder;
  graft_weights *weights;
  graft_quantized *quantized;
  graft_status status;
  graft_error error;
} sample;

static sample read_sample(const graft_safetensors_source *tensors, size_t n, const char *metadata) {
  sample s = {.folder = temp_folder_create()};
  const graft_safetensors_pair pair = {"_quantization_metadata", metadata};
  const temp_path path = temp_folder_join(&s.folder, "q.safetensors");
  const graft_safetensors_contents contents = {
      .tensors = tensors, .n_tensors = n, .metadata = &pair, .n_metadata = metadata ? 1 : 0};
  assert_ok(graft_safetensors_write(path.text, &contents, &s.error), &s.error);
  assert_ok(graft_weights_open(path.text, GRAFT_SAFETENSORS_MAP, &s.error, &s.weights), &s.error);
  s.status = graft_quantized_read(s.weights, &s.error, &s.quantized);
  return s;
}

static void release(sample *s) {
  graft_quantized_free(s->quantized);
  graft_weights_close(s->weights);
  temp_folder_remove(&s->folder);
}

static const graft_quantized_layer *only_layer(const sample *s, const char *name) {
  assert_ok(s->status, &s->error);
  assert_int_equal(graft_quantized_count(s->quantized), 1);
  const graft_quantized_layer *layer = graft_quantized_find(s->quantized, name);
  assert_non_null(layer);
  assert_string_equal(layer->name, name);
  return layer;
}

// An int8 layer a.b [4, 16] with the given marker and the shape of its scale.
static sample int8_sample(const char *marker, int64_t scale_rows, int64_t scale_columns) {
  const graft_safetensors_source tensors[] = {
      tensor("a.b.weight", GRAFT_I8, 4, 16),   tensor("a.b.weight_scale", GRAFT_F32, scale_rows, scale_columns),
      text("a.b.comfy_quant", marker),         tensor("a.b.bias", GRAFT_F32, 4, -1),
      tensor("plain.weight", GRAFT_F32, 2, 2),
  };
  return read_sample(tensors, 5, NULL);
}

static void int8_markers(void **state) {
  (void)state;
  static const struct {
    const char *marker;
    int64_t group;
    bool wants_float;
  } cases[] = {
      {"{\"format\": \"int8_tensorwise\"}", 1, false},
      {"{\"format\": \"int8_tensorwise\", \"convrot\": true, \"convrot_groupsize\": 16}", 16, false},
      {"{\"format\": \"int8_tensorwise\", \"per_row\": true, \"params\": {\"convrot\": true, \"convrot_groupsize\": "
       "4}}",
       4, false},
      {"{\"format\": \"int8_tensorwise\", \"convrot\": false, \"convrot_groupsize\": 7}", 1, false},
      {"{\"format\": \"int8_tensorwise\", \"full_precision_matrix_mult\": true, \"orig_dtype\": \"x\"}", 1, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    sample s = int8_sample(cases[i].marker, 4, 1);
    const graft_quantized_layer *layer = only_layer(&s, "a.b");
    assert_int_equal(layer->format, GRAFT_QUANTIZED_INT8);
    assert_int_equal(layer->group, cases[i].group);
    assert_int_equal(layer->wants_float, cases[i].wants_float);
    assert_string_equal(layer->weight->name, "a.b.weight");
    assert_null(graft_quantized_find(s.quantized, "plain"));
    release(&s);
  }
}

static void int8_scales(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {{-1, -1}, {1, -1}, {4, -1}, {4, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; ++i) {
    sample s = int8_sample("{\"format\": \"int8_tensorwise\"}", shapes[i][0], shapes[i][1]);
    assert_non_null(only_layer(&s, "a.b")->scale);
    release(&s);
  }
  static const int64_t wrong[][2] = {{3, -1}, {4, 2}, {2, 2}, {0, -1}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    sample s = int8_sample("{\"format\": \"int8_tensorwise\"}", wrong[i][0], wrong[i][1]);
    assert_refused(s.status, &s.error, GRAFT_E_FORMAT, "q.safetensors", "`a.b`");
    release(&s);
  }
}

static void broken_markers(void **state) {
  (void)state;
  static const struct {
    const char *marker;
    graft_status status;
    const char *sentence;
  } cases[] = {
      {"{\"format\": \"convrot_w4a4\"}", GRAFT_E_UNSUPPORTED, "`a.b` is quantised as \"convrot_w4a4\""},
      {"{\"format\": \"nvfp4\", \"convrot\": true}", GRAFT_E_UNSUPPORTED, "`a.b`"},
      {"{}", GRAFT_E_FORMAT, "`a.b`"},
      {"{\"format\": 3}", GRAFT_E_FORMAT, "`a.b`"},
      {"[]", GRAFT_E_FORMAT, "`a.b`"},
      {"{\"format\"", GRAFT_E_FORMAT, "a.b.comfy_quant"},
      {"{\"format\": \"float8_e4m3fn\"}", GRAFT_E_FORMAT, "`a.b`: its weight is I8"},
      {"{\"format\": \"int8_tensorwise\", \"convrot\": true}", GRAFT_E_FORMAT, "groups of 256"},
      {"{\"format\": \"int8_tensorwise\", \"convrot\": true, \"convrot_groupsize\": 64}", GRAFT_E_FORMAT,
       "groups of 64"},
      {"{\"format\": \"int8_tensorwise\", \"convrot\": true, \"convrot_groupsize\": 8}", GRAFT_E_FORMAT, "groups of 8"},
      {"{\"format\": \"int8_tensorwise\", \"convrot\": true, \"convrot_groupsize\": 0}", GRAFT_E_FORMAT, "groups of 0"},
      {"{\"format\": \"int8_tensorwise\", \"convrot\": true, \"convrot_groupsize\": -4}", GRAFT_E_FORMAT,
       "groups of -4"},
      {"{\"format\": \"int8_tensorwise\", \"convrot\": true, \"convrot_groupsize\": \"4\"}", GRAFT_E_FORMAT, "`a.b`"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    sample s = int8_sample(cases[i].marker, 4, 1);
    const bool is_parse = strstr(cases[i].sentence, "comfy_quant") != NULL;
    assert_refused(s.status, &s.error, cases[i].status, is_parse ? "line" : "q.safetensors", cases[i].sentence);
    release(&s);
  }
}

static void missing_tensors(void **state) {
  (void)state;
  static const char marker[] = "{\"format\": \"int8_tensorwise\"}";
  const graft_safetensors_source no_scale[] = {tensor("a.weight", GRAFT_I8, 4, 16), text("a.comfy_quant", marker)};
  sample s = read_sample(no_scale, 2, NULL);
  assert_refused(s.status, &s.error, GRAFT_E_FORMAT, "`a`", "scale is missing");
  release(&s);
  const graft_safetensors_source no_weight[] = {tensor("a.weight_scale", GRAFT_F32, 4, 1),
                                                text("a.comfy_quant", marker)};
  s = read_sample(no_weight, 2, NULL);
  assert_refused(s.status, &s.error, GRAFT_E_FORMAT, "`a`", "no weight");
  release(&s);
  const graft_safetensors_source wide_scale[] = {tensor("a.weight", GRAFT_I8, 4, 16), text("a.comfy_quant", marker),
                                                 tensor("a.weight_scale", GRAFT_BF16, 4, 1)};
  s = read_sample(wide_scale, 3, NULL);
  assert_refused(s.status, &s.error, GRAFT_E_FORMAT, "`a`", "not F32");
  release(&s);
}

static void header_form(void **state) {
  (void)state;
  static const char *const layers[] = {
      "{\"format_version\":\"1.0\",\"layers\":{\"a.b\":{\"format\":\"float8_e5m2\"}}}",
      "{\"format_version\":\"1.0\",\"layers\":{\"a.b\":\"float8_e5m2\"}}",
      "{\"layers\":{\"model.diffusion_model.a.b\":{\"format\":\"float8_e5m2\"}}}",
  };
  const graft_safetensors_source tensors[] = {tensor("a.b.weight", GRAFT_F8_E5M2, 4, 16),
                                              tensor("a.b.weight_scale", GRAFT_F32, -1, -1),
                                              tensor("scaled_fp8", GRAFT_F8_E4M3, 0, -1)};
  for (size_t i = 0; i < sizeof layers / sizeof layers[0]; ++i) {
    sample s = read_sample(tensors, 3, layers[i]);
    assert_int_equal(only_layer(&s, "a.b")->format, GRAFT_QUANTIZED_E5M2);
    release(&s);
  }
  const graft_safetensors_source prefixed[] = {tensor("model.diffusion_model.a.weight", GRAFT_F8_E5M2, 4, 16),
                                               tensor("model.diffusion_model.a.weight_scale", GRAFT_F32, 1, -1)};
  sample s = read_sample(prefixed, 2, "{\"layers\":{\"a\":{\"format\":\"float8_e5m2\"}}}");
  only_layer(&s, "model.diffusion_model.a");
  release(&s);
}

static void broken_headers(void **state) {
  (void)state;
  static const struct {
    const char *text, *sentence;
    graft_status status;
  } cases[] = {
      {"{", "line", GRAFT_E_FORMAT},
      {"{}", "layers", GRAFT_E_FORMAT},
      {"{\"layers\":[]}", "layers", GRAFT_E_FORMAT},
      {"{\"layers\":{\"a\":{\"format\":\"nvfp4\"}}}", "`a` is quantised as \"nvfp4\"", GRAFT_E_UNSUPPORTED},
      {"{\"layers\":{\"c\":{\"format\":\"int8_tensorwise\"}}}", "`c`", GRAFT_E_FORMAT},
      {"{\"layers\":{\"a\":7}}", "`a`", GRAFT_E_FORMAT},
  };
  const graft_safetensors_source tensors[] = {tensor("a.weight", GRAFT_I8, 4, 16),
                                              tensor("a.weight_scale", GRAFT_F32, 1, -1)};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    sample s = read_sample(tensors, 2, cases[i].text);
    assert_refused(s.status, &s.error, cases[i].status, "q.safetensors", cases[i].sentence);
    release(&s);
  }
}

// A layer that both forms describe.
static void described_twice(void **state) {
  (void)state;
  const graft_safetensors_source tensors[] = {tensor("a.weight", GRAFT_I8, 4, 16),
                                              tensor("a.weight_scale", GRAFT_F32, 1, -1),
                                              text("a.comfy_quant", "{\"format\": \"int8_tensorwise\"}")};
  sample s = read_sample(tensors, 3, "{\"layers\":{\"a\":{\"format\":\"int8_tensorwise\"}}}");
  assert_refused(s.status, &s.error, GRAFT_E_FORMAT, "`a`", "twice");
  release(&s);
}

static void old_convention(void **state) {
  (void)state;
  static const struct {
    int64_t elements;
    bool wants_float;
  } marks[] = {{0, false}, {2, true}};
  for (int i = 0; i < 2; ++i) {
    const graft_safetensors_source tensors[] = {
        tensor("model.diffusion_model.scaled_fp8", GRAFT_F8_E4M3, marks[i].elements, -1),
        tensor("model.diffusion_model.a.weight", GRAFT_F8_E4M3, 4, 16),
        tensor("model.diffusion_model.a.scale_weight", GRAFT_F32, 1, -1),
        tensor("model.diffusion_model.a.scale_input", GRAFT_F32, -1, -1),
        tensor("model.diffusion_model.plain.weight", GRAFT_F8_E4M3, 4, 16),
        tensor("other.a.scale_weight", GRAFT_F32, 1, -1),
    };
    sample s = read_sample(tensors, 6, NULL);
    const graft_quantized_layer *layer = only_layer(&s, "model.diffusion_model.a");
    assert_int_equal(layer->format, GRAFT_QUANTIZED_E4M3);
    assert_int_equal(layer->wants_float, marks[i].wants_float);
    assert_string_equal(layer->scale->name, "model.diffusion_model.a.scale_weight");
    release(&s);
  }
}

static void markers_are_python_s(void **state) {
  (void)state;
  char marker[GRAFT_QUANTIZED_MAX_MARKER];
  assert_int_equal(graft_quantized_marker(GRAFT_QUANTIZED_INT8, 256, marker), 72);
  assert_string_equal(marker, "{\"format\": \"int8_tensorwise\", \"convrot\": true, \"convrot_groupsize\": 256}");
  assert_int_equal(graft_quantized_marker(GRAFT_QUANTIZED_E4M3, 1, marker), 27);
  assert_string_equal(marker, "{\"format\": \"float8_e4m3fn\"}");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(int8_markers),    cmocka_unit_test(int8_scales),    cmocka_unit_test(broken_markers),
      cmocka_unit_test(missing_tensors), cmocka_unit_test(header_form),    cmocka_unit_test(broken_headers),
      cmocka_unit_test(described_twice), cmocka_unit_test(old_convention), cmocka_unit_test(markers_are_python_s),
  };
  return cmocka_run_group_tests_name("quant.files", tests, NULL, NULL);
}
