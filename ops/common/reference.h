// reference.h — what the references of operators share: tensors of any float dtype and any strides as plain float
// arrays, results from double, the question whether to stop.
#ifndef GRAFT_OPS_COMMON_REFERENCE_H
#define GRAFT_OPS_COMMON_REFERENCE_H

#include "graft/op.h"

// A tensor's elements in row-major order as float32, which holds every float dtype exactly. |owned| is NULL where the
// tensor's own memory serves. Release with graft_reference_floats_free.
typedef struct graft_reference_floats {
  const float *data;
  float *owned;
} graft_reference_floats;

// Loads all of |view|; an absent input (data NULL) gives data NULL. Errors: GRAFT_E_NO_MEMORY. Thread-safe.
GRAFT_NODISCARD graft_status graft_reference_load(const graft_view *view, graft_error *error,
                                                  graft_reference_floats *out_floats);
void graft_reference_floats_free(graft_reference_floats *floats);

// Copies the row (last dimension) of |view| at |index|, whose last entry is not looked at, into |out|. Rank 0 is a row
// of one. Thread-safe.
void graft_reference_load_row(const graft_view *view, const int64_t *index, float *out);

// Rounds a row of doubles into |view|; its dtype has blocks of one element. Thread-safe.
void graft_reference_store_row(const graft_view *view, const int64_t *index, const double *values);

// Copies the bytes of |source| to |target|: same dtype and shape, any strides, no overlap. Thread-safe.
void graft_reference_copy(const graft_view *source, const graft_view *target);

// Zeroed memory for |n| elements of |size| bytes, at least one byte, to be freed; NULL with |error| set
// (GRAFT_E_NO_MEMORY) where there is none. Thread-safe.
GRAFT_NODISCARD void *graft_reference_allocate(int64_t n, size_t size, graft_error *error);

// GRAFT_E_CANCELLED when the caller asked to stop; worth asking about once per millisecond of work.
GRAFT_NODISCARD graft_status graft_reference_check(const graft_reference_args *args);

// The dimensions of |desc| before the last, for a walk over rows with graft_index_next.
static inline graft_tensor_desc graft_reference_rows(const graft_tensor_desc *desc) {
  graft_tensor_desc rows = *desc;
  if (rows.rank > 0) --rows.rank;
  return rows;
}

// Length of a row.
static inline int64_t graft_reference_row_length(const graft_tensor_desc *desc) {
  return desc->rank > 0 ? desc->shape[desc->rank - 1] : 1;
}

// |view| seen in |shape|, leading dimensions added and size-1 dimensions repeated with stride 0. It must broadcast.
graft_view graft_reference_broadcast(const graft_view *view, int32_t rank, const int64_t *shape);

// |view| at |position| of dimension |dim|, which disappears. Not the last dimension of a block type.
graft_view graft_reference_select(const graft_view *view, int32_t dim, int64_t position);

// A check for inference: input |input| (present), called |name| in the sentence, is of a float type; with |blocks| also
// of a block type. Errors: GRAFT_E_SHAPE. Thread-safe.
GRAFT_NODISCARD graft_status graft_infer_require_float(const graft_infer_args *args, uint32_t input, const char *name,
                                                       bool blocks);

#endif
