#include "src/base/array.h"

#include <stdlib.h>

#include "src/base/checked.h"

void *graft_array_reserve(void *array, uint32_t n, uint32_t extra, uint32_t *capacity, size_t element_bytes) {
  if (array != NULL && *capacity - n >= extra) return array;
  if (extra > UINT32_MAX - n) return NULL;
  uint32_t wanted = n + extra;
  uint32_t grown = *capacity > UINT32_MAX / 2 ? UINT32_MAX : *capacity * 2;
  if (grown < wanted) grown = wanted;
  if (grown < 8) grown = 8;
  size_t bytes;
  if (!graft_checked_mul(grown, element_bytes, &bytes)) return NULL;
  void *moved = realloc(array, bytes);
  if (moved != NULL) *capacity = grown;
  return moved;
}
