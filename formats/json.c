#include "formats/json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "formats/excerpt.h"
#include "formats/file.h"

enum { MAX_KEY_BYTES = 128 };  // of one part of a dotted key, which is ours

struct graft_json {
  json_t *root;
  char *origin;
};

// jansson recurses into containers, also when it frees them, so the depth is checked before it sees the text.
static bool is_too_deep(const char *text, size_t n_bytes) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < n_bytes; ++i) {
    char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > GRAFT_JSON_MAX_DEPTH) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

static graft_status fail_to_parse(const char *origin, const json_error_t *details, graft_error *error) {
  // jansson leaves the text empty when an allocation fails while it builds containers.
  if (details->text[0] == '\0' || json_error_code(details) == json_error_out_of_memory)
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory while parsing", graft_excerpt_path(origin).text);
  return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: not valid JSON at line %d, column %d: %s",
                    graft_excerpt_path(origin).text, details->line, details->column,
                    graft_excerpt_name(details->text).text);
}

static graft_json *create(const char *origin) {
  graft_json *json = calloc(1, sizeof *json);
  if (json == NULL) return NULL;
  size_t n = strlen(origin) + 1;
  json->origin = malloc(n);
  if (json->origin == NULL) {
    free(json);
    return NULL;
  }
  memcpy(json->origin, origin, n);
  return json;
}

graft_status graft_json_parse(const char *text, size_t n_bytes, const char *origin, graft_error *error,
                              graft_json **out_json) {
  if (n_bytes == 0) return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: empty", graft_excerpt_path(origin).text);
  if (is_too_deep(text, n_bytes))
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: nested deeper than %d levels", graft_excerpt_path(origin).text,
                      GRAFT_JSON_MAX_DEPTH);
  graft_json *json = create(origin);
  if (json == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory", graft_excerpt_path(origin).text);
  json_error_t details = {0};
  json->root = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &details);
  if (json->root == NULL) {
    graft_status status = fail_to_parse(origin, &details, error);
    graft_json_close(json);
    return status;
  }
  *out_json = json;
  return GRAFT_OK;
}

graft_status graft_json_open(const char *path, size_t max_bytes, graft_error *error, graft_json **out_json) {
  graft_file_text text = {0};
  GRAFT_TRY(graft_file_load(path, max_bytes, error, &text));
  graft_status status = graft_json_parse(text.data, text.bytes, path, error, out_json);
  graft_file_text_release(&text);
  return status;
}

void graft_json_close(graft_json *json) {
  if (json == NULL) return;
  json_decref(json->root);
  free(json->origin);
  free(json);
}

json_t *graft_json_root(const graft_json *json) {
  return json->root;
}

const char *graft_json_origin(const graft_json *json) {
  return json->origin;
}

static const json_t *find_dotted(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  size_t n = strcspn(key, ".");
  char first[MAX_KEY_BYTES];
  if (value != NULL || key[n] == '\0' || n >= sizeof first) return value;
  memcpy(first, key, n);
  first[n] = '\0';
  const json_t *inner = json_object_get(object, first);
  return inner == NULL ? NULL : find_dotted(inner, key + n + 1);
}

const json_t *graft_json_find(const graft_json *json, const char *key) {
  const json_t *value = find_dotted(json->root, key);
  return json_is_null(value) ? NULL : value;
}
