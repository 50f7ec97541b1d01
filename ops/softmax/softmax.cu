// softmax.cu — device code of graft.softmax.v1: one block of threads for each row.
#include "ops/common/cuda/scalar.cuh"
#include "ops/softmax/softmax_params.h"

extern "C" __global__ void graft_softmax_rows(const graft_softmax_params p) {
  __shared__ float shared[32];
  for (int64_t row = blockIdx.x; row < p.walk.n; row += gridDim.x) {
    int64_t offsets[2];
    graft_walk_find<2>(p.walk, row, offsets);
    char *to = p.operands[0].data + offsets[0];
    const char *from = p.operands[1].data + offsets[1];
    const int type = p.operands[1].type;
    float most = -INFINITY, sum = 0;
    bool has_nan = false;
    for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) {
      const float x = graft_load(from + i * p.steps[1], type);
      has_nan = has_nan || isnan(x);
      most = fmaxf(most, x);
    }
    most = graft_block_max(most, shared);
    for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) sum += expf(graft_load(from + i * p.steps[1], type) - most);
    sum = graft_block_sum(has_nan ? NAN : sum, shared);
    for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) {
      const float x = graft_load(from + i * p.steps[1], type);
      graft_store(to + i * p.steps[0], p.operands[0].type, expf(x - most) / sum);
    }
    __syncthreads();
  }
}
