// copy.cu — device code of graft.cast.v1. Floats go through float32; where integers take part, through double, which
// holds all but 64-bit ones exactly.
#include "ops/common/cuda/elementwise.cuh"

GRAFT_ELEMENTWISE(graft_cast_float, 2, x[0])

__device__ __forceinline__ double load_any(const char *p, int type) {
  switch (type) {
    case GRAFT_DTYPE_I8: return *(const int8_t *)p;
    case GRAFT_DTYPE_U8: return *(const uint8_t *)p;
    case GRAFT_DTYPE_I32: return *(const int32_t *)p;
    case GRAFT_DTYPE_I64: return (double)*(const int64_t *)p;
    case GRAFT_DTYPE_BOOL: return *(const uint8_t *)p != 0;
    default: return graft_load(p, type);
  }
}

__device__ __forceinline__ double clamp_integer(double x, double low, double high) {
  return isnan(x) ? 0.0 : fmin(fmax(rint(x), low), high);
}

// To float32 with the last bit telling whether anything was cut off, so that rounding further is rounding once.
__device__ __forceinline__ float narrow_to_odd(double x) {
  const float cut = __double2float_rz(x);
  return isnan(x) || (double)cut == x ? cut : __uint_as_float(__float_as_uint(cut) | 1u);
}

__device__ __forceinline__ void store_any(char *p, int type, double x) {
  switch (type) {
    case GRAFT_DTYPE_I8: *(int8_t *)p = (int8_t)clamp_integer(x, -128.0, 127.0); break;
    case GRAFT_DTYPE_U8: *(uint8_t *)p = (uint8_t)clamp_integer(x, 0.0, 255.0); break;
    case GRAFT_DTYPE_I32: *(int32_t *)p = (int32_t)clamp_integer(x, -2147483648.0, 2147483647.0); break;
    case GRAFT_DTYPE_I64: *(int64_t *)p = isnan(x) ? 0 : __double2ll_rn(x); break;
    case GRAFT_DTYPE_BOOL: *(uint8_t *)p = x != 0.0; break;
    case GRAFT_DTYPE_F32: *(float *)p = (float)x; break;
    default: graft_store(p, type, narrow_to_odd(x)); break;
  }
}

__device__ __forceinline__ void cast_any(const graft_elementwise_params &p) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.walk.n; i += step) {
    int64_t offsets[2];
    graft_walk_find<2>(p.walk, i, offsets);
    for (int w = 0; w < p.walk.width; ++w) {
      const double x = load_any(p.operands[1].data + offsets[1] + w * p.walk.steps[1], p.operands[1].type);
      store_any(p.operands[0].data + offsets[0] + w * p.walk.steps[0], p.operands[0].type, x);
    }
  }
}

extern "C" __global__ void graft_cast_any_1(const graft_elementwise_params p) {
  cast_any(p);
}
extern "C" __global__ void graft_cast_any_8(const graft_elementwise_params p) {
  cast_any(p);
}
