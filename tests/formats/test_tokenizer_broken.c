// Tokenizers that are broken, hostile, or of a kind that graft does not support.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format_files.h"
#include "formats/tokenizer.h"

static void assert_folder_refused(const temp_folder *folder, graft_status status, const char *file,
                                  const char *reason) {
  graft_error error = {0};
  graft_tokenizer *tokenizer = NULL;
  graft_status actual = graft_tokenizer_open(folder->path, &error, &tokenizer);
  assert_null(tokenizer);
  assert_refused(actual, &error, status, file, reason);
}

static void assert_parts_refused(const temp_folder *folder, tokenizer_parts parts, graft_status status,
                                 const char *reason) {
  char *text = make_tokenizer_json(parts);
  temp_folder_write_text(folder, "tokenizer.json", text);
  free(text);
  assert_folder_refused(folder, status, folder->path, reason);
}

static void unsupported_features(void **state) {
  (void)state;
  static const struct {
    tokenizer_parts parts;
    const char *reason;
  } cases[] = {
      {{.extra_model = ",\"byte_fallback\":true"}, "model.byte_fallback"},
      {{.extra_model = ",\"dropout\":0.1"}, "model.dropout"},
      {{.extra_model = ",\"continuing_subword_prefix\":\"##\""}, "model.continuing_subword_prefix"},
      {{.extra_model = ",\"end_of_word_suffix\":\"</w>\""}, "model.end_of_word_suffix"},
      {{.normalizer = "{\"type\":\"NFKC\"}"}, "normalizer"},
      {{.normalizer = "{\"type\":\"Lowercase\"}"}, "normalizer"},
      {{.normalizer = "[]"}, "normalizer"},
      {{.pre_tokenizer = "null"}, "pre_tokenizer"},
      {{.pre_tokenizer = "{\"type\":\"Metaspace\"}"}, "pre_tokenizer"},
      {{.pre_tokenizer = "{\"type\":\"ByteLevel\",\"use_regex\":true}"}, "pre_tokenizer"},
      {{.pre_tokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[]}"}, "pre_tokenizer"},
      {{.pre_tokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},"
                         "\"behavior\":\"Removed\"},{\"type\":\"ByteLevel\",\"use_regex\":false}]}"},
       "pre_tokenizer"},
      {{.pre_tokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},"
                         "\"behavior\":\"Isolated\",\"invert\":true},{\"type\":\"ByteLevel\",\"use_regex\":false}]}"},
       "pre_tokenizer"},
      {{.pre_tokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},"
                         "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\"}]}"},
       "pre_tokenizer"},
      {{.pre_tokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},"
                         "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"use_regex\":false}]}"},
       "pre_tokenizer"},
      {{.pre_tokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
                         "\"\\\\w+\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"use_regex\":false}]}"},
       "an escape"},
      {{.post_processor = "{\"type\":\"TemplateProcessing\"}"}, "post_processor"},
      {{.added_tokens = "{\"id\":300,\"content\":\"x\",\"lstrip\":true}"}, "`lstrip`"},
      {{.added_tokens = "{\"id\":300,\"content\":\"x\",\"rstrip\":true}"}, "`rstrip`"},
      {{.added_tokens = "{\"id\":300,\"content\":\"x\",\"single_word\":true}"}, "`single_word`"},
      {{.added_tokens = "{\"id\":300,\"content\":\"x\",\"normalized\":true}"}, "`normalized`"},
  };
  temp_folder folder = temp_folder_create();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i)
    assert_parts_refused(&folder, cases[i].parts, GRAFT_E_UNSUPPORTED, cases[i].reason);
  temp_folder_remove(&folder);
}

static void broken_parts(void **state) {
  (void)state;
  static const struct {
    tokenizer_parts parts;
    const char *reason;
  } cases[] = {
      {{.extra_vocabulary = ",\"bad\":-1"}, "`bad` is negative"},
      {{.extra_vocabulary = ",\"bad\":16777216"}, "`bad` is too large"},
      {{.extra_vocabulary = ",\"bad\":9223372036854775807"}, "`bad` is too large"},
      {{.extra_vocabulary = ",\"bad\":99999999999999999999"}, "JSON"},
      {{.extra_vocabulary = ",\"bad\":255"}, "`bad` belongs to another token"},
      {{.extra_vocabulary = ",\"bad\":1.5"}, "`bad` is no integer"},
      {{.extra_vocabulary = ",\"bad\":\"1\""}, "`bad` is no integer"},
      {{.extra_vocabulary = ",\"he\":400"}, "duplicate"},
      {{.merges = "\"h nothing\""}, "merge 1: token `nothing`"},
      {{.merges = "\"h e\",\"nothing h\""}, "merge 2: token `nothing`"},
      {{.merges = "\"h h\""}, "merge 1: token `hh`"},
      {{.merges = "\"h\""}, "merge 1 is not a pair"},
      {{.merges = "\"h e l\""}, "merge 1 is not a pair"},
      {{.merges = "\" \""}, "merge 1: token ``"},
      {{.merges = "7"}, "merge 1 is not a pair"},
      {{.merges = "[\"h\"]"}, "merge 1 is not a pair"},
      {{.merges = "[\"h\",7]"}, "merge 1 is not a pair"},
      {{.merges = "[\"h\",\"e\",\"l\"]"}, "merge 1 is not a pair"},
      {{.added_tokens = "{\"content\":\"x\"}"}, "added_tokens[0].id"},
      {{.added_tokens = "{\"id\":300}"}, "without `content`"},
      {{.added_tokens = "7"}, "added_tokens[0].id"},
      {{.added_tokens = "{\"id\":300,\"content\":\"\"}"}, "1 to 256 bytes"},
      {{.added_tokens = "{\"id\":-1,\"content\":\"x\"}"}, "out of range"},
      {{.added_tokens = "{\"id\":16777216,\"content\":\"x\"}"}, "out of range"},
      {{.added_tokens = "{\"id\":7,\"content\":\"<x>\"}"}, "`<x>`: its id belongs"},
      {{.added_tokens = "{\"id\":300,\"content\":\"he\"}"}, "`he`: has another id"},
      {{.added_tokens = "{\"id\":300,\"content\":\"<x>\"},{\"id\":301,\"content\":\"<x>\"}"}, "two different ids"},
      {{.added_tokens = "{\"id\":300,\"content\":\"<x>\"},{\"id\":300,\"content\":\"<y>\"}"}, "its id belongs"},
      {{.extra_model = ",\"ignore_merges\":1"}, "model.ignore_merges"},
      {{.pre_tokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},"
                         "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"use_regex\":false}]}"},
       "no regular expression"},
  };
  temp_folder folder = temp_folder_create();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i)
    assert_parts_refused(&folder, cases[i].parts, GRAFT_E_FORMAT, cases[i].reason);
  temp_folder_remove(&folder);
}

static void broken_documents(void **state) {
  (void)state;
  static const struct {
    const char *text;
    graft_status status;
    const char *reason;
  } cases[] = {
      {"", GRAFT_E_FORMAT, "empty"},
      {"{", GRAFT_E_FORMAT, "JSON"},
      {"[]", GRAFT_E_FORMAT, "model"},
      {"7", GRAFT_E_FORMAT, "JSON"},
      {"{}", GRAFT_E_FORMAT, "model"},
      {"{\"model\":null}", GRAFT_E_FORMAT, "model"},
      {"{\"model\":{\"type\":\"WordPiece\"}}", GRAFT_E_UNSUPPORTED, "BPE"},
      {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", GRAFT_E_UNSUPPORTED, "BPE"},
      {"{\"model\":{\"type\":7}}", GRAFT_E_UNSUPPORTED, "BPE"},
      {"{\"a\":\"\xFF\"}", GRAFT_E_FORMAT, "JSON"},
  };
  temp_folder folder = temp_folder_create();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    temp_folder_write_text(&folder, "tokenizer.json", cases[i].text);
    assert_folder_refused(&folder, cases[i].status, "tokenizer.json", cases[i].reason);
  }
  enum { DEPTH = 100000 };
  char *deep = malloc(DEPTH);
  assert_non_null(deep);
  memset(deep, '[', DEPTH);
  temp_folder_write(&folder, "tokenizer.json", deep, DEPTH);
  assert_folder_refused(&folder, GRAFT_E_FORMAT, "tokenizer.json", "nested");
  free(deep);
  temp_folder_remove(&folder);
}

static void missing_bytes(void **state) {
  (void)state;
  temp_folder folder = temp_folder_create();
  char *text = make_tokenizer_json((tokenizer_parts){0}), *byte = strstr(text, "\"A\":65,");
  assert_non_null(byte);
  memset(byte, ' ', strlen("\"A\":65,"));
  temp_folder_write_text(&folder, "tokenizer.json", text);
  free(text);
  assert_folder_refused(&folder, GRAFT_E_FORMAT, "tokenizer.json", "byte 0x41");
  temp_folder_remove(&folder);
}

// A folder in the vocabulary-and-merges form; NULL leaves a file out.
static void write_form(const temp_folder *folder, const char *vocabulary, const char *merges, const char *added,
                       const char *config) {
  if (vocabulary != NULL) temp_folder_write_text(folder, "vocab.json", vocabulary);
  if (merges != NULL) temp_folder_write_text(folder, "merges.txt", merges);
  if (added != NULL) temp_folder_write_text(folder, "added_tokens.json", added);
  if (config != NULL) temp_folder_write_text(folder, "tokenizer_config.json", config);
}

static char *make_vocabulary_file(void) {
  char *members = make_vocabulary(), *text = NULL;
  assert_true(asprintf(&text, "{%s}", members) > 0);
  free(members);
  return text;
}

static void broken_folders(void **state) {
  (void)state;
  char *good = make_vocabulary_file();
  const char merges[] = "#version: 0.2\nh e\r\nl l\nhe ll\n";
  const struct {
    const char *vocabulary, *merges, *added, *config;
    graft_status status;
    const char *file, *reason;
  } cases[] = {
      {NULL, merges, NULL, NULL, GRAFT_E_NOT_FOUND, "vocab.json", "No such file"},
      {good, NULL, NULL, NULL, GRAFT_E_NOT_FOUND, "merges.txt", "No such file"},
      {"", merges, NULL, NULL, GRAFT_E_FORMAT, "vocab.json", "empty"},
      {"[]", merges, NULL, NULL, GRAFT_E_FORMAT, "vocab.json", "not an object"},
      {"{}", merges, NULL, NULL, GRAFT_E_FORMAT, "vocab.json", "byte 0x00"},
      {good, "", NULL, NULL, GRAFT_E_FORMAT, "merges.txt", "no merges"},
      {good, "#version: 0.2\n", NULL, NULL, GRAFT_E_FORMAT, "merges.txt", "no merges"},
      {good, "h e\nh\n", NULL, NULL, GRAFT_E_FORMAT, "merges.txt", "line 2"},
      {good, "h e l\n", NULL, NULL, GRAFT_E_FORMAT, "merges.txt", "line 1"},
      {good, " e\n", NULL, NULL, GRAFT_E_FORMAT, "merges.txt", "line 1"},
      {good, "h \n", NULL, NULL, GRAFT_E_FORMAT, "merges.txt", "line 1"},
      {good, "h e\nx nothing", NULL, NULL, GRAFT_E_FORMAT, "merges.txt", "merge 2: token `nothing`"},
      {good, "h \xFF\n", NULL, NULL, GRAFT_E_FORMAT, "merges.txt", "not UTF-8"},
      {good, merges, "[]", NULL, GRAFT_E_FORMAT, "added_tokens.json", "not an object"},
      {good, merges, "{\"<x>\":\"1\"}", NULL, GRAFT_E_FORMAT, "added_tokens.json", "out of range"},
      {good, merges, "{\"<x>\":65}", NULL, GRAFT_E_FORMAT, "<x>", "belongs to another token"},
      {good, merges, NULL, "[", GRAFT_E_FORMAT, "tokenizer_config.json", "JSON"},
      {good, merges, NULL, "{\"added_tokens_decoder\":[]}", GRAFT_E_FORMAT, "tokenizer_config.json", "not an object"},
      {good, merges, NULL, "{\"added_tokens_decoder\":{\"x\":{\"content\":\"<x>\"}}}", GRAFT_E_FORMAT,
       "tokenizer_config.json", "no id"},
      {good, merges, NULL, "{\"added_tokens_decoder\":{\"99999999999999999999\":{\"content\":\"<x>\"}}}",
       GRAFT_E_FORMAT, "tokenizer_config.json", "no id"},
      {good, merges, NULL, "{\"added_tokens_decoder\":{\"-1\":{\"content\":\"<x>\"}}}", GRAFT_E_FORMAT,
       "tokenizer_config.json", "no id"},
      {good, merges, NULL, "{\"added_tokens_decoder\":{\"300\":\"<x>\"}}", GRAFT_E_FORMAT, "tokenizer_config.json",
       "content"},
      {good, merges, "{\"<x>\":300}", "{\"added_tokens_decoder\":{\"301\":{\"content\":\"<x>\"}}}", GRAFT_E_FORMAT,
       "<x>", "two different ids"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    temp_folder folder = temp_folder_create();
    write_form(&folder, cases[i].vocabulary, cases[i].merges, cases[i].added, cases[i].config);
    assert_folder_refused(&folder, cases[i].status, cases[i].file, cases[i].reason);
    temp_folder_remove(&folder);
  }
  free(good);
}

static void absent_folder(void **state) {
  (void)state;
  graft_error error = {0};
  graft_tokenizer *tokenizer = NULL;
  assert_refused(graft_tokenizer_open("/nonexistent/folder", &error, &tokenizer), &error, GRAFT_E_NOT_FOUND,
                 "/nonexistent/folder", "no such");
  assert_refused(graft_tokenizer_open(NULL, &error, &tokenizer), &error, GRAFT_E_NOT_FOUND, "none", "no such");
  graft_tokenizer_close(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unsupported_features), cmocka_unit_test(broken_parts),   cmocka_unit_test(broken_documents),
      cmocka_unit_test(missing_bytes),        cmocka_unit_test(broken_folders), cmocka_unit_test(absent_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
