#include "testing/layout.h"

#include <string.h>

const char *graft_testing_layout_name(graft_testing_layout layout) {
  static const char *const names[GRAFT_LAYOUT_COUNT] = {
      "contiguous",      "transposed",    "swapped middle", "reversed",  "padded rows", "second rows",
      "second elements", "offset by one", "odd ones",       "zero ones", "repeated"};
  return names[layout];
}

// Entries of dimension |d| in units of blocks.
static int64_t entries(const graft_tensor_desc *desc, int32_t d) {
  return d == desc->rank - 1 ? desc->shape[d] / desc->dtype->block_elements : desc->shape[d];
}

static bool is_plain(const graft_tensor_desc *desc) {
  return desc->dtype->block_elements == 1;
}

// Fills strides for dimensions that lie in memory in |order| (outermost first). |steps| widens a dimension's stride,
// |padding| adds unused entries to it.
static void stride_by(graft_tensor_desc *desc, const int32_t *order, const int64_t *steps, const int64_t *padding) {
  int64_t stride = desc->dtype->block_bytes;
  for (int32_t i = desc->rank - 1; i >= 0; --i) {
    int32_t d = order[i];
    desc->strides[d] = stride * steps[d];
    stride = desc->strides[d] * (entries(desc, d) + padding[d]);
  }
}

static bool exchange(graft_tensor_desc *desc, int32_t *order, int32_t a, int32_t b) {
  if (desc->shape[order[a]] < 2 || desc->shape[order[b]] < 2) return false;
  int32_t kept = order[a];
  order[a] = order[b];
  order[b] = kept;
  return true;
}

static bool reverse(const graft_tensor_desc *desc, int32_t *order) {
  if (desc->rank < 3) return false;
  for (int32_t d = 0; d < desc->rank; ++d) order[d] = desc->rank - 1 - d;
  return true;
}

static bool set_ones(graft_tensor_desc *desc, int64_t stride) {
  bool is_changed = false;
  for (int32_t d = 0; d < desc->rank; ++d) {
    if (desc->shape[d] != 1 || (d == desc->rank - 1 && !is_plain(desc))) continue;
    desc->strides[d] = stride;
    is_changed = true;
  }
  return is_changed;
}

// Strides as if the dimension had one entry.
static bool repeat(graft_tensor_desc *desc, int32_t dim) {
  if (dim < 0) return false;
  int64_t stride = desc->dtype->block_bytes;
  for (int32_t d = desc->rank - 1; d >= 0; --d) {
    desc->strides[d] = d == dim ? 0 : stride;
    if (d != dim) stride *= entries(desc, d);
  }
  return true;
}

bool graft_testing_layout_apply(graft_testing_layout layout, int32_t repeated, const graft_tensor_desc *desc,
                                graft_tensor_desc *out_desc, size_t *out_offset) {
  int32_t order[GRAFT_MAX_RANK], last = desc->rank - 1;
  int64_t steps[GRAFT_MAX_RANK], padding[GRAFT_MAX_RANK] = {0};
  for (int32_t d = 0; d < GRAFT_MAX_RANK; ++d) {
    order[d] = d;
    steps[d] = 1;
  }
  graft_tensor_desc result = *desc;
  bool applies = true;
  *out_offset = 0;
  switch (layout) {
    case GRAFT_LAYOUT_TRANSPOSED:
      applies = is_plain(desc) && desc->rank >= 2 && exchange(&result, order, last - 1, last);
      break;
    case GRAFT_LAYOUT_SWAPPED_MIDDLE: applies = desc->rank >= 4 && exchange(&result, order, 1, 2); break;
    case GRAFT_LAYOUT_REVERSED: applies = is_plain(desc) && reverse(desc, order); break;
    case GRAFT_LAYOUT_PADDED_ROWS:
      applies = desc->rank >= 2;
      if (applies) padding[last] = 3;
      break;
    case GRAFT_LAYOUT_SECOND_ROWS:
      applies = desc->rank >= 2;
      if (applies) steps[last - 1] = 2;
      break;
    case GRAFT_LAYOUT_SECOND_ELEMENTS:
      applies = desc->rank >= 1 && is_plain(desc);
      if (applies) steps[last] = 2;
      break;
    case GRAFT_LAYOUT_OFFSET: *out_offset = desc->dtype->block_bytes; break;
    case GRAFT_LAYOUT_ODD_ONES: applies = set_ones(&result, 7); break;
    case GRAFT_LAYOUT_ZERO_ONES: applies = set_ones(&result, 0); break;
    case GRAFT_LAYOUT_REPEATED: applies = repeat(&result, repeated); break;
    case GRAFT_LAYOUT_CONTIGUOUS:
    case GRAFT_LAYOUT_COUNT: break;
  }
  if (!applies) return false;
  if (layout >= GRAFT_LAYOUT_TRANSPOSED && layout <= GRAFT_LAYOUT_SECOND_ELEMENTS) {
    stride_by(&result, order, steps, padding);
  }
  *out_desc = result;
  return true;
}

typedef enum direction { SCATTER, GATHER } direction;

// Walks the strided side row by row beside the contiguous side.
static void move(const graft_tensor_desc *desc, char *strided, char *dense, direction way) {
  if (graft_tensor_desc_elements(desc) == 0) return;
  size_t block = desc->dtype->block_bytes;
  graft_tensor_desc rows = *desc;
  int64_t n = 1, step = 0;
  if (desc->rank > 0) {
    rows.rank -= 1;
    n = entries(desc, desc->rank - 1);
    step = is_plain(desc) ? desc->strides[desc->rank - 1] : (int64_t)block;
  }
  int64_t index[GRAFT_MAX_RANK] = {0};
  do {
    graft_view view = {.desc = rows, .data = strided};
    char *element = graft_view_at(&view, index);
    for (int64_t i = 0; i < n; ++i, element += step, dense += block) {
      memcpy(way == SCATTER ? element : dense, way == SCATTER ? dense : element, block);
    }
  } while (graft_index_next(&rows, index));
}

void graft_testing_scatter(const graft_tensor_desc *desc, const void *values, void *target) {
  move(desc, target, (char *)(uintptr_t)values, SCATTER);
}

void graft_testing_gather(const graft_tensor_desc *desc, const void *source, void *values) {
  move(desc, (char *)(uintptr_t)source, values, GATHER);
}
