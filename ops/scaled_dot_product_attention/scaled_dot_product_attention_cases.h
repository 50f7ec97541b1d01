// scaled_dot_product_attention_cases.h — examples of graft.scaled_dot_product_attention.v1.
#ifndef GRAFT_OPS_SCALED_DOT_PRODUCT_ATTENTION_SCALED_DOT_PRODUCT_ATTENTION_CASES_H
#define GRAFT_OPS_SCALED_DOT_PRODUCT_ATTENTION_SCALED_DOT_PRODUCT_ATTENTION_CASES_H

#include "graft/op.h"

enum { GRAFT_SCALED_DOT_PRODUCT_ATTENTION_N_CASES = 36 };
extern const graft_op_case graft_scaled_dot_product_attention_cases[GRAFT_SCALED_DOT_PRODUCT_ATTENTION_N_CASES];

#endif
