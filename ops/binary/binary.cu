// binary.cu — device code of the operators of binary.h.
#include "ops/common/cuda/elementwise.cuh"

GRAFT_ELEMENTWISE(graft_add, 3, x[0] + x[1])
GRAFT_ELEMENTWISE(graft_sub, 3, x[0] - x[1])
GRAFT_ELEMENTWISE(graft_mul, 3, x[0] * x[1])
GRAFT_ELEMENTWISE(graft_div, 3, __fdiv_rn(x[0], x[1]))
