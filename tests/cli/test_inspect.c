// `graft inspect` on everything that people have in their download folders.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "tiny_model.h"

static temp_folder folder;

static int set_up(void **state) {
  (void)state;
  folder = temp_folder_create();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  temp_folder_remove(&folder);
  return 0;
}

// A safetensors file of |header| with |length| as its length and |n_data| zeros behind it.
static temp_path write_tensors(const char *name, uint64_t length, const char *header, size_t n_data) {
  const size_t n = strlen(header);
  char *bytes = calloc(1, 8 + n + n_data);
  assert_non_null(bytes);
  memcpy(bytes, &length, sizeof length);
  memcpy(bytes + 8, header, n);
  const temp_path path = temp_folder_write(&folder, name, bytes, 8 + n + n_data);
  free(bytes);
  return path;
}

#define INSPECT(path_) GRAFT(folder.path, "inspect", (path_))
#define ENTRY(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void legal_but_unusual_files_are_described(void **state) {
  (void)state;
  static const char *const headers[] = {
      "{\"__metadata__\":{},\"scaled_fp8\":" ENTRY("F8_E4M3", "[0]", "[0,0]") ",\"s\":" ENTRY("F32", "[]", "[0,4]")  //
      ",\"w\":" ENTRY("F32", "[2]", "[4,12]") "}",
      "{\"w\":" ENTRY("F32", "[2]", "[4,12]") ",\"s\":" ENTRY("F32", "[]", "[0,4]")  //
      ",\"scaled_fp8\":" ENTRY("F8_E4M3", "[0]", "[0,0]") "}",
      "{\"w\":" ENTRY("F32", "[2]", "[4,12]") ",\"s\":" ENTRY("F32", "[]", "[0,4]")  //
      ",\"scaled_fp8\":" ENTRY("F8_E4M3", "[0]", "[0,0]") "}      ",
  };
  for (size_t i = 0; i < sizeof headers / sizeof headers[0]; ++i) {
    write_tensors("a.safetensors", strlen(headers[i]), headers[i], 12);
    program_result result = GRAFT(folder.path, "inspect", "a.safetensors", "--json");
    assert_code(&result, 0);
    json_t *info = parse_json(result.output);
    assert_int_equal(json_integer_value(json_object_get(info, "tensors")), 3);
    assert_int_equal(json_integer_value(json_object_get(info, "elements")), 3);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(info, "dtypes"), "F32")), 12);
    assert_true(json_is_null(json_object_get(info, "family")));
    json_decref(info);
    program_result_release(&result);
  }
}

// Types that graft cannot compute with are counted and named like any other.
static void every_element_type_is_counted(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int bytes;
  } types[] = {{"F64", 8}, {"F32", 4},     {"F16", 2},     {"BF16", 2}, {"I64", 8}, {"I32", 4},
               {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"U8", 1},   {"BOOL", 1}};
  enum { N = sizeof types / sizeof types[0] };
  char header[2048] = "{";
  size_t n = 1;
  int at = 0;
  for (size_t i = 0; i < N; ++i) {
    n += (size_t)snprintf(header + n, sizeof header - n,
                          "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[4],\"data_offsets\":[%d,%d]}", i > 0 ? "," : "",
                          types[i].name, types[i].name, at, at + 4 * types[i].bytes);
    at += 4 * types[i].bytes;
  }
  snprintf(header + n, sizeof header - n, "}");
  write_tensors("types.safetensors", strlen(header), header, (size_t)at);
  program_result result = GRAFT(folder.path, "inspect", "--json", "types.safetensors");
  assert_code(&result, 0);
  json_t *info = parse_json(result.output), *dtypes = json_object_get(info, "dtypes");
  assert_int_equal(json_object_size(dtypes), N);
  for (size_t i = 0; i < N; ++i)
    assert_int_equal(json_integer_value(json_object_get(dtypes, types[i].name)), 4 * types[i].bytes);
  json_decref(info);
  program_result_release(&result);
}

static void broken_files_are_refused_with_the_reason(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t n_data;
    const char *reason;
  } broken[] = {
      {"{\"t\":" ENTRY("F32", "[1000,1000]", "[0,4]") "}", 4, "needs 4000000 bytes"},
      {"{\"t\":" ENTRY("F32", "[1]", "[8,4]") "}", 8, "`t`"},
      {"{\"t\":" ENTRY("F32", "[1]", "[0,5]") "}", 4, "`t`"},
      {"{\"t\":" ENTRY("F32", "[2]", "[0,8]") "}", 4, "`t`"},
      {"{\"t\":" ENTRY("F32", "[1]", "[0,4]") "}", 0, "`t`"},
      {"[]", 0, "not a JSON object"},
      {"{\"t\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "`dtype`"},
      {"{\"t\":" ENTRY("F32", "[1]", "[\"0\",\"4\"]") "}", 4, "`data_offsets`"},
      {"{\"t\":" ENTRY("F32", "[1]", "[0]") "}", 4, "`data_offsets`"},
      {"{\"t\":" ENTRY("F32", "[1]", "[-1,3]") "}", 4, "`data_offsets`"},
      {"{\"t\":" ENTRY("F32", "[1]", "[0.5,4]") "}", 4, "`data_offsets`"},
      {"{\"t\":" ENTRY("F4_X", "[1]", "[0,4]") "}", 4, "F4_X"},
      {"{\"t\":" ENTRY("F32", "[8589934592,8589934592]", "[0,4]") "}", 4, "overflows"},
  };
  for (size_t i = 0; i < sizeof broken / sizeof broken[0]; ++i) {
    write_tensors("broken.safetensors", strlen(broken[i].header), broken[i].header, broken[i].n_data);
    assert_refused(INSPECT("broken.safetensors"), 1, broken[i].reason);
    assert_refused(GRAFT(folder.path, "inspect", "--json", "broken.safetensors"), 1, "broken.safetensors");
    assert_refused(GRAFT(folder.path, "generate", "-q", "-p", "x", "--noise", "broken.safetensors"), 1,
                   "broken.safetensors");
  }
  const char header[] = "{\"t\":" ENTRY("F32", "[1]", "[0,4]") "}";
  write_tensors("length.safetensors", UINT64_MAX, header, 4);
  assert_refused(INSPECT("length.safetensors"), 1, "length.safetensors");
  write_tensors("whole.safetensors", strlen(header) + 4, header, 4);
  assert_refused(INSPECT("whole.safetensors"), 1, "whole.safetensors");
  assert_int_equal(temp_folder_count(&folder), 3);
}

static void files_of_other_kinds_are_named(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t n;
    const char *what;
  } others[] = {
      {"", 0, "empty"},
      {"\0\0\0\0\0\0\0", 7, "too short"},
      {"\0\0\0\0\0\0\0\0", 8, "empty"},
      {"GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16, "GGUF"},
      {"PK\3\4 and so on", 13, "PyTorch"},
      {"\x80\x02}q\0X", 6, "pickle"},
      {"\x89PNG\r\n\x1a\n and so on", 17, "PNG picture"},
      {"\xFF\xD8\xFF\xE0 and so on", 13, "JPEG"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", 64, "git lfs pull"},
      {"<!DOCTYPE html><html></html>", 28, "web page"},
      {"<!doctype html><html></html>", 28, "web page"},
      {"<html>", 6, "web page"},
      {"\n\n  <HTML><body>", 16, "web page"},
      {"Entry not found", 15, "download that failed"},
      {"{\"error\":\"Repository not found\"}", 32, "JSON text"},
      {"\x7F"
       "ELF\2\1\1\0",
       8, "a program"},
  };
  for (size_t i = 0; i < sizeof others / sizeof others[0]; ++i) {
    temp_folder_write(&folder, "thing.safetensors", others[i].bytes, others[i].n);
    assert_refused(INSPECT("thing.safetensors"), 1, others[i].what);
  }
}

static void folders_without_a_model_are_refused(void **state) {
  (void)state;
  assert_refused(INSPECT("."), 1, "not a model");
  assert_refused(INSPECT("nowhere"), 1, "nowhere");
  assert_refused(INSPECT("/dev/zero"), 1, "not a regular file");
  assert_refused(INSPECT("/dev/null"), 1, "not a regular file");
  assert_int_equal(mkfifo(temp_folder_join(&folder, "pipe").text, 0600), 0);
  assert_refused(INSPECT("pipe"), 1, "not a regular file");
  assert_int_equal(symlink("loop", temp_folder_join(&folder, "loop").text), 0);
  assert_refused(INSPECT("loop"), 1, "loop");
  temp_folder_write_text(&folder, "model_index.json", "{\"_class_name\": \"FluxPipeline\"}");
  assert_refused(INSPECT("."), 1, "FluxPipeline");
  temp_folder_write_text(&folder, "model_index.json", "{\"_class_name\": ");
  assert_refused(INSPECT("."), 1, "model_index.json");
}

static void one_part_is_enough(void **state) {
  (void)state;
  tiny_model_write(&folder, NULL);
  assert_prints(INSPECT("transformer"), "Z-Image");
  assert_prints(INSPECT("transformer/diffusion_pytorch_model.safetensors"), "Z-Image transformer");
  assert_prints(INSPECT("text_encoder/model.safetensors"), "Qwen3 text encoder");
  assert_prints(INSPECT("vae/diffusion_pytorch_model.safetensors"), "AutoencoderKL");
  assert_refused(INSPECT("vae"), 1, "AutoencoderKL");
  assert_prints(INSPECT("./"), "5");
}

static void incomplete_models_are_described_with_what_is_missing(void **state) {
  (void)state;
  tiny_model_write(&folder, &(tiny_fault){.dropped = "layers.0.attention.to_q.weight"});
  program_result result = INSPECT(".");
  assert_code(&result, 1);
  assert_holds(result.output, "transformer   ZImageTransformer2DModel");
  assert_holds(result.errors, "layers.0.attention.to_q.weight");
  program_result_release(&result);
  assert_refused(GRAFT(folder.path, "generate", "-q", "-m", ".", "-p", "x"), 1, "layers.0.attention.to_q.weight");
}

static void models_without_a_part_are_described(void **state) {
  (void)state;
  tiny_model_write(&folder, NULL);
  assert_int_equal(unlink(temp_folder_join(&folder, "vae/diffusion_pytorch_model.safetensors").text), 0);
  assert_prints(INSPECT("."), "missing");
  assert_refused(GRAFT(folder.path, "generate", "-q", "-m", ".", "-p", "x"), 1, "vae");
}

// How large pictures may be is said by the transformer.
static void models_without_a_transformer_name_no_largest_size(void **state) {
  (void)state;
  tiny_model_write(&folder, NULL);
  assert_prints(INSPECT("."), "multiples of 4 up to 32x32\n");
  assert_int_equal(unlink(temp_folder_join(&folder, "transformer/config.json").text), 0);
  assert_prints(INSPECT("."), "multiples of 2\n");
}

static void weights_cut_short_are_refused_before_drawing(void **state) {
  (void)state;
  tiny_model_write(&folder, NULL);
  const temp_path path = temp_folder_join(&folder, "transformer/diffusion_pytorch_model.safetensors");
  struct stat info;
  assert_int_equal(stat(path.text, &info), 0);
  assert_int_equal(truncate(path.text, info.st_size - 10), 0);
  assert_refused(INSPECT("."), 1, "diffusion_pytorch_model.safetensors");
  assert_refused(INSPECT("transformer/diffusion_pytorch_model.safetensors"), 1, "diffusion_pytorch_model.safetensors");
  const size_t n = temp_folder_count(&folder);
  assert_refused(GRAFT(folder.path, "generate", "-q", "-m", ".", "-p", "x"), 1, "diffusion_pytorch_model.safetensors");
  assert_int_equal(temp_folder_count(&folder), n);
}

// Names and metadata are a stranger's: nothing in them reaches the terminal as a control code.
static void control_codes_are_not_passed_on(void **state) {
  (void)state;
  const char header[] =
      "{\"__metadata__\":{\"a\\u001b[2J\":\"b\\u001b]0;x\\u0007\"},\"w\":" ENTRY("F32", "[1]", "[0,4]") "}";
  write_tensors("a.safetensors", strlen(header), header, 4);
  program_result result = INSPECT("a.safetensors");
  assert_code(&result, 0);
  assert_holds(result.output, "metadata");
  assert_null(strchr(result.output, '\x1b'));
  assert_null(strchr(result.output, '\x07'));
  program_result_release(&result);
}

int main(void) {
#define INSPECT_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      INSPECT_TEST(legal_but_unusual_files_are_described),
      INSPECT_TEST(every_element_type_is_counted),
      INSPECT_TEST(broken_files_are_refused_with_the_reason),
      INSPECT_TEST(files_of_other_kinds_are_named),
      INSPECT_TEST(folders_without_a_model_are_refused),
      INSPECT_TEST(one_part_is_enough),
      INSPECT_TEST(incomplete_models_are_described_with_what_is_missing),
      INSPECT_TEST(models_without_a_part_are_described),
      INSPECT_TEST(models_without_a_transformer_name_no_largest_size),
      INSPECT_TEST(weights_cut_short_are_refused_before_drawing),
      INSPECT_TEST(control_codes_are_not_passed_on),
  };
  return cmocka_run_group_tests_name("cli.inspect", tests, NULL, NULL);
}
