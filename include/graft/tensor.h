// tensor.h — what a tensor looks like in memory: dtype, shape, strides.
#ifndef GRAFT_TENSOR_H
#define GRAFT_TENSOR_H

#include "graft/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GRAFT_MAX_RANK = 8 };

// Metadata of a tensor. Rank 0 is a scalar with one element. Shape entries beyond |rank| are 0. A stride of 0 repeats
// one element along that dimension (broadcasting); the stride of a dimension of size 1 means nothing. In the last
// dimension of a block dtype the stride steps over blocks, in every other over elements. Frozen.
typedef struct graft_tensor_desc {
  graft_dtype dtype;
  int32_t rank;
  int64_t shape[GRAFT_MAX_RANK];
  int64_t strides[GRAFT_MAX_RANK];  // bytes
} graft_tensor_desc;

// A description with an address: how references and tests look at a tensor. Borrowed. Frozen.
typedef struct graft_view {
  graft_tensor_desc desc;
  void *data;
} graft_view;

// Describes a contiguous tensor (last dimension densest). |shape| may be NULL for rank 0.
// Errors: GRAFT_E_SHAPE (rank or a dimension out of range, a row that is no whole number of blocks), GRAFT_E_NO_MEMORY
// (more than 2^56 bytes or elements, sizes of 0 counted as 1). |error| may be NULL. Thread-safe.
GRAFT_API GRAFT_NODISCARD graft_status graft_tensor_desc_init(graft_dtype dtype, int32_t rank, const int64_t *shape,
                                                              graft_error *error, graft_tensor_desc *out_desc);

// Number of elements. The description is valid, so the product does not overflow. Thread-safe.
GRAFT_API int64_t graft_tensor_desc_elements(const graft_tensor_desc *desc);

// Bytes from the first to just past the last element; 0 for an empty tensor. Strides are not negative. Thread-safe.
GRAFT_API size_t graft_tensor_desc_bytes(const graft_tensor_desc *desc);

// Whether elements lie densely in row-major order; strides of size-1 dimensions do not matter. Thread-safe.
GRAFT_API bool graft_tensor_desc_is_contiguous(const graft_tensor_desc *desc);

// Whether the dimensions from |first_dim| on lie densely in row-major order. Thread-safe.
GRAFT_API bool graft_tensor_desc_is_dense_from(const graft_tensor_desc *desc, int32_t first_dim);

GRAFT_API bool graft_tensor_desc_has_shape(const graft_tensor_desc *desc, int32_t rank, const int64_t *shape);
GRAFT_API bool graft_tensor_desc_same_shape(const graft_tensor_desc *a, const graft_tensor_desc *b);

// Same dtype, shape and strides (of size-1 dimensions and of empty tensors any): both walk memory the same way.
GRAFT_API bool graft_tensor_desc_same_layout(const graft_tensor_desc *a, const graft_tensor_desc *b);

// Writes "f32[2, 3, 4]" (with strides when not contiguous) into |text|, cut where it does not fit; returns |text|.
GRAFT_API const char *graft_tensor_desc_format(const graft_tensor_desc *desc, char *text, size_t text_bytes);

#ifdef __cplusplus
}
#endif

#endif
