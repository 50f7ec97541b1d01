// linear_i8_form.h — what kind of x a node of graft.linear_i8.v1 has, for the operator's own files.
#ifndef GRAFT_OPS_LINEAR_I8_LINEAR_I8_FORM_H
#define GRAFT_OPS_LINEAR_I8_LINEAR_I8_FORM_H

#include "ops/linear_i8/linear_i8.h"

enum { LINEAR_I8_X, LINEAR_I8_X_SCALE, LINEAR_I8_WEIGHT, LINEAR_I8_WEIGHT_SCALE, LINEAR_I8_BIAS, LINEAR_I8_N_INPUTS };

typedef enum linear_i8_form {
  LINEAR_I8_FLOAT,     // quantised on the way
  LINEAR_I8_SEPARATE,  // int8 with scales
  LINEAR_I8_PACKED,
} linear_i8_form;

static inline linear_i8_form linear_i8_form_of(const graft_linear_i8_attrs *attrs, graft_dtype x) {
  if (x->is_float) return LINEAR_I8_FLOAT;
  return attrs->packed_rows > 0 ? LINEAR_I8_PACKED : LINEAR_I8_SEPARATE;
}

#endif
