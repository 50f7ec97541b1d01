// graft quantize and what runs its files, as a user meets them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "tiny_model.h"

static temp_folder model;

static int set_up(void **state) {
  (void)state;
  model = temp_folder_create();
  tiny_model_write(&model, NULL);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  temp_folder_remove(&model);
  return 0;
}

static void a_file_is_written_and_drawn_with(void **state) {
  (void)state;
  assert_prints(GRAFT(model.path, "quantize", ".", "-o", "q.safetensors", "--report", "q.json"),
                "layers.0.attention.qkv");
  size_t n;
  char *text = temp_folder_read(temp_folder_join(&model, "q.json").text, &n);
  json_t *report = parse_json(text), *layers = json_object_get(report, "layers");
  assert_int_equal(json_array_size(layers), 17);
  assert_true(json_real_value(json_object_get(json_array_get(layers, 0), "error")) > 0);
  json_decref(report);
  free(text);
  assert_done(
      GRAFT(model.path, "generate", "-m", ".", "-p", "a cat", "--transformer", "q.safetensors", "-o", "file.png"));
  assert_done(GRAFT(model.path, "generate", "-m", ".", "-p", "a cat", "--type", "int8_convrot", "-o", "load.png"));
  assert_done(GRAFT(model.path, "generate", "-m", ".", "-p", "a cat", "-o", "f32.png"));
  picture file = picture_read(temp_folder_join(&model, "file.png").text);
  picture load = picture_read(temp_folder_join(&model, "load.png").text);
  picture f32 = picture_read(temp_folder_join(&model, "f32.png").text);
  assert_same_picture(&file, &load);
  assert_true(f32.n_bytes != file.n_bytes || memcmp(f32.bytes, file.bytes, f32.n_bytes) != 0);
  free(file.bytes);
  free(load.bytes);
  free(f32.bytes);
}

static void rules_decide(void **state) {
  (void)state;
  program_result result = GRAFT(model.path, "quantize", ".", "-o", "r.safetensors", "--type", "int8", "--rule",
                                "adaLN=f32", "--rule", "w[13]$=fp8", "-q");
  assert_code(&result, 0);
  assert_string_equal(result.output, "");
  program_result_release(&result);
  graft_safetensors *file = open_tensors(temp_folder_join(&model, "r.safetensors").text);
  assert_string_equal(graft_safetensors_find(file, "layers.0.feed_forward.w1.weight")->dtype_name, "F8_E4M3");
  assert_string_equal(graft_safetensors_find(file, "layers.0.feed_forward.w2.weight")->dtype_name, "I8");
  assert_string_equal(graft_safetensors_find(file, "layers.0.adaLN_modulation.0.weight")->dtype_name, "F32");
  assert_non_null(graft_safetensors_metadata_all(file));
  graft_safetensors_close(file);
}

static void mistakes(void **state) {
  (void)state;
  const char *folder = model.path;
  assert_refused(GRAFT(folder, "quantize", "."), 2, "-o FILE");
  assert_refused(GRAFT(folder, "quantize", ".", "-o", "x", "--type", "int4"), 2, "int4");
  assert_refused(GRAFT(folder, "quantize", ".", "-o", "x", "--type", "f32"), 2, "f32");
  assert_refused(GRAFT(folder, "quantize", ".", "-o", "x", "--rule", "int8"), 2, "REGEX=TYPE");
  assert_refused(GRAFT(folder, "quantize", ".", "-o", "x", "--rule", "a=q4"), 2, "a=q4");
  assert_refused(GRAFT(folder, "quantize", ".", "-o", "x", "--rule", "(=int8"), 1, "regular expression");
  assert_refused(GRAFT(folder, "quantize", ".", "-o", "x", "--group", "0"), 2, "--group");
  assert_refused(GRAFT(folder, "quantize", ".", "-o", "x", "--report", "x"), 2, "--report");
  assert_refused(GRAFT(folder, "quantize", "nowhere", "-o", "x"), 1, "nowhere");
  assert_refused(GRAFT(folder, "quantize", ".", "-o", "nowhere/x"), 1, "nowhere/x");
  assert_refused(GRAFT(folder, "generate", "-m", ".", "-p", "a", "--type", "int4", "-o", "x.png"), 2, "int8_convrot");
  assert_refused(GRAFT(folder, "generate", "-m", ".", "-p", "a", "--transformer", "no.safetensors", "-o", "x.png"), 1,
                 "no.safetensors");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_is_written_and_drawn_with),
      cmocka_unit_test(rules_decide),
      cmocka_unit_test(mistakes),
  };
  return cmocka_run_group_tests_name("quant.command", tests, set_up, tear_down);
}
