// group_norm_attrs.h — the schema of graft_group_norm_attrs, for the operators that have it.
#ifndef GRAFT_OPS_GROUP_NORM_GROUP_NORM_ATTRS_H
#define GRAFT_OPS_GROUP_NORM_GROUP_NORM_ATTRS_H

#include <stddef.h>

#include "graft/op.h"
#include "ops/group_norm/group_norm.h"

// Entries of a graft_attr_def table.
#define GROUP_NORM_ATTRS                                                                                        \
  {.name = "n_groups",                                                                                          \
   .type = GRAFT_ATTR_I64,                                                                                      \
   .offset = offsetof(graft_group_norm_attrs, n_groups),                                                        \
   .default_i64 = 1},                                                                                           \
  {                                                                                                             \
    .name = "eps", .type = GRAFT_ATTR_F64, .offset = offsetof(graft_group_norm_attrs, eps), .default_f64 = 1e-5 \
  }

#endif
