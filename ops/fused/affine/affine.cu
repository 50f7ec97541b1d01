// affine.cu — device code of affine.h. Products and sums are rounded one after the other.
#include "ops/common/cuda/elementwise.cuh"

GRAFT_ELEMENTWISE(graft_affine, 4, __fadd_rn(__fmul_rn(x[0], x[1]), x[2]))
GRAFT_ELEMENTWISE(graft_modulate, 4, __fadd_rn(__fmul_rn(x[0], __fadd_rn(1.0f, x[1])), x[2]))
GRAFT_ELEMENTWISE(graft_modulate_scale, 3, __fmul_rn(x[0], __fadd_rn(1.0f, x[1])))
