// Attributes from text, as the schema of their operator says.
#include <string.h>

#include "src/graph/attrs.h"
#include "src/graph/serialize.h"

static graft_status read_bool(graft_text_reader *reader, const graft_attr_def *attr, bool *out_value) {
  *out_value = graft_text_take(reader, "true");
  if (*out_value || graft_text_take(reader, "false")) return GRAFT_OK;
  return graft_text_fail(reader, GRAFT_E_FORMAT, "attribute %s is neither true nor false", attr->name);
}

// A choice is any text, so the longest one that stands before the end of the value is meant.
static graft_status read_choice(graft_text_reader *reader, const graft_attr_def *attr, int32_t *out_value) {
  size_t longest = 0;
  graft_text_skip_spaces(reader);
  for (int32_t i = 0; attr->choices[i] != NULL; ++i) {
    size_t n = strlen(attr->choices[i]);
    bool is_here = strncmp(reader->at, attr->choices[i], n) == 0 && (reader->at[n] == ',' || reader->at[n] == '}');
    if (!is_here || n < longest) continue;
    longest = n;
    *out_value = i;
  }
  if (longest == 0)
    return graft_text_fail(reader, GRAFT_E_NOT_FOUND,
                           "\"%.*s\" is none of the choices of attribute %s that are known here",
                           (int)strcspn(reader->at, ",}\n"), reader->at, attr->name);
  reader->at += longest;
  return GRAFT_OK;
}

static graft_status read_list(graft_text_reader *reader, const graft_attr_def *attr, char *attrs) {
  int32_t n = 0;
  GRAFT_TRY(graft_text_expect(reader, "["));
  while (!graft_text_take(reader, "]")) {
    int64_t value;
    if (n > 0) GRAFT_TRY(graft_text_expect(reader, ","));
    GRAFT_TRY(graft_text_i64(reader, &value));
    if ((uint32_t)n >= attr->max_count)
      return graft_text_fail(reader, GRAFT_E_FORMAT, "attribute %s holds at most %u", attr->name,
                             (unsigned)attr->max_count);
    memcpy(attrs + attr->offset + (size_t)n++ * sizeof value, &value, sizeof value);
  }
  memcpy(attrs + attr->count_offset, &n, sizeof n);
  return GRAFT_OK;
}

static graft_status read_value(graft_text_reader *reader, const graft_context *context, const graft_attr_def *attr,
                               char *attrs) {
  union {
    int64_t i64;
    double f64;
    bool boolean;
    int32_t choice;
    graft_dtype dtype;
  } value = {0};
  graft_status status = GRAFT_OK;
  switch (attr->type) {
    case GRAFT_ATTR_I64: status = graft_text_i64(reader, &value.i64); break;
    case GRAFT_ATTR_F64: status = graft_text_f64(reader, &value.f64); break;
    case GRAFT_ATTR_BOOL: status = read_bool(reader, attr, &value.boolean); break;
    case GRAFT_ATTR_ENUM: status = read_choice(reader, attr, &value.choice); break;
    case GRAFT_ATTR_DTYPE:
      value.dtype = NULL;
      if (!graft_text_take(reader, "none")) status = graft_text_dtype(reader, context, &value.dtype);
      break;
    case GRAFT_ATTR_I64S: return read_list(reader, attr, attrs);
  }
  if (status == GRAFT_OK) memcpy(attrs + attr->offset, &value, graft_attr_bytes(attr));
  return status;
}

// Finds the attribute that stands here among those from |*index| on: each comes once, in the schema's order.
static graft_status find_attr(graft_text_reader *reader, const graft_op_def *op, uint32_t *index) {
  const char *word;
  size_t n = graft_text_word(reader, &word);
  for (uint32_t i = 0; i < op->n_attrs; ++i) {
    if (strlen(op->attrs[i].name) != n || strncmp(op->attrs[i].name, word, n) != 0) continue;
    if (i < *index)
      return graft_text_fail(reader, GRAFT_E_FORMAT, "attribute %.*s stands twice, or not in the order of the schema",
                             (int)n, word);
    *index = i;
    return GRAFT_OK;
  }
  return graft_text_fail(reader, GRAFT_E_NOT_FOUND,
                         "%s has no attribute \"%.*s\" here; the graph may be from a newer graft", op->name,
                         (int)(n < 60 ? n : 60), word);
}

graft_status graft_text_attrs(graft_text_reader *reader, const graft_context *context, const graft_op_def *op,
                              void *attrs) {
  uint32_t index = 0;
  GRAFT_TRY(graft_text_expect(reader, "{"));
  for (bool is_first = true; !graft_text_take(reader, "}"); is_first = false) {
    if (!is_first) GRAFT_TRY(graft_text_expect(reader, ","));
    GRAFT_TRY(find_attr(reader, op, &index));
    GRAFT_TRY(graft_text_expect(reader, "="));
    GRAFT_TRY(read_value(reader, context, &op->attrs[index], attrs));
    ++index;
  }
  return GRAFT_OK;
}
