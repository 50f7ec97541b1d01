// quantize_convrot_i8_attrs.h — the schema of graft_quantize_convrot_i8_attrs, for the operators that have it.
#ifndef GRAFT_OPS_QUANTIZE_CONVROT_I8_QUANTIZE_CONVROT_I8_ATTRS_H
#define GRAFT_OPS_QUANTIZE_CONVROT_I8_QUANTIZE_CONVROT_I8_ATTRS_H

#include <stddef.h>

#include "graft/op.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"

static const char *const quantize_convrot_i8_grids[] = {"f32", "bf16", NULL};

// Entries of a graft_attr_def table; the attributes lie |base| bytes from the beginning of the operator's.
#define QUANTIZE_CONVROT_I8_ATTRS(base)                                                                          \
  {.name = "group",                                                                                              \
   .type = GRAFT_ATTR_I64,                                                                                       \
   .offset = (base) + offsetof(graft_quantize_convrot_i8_attrs, group),                                          \
   .default_i64 = 1},                                                                                            \
  {                                                                                                              \
    .name = "grid", .type = GRAFT_ATTR_ENUM, .offset = (base) + offsetof(graft_quantize_convrot_i8_attrs, grid), \
    .choices = quantize_convrot_i8_grids                                                                         \
  }

#endif
