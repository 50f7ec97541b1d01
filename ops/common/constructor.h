// constructor.h — for constructors that look at their arguments before they apply an operator.
#ifndef GRAFT_OPS_COMMON_CONSTRUCTOR_H
#define GRAFT_OPS_COMMON_CONSTRUCTOR_H

#include "graft/graph.h"

// Description of |x|; NULL where there is none, so that applying the operator will report what is wrong.
static inline const graft_tensor_desc *graft_constructor_describe(const graft_tensor *x) {
  return x == NULL || x == graft_graph_none() ? NULL : graft_tensor_describe(x);
}

// |axis| counted from the first dimension of |x| (may be NULL).
static inline int64_t graft_constructor_axis(const graft_tensor_desc *x, int32_t axis) {
  return axis < 0 && x != NULL ? (int64_t)axis + x->rank : axis;
}

#endif
