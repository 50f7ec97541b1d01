// move.cu — device code of move.h.
#include "ops/common/cuda/scalar.cuh"
#include "ops/common/cuda/move.h"

template <class T>
__device__ __forceinline__ void move_units(const graft_move_params &p) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.walk.n; i += step) {
    int64_t offsets[2];
    graft_walk_find<2>(p.walk, i, offsets);
    *(T *)(p.target + offsets[0]) = *(const T *)(p.source + offsets[1]);
  }
}

extern "C" __global__ void graft_move_1(const graft_move_params p) {
  move_units<uint8_t>(p);
}
extern "C" __global__ void graft_move_2(const graft_move_params p) {
  move_units<uint16_t>(p);
}
extern "C" __global__ void graft_move_4(const graft_move_params p) {
  move_units<uint32_t>(p);
}
extern "C" __global__ void graft_move_8(const graft_move_params p) {
  move_units<uint2>(p);
}
extern "C" __global__ void graft_move_16(const graft_move_params p) {
  move_units<uint4>(p);
}
