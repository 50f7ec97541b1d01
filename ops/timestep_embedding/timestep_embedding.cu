// timestep_embedding.cu — device code of graft.timestep_embedding.v1, in double: there are few of them, and angles are
// large.
#include "ops/common/cuda/scalar.cuh"
#include "ops/timestep_embedding/timestep_params.h"

extern "C" __global__ void graft_timestep(const graft_timestep_params p) {
  const int64_t half = p.dim / 2, step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.n * p.dim; i += step) {
    const int64_t row = i / p.dim, column = i % p.dim;
    const double t = *(const float *)(p.t + row * p.t_stride);
    const double angle = p.scale * t * exp(p.factor * (double)(column < half ? column : column - half));
    const double value = column < half ? cos(angle) : column < 2 * half ? sin(angle) : 0.0;
    *(float *)(p.y + row * p.y_strides[0] + column * p.y_strides[1]) = (float)value;
  }
}
