// Descriptions of tensors for the copy engine.
#include <string.h>

#include "backends/cuda/device.h"
#include "graft/versioned.h"

_Static_assert(sizeof(graft_cuda_tensor_map) == sizeof(CUtensorMap), "cuda.h and graft/cuda.h disagree");

static graft_status check(const graft_cuda_tiled_tensor *tensor, graft_error *error) {
  const int32_t bytes = tensor->element_bytes, swizzle = tensor->swizzle_bytes;
  const bool is_known = (bytes == 1 || bytes == 2 || bytes == 4) && tensor->rank >= 1 && tensor->rank <= 5 &&
                        (swizzle == 0 || swizzle == 32 || swizzle == 64 || swizzle == 128);
  if (is_known) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_INVALID,
                    "the copy engine takes no tensor of rank %d with elements of %d bytes, swizzled by %d",
                    (int)tensor->rank, (int)bytes, (int)swizzle);
}

static CUtensorMapDataType type_of(int32_t element_bytes) {
  return element_bytes == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
         : element_bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                              : CU_TENSOR_MAP_DATA_TYPE_UINT32;
}

static CUtensorMapSwizzle swizzle_of(int32_t bytes) {
  switch (bytes) {
    case 32: return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64: return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128: return CU_TENSOR_MAP_SWIZZLE_128B;
    default: return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

graft_status graft_cuda_tensor_map_encode(const graft_device *device, const graft_cuda_tiled_tensor *given,
                                          graft_error *error, graft_cuda_tensor_map *out_map) {
  static const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  graft_cuda_device *state = graft_cuda_device_of(device);
  if (state == NULL) return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s is no CUDA device", graft_device_name(device));
  graft_cuda_tiled_tensor tensor;
  GRAFT_TRY(graft_versioned_copy(&tensor, sizeof tensor, given, "a graft_cuda_tiled_tensor", error));
  GRAFT_TRY(check(&tensor, error));
  cuuint64_t shape[5], strides[5];
  for (int i = 0; i < 5; ++i) {
    shape[i] = tensor.shape[i];
    strides[i] = tensor.strides[i];
  }
  CUtensorMap map;
  void *data = NULL;
  memcpy(&data, &tensor.data, sizeof data);
  // The driver asks for a context, although it only looks at numbers.
  GRAFT_TRY(graft_cuda_enter(state, error));
  const CUresult result = state->driver.cuTensorMapEncodeTiled(
      &map, type_of(tensor.element_bytes), (cuuint32_t)tensor.rank, data, shape, strides + 1, tensor.box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(tensor.swizzle_bytes), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  graft_cuda_leave(state);
  if (result != CUDA_SUCCESS) {
    return graft_cuda_driver_fail(&state->driver, result, "describing a tensor to the copy engine", error);
  }
  memcpy(out_map, &map, sizeof map);
  return GRAFT_OK;
}
