#include <jansson.h>
#include <string.h>

#include "formats/excerpt.h"
#include "formats/json.h"
#include "formats/tokenizer_internal.h"

static graft_status refuse(const graft_json *json, const char *what, graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED, "%s: graft supports only tokenizers with %s",
                    graft_excerpt_path(graft_json_origin(json)).text, what);
}

static bool has_string(const json_t *object, const char *key, const char *expected) {
  const char *text = json_string_value(json_object_get(object, key));
  return text != NULL && strcmp(text, expected) == 0;
}

static bool is_absent(const json_t *value) {
  return value == NULL || json_is_null(value);
}

// Absent, null, false, 0 and "" all switch a feature off.
static bool is_off(const json_t *model, const char *key) {
  const json_t *value = json_object_get(model, key);
  if (is_absent(value) || json_is_false(value)) return true;
  if (json_is_string(value)) return json_string_length(value) == 0;
  return json_is_number(value) && !(json_number_value(value) < 0) && !(json_number_value(value) > 0);
}

static graft_status check_model(const graft_json *json, const json_t *model, graft_error *error) {
  static const char *const unsupported[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                                            "byte_fallback"};
  if (!json_is_object(model))
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: `model` is missing or not an object",
                      graft_excerpt_path(graft_json_origin(json)).text);
  if (json_object_get(model, "type") != NULL && !has_string(model, "type", "BPE"))
    return refuse(json, "`model.type` \"BPE\"", error);
  for (size_t i = 0; i < sizeof unsupported / sizeof unsupported[0]; ++i)
    if (!is_off(model, unsupported[i]))
      return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED, "%s: `model.%s` is set, graft does not support it",
                        graft_excerpt_path(graft_json_origin(json)).text, unsupported[i]);
  return GRAFT_OK;
}

static graft_status load_normalizer(graft_tokenizer *tokenizer, const graft_json *json, graft_error *error) {
  const json_t *normalizer = graft_json_find(json, "normalizer");
  if (normalizer != NULL && !has_string(normalizer, "type", "NFC"))
    return refuse(json, "`normalizer` \"NFC\" or none", error);
  tokenizer->normalize = normalizer != NULL;
  return GRAFT_OK;
}

// The Split step in `pre_tokenizer`, when it is followed by a ByteLevel step that only spells bytes; else NULL.
static const json_t *find_split(const json_t *pre_tokenizer) {
  const json_t *steps = json_object_get(pre_tokenizer, "pretokenizers");
  const json_t *split = json_array_get(steps, 0), *bytes = json_array_get(steps, 1);
  bool fits = has_string(pre_tokenizer, "type", "Sequence") && json_array_size(steps) == 2 &&
              has_string(split, "type", "Split") && has_string(split, "behavior", "Isolated") &&
              is_off(split, "invert") && has_string(bytes, "type", "ByteLevel") && is_off(bytes, "add_prefix_space") &&
              json_is_false(json_object_get(bytes, "use_regex"));
  return fits ? split : NULL;
}

static graft_status load_pretokenizer(graft_tokenizer *tokenizer, const graft_json *json, graft_error *error) {
  const json_t *split = find_split(graft_json_find(json, "pre_tokenizer"));
  const char *pattern = json_string_value(json_object_get(json_object_get(split, "pattern"), "Regex"));
  if (pattern == NULL)
    return refuse(json,
                  "a `pre_tokenizer` that splits by a regular expression (isolated) and then by ByteLevel without "
                  "prefix space and expression of its own",
                  error);
  return graft_pretokenizer_create(pattern, graft_json_origin(json), error, &tokenizer->pretokenizer);
}

static graft_status check_post_processor(const graft_json *json, graft_error *error) {
  const json_t *processor = graft_json_find(json, "post_processor");
  if (processor == NULL || has_string(processor, "type", "ByteLevel")) return GRAFT_OK;
  return refuse(json, "`post_processor` \"ByteLevel\" or none", error);
}

static graft_bpe_text text_of(const json_t *string) {
  return (graft_bpe_text){json_string_value(string), json_string_length(string)};
}

// A merge is ["a", "b"] or, in older files, "a b".
static bool split_merge(const json_t *item, graft_bpe_text *left, graft_bpe_text *right) {
  if (json_is_array(item) && json_array_size(item) == 2) {
    *left = text_of(json_array_get(item, 0));
    *right = text_of(json_array_get(item, 1));
    return left->data != NULL && right->data != NULL;
  }
  const char *text = json_string_value(item), *space = text == NULL ? NULL : strchr(text, ' ');
  if (space == NULL || strchr(space + 1, ' ') != NULL) return false;
  *left = (graft_bpe_text){text, (size_t)(space - text)};
  *right = (graft_bpe_text){space + 1, strlen(space + 1)};
  return true;
}

static graft_status load_merges(graft_tokenizer *tokenizer, const graft_json *json, const json_t *merges,
                                graft_error *error) {
  const char *origin = graft_json_origin(json);
  if (!json_is_array(merges))
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: `model.merges` is missing or not a list",
                      graft_excerpt_path(origin).text);
  size_t n = json_array_size(merges);
  GRAFT_TRY(graft_bpe_reserve_merges(&tokenizer->bpe, n, origin, error));
  for (size_t i = 0; i < n; ++i) {
    graft_bpe_text left, right;
    if (!split_merge(json_array_get(merges, i), &left, &right))
      return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: merge %zu is not a pair of tokens", graft_excerpt_path(origin).text,
                        i + 1);
    GRAFT_TRY(graft_bpe_add_merge(&tokenizer->bpe, left, right, origin, error));
  }
  return GRAFT_OK;
}

static graft_status load_added(graft_tokenizer *tokenizer, const graft_json *json, graft_error *error) {
  const json_t *added = graft_json_find(json, "added_tokens");
  const char *origin = graft_json_origin(json);
  if (added != NULL && !json_is_array(added))
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: `added_tokens` is not a list", graft_excerpt_path(origin).text);
  for (size_t i = 0; i < json_array_size(added); ++i) {
    json_t *entry = json_array_get(added, i), *id = json_object_get(entry, "id");
    if (!json_is_integer(id))
      return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: `added_tokens[%zu].id` is missing or no integer",
                        graft_excerpt_path(origin).text, i);
    GRAFT_TRY(graft_added_tokens_add_entry(&tokenizer->added, entry, json_integer_value(id), origin, error));
  }
  return GRAFT_OK;
}

static graft_status load_document(graft_tokenizer *tokenizer, const graft_json *json, graft_error *error) {
  json_t *model = json_object_get(graft_json_root(json), "model");
  GRAFT_TRY(check_model(json, model, error));
  GRAFT_TRY(load_normalizer(tokenizer, json, error));
  GRAFT_TRY(load_pretokenizer(tokenizer, json, error));
  GRAFT_TRY(check_post_processor(json, error));
  GRAFT_TRY(graft_bpe_init(&tokenizer->bpe, json_object_get(model, "vocab"), graft_json_origin(json), error));
  GRAFT_TRY(graft_json_get_bool(json, "model.ignore_merges", (graft_json_bool_rule){0}, error,
                                &tokenizer->bpe.ignore_merges));
  GRAFT_TRY(load_merges(tokenizer, json, json_object_get(model, "merges"), error));
  return load_added(tokenizer, json, error);
}

graft_status graft_tokenizer_load_json(graft_tokenizer *tokenizer, const char *path, graft_error *error) {
  graft_json *json = NULL;
  GRAFT_TRY(graft_json_open(path, GRAFT_TOKENIZER_MAX_FILE_BYTES, error, &json));
  graft_status status = load_document(tokenizer, json, error);
  graft_json_close(json);
  return status;
}
