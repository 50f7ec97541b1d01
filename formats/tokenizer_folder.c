#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "formats/excerpt.h"
#include "formats/file.h"
#include "formats/json.h"
#include "formats/tokenizer_internal.h"
#include "formats/utf8.h"

// Parses |name| in |folder|. When it does not exist: an error if it is |required|, else |out_json| is NULL.
static graft_status open_json(const char *folder, const char *name, bool required, graft_error *error,
                              graft_json **out_json) {
  char *path = NULL;
  GRAFT_TRY(graft_file_join(folder, name, error, &path));
  *out_json = NULL;
  graft_status status = GRAFT_OK;
  if (required || graft_file_exists(path))
    status = graft_json_open(path, GRAFT_TOKENIZER_MAX_FILE_BYTES, error, out_json);
  free(path);
  return status;
}

static graft_bpe_text next_line(const char **cursor, const char *end) {
  const char *begin = *cursor, *newline = memchr(begin, '\n', (size_t)(end - begin));
  *cursor = newline == NULL ? end : newline + 1;
  size_t n = (size_t)((newline == NULL ? end : newline) - begin);
  if (n > 0 && begin[n - 1] == '\r') --n;
  return (graft_bpe_text){begin, n};
}

static bool is_merge_line(graft_bpe_text line) {
  static const char version[] = "#version";
  return line.bytes > 0 && (line.bytes < strlen(version) || memcmp(line.data, version, strlen(version)) != 0);
}

static graft_status add_merge_line(graft_bpe *bpe, graft_bpe_text line, const char *path, size_t number,
                                   graft_error *error) {
  const char *space = memchr(line.data, ' ', line.bytes);
  size_t n_left = space == NULL ? 0 : (size_t)(space - line.data);
  size_t n_right = space == NULL ? 0 : line.bytes - n_left - 1;
  if (n_left == 0 || n_right == 0 || memchr(space + 1, ' ', n_right) != NULL)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: line %zu is not a pair of tokens", graft_excerpt_path(path).text,
                      number);
  return graft_bpe_add_merge(bpe, (graft_bpe_text){line.data, n_left}, (graft_bpe_text){space + 1, n_right}, path,
                             error);
}

static graft_status parse_merges(graft_bpe *bpe, const graft_file_text *text, const char *path, graft_error *error) {
  size_t offset = 0, n_merges = 0, number = 0;
  if (!graft_utf8_is_valid(text->data, text->bytes, &offset))
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: not UTF-8 at byte %zu", graft_excerpt_path(path).text, offset);
  const char *end = text->data + text->bytes;
  for (const char *cursor = text->data; cursor < end;) n_merges += is_merge_line(next_line(&cursor, end));
  if (n_merges == 0) return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: holds no merges", graft_excerpt_path(path).text);
  GRAFT_TRY(graft_bpe_reserve_merges(bpe, n_merges, path, error));
  for (const char *cursor = text->data; cursor < end;) {
    graft_bpe_text line = next_line(&cursor, end);
    ++number;
    if (is_merge_line(line)) GRAFT_TRY(add_merge_line(bpe, line, path, number, error));
  }
  return GRAFT_OK;
}

static graft_status load_merges(graft_bpe *bpe, const char *folder, graft_error *error) {
  char *path = NULL;
  graft_file_text text = {0};
  GRAFT_TRY(graft_file_join(folder, "merges.txt", error, &path));
  graft_status status = graft_file_load(path, GRAFT_TOKENIZER_MAX_FILE_BYTES, error, &text);
  if (status == GRAFT_OK) status = parse_merges(bpe, &text, path, error);
  graft_file_text_release(&text);
  free(path);
  return status;
}

static graft_status load_vocabulary(graft_bpe *bpe, const char *folder, graft_error *error) {
  graft_json *json = NULL;
  GRAFT_TRY(open_json(folder, "vocab.json", true, error, &json));
  graft_status status = graft_bpe_init(bpe, graft_json_root(json), graft_json_origin(json), error);
  graft_json_close(json);
  return status;
}

static graft_status add_listed(graft_tokenizer *tokenizer, const graft_json *json, graft_error *error) {
  const char *origin = graft_json_origin(json), *text;
  json_t *id;
  if (!json_is_object(graft_json_root(json)))
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: not an object", graft_excerpt_path(origin).text);
  json_object_foreach(graft_json_root(json), text, id) {
    // No integer at all becomes an id that is out of range.
    int64_t value = json_is_integer(id) ? json_integer_value(id) : -1;
    GRAFT_TRY(graft_added_tokens_add(&tokenizer->added, text, value, origin, error));
  }
  return GRAFT_OK;
}

graft_status graft_tokenizer_load_vocabulary(graft_tokenizer *tokenizer, const char *folder, graft_error *error) {
  tokenizer->normalize = true;
  GRAFT_TRY(load_vocabulary(&tokenizer->bpe, folder, error));
  GRAFT_TRY(load_merges(&tokenizer->bpe, folder, error));
  GRAFT_TRY(graft_pretokenizer_create(graft_pretokenize_qwen2_pattern, folder, error, &tokenizer->pretokenizer));
  graft_json *json = NULL;
  GRAFT_TRY(open_json(folder, "added_tokens.json", false, error, &json));
  graft_status status = json == NULL ? GRAFT_OK : add_listed(tokenizer, json, error);
  graft_json_close(json);
  return status;
}

static bool parse_id(const char *text, int64_t *out_id) {
  char *end = NULL;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  *out_id = value;
  return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

static graft_status add_decoder(graft_tokenizer *tokenizer, const graft_json *json, graft_error *error) {
  json_t *decoder = json_object_get(graft_json_root(json), "added_tokens_decoder");
  const char *origin = graft_json_origin(json), *key;
  json_t *entry;
  if (decoder != NULL && !json_is_object(decoder))
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: `added_tokens_decoder` is not an object",
                      graft_excerpt_path(origin).text);
  json_object_foreach(decoder, key, entry) {
    int64_t id = 0;
    if (!parse_id(key, &id))
      return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: `added_tokens_decoder` has the key `%s`, which is no id",
                        graft_excerpt_path(origin).text, graft_excerpt_name(key).text);
    GRAFT_TRY(graft_added_tokens_add_entry(&tokenizer->added, entry, id, origin, error));
  }
  return GRAFT_OK;
}

graft_status graft_tokenizer_load_config(graft_tokenizer *tokenizer, const char *folder, graft_error *error) {
  graft_json *json = NULL;
  GRAFT_TRY(open_json(folder, "tokenizer_config.json", false, error, &json));
  graft_status status = json == NULL ? GRAFT_OK : add_decoder(tokenizer, json, error);
  graft_json_close(json);
  return status;
}
