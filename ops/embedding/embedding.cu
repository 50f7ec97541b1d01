// embedding.cu — device code of graft.embedding.v1: one block of threads for each index.
#include "ops/common/cuda/scalar.cuh"
#include "ops/embedding/embedding_params.h"

extern "C" __global__ void graft_embedding_rows(const graft_embedding_params p) {
  for (int64_t i = blockIdx.x; i < p.walk.n; i += gridDim.x) {
    int64_t offsets[2];
    graft_walk_find<2>(p.walk, i, offsets);
    const char *id = p.operands[1].data + offsets[1];
    const int64_t index =
        p.operands[1].type == GRAFT_DTYPE_I32 ? (int64_t) * (const int32_t *)id : *(const int64_t *)id;
    if (index < 0 || index >= p.n_rows) {
      if (threadIdx.x == 0 && atomicCAS((int *)&p.fault->code, 0, 1) == 0) {
        p.fault->values[0] = index;
        p.fault->values[1] = p.n_rows;
      }
      continue;
    }
    const char *row = p.table.data + index * p.row_stride;
    char *y = p.operands[0].data + offsets[0];
    for (int64_t c = threadIdx.x; c < p.width; c += blockDim.x) {
      graft_store(y + c * p.y_step, p.operands[0].type, graft_load(row + c * p.table_step, p.table.type));
    }
  }
}
