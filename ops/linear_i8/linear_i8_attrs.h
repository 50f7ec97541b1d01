// linear_i8_attrs.h — the schema of graft_linear_i8_attrs, for the operators that have it.
#ifndef GRAFT_OPS_LINEAR_I8_LINEAR_I8_ATTRS_H
#define GRAFT_OPS_LINEAR_I8_LINEAR_I8_ATTRS_H

#include <stddef.h>

#include "graft/op.h"
#include "ops/linear_i8/linear_i8.h"

static const char *const linear_i8_grids[] = {"f32", "bf16", NULL};
static const char *const linear_i8_orders[] = {"plain", "comfy", NULL};

// Entries of a graft_attr_def table; the attributes are what the operator's begin with.
#define LINEAR_I8_ATTRS                                                                                          \
  {.name = "group", .type = GRAFT_ATTR_I64, .offset = offsetof(graft_linear_i8_attrs, group), .default_i64 = 1}, \
      {.name = "grid",                                                                                           \
       .type = GRAFT_ATTR_ENUM,                                                                                  \
       .offset = offsetof(graft_linear_i8_attrs, grid),                                                          \
       .choices = linear_i8_grids},                                                                              \
      {.name = "order",                                                                                          \
       .type = GRAFT_ATTR_ENUM,                                                                                  \
       .offset = offsetof(graft_linear_i8_attrs, order),                                                         \
       .choices = linear_i8_orders},                                                                             \
      {.name = "y_dtype", .type = GRAFT_ATTR_DTYPE, .offset = offsetof(graft_linear_i8_attrs, y_dtype)}, {       \
    .name = "packed_rows", .type = GRAFT_ATTR_I64, .offset = offsetof(graft_linear_i8_attrs, packed_rows)        \
  }

#endif
