// Device code: hardswish, and hardswish · b. Compiled by nvcc to a fat binary that hardswish_cuda.c has in it.
#include "hardswish_cuda.h"

static __device__ float hardswish(float x) {
  if (x <= -3) return 0;
  return x >= 3 ? x : x * (x + 3) / 6;
}

// Every thread takes each so many-th element, so that any grid does all of the work.
extern "C" __global__ void acme_hardswish(const acme_elements e) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < e.n; i += step) e.y[i] = hardswish(e.a[i]);
}

extern "C" __global__ void acme_hardswish_mul(const acme_elements e) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < e.n; i += step)
    e.y[i] = hardswish(e.a[i]) * e.b[i];
}
