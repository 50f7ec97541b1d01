// Ids against the reference's, and the same ids from both forms of a tokenizer.
#include "formats/tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "format_files.h"
#include "formats/chat_template.h"
#include "formats/file.h"

static const char model_folder[] = GRAFT_TEST_MODELS "/emoji-zimage/tokenizer";
static const char golden_folder[] = GRAFT_TEST_GOLDEN "/emoji-zimage";

static json_t *load_json(const char *folder, const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  json_t *root = json_load_file(path, JSON_ALLOW_NUL, NULL);
  assert_non_null(root);
  return root;
}

static graft_tokenizer *open_tokenizer(const char *folder) {
  graft_error error = {0};
  graft_tokenizer *tokenizer = NULL;
  assert_ok(graft_tokenizer_open(folder, &error, &tokenizer), &error);
  return tokenizer;
}

static graft_token_ids encode(const graft_tokenizer *tokenizer, const char *text, size_t n_bytes) {
  graft_error error = {0};
  graft_token_ids ids = {0};
  assert_ok(graft_tokenizer_encode(tokenizer, text, n_bytes, &error, &ids), &error);
  return ids;
}

static void check_ids(const graft_tokenizer *tokenizer, const char *text, size_t n_bytes, const json_t *expected) {
  graft_token_ids ids = encode(tokenizer, text, n_bytes);
  bool equal = ids.n_ids == json_array_size(expected);
  for (size_t i = 0; equal && i < ids.n_ids; ++i) equal = ids.ids[i] == json_integer_value(json_array_get(expected, i));
  if (!equal) fail_msg("ids of \"%s\" differ (%zu, expected %zu)", text, ids.n_ids, json_array_size(expected));
  graft_token_ids_release(&ids);
}

static void check_text(const graft_tokenizer *tokenizer, const char *text, const int32_t *expected, size_t n) {
  graft_token_ids ids = encode(tokenizer, text, strlen(text));
  assert_int_equal(ids.n_ids, n);
  if (n > 0) assert_memory_equal(ids.ids, expected, n * sizeof *expected);
  graft_token_ids_release(&ids);
}

static void check_cases(const graft_tokenizer *tokenizer, const char *folder, const char *name, size_t least) {
  json_t *cases = load_json(folder, name), *item;
  size_t i;
  assert_true(json_array_size(cases) >= least);
  json_array_foreach(cases, i, item) {
    const json_t *text = json_object_get(item, "text");
    check_ids(tokenizer, json_string_value(text), json_string_length(text), json_object_get(item, "ids"));
  }
  json_decref(cases);
}

// prompt_cases.json: ids that the `tokenizers` library (0.23) gives with the model's tokenizer.json.
static void check_golden(const graft_tokenizer *tokenizer) {
  check_cases(tokenizer, golden_folder, "tokenizer_cases.json", 236);
  check_cases(tokenizer, GRAFT_TEST_FORMATS, "prompt_cases.json", 27);
}

static void reference_ids(void **state) {
  (void)state;
  graft_tokenizer *tokenizer = open_tokenizer(model_folder);
  check_golden(tokenizer);
  assert_int_equal(graft_tokenizer_id_limit(tokenizer), 4096);
  graft_tokenizer_close(tokenizer);
}

static void copy_file(const temp_folder *folder, const char *name) {
  char path[512];
  size_t n = 0;
  snprintf(path, sizeof path, "%s/%s", model_folder, name);
  char *data = temp_folder_read(path, &n);
  temp_folder_write(folder, name, data, n);
  free(data);
}

static void reference_ids_from_vocabulary_and_merges(void **state) {
  (void)state;
  temp_folder folder = temp_folder_create();
  copy_file(&folder, "vocab.json");
  copy_file(&folder, "merges.txt");
  copy_file(&folder, "added_tokens.json");
  graft_tokenizer *tokenizer = open_tokenizer(folder.path);
  check_golden(tokenizer);
  graft_tokenizer_close(tokenizer);
  // The list in the configuration replaces added_tokens.json.
  assert_int_equal(remove(temp_folder_join(&folder, "added_tokens.json").text), 0);
  copy_file(&folder, "tokenizer_config.json");
  tokenizer = open_tokenizer(folder.path);
  check_golden(tokenizer);
  graft_tokenizer_close(tokenizer);
  temp_folder_remove(&folder);
}

static void check_prompt(const graft_tokenizer *tokenizer, const json_t *item, const char *prompt, const char *ids) {
  graft_error error = {0};
  char *chat = NULL;
  const char *text = json_string_value(json_object_get(item, prompt));
  if (text == NULL) return;
  assert_ok(graft_chat_template_apply(text, &error, &chat), &error);
  check_ids(tokenizer, chat, strlen(chat), json_object_get(item, ids));
  if (strcmp(prompt, "prompt") == 0) assert_string_equal(chat, json_string_value(json_object_get(item, "chat")));
  free(chat);
}

static void reference_prompts(void **state) {
  (void)state;
  graft_error error = {0};
  assert_ok(graft_chat_template_check(model_folder, &error), &error);
  graft_tokenizer *tokenizer = open_tokenizer(model_folder);
  json_t *root = load_json(golden_folder, "cases.json"), *item;
  size_t i;
  assert_true(json_array_size(json_object_get(root, "cases")) >= 3);
  json_array_foreach(json_object_get(root, "cases"), i, item) {
    check_prompt(tokenizer, item, "prompt", "token_ids");
    if (json_array_size(json_object_get(item, "negative_token_ids")) > 0)
      check_prompt(tokenizer, item, "negative_prompt", "negative_token_ids");
  }
  json_decref(root);
  graft_tokenizer_close(tokenizer);
}

static void special_tokens(void **state) {
  (void)state;
  graft_error error = {0};
  graft_tokenizer *tokenizer = open_tokenizer(model_folder);
  const int32_t typed[] = {4093}, twice[] = {4094, 4095};
  check_text(tokenizer, "<|endoftext|>", typed, 1);
  check_text(tokenizer, "<|im_start|><|im_end|>", twice, 2);
  graft_token_ids upper = encode(tokenizer, "<|ENDOFTEXT|>", 13);
  for (size_t i = 0; i < upper.n_ids; ++i) assert_true(upper.ids[i] < 4093);
  graft_token_ids_release(&upper);
  int32_t id = 0;
  assert_ok(graft_tokenizer_find(tokenizer, "<|im_end|>", &error, &id), &error);
  assert_int_equal(id, 4095);
  assert_refused(graft_tokenizer_find(tokenizer, "<|im_", &error, &id), &error, GRAFT_E_NOT_FOUND, "<|im_", "token");
  graft_tokenizer_close(tokenizer);
}

static graft_tokenizer *open_made(tokenizer_parts parts) {
  temp_folder folder = temp_folder_create();
  char *text = make_tokenizer_json(parts);
  temp_folder_write_text(&folder, "tokenizer.json", text);
  free(text);
  graft_tokenizer *tokenizer = open_tokenizer(folder.path);
  temp_folder_remove(&folder);
  return tokenizer;
}

static void longest_added_token_wins(void **state) {
  (void)state;
  graft_tokenizer *tokenizer = open_made((tokenizer_parts){
      .added_tokens =
          "{\"id\":300,\"content\":\"<a\"},{\"id\":301,\"content\":\"<ab>\"},{\"id\":302,\"content\":\"<abc\"},"
          "{\"id\":303,\"content\":\"→\"}"});
  const int32_t a[] = {301}, b[] = {300, 'b', 'd'}, c[] = {302, '>'}, d[] = {303, 303}, e[] = {'<'};
  check_text(tokenizer, "<ab>", a, 1);
  check_text(tokenizer, "<abd", b, 3);
  check_text(tokenizer, "<abc>", c, 2);
  check_text(tokenizer, "→→", d, 2);
  check_text(tokenizer, "<", e, 1);
  graft_tokenizer_close(tokenizer);
}

static void merges_and_whole_words(void **state) {
  (void)state;
  const int32_t plain[] = {258, 'o'}, whole[] = {260}, rest[] = {258};
  graft_tokenizer *tokenizer = open_made((tokenizer_parts){.extra_vocabulary = ",\"hello\":260"});
  check_text(tokenizer, "hello", plain, 2);
  graft_tokenizer_close(tokenizer);
  tokenizer =
      open_made((tokenizer_parts){.extra_vocabulary = ",\"hello\":260", .extra_model = ",\"ignore_merges\":true"});
  check_text(tokenizer, "hello", whole, 1);
  check_text(tokenizer, "hell", rest, 1);
  graft_tokenizer_close(tokenizer);
}

static void normalization_is_optional(void **state) {
  (void)state;
  const int32_t composed[] = {0xC3, 0xA9}, decomposed[] = {'e', 0xCC, 0x81};
  tokenizer_parts parts = {.pre_tokenizer = NULL};
  graft_tokenizer *tokenizer = open_made(parts);
  check_text(tokenizer, "e\xCC\x81", composed, 2);
  graft_tokenizer_close(tokenizer);
  parts.normalizer = "null";
  tokenizer = open_made(parts);
  check_text(tokenizer, "e\xCC\x81", decomposed, 3);
  graft_tokenizer_close(tokenizer);
}

static void nul_is_a_character(void **state) {
  (void)state;
  graft_tokenizer *tokenizer = open_made((tokenizer_parts){0});
  graft_token_ids ids = encode(tokenizer, "a\0b", 3);
  const int32_t expected[] = {'a', 0, 'b'};
  assert_int_equal(ids.n_ids, 3);
  assert_memory_equal(ids.ids, expected, sizeof expected);
  graft_token_ids_release(&ids);
  graft_tokenizer_close(tokenizer);
}

static void bad_texts_are_refused(void **state) {
  (void)state;
  static const char *const broken[] = {"\xFF\xFE", "a\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "ok\x80"};
  graft_error error = {0};
  graft_tokenizer *tokenizer = open_tokenizer(model_folder);
  graft_token_ids ids = {0};
  for (size_t i = 0; i < sizeof broken / sizeof broken[0]; ++i)
    assert_refused(graft_tokenizer_encode(tokenizer, broken[i], strlen(broken[i]), &error, &ids), &error,
                   GRAFT_E_INVALID, "not UTF-8", "offset");
  size_t n = GRAFT_TOKENIZER_MAX_TEXT_BYTES + 1;
  char *text = calloc(1, n);
  assert_non_null(text);
  assert_refused(graft_tokenizer_encode(tokenizer, text, n, &error, &ids), &error, GRAFT_E_INVALID, "at most",
                 "1048577");
  free(text);
  graft_tokenizer_close(tokenizer);
}

// Repeats |piece| to about 100 kB and encodes it; a quadratic step would take minutes.
static size_t encode_repeated(const graft_tokenizer *tokenizer, const char *piece) {
  size_t n_piece = strlen(piece), n = 100000 / n_piece;
  char *text = malloc(n * n_piece);
  assert_non_null(text);
  for (size_t i = 0; i < n; ++i) memcpy(text + i * n_piece, piece, n_piece);
  clock_t start = clock();
  graft_token_ids ids = encode(tokenizer, text, n * n_piece);
  double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  if (seconds > 5) fail_msg("100 kB of \"%s\" took %.1f s", piece, seconds);
  size_t n_ids = ids.n_ids;
  graft_token_ids_release(&ids);
  free(text);
  return n_ids;
}

static void long_texts_are_fast(void **state) {
  (void)state;
  graft_tokenizer *tokenizer = open_tokenizer(model_folder);
  assert_int_equal(encode_repeated(tokenizer, "a "), 50001);
  assert_true(encode_repeated(tokenizer, "onthe") > 0);
  assert_true(encode_repeated(tokenizer, "a") > 0);
  assert_int_equal(encode_repeated(tokenizer, " "), 100000);
  assert_true(encode_repeated(tokenizer, "\n") > 0);
  assert_true(encode_repeated(tokenizer, " \t") > 0);
  assert_true(encode_repeated(tokenizer, "\xCC\x81\xCC\xA3") > 0);
  assert_true(encode_repeated(tokenizer, "<|im_start|") > 0);
  assert_true(encode_repeated(tokenizer, "🐈‍⬛") > 0);
  graft_tokenizer_close(tokenizer);
}

static void slow_patterns_are_stopped(void **state) {
  (void)state;
  graft_error error = {0};
  graft_token_ids ids = {0};
  graft_tokenizer *tokenizer = open_made((tokenizer_parts){
      .pre_tokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
                       "\"(a+)+b|(?:a|aa)+b|(?=.*x)c\"},\"behavior\":\"Isolated\",\"invert\":false},"
                       "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}"});
  char text[4001];
  memset(text, 'a', sizeof text);
  assert_refused(graft_tokenizer_encode(tokenizer, text, sizeof text, &error, &ids), &error, GRAFT_E_INVALID, "pattern",
                 "too long");
  graft_tokenizer_close(tokenizer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reference_ids),
      cmocka_unit_test(reference_ids_from_vocabulary_and_merges),
      cmocka_unit_test(reference_prompts),
      cmocka_unit_test(special_tokens),
      cmocka_unit_test(longest_added_token_wins),
      cmocka_unit_test(merges_and_whole_words),
      cmocka_unit_test(normalization_is_optional),
      cmocka_unit_test(nul_is_a_character),
      cmocka_unit_test(bad_texts_are_refused),
      cmocka_unit_test(long_texts_are_fast),
      cmocka_unit_test(slow_patterns_are_stopped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
