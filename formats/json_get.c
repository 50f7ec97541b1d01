#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "formats/excerpt.h"
#include "formats/json.h"

static graft_excerpt describe(const json_t *value) {
  graft_excerpt text = {{0}};
  switch (value == NULL ? JSON_NULL : json_typeof(value)) {
    case JSON_OBJECT: return graft_excerpt_name("an object");
    case JSON_ARRAY: snprintf(text.text, sizeof text.text, "a list of %zu", json_array_size(value)); return text;
    case JSON_STRING:
      snprintf(text.text, sizeof text.text, "\"%.100s\"", graft_excerpt_name(json_string_value(value)).text);
      return text;
    case JSON_INTEGER: snprintf(text.text, sizeof text.text, "%lld", (long long)json_integer_value(value)); return text;
    case JSON_REAL: snprintf(text.text, sizeof text.text, "%.17g", json_real_value(value)); return text;
    case JSON_TRUE: return graft_excerpt_name("true");
    case JSON_FALSE: return graft_excerpt_name("false");
    case JSON_NULL: break;
  }
  return graft_excerpt_name("nothing");
}

// |expected| continues "`key` must be".
static graft_status fail(const graft_json *json, const char *key, const char *expected, const json_t *found,
                         graft_error *error) {
  if (!json_is_object(graft_json_root(json)))
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: must be a JSON object, found %s",
                      graft_excerpt_path(graft_json_origin(json)).text, describe(graft_json_root(json)).text);
  return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: `%s` must be %s, found %s",
                    graft_excerpt_path(graft_json_origin(json)).text, graft_excerpt_name(key).text, expected,
                    describe(found).text);
}

static graft_excerpt expect_int(int64_t min, int64_t max) {
  graft_excerpt text;
  snprintf(text.text, sizeof text.text, "an integer between %lld and %lld", (long long)min, (long long)max);
  return text;
}

static bool is_int_between(const json_t *value, int64_t min, int64_t max) {
  return json_is_integer(value) && json_integer_value(value) >= min && json_integer_value(value) <= max;
}

// Whether a member may be missing here; a top-level value that is no object has no members to miss.
static bool may_use_default(const graft_json *json, const json_t *value, bool required) {
  return value == NULL && !required && json_is_object(graft_json_root(json));
}

graft_status graft_json_get_int(const graft_json *json, const char *key, graft_json_int_rule rule, graft_error *error,
                                int64_t *out_value) {
  const json_t *value = graft_json_find(json, key);
  if (may_use_default(json, value, rule.required)) {
    *out_value = rule.otherwise;
    return GRAFT_OK;
  }
  if (!is_int_between(value, rule.min, rule.max))
    return fail(json, key, expect_int(rule.min, rule.max).text, value, error);
  *out_value = json_integer_value(value);
  return GRAFT_OK;
}

graft_status graft_json_get_number(const graft_json *json, const char *key, graft_json_number_rule rule,
                                   graft_error *error, double *out_value) {
  const json_t *value = graft_json_find(json, key);
  if (may_use_default(json, value, rule.required)) {
    *out_value = rule.otherwise;
    return GRAFT_OK;
  }
  double number = json_is_number(value) ? json_number_value(value) : (double)NAN;
  if (!(number >= rule.min && number <= rule.max)) {
    graft_excerpt expected;
    snprintf(expected.text, sizeof expected.text, "a number between %g and %g", rule.min, rule.max);
    return fail(json, key, expected.text, value, error);
  }
  *out_value = number;
  return GRAFT_OK;
}

graft_status graft_json_get_bool(const graft_json *json, const char *key, graft_json_bool_rule rule, graft_error *error,
                                 bool *out_value) {
  const json_t *value = graft_json_find(json, key);
  if (may_use_default(json, value, rule.required)) {
    *out_value = rule.otherwise;
    return GRAFT_OK;
  }
  if (!json_is_boolean(value)) return fail(json, key, "true or false", value, error);
  *out_value = json_is_true(value);
  return GRAFT_OK;
}

graft_status graft_json_get_string(const graft_json *json, const char *key, const char *otherwise, graft_error *error,
                                   const char **out_value) {
  const json_t *value = graft_json_find(json, key);
  if (may_use_default(json, value, otherwise == NULL)) {
    *out_value = otherwise;
    return GRAFT_OK;
  }
  if (!json_is_string(value)) return fail(json, key, "a string", value, error);
  *out_value = json_string_value(value);
  return GRAFT_OK;
}

static graft_status check_list(const graft_json *json, const char *key, graft_json_list_rule rule, const json_t *value,
                               graft_error *error) {
  if (may_use_default(json, value, rule.min_count > 0)) return GRAFT_OK;
  size_t n = json_array_size(value);
  if (json_is_array(value) && n >= rule.min_count && n <= rule.max_count) return GRAFT_OK;
  graft_excerpt expected;
  if (rule.min_count == rule.max_count)
    snprintf(expected.text, sizeof expected.text, "a list of %zu item%s", rule.max_count,
             rule.max_count == 1 ? "" : "s");
  else snprintf(expected.text, sizeof expected.text, "a list of %zu to %zu items", rule.min_count, rule.max_count);
  return fail(json, key, expected.text, value, error);
}

static graft_status fail_item(const graft_json *json, const char *key, size_t index, const char *expected,
                              graft_error *error) {
  char name[128];
  snprintf(name, sizeof name, "%.100s[%zu]", key, index);
  return fail(json, name, expected, json_array_get(graft_json_find(json, key), index), error);
}

graft_status graft_json_get_ints(const graft_json *json, const char *key, graft_json_list_rule rule, graft_error *error,
                                 int64_t *out_values, size_t *out_count) {
  const json_t *list = graft_json_find(json, key);
  GRAFT_TRY(check_list(json, key, rule, list, error));
  for (size_t i = 0; i < json_array_size(list); ++i) {
    const json_t *item = json_array_get(list, i);
    if (!is_int_between(item, rule.min, rule.max))
      return fail_item(json, key, i, expect_int(rule.min, rule.max).text, error);
    out_values[i] = json_integer_value(item);
  }
  *out_count = json_array_size(list);
  return GRAFT_OK;
}

graft_status graft_json_get_strings(const graft_json *json, const char *key, graft_json_list_rule rule,
                                    graft_error *error, const char **out_values, size_t *out_count) {
  const json_t *list = graft_json_find(json, key);
  GRAFT_TRY(check_list(json, key, rule, list, error));
  for (size_t i = 0; i < json_array_size(list); ++i) {
    const json_t *item = json_array_get(list, i);
    if (!json_is_string(item)) return fail_item(json, key, i, "a string", error);
    out_values[i] = json_string_value(item);
  }
  *out_count = json_array_size(list);
  return GRAFT_OK;
}
