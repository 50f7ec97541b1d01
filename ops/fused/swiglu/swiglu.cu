// swiglu.cu — device code of graft.swiglu.v1.
#include "ops/common/cuda/elementwise.cuh"

GRAFT_ELEMENTWISE(graft_swiglu, 3, graft_silu_of(x[0]) * x[1])
