// strided_copy.h — copies a tensor to another place with other strides, shared out as items of a task. Dimensions that
// both sides walk densely are merged; what lies transposed is moved in square tiles that use whole cache lines on both
// sides.
#ifndef GRAFT_OPS_COMMON_CPU_STRIDED_COPY_H
#define GRAFT_OPS_COMMON_CPU_STRIDED_COPY_H

#include "graft/tensor.h"

// Made by graft_strided_copy_init; holds no addresses and may be copied. The last dimension of the target is the last
// here; with |is_tiled| the one before it is the last of the source.
typedef struct graft_strided_copy {
  int32_t rank;
  bool is_tiled;
  int64_t shape[GRAFT_MAX_RANK];
  int64_t source_strides[GRAFT_MAX_RANK], target_strides[GRAFT_MAX_RANK];  // bytes
  int64_t unit;  // bytes that are moved at once: an element, a block or a few of them
  int64_t n_rows, n_units;
  int64_t units_per_item;  // of whole and broken rows, when not tiled
  int64_t tile;            // units along either side of a tile
  int64_t n_tiles[2];      // along the last two dimensions
  int64_t tiles_per_item;
  int64_t n_items;
} graft_strided_copy;

// Plans a copy between tensors of one dtype and shape, which may have any strides and do not overlap. The split into
// items depends on shapes and strides only. Thread-safe.
void graft_strided_copy_init(graft_strided_copy *copy, const graft_tensor_desc *source,
                             const graft_tensor_desc *target);

// Copies item |item| of copy->n_items. Thread-safe for distinct items.
void graft_strided_copy_run(const graft_strided_copy *copy, const void *source, void *target, int64_t item);

#endif
