// conv2d_attrs.h — the schema of graft_conv2d_attrs, for the operators that have it.
#ifndef GRAFT_OPS_CONV2D_CONV2D_ATTRS_H
#define GRAFT_OPS_CONV2D_CONV2D_ATTRS_H

#include <stddef.h>

#include "graft/op.h"
#include "ops/conv2d/conv2d.h"

// Entries of a graft_attr_def table; the attributes are what the operator's begin with.
#define CONV2D_ATTRS                                                                                        \
  {.name = "stride_down", .offset = offsetof(graft_conv2d_attrs, stride[0]), .default_i64 = 1},             \
      {.name = "stride_across", .offset = offsetof(graft_conv2d_attrs, stride[1]), .default_i64 = 1},       \
      {.name = "padding_top", .offset = offsetof(graft_conv2d_attrs, padding[0])},                          \
      {.name = "padding_bottom", .offset = offsetof(graft_conv2d_attrs, padding[1])},                       \
      {.name = "padding_left", .offset = offsetof(graft_conv2d_attrs, padding[2])},                         \
      {.name = "padding_right", .offset = offsetof(graft_conv2d_attrs, padding[3])},                        \
      {.name = "dilation_down", .offset = offsetof(graft_conv2d_attrs, dilation[0]), .default_i64 = 1},     \
      {.name = "dilation_across", .offset = offsetof(graft_conv2d_attrs, dilation[1]), .default_i64 = 1}, { \
    .name = "groups", .offset = offsetof(graft_conv2d_attrs, groups), .default_i64 = 1                      \
  }

#endif
