// Every single allocation fails once: the call says "out of memory", nothing leaks, nothing is left on the disk.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "fail_alloc.h"
#include "format_files.h"
#include "formats/chat_template.h"
#include "formats/json.h"
#include "formats/png.h"
#include "formats/safetensors_writer.h"
#include "formats/tokenizer.h"
#include "formats/weights.h"

// The wrapped malloc, in a way that neither counts nor fails.
void *__real_malloc(size_t bytes);
static void *reliable_malloc(size_t bytes) {
  return __real_malloc(bytes);
}

typedef struct trial {
  const char *path;
  temp_folder folder;
  graft_safetensors_access access;
  graft_status status;
  graft_error error;
} trial;

// Whichever allocation failed, the status says so.
static void check_status(void *context, int64_t failed) {
  trial *t = context;
  if (failed == 0) assert_ok(t->status, &t->error);
  else if (t->status != GRAFT_E_NO_MEMORY || strstr(t->error.message, "memory") == NULL)
    fail_msg("allocation %d failed: %s: %s", (int)failed, graft_status_name(t->status), t->error.message);
}

// For sweeps that reach into jansson, which does not tell all of its failures: nothing crashes or leaks.
static void check_nothing(void *context, int64_t failed) {
  trial *t = context;
  if (failed == 0) assert_ok(t->status, &t->error);
}

// Sweeps first with a reliable jansson, then with one whose allocations fail too.
static void sweep(fail_alloc_step step, trial *t, int64_t least) {
  int64_t without = fail_alloc_sweep(step, check_status, t);
  json_set_alloc_funcs(malloc, free);
  int64_t with = fail_alloc_sweep(step, check_nothing, t);
  json_set_alloc_funcs(reliable_malloc, free);
  if (without < least || with <= without) fail_msg("only %d and %d allocations", (int)without, (int)with);
}

static void open_weights(void *context) {
  trial *t = context;
  graft_weights *weights = NULL;
  t->status = graft_weights_open(t->path, t->access, &t->error, &weights);
  graft_weights_close(weights);
}

static void weights(void **state) {
  (void)state;
  trial t = {.folder = temp_folder_create()};
  write_safetensors(&t.folder, "1.safetensors",
                    "{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                    NULL, 1);
  write_safetensors(&t.folder, "2.safetensors", "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", NULL,
                    2);
  temp_folder_write_text(&t.folder, "any.safetensors.index.json",
                         "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}");
  t.path = t.folder.path;
  for (int access = GRAFT_SAFETENSORS_MAP; access <= GRAFT_SAFETENSORS_READ; ++access) {
    t.access = (graft_safetensors_access)access;
    sweep(open_weights, &t, 15);
  }
  temp_folder_remove(&t.folder);
}

static void use_tokenizer(void *context) {
  trial *t = context;
  static const char text[] = "hello <|end|> e\xCC\x81 l'été";
  graft_tokenizer *tokenizer = NULL;
  graft_token_ids ids = {0};
  t->status = graft_tokenizer_open(t->path, &t->error, &tokenizer);
  if (t->status == GRAFT_OK) t->status = graft_tokenizer_encode(tokenizer, text, strlen(text), &t->error, &ids);
  graft_token_ids_release(&ids);
  graft_tokenizer_close(tokenizer);
}

static void tokenizer(void **state) {
  (void)state;
  trial t = {.folder = temp_folder_create()};
  t.path = t.folder.path;
  char *text = make_tokenizer_json((tokenizer_parts){0});
  temp_folder_write_text(&t.folder, "tokenizer.json", text);
  sweep(use_tokenizer, &t, 20);
  free(text);
  temp_folder_remove(&t.folder);
}

static void tokenizer_from_vocabulary(void **state) {
  (void)state;
  trial t = {.folder = temp_folder_create()};
  t.path = t.folder.path;
  char *members = make_vocabulary(), *text = NULL;
  assert_true(asprintf(&text, "{%s}", members) > 0);
  temp_folder_write_text(&t.folder, "vocab.json", text);
  temp_folder_write_text(&t.folder, "merges.txt", "h e\nl l\n");
  temp_folder_write_text(&t.folder, "added_tokens.json", "{\"<|end|>\":300}");
  temp_folder_write_text(&t.folder, "tokenizer_config.json",
                         "{\"added_tokens_decoder\":{\"300\":{\"content\":\"<|end|>\"}}}");
  sweep(use_tokenizer, &t, 20);
  free(members);
  free(text);
  temp_folder_remove(&t.folder);
}

static void write_tensors(void *context) {
  trial *t = context;
  static const float values[] = {1, 2};
  const graft_safetensors_source sources[] = {{"a", GRAFT_F32, 1, {2}, values}, {"b", GRAFT_F32, 2, {1, 1}, values}};
  const graft_safetensors_pair pair = {"k", "v"};
  const graft_safetensors_contents contents = {.tensors = sources, .n_tensors = 2, .metadata = &pair, .n_metadata = 1};
  t->status = graft_safetensors_write(t->path, &contents, &t->error);
}

static void write_picture(void *context) {
  trial *t = context;
  static uint8_t pixels[64 * 64 * 3];
  for (size_t i = 0; i < sizeof pixels; ++i) pixels[i] = (uint8_t)(i * i >> 3);
  const graft_png_text texts[] = {{"a", "plain"}, {"b", "é"}};
  t->status = graft_png_write(t->path, &(graft_png_image){64, 64, 192, pixels}, texts, 2, &t->error);
}

// The old contents stay until a write succeeds, and no temporary file does.
static void check_target(void *context, int64_t failed) {
  trial *t = context;
  check_status(context, failed);
  assert_int_equal(temp_folder_count(&t->folder), 1);
  char *text = temp_folder_read(t->path, NULL);
  if (failed != 0) assert_string_equal(text, "old");
  else assert_string_not_equal(text, "old");
  free(text);
}

static void writers(void **state) {
  (void)state;
  static const fail_alloc_step steps[] = {write_tensors, write_picture};
  trial t = {.folder = temp_folder_create()};
  json_set_alloc_funcs(malloc, free);  // when it builds values, jansson tells all of its failures
  for (size_t i = 0; i < 2; ++i) {
    temp_path path = temp_folder_write_text(&t.folder, "out", "old");
    t.path = path.text;
    assert_true(fail_alloc_sweep(steps[i], check_target, &t) > 8);
  }
  json_set_alloc_funcs(reliable_malloc, free);
  temp_folder_remove(&t.folder);
}

static void use_template(void *context) {
  trial *t = context;
  char *text = NULL;
  t->status = graft_chat_template_check(t->path, &t->error);
  if (t->status == GRAFT_OK) t->status = graft_chat_template_apply("a cat", &t->error, &text);
  free(text);
}

static void chat_template(void **state) {
  (void)state;
  trial t = {.folder = temp_folder_create()};
  t.path = t.folder.path;
  temp_folder_write_text(&t.folder, "tokenizer_config.json", "{\"chat_template\":\"<|im_start|>\"}");
  sweep(use_template, &t, 4);
  temp_folder_remove(&t.folder);
}

// jansson alone would gather as much of the string as there is room for, byte by byte.
static void long_strings(void **state) {
  (void)state;
  enum { LONG = 3 << 20 };
  char *text = malloc(LONG + 8);
  assert_non_null(text);
  json_set_alloc_funcs(malloc, free);
  for (int number = 0; number <= 1; ++number) {
    graft_error error = {0};
    graft_json *json = NULL;
    memset(text, '1', LONG + 7);
    memcpy(text, number ? "[1" : "[\"", 2);
    memcpy(text + LONG + 5, number ? "1]" : "\"]", 3);
    fail_alloc_above(1 << 20);
    graft_status status = graft_json_parse(text, LONG + 7, "long.json", &error, &json);
    fail_alloc_above(SIZE_MAX);
    assert_int_equal(status, GRAFT_E_NO_MEMORY);
    assert_string_equal(error.message, "long.json: out of memory");
    if (number) continue;
    assert_ok(graft_json_parse(text, LONG + 7, "long.json", &error, &json), &error);
    assert_int_equal(json_string_length(json_array_get(graft_json_root(json), 0)), LONG + 3);
    graft_json_close(json);
  }
  json_set_alloc_funcs(reliable_malloc, free);
  free(text);
}

int main(void) {
  json_set_alloc_funcs(reliable_malloc, free);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(weights), cmocka_unit_test(tokenizer),     cmocka_unit_test(tokenizer_from_vocabulary),
      cmocka_unit_test(writers), cmocka_unit_test(chat_template), cmocka_unit_test(long_strings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
