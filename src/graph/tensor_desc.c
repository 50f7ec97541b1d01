#include <stdio.h>
#include <string.h>

#include "graft/tensor.h"
#include "src/base/checked.h"

// Bytes and elements of a tensor: as much as can be addressed, and far enough from 2^63 for the sums, roundings and
// small multiples that every kernel makes of sizes.
static const int64_t most = INT64_C(1) << 56;

// A block type's last dimension counts blocks in memory; every other dimension counts elements.
static int64_t steps_of(const graft_tensor_desc *desc, int32_t d) {
  return d == desc->rank - 1 ? desc->shape[d] / desc->dtype->block_elements : desc->shape[d];
}

static graft_status check_shape(graft_dtype dtype, int32_t rank, const int64_t *shape, graft_error *error) {
  if (dtype == NULL) return GRAFT_FAIL(error, GRAFT_E_SHAPE, "a tensor needs a dtype, and none is given");
  if (dtype->block_elements == 0 || dtype->block_bytes == 0)
    return GRAFT_FAIL(error, GRAFT_E_SHAPE, "the description of dtype %s has an empty block", dtype->name);
  if (rank < 0 || rank > GRAFT_MAX_RANK)
    return GRAFT_FAIL(error, GRAFT_E_SHAPE, "rank %d is outside 0 … %d", (int)rank, GRAFT_MAX_RANK);
  for (int32_t d = 0; d < rank; ++d) {
    if (shape[d] < 0)
      return GRAFT_FAIL(error, GRAFT_E_SHAPE, "dimension %d has the negative size %lld", (int)d, (long long)shape[d]);
  }
  int64_t row = rank == 0 ? 1 : shape[rank - 1];
  if (row % dtype->block_elements != 0)
    return GRAFT_FAIL(error, GRAFT_E_SHAPE, "a row of %lld elements is no whole number of %s blocks of %u",
                      (long long)row, dtype->name, (unsigned)dtype->block_elements);
  return GRAFT_OK;
}

graft_status graft_tensor_desc_init(graft_dtype dtype, int32_t rank, const int64_t *shape, graft_error *error,
                                    graft_tensor_desc *out_desc) {
  GRAFT_TRY(check_shape(dtype, rank, shape, error));
  graft_tensor_desc desc = {.dtype = dtype, .rank = rank};
  for (int32_t d = 0; d < rank; ++d) desc.shape[d] = shape[d];
  // Sizes of 0 count as 1, so that strides are positive and no product of dimensions can overflow later. Elements are
  // counted too, because a block may hold more of them than bytes.
  int64_t bytes = dtype->block_bytes, elements = dtype->block_elements;
  for (int32_t d = rank - 1; d >= 0; --d) {
    int64_t steps = steps_of(&desc, d);
    desc.strides[d] = bytes;
    if (steps < 1) steps = 1;
    if (!graft_checked_mul_i64(bytes, steps, &bytes) || !graft_checked_mul_i64(elements, steps, &elements) ||
        bytes > most || elements > most)
      return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "the size of a %s tensor overflows at dimension %d of %lld",
                        dtype->name, (int)d, (long long)shape[d]);
  }
  if ((uint64_t)bytes > PTRDIFF_MAX)
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "a tensor of %lld bytes cannot be addressed here", (long long)bytes);
  *out_desc = desc;
  return GRAFT_OK;
}

int64_t graft_tensor_desc_elements(const graft_tensor_desc *desc) {
  int64_t n = 1;
  for (int32_t d = 0; d < desc->rank; ++d) {
    if (desc->shape[d] == 0) return 0;
  }
  for (int32_t d = 0; d < desc->rank; ++d) n *= desc->shape[d];
  return n;
}

size_t graft_tensor_desc_bytes(const graft_tensor_desc *desc) {
  size_t bytes = desc->dtype->block_bytes;
  for (int32_t d = 0; d < desc->rank; ++d) {
    if (desc->shape[d] == 0) return 0;
    bytes += (size_t)(steps_of(desc, d) - 1) * (size_t)desc->strides[d];
  }
  return bytes;
}

bool graft_tensor_desc_is_dense_from(const graft_tensor_desc *desc, int32_t first_dim) {
  int64_t expected = desc->dtype->block_bytes;
  if (graft_tensor_desc_elements(desc) == 0) return true;
  for (int32_t d = desc->rank - 1; d >= 0 && d >= first_dim; --d) {
    int64_t steps = steps_of(desc, d);
    if (steps != 1 && desc->strides[d] != expected) return false;
    expected *= steps;
  }
  return true;
}

bool graft_tensor_desc_is_contiguous(const graft_tensor_desc *desc) {
  return graft_tensor_desc_is_dense_from(desc, 0);
}

bool graft_tensor_desc_has_shape(const graft_tensor_desc *desc, int32_t rank, const int64_t *shape) {
  if (desc->rank != rank) return false;
  for (int32_t d = 0; d < rank; ++d) {
    if (desc->shape[d] != shape[d]) return false;
  }
  return true;
}

bool graft_tensor_desc_same_shape(const graft_tensor_desc *a, const graft_tensor_desc *b) {
  return graft_tensor_desc_has_shape(a, b->rank, b->shape);
}

bool graft_tensor_desc_same_layout(const graft_tensor_desc *a, const graft_tensor_desc *b) {
  if (a->dtype != b->dtype || !graft_tensor_desc_same_shape(a, b)) return false;
  if (graft_tensor_desc_elements(a) == 0) return true;
  for (int32_t d = 0; d < a->rank; ++d) {
    if (steps_of(a, d) > 1 && a->strides[d] != b->strides[d]) return false;
  }
  return true;
}

// A cursor into a text of fixed size: appends what fits and always ends in a zero byte.
typedef struct text_cursor {
  char *at;
  size_t left;
} text_cursor;

static void append_list(text_cursor *cursor, const char *before, const int64_t *values, int32_t n, const char *after) {
  for (int32_t i = -1; i <= n; ++i) {
    int written = i < 0    ? snprintf(cursor->at, cursor->left, "%s", before)
                  : i == n ? snprintf(cursor->at, cursor->left, "%s", after)
                           : snprintf(cursor->at, cursor->left, "%s%lld", i == 0 ? "" : ", ", (long long)values[i]);
    size_t step = (size_t)written < cursor->left ? (size_t)written : cursor->left - 1;
    cursor->at += step;
    cursor->left -= step;
  }
}

const char *graft_tensor_desc_format(const graft_tensor_desc *desc, char *text, size_t text_bytes) {
  if (text_bytes == 0) return text;
  text_cursor cursor = {text, text_bytes};
  append_list(&cursor, desc->dtype->name, NULL, 0, "");
  append_list(&cursor, "[", desc->shape, desc->rank, "]");
  if (!graft_tensor_desc_is_contiguous(desc)) append_list(&cursor, " strides [", desc->strides, desc->rank, "]");
  return text;
}
