// quantize_convrot_i8_cases.h — examples of graft.quantize_convrot_i8.v1 and its packed form.
#ifndef GRAFT_OPS_QUANTIZE_CONVROT_I8_QUANTIZE_CONVROT_I8_CASES_H
#define GRAFT_OPS_QUANTIZE_CONVROT_I8_QUANTIZE_CONVROT_I8_CASES_H

#include "graft/op.h"

enum { GRAFT_QUANTIZE_CONVROT_I8_N_CASES = 18, GRAFT_QUANTIZE_CONVROT_I8_PACKED_N_CASES = 8 };
extern const graft_op_case graft_quantize_convrot_i8_cases[GRAFT_QUANTIZE_CONVROT_I8_N_CASES];
extern const graft_op_case graft_quantize_convrot_i8_packed_cases[GRAFT_QUANTIZE_CONVROT_I8_PACKED_N_CASES];

#endif
