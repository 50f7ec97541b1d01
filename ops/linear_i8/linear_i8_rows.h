// linear_i8_rows.h — what operators share that go on with the rows of a product of packed int8 activations: their
// attributes begin with graft_linear_i8_rows_attrs, their inputs with x, weight and weight's scale as graft_linear_i8
// takes them. There is no bias.
#ifndef GRAFT_OPS_LINEAR_I8_LINEAR_I8_ROWS_H
#define GRAFT_OPS_LINEAR_I8_LINEAR_I8_ROWS_H

#include "graft/fusion.h"
#include "ops/linear_i8/linear_i8_attrs.h"

#define LINEAR_I8_ROWS_ATTRS                                                                                         \
  LINEAR_I8_ATTRS, {                                                                                                 \
    .name = "batch", .type = GRAFT_ATTR_I64, .offset = offsetof(graft_linear_i8_rows_attrs, batch), .default_i64 = 1 \
  }

// Describes the product with the weight that is input |weight|, its scale being the next. Thread-safe.
graft_status graft_infer_linear_i8_rows(const graft_infer_args *args, uint32_t weight, graft_tensor_desc *out_product);

// Builds it: graft.linear_i8.v1, then graft.reshape.v1.
graft_tensor *graft_linear_i8_rows(graft_graph *graph, graft_tensor *const *inputs, uint32_t weight,
                                   const graft_linear_i8_rows_attrs *attrs);

// Reads the attributes from the group's first two nodes, which are these. Thread-safe.
bool graft_linear_i8_rows_capture(const graft_fusion_match *match, graft_linear_i8_rows_attrs *attrs,
                                  graft_reason *why);

// Operations of one such product that has |n| columns. Thread-safe.
double graft_linear_i8_rows_flops(const graft_linear_i8_rows_attrs *attrs, const graft_tensor_desc *weight);

#endif
