#include "ops/common/cpu/strided_copy.h"

#include <string.h>

enum {
  ITEM_BYTES = 32768,  // enough to hide what an item costs, few enough to share out small tensors
  LINE_BYTES = 64,     // of the cache
  UNIT_MAX = 16,       // runs up to this length are moved as one unit
  TILE_MIN = 4,        // sides shorter than this are not worth tiles
};

// Appends a dimension, or lengthens the last one where both sides walk both without a gap.
static void push_dimension(graft_strided_copy *copy, int64_t size, int64_t source_stride, int64_t target_stride) {
  const int32_t last = copy->rank - 1;
  if (size == 1) return;
  if (last >= 0 && copy->source_strides[last] == source_stride * size &&
      copy->target_strides[last] == target_stride * size) {
    copy->shape[last] *= size;
  } else {
    copy->shape[copy->rank++] = size;
  }
  copy->source_strides[copy->rank - 1] = source_stride;
  copy->target_strides[copy->rank - 1] = target_stride;
}

static bool is_dense_run(const graft_strided_copy *copy) {
  const int32_t last = copy->rank - 1;
  return last >= 0 && copy->source_strides[last] == copy->unit && copy->target_strides[last] == copy->unit;
}

// A short run that is dense on both sides becomes the unit, so that transposing moves whole runs.
static void widen_unit(graft_strided_copy *copy) {
  const int32_t last = copy->rank - 1;
  if (last < 1 || !is_dense_run(copy)) return;
  const int64_t bytes = copy->unit * copy->shape[last];
  if (bytes > UNIT_MAX || (bytes & (bytes - 1)) != 0) return;
  copy->unit = bytes;
  --copy->rank;
}

// Moves the dimension that is dense in the source, if there is one worth it, to the place before the last.
static void find_tiles(graft_strided_copy *copy) {
  const int32_t last = copy->rank - 1;
  if (last < 1 || copy->unit > UNIT_MAX || copy->target_strides[last] != copy->unit || is_dense_run(copy) ||
      copy->shape[last] < TILE_MIN) {
    return;
  }
  int32_t dense = last - 1;
  while (dense >= 0 && (copy->source_strides[dense] != copy->unit || copy->shape[dense] < TILE_MIN)) --dense;
  if (dense < 0) return;
  const int64_t size = copy->shape[dense], source = copy->source_strides[dense], target = copy->target_strides[dense];
  for (int32_t d = dense; d < last - 1; ++d) {
    copy->shape[d] = copy->shape[d + 1];
    copy->source_strides[d] = copy->source_strides[d + 1];
    copy->target_strides[d] = copy->target_strides[d + 1];
  }
  copy->shape[last - 1] = size;
  copy->source_strides[last - 1] = source;
  copy->target_strides[last - 1] = target;
  copy->is_tiled = true;
}

static int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

static void split(graft_strided_copy *copy) {
  const int32_t outer = copy->rank - (copy->is_tiled ? 2 : 1);
  copy->n_rows = 1;
  for (int32_t d = 0; d < outer; ++d) copy->n_rows *= copy->shape[d];
  if (copy->is_tiled) {
    copy->tile = LINE_BYTES / copy->unit;
    copy->n_tiles[0] = divide_up(copy->shape[outer], copy->tile);
    copy->n_tiles[1] = divide_up(copy->shape[outer + 1], copy->tile);
    copy->tiles_per_item = divide_up(ITEM_BYTES, copy->tile * copy->tile * copy->unit);
    copy->n_items = divide_up(copy->n_rows * copy->n_tiles[0] * copy->n_tiles[1], copy->tiles_per_item);
  } else {
    copy->n_units = copy->n_rows * copy->shape[outer];
    copy->units_per_item = divide_up(ITEM_BYTES, copy->unit);
    copy->n_items = divide_up(copy->n_units, copy->units_per_item);
  }
}

void graft_strided_copy_init(graft_strided_copy *copy, const graft_tensor_desc *source,
                             const graft_tensor_desc *target) {
  memset(copy, 0, sizeof *copy);
  if (graft_tensor_desc_elements(source) == 0) return;
  copy->unit = source->dtype->block_bytes;
  for (int32_t d = 0; d < source->rank; ++d) {
    const int64_t block = d == source->rank - 1 ? source->dtype->block_elements : 1;
    push_dimension(copy, source->shape[d] / block, source->strides[d], target->strides[d]);
  }
  if (copy->rank == 0) {
    copy->rank = 1;
    copy->shape[0] = 1;
    copy->source_strides[0] = copy->target_strides[0] = copy->unit;
  }
  widen_unit(copy);
  find_tiles(copy);
  split(copy);
}

// Units of a fixed size become single moves once this is inlined.
static inline __attribute__((always_inline)) void move_units(char *to, int64_t to_step, const char *from,
                                                             int64_t from_step, int64_t n, size_t unit) {
  for (int64_t i = 0; i < n; ++i) memcpy(to + i * to_step, from + i * from_step, unit);
}

static void move(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, int64_t unit) {
  if (to_step == unit && from_step == unit) {
    memcpy(to, from, (size_t)(n * unit));
    return;
  }
  switch (unit) {
    case 1: move_units(to, to_step, from, from_step, n, 1); break;
    case 2: move_units(to, to_step, from, from_step, n, 2); break;
    case 4: move_units(to, to_step, from, from_step, n, 4); break;
    case 8: move_units(to, to_step, from, from_step, n, 8); break;
    case 16: move_units(to, to_step, from, from_step, n, 16); break;
    default: move_units(to, to_step, from, from_step, n, (size_t)unit); break;
  }
}

// A position within the outer dimensions, and where it lies on both sides.
typedef struct cursor {
  int64_t index[GRAFT_MAX_RANK];
  int64_t source, target;
} cursor;

static cursor find_row(const graft_strided_copy *copy, int32_t outer, int64_t row) {
  cursor at = {0};
  for (int32_t d = outer - 1; d >= 0; --d) {
    at.index[d] = row % copy->shape[d];
    row /= copy->shape[d];
    at.source += at.index[d] * copy->source_strides[d];
    at.target += at.index[d] * copy->target_strides[d];
  }
  return at;
}

static void next_row(const graft_strided_copy *copy, int32_t outer, cursor *at) {
  for (int32_t d = outer - 1; d >= 0; --d) {
    at->source += copy->source_strides[d];
    at->target += copy->target_strides[d];
    if (++at->index[d] < copy->shape[d]) return;
    at->source -= copy->shape[d] * copy->source_strides[d];
    at->target -= copy->shape[d] * copy->target_strides[d];
    at->index[d] = 0;
  }
}

static void copy_rows(const graft_strided_copy *copy, const char *source, char *target, int64_t item) {
  const int32_t last = copy->rank - 1;
  const int64_t length = copy->shape[last], from_step = copy->source_strides[last],
                to_step = copy->target_strides[last];
  int64_t unit = item * copy->units_per_item, end = unit + copy->units_per_item;
  if (end > copy->n_units) end = copy->n_units;
  cursor at = find_row(copy, last, unit / length);
  for (int64_t begin = unit % length; unit < end; begin = 0) {
    const int64_t n = length - begin < end - unit ? length - begin : end - unit;
    move(target + at.target + begin * to_step, to_step, source + at.source + begin * from_step, from_step, n,
         copy->unit);
    unit += n;
    next_row(copy, last, &at);
  }
}

typedef struct tile_sides {
  int64_t rows, columns;  // along the source's and the target's dense dimension
  int64_t source_stride;  // of columns, bytes
  int64_t target_stride;  // of rows, bytes
} tile_sides;

// Lines of the source are read whole and turned in a buffer, from which lines of the target are written whole: neither
// side depends on several lines staying in the cache, which strides of a power of two would prevent.
static inline __attribute__((always_inline)) void turn_tile(const tile_sides *t, const char *source, char *target,
                                                            int64_t unit) {
  char buffer[LINE_BYTES * LINE_BYTES];
  for (int64_t j = 0; j < t->columns; ++j) {
    const char *from = source + j * t->source_stride;
    for (int64_t i = 0; i < t->rows; ++i) memcpy(buffer + i * LINE_BYTES + j * unit, from + i * unit, (size_t)unit);
  }
  for (int64_t i = 0; i < t->rows; ++i) {
    memcpy(target + i * t->target_stride, buffer + i * LINE_BYTES, (size_t)(t->columns * unit));
  }
}

static void turn(const tile_sides *t, const char *source, char *target, int64_t unit) {
  switch (unit) {
    case 1: turn_tile(t, source, target, 1); break;
    case 2: turn_tile(t, source, target, 2); break;
    case 4: turn_tile(t, source, target, 4); break;
    case 8: turn_tile(t, source, target, 8); break;
    default: turn_tile(t, source, target, unit); break;
  }
}

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static void copy_tiles(const graft_strided_copy *copy, const char *source, char *target, int64_t item) {
  const int32_t row_dim = copy->rank - 2, column_dim = copy->rank - 1;
  const int64_t per_row = copy->n_tiles[0] * copy->n_tiles[1];
  const int64_t first = item * copy->tiles_per_item;
  const int64_t end = smaller(first + copy->tiles_per_item, copy->n_rows * per_row);
  for (int64_t tile = first; tile < end; ++tile) {
    const cursor at = find_row(copy, row_dim, tile / per_row);
    const int64_t row = tile % per_row / copy->n_tiles[1] * copy->tile;
    const int64_t column = tile % per_row % copy->n_tiles[1] * copy->tile;
    const tile_sides sides = {.rows = smaller(copy->tile, copy->shape[row_dim] - row),
                              .columns = smaller(copy->tile, copy->shape[column_dim] - column),
                              .source_stride = copy->source_strides[column_dim],
                              .target_stride = copy->target_strides[row_dim]};
    turn(&sides, source + at.source + row * copy->unit + column * sides.source_stride,
         target + at.target + row * sides.target_stride + column * copy->unit, copy->unit);
  }
}

void graft_strided_copy_run(const graft_strided_copy *copy, const void *source, void *target, int64_t item) {
  if (copy->is_tiled) {
    copy_tiles(copy, source, target, item);
  } else {
    copy_rows(copy, source, target, item);
  }
}
