#include "src/graph/attrs.h"

#include <string.h>

#include "src/graph/convert.h"

size_t graft_attr_bytes(const graft_attr_def *attr) {
  switch (attr->type) {
    case GRAFT_ATTR_I64: return sizeof(int64_t);
    case GRAFT_ATTR_F64: return sizeof(double);
    case GRAFT_ATTR_BOOL: return sizeof(bool);
    case GRAFT_ATTR_DTYPE: return sizeof(graft_dtype);
    case GRAFT_ATTR_ENUM: return sizeof(int32_t);
    case GRAFT_ATTR_I64S: return attr->max_count * sizeof(int64_t);
  }
  return 0;
}

uint32_t graft_attr_n_choices(const graft_attr_def *attr) {
  uint32_t n = 0;
  while (attr->choices[n] != NULL) ++n;
  return n;
}

int32_t graft_attr_count(const graft_attr_def *attr, const void *attrs) {
  int32_t count;
  memcpy(&count, (const char *)attrs + attr->count_offset, sizeof count);
  return count;
}

static void set_default(const graft_attr_def *attr, char *attrs) {
  char *member = attrs + attr->offset;
  int32_t small = (int32_t)attr->default_i64;
  switch (attr->type) {
    case GRAFT_ATTR_I64: memcpy(member, &attr->default_i64, sizeof attr->default_i64); break;
    case GRAFT_ATTR_F64: memcpy(member, &attr->default_f64, sizeof attr->default_f64); break;
    case GRAFT_ATTR_BOOL: *(bool *)member = attr->default_i64 != 0; break;
    case GRAFT_ATTR_ENUM: memcpy(member, &small, sizeof small); break;
    case GRAFT_ATTR_DTYPE: {
      graft_dtype dtype = graft_dtype_of_code(attr->default_i64);
      memcpy(member, &dtype, sizeof dtype);
      break;
    }
    case GRAFT_ATTR_I64S: {
      int32_t count = (int32_t)attr->max_count;
      for (int32_t i = 0; i < count; ++i)
        memcpy(member + (size_t)i * sizeof(int64_t), &attr->default_i64, sizeof(int64_t));
      memcpy(attrs + attr->count_offset, &count, sizeof count);
      break;
    }
  }
}

void graft_op_default_attrs(const graft_op_def *op, void *attrs) {
  if (op->attrs_bytes == 0) return;
  memset(attrs, 0, op->attrs_bytes);
  for (uint32_t i = 0; i < op->n_attrs; ++i) set_default(&op->attrs[i], attrs);
}

static graft_status check_attr(const graft_op_def *op, const graft_attr_def *attr, const char *attrs,
                               graft_error *error) {
  const char *member = attrs + attr->offset;
  if (attr->type == GRAFT_ATTR_ENUM) {
    int32_t value;
    memcpy(&value, member, sizeof value);
    uint32_t n = graft_attr_n_choices(attr);
    if (value < 0 || (uint32_t)value >= n)
      return GRAFT_FAIL(error, GRAFT_E_INVALID, "attribute %s of %s is %d; its choices are 0 … %u", attr->name,
                        op->name, (int)value, (unsigned)(n - 1));
  } else if (attr->type == GRAFT_ATTR_I64S) {
    int32_t count = graft_attr_count(attr, attrs);
    if (count < 0 || (uint32_t)count > attr->max_count)
      return GRAFT_FAIL(error, GRAFT_E_INVALID, "attribute %s of %s has %d entries; it holds 0 … %u", attr->name,
                        op->name, (int)count, (unsigned)attr->max_count);
  } else if (attr->type == GRAFT_ATTR_BOOL && *(const unsigned char *)member > 1) {
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "attribute %s of %s is %d, neither false nor true", attr->name, op->name,
                      (int)*(const unsigned char *)member);
  }
  return GRAFT_OK;
}

graft_status graft_attrs_check(const graft_op_def *op, const void *attrs, graft_error *error) {
  for (uint32_t i = 0; i < op->n_attrs; ++i) GRAFT_TRY(check_attr(op, &op->attrs[i], attrs, error));
  return GRAFT_OK;
}

bool graft_attrs_equal(const graft_op_def *op, const void *a, const void *b) {
  for (uint32_t i = 0; i < op->n_attrs; ++i) {
    const graft_attr_def *attr = &op->attrs[i];
    size_t bytes = graft_attr_bytes(attr);
    if (attr->type == GRAFT_ATTR_I64S) {
      if (graft_attr_count(attr, a) != graft_attr_count(attr, b)) return false;
      bytes = (size_t)graft_attr_count(attr, a) * sizeof(int64_t);
    }
    if (memcmp((const char *)a + attr->offset, (const char *)b + attr->offset, bytes) != 0) return false;
  }
  return true;
}
