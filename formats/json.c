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

// What must be known of a text before jansson sees it.
typedef struct text_measure {
  int depth;             // of nested containers
  size_t longest_bytes;  // of a string, or of anything else without blanks
} text_measure;

static text_measure measure(const char *text, size_t n_bytes) {
  text_measure most = {0};
  int depth = 0;
  size_t begin = 0;
  bool in_string = false;
  for (size_t i = 0; i < n_bytes; ++i) {
    char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > most.depth) most.depth = depth;
    if (strchr(",:{}[] \t\r\n", c) == NULL) continue;
    if (i - begin > most.longest_bytes) most.longest_bytes = i - begin;
    begin = i + 1;
  }
  if (n_bytes - begin > most.longest_bytes) most.longest_bytes = n_bytes - begin;
  return most;
}

// jansson gathers a string in a buffer that it makes twice as large whenever it is full, and copies the result. Where
// that buffer cannot grow it goes on without, asks again for every byte and leaves bytes out, so there must be room.
// Volatile, because clang takes it that memory which nobody uses is always there, and does not ask.
static bool has_room_for(size_t longest_bytes) {
  void *volatile room = malloc(3 * longest_bytes + 1);
  free(room);
  return room != NULL;
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
  // jansson recurses into containers, also when it frees them.
  const text_measure most = measure(text, n_bytes);
  if (most.depth > GRAFT_JSON_MAX_DEPTH)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: nested deeper than %d levels", graft_excerpt_path(origin).text,
                      GRAFT_JSON_MAX_DEPTH);
  graft_json *json = has_room_for(most.longest_bytes) ? create(origin) : NULL;
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
