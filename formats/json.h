// json.h — a checked layer over jansson: strict parsing and typed reading with ranges.
//
// Parsing refuses duplicate keys, text that is not UTF-8, NUL characters, nesting deeper than GRAFT_JSON_MAX_DEPTH, and
// files longer than the caller allows. Sentences name the file and the key, as in
//   config.json: `n_layers` must be an integer between 1 and 1024, found "x"
// Keys may be dotted ("rope.theta") to reach into nested objects; a key that exists literally is preferred.
// A member that is null counts as absent, as in the configurations that diffusers and transformers write.
// Reading a document from several threads is safe.
#ifndef GRAFT_FORMATS_JSON_H
#define GRAFT_FORMATS_JSON_H

#include "graft/status.h"

struct json_t;  // jansson's node; include <jansson.h> to look inside

typedef struct graft_json graft_json;

enum {
  GRAFT_JSON_MAX_DEPTH = 64,
  GRAFT_JSON_MAX_CONFIG_BYTES = 4 << 20,  // a generous limit for hand-sized configuration files
};

// Reads and parses the file |path| of at most |max_bytes|. Close the result with graft_json_close.
// Errors: those of graft_file_load, GRAFT_E_FORMAT with line and column, and GRAFT_E_NO_MEMORY.
// A limit of jansson: it takes some of its own failed allocations for bad syntax (GRAFT_E_FORMAT), and does not notice
// when its buffer for a long string cannot grow. Hence there must be room for the longest string before it begins.
GRAFT_NODISCARD graft_status graft_json_open(const char *path, size_t max_bytes, graft_error *error,
                                             graft_json **out_json);

// Parses |n_bytes| of |text|; |origin| says in sentences where it came from and is copied.
GRAFT_NODISCARD graft_status graft_json_parse(const char *text, size_t n_bytes, const char *origin, graft_error *error,
                                              graft_json **out_json);

void graft_json_close(graft_json *json);

// The top-level value (not to be changed; jansson's iteration wants it without const), and what |origin| or |path| was.
// Borrowed from |json|.
struct json_t *graft_json_root(const graft_json *json);
const char *graft_json_origin(const graft_json *json);

// The member |key| of the top-level object, or NULL when it is absent or null. Borrowed from |json|.
const struct json_t *graft_json_find(const graft_json *json, const char *key);

// How a member must look. Not |required| and absent: the value is |otherwise|, which need not lie in the range.
typedef struct graft_json_int_rule {
  int64_t min, max;
  bool required;
  int64_t otherwise;
} graft_json_int_rule;

typedef struct graft_json_number_rule {
  double min, max;
  bool required;
  double otherwise;
} graft_json_number_rule;

typedef struct graft_json_bool_rule {
  bool required;
  bool otherwise;
} graft_json_bool_rule;

// A list of |min_count| to |max_count| items. Absent counts as an empty list. |min| and |max| bound integer items.
typedef struct graft_json_list_rule {
  size_t min_count, max_count;
  int64_t min, max;
} graft_json_list_rule;

// Typed members of the top-level object. Integers are accepted as numbers, but 4.0 is no integer.
// Errors: GRAFT_E_FORMAT. Strings are borrowed from |json|; |otherwise| NULL makes a string required.
GRAFT_NODISCARD graft_status graft_json_get_int(const graft_json *json, const char *key, graft_json_int_rule rule,
                                                graft_error *error, int64_t *out_value);
GRAFT_NODISCARD graft_status graft_json_get_number(const graft_json *json, const char *key, graft_json_number_rule rule,
                                                   graft_error *error, double *out_value);
GRAFT_NODISCARD graft_status graft_json_get_bool(const graft_json *json, const char *key, graft_json_bool_rule rule,
                                                 graft_error *error, bool *out_value);
GRAFT_NODISCARD graft_status graft_json_get_string(const graft_json *json, const char *key, const char *otherwise,
                                                   graft_error *error, const char **out_value);

// Lists: |out_values| has room for |rule.max_count| items, |out_count| receives how many there are.
GRAFT_NODISCARD graft_status graft_json_get_ints(const graft_json *json, const char *key, graft_json_list_rule rule,
                                                 graft_error *error, int64_t *out_values, size_t *out_count);
GRAFT_NODISCARD graft_status graft_json_get_strings(const graft_json *json, const char *key, graft_json_list_rule rule,
                                                    graft_error *error, const char **out_values, size_t *out_count);

#endif
