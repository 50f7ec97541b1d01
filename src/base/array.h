// array.h — arrays that grow.
#ifndef GRAFT_SRC_BASE_ARRAY_H
#define GRAFT_SRC_BASE_ARRAY_H

#include "graft/base.h"

// Makes room for |extra| more elements behind the first |n| of a malloc'ed |array| (NULL when *capacity is 0). Returns
// the array, which may have moved, or NULL with the old one and its capacity untouched.
GRAFT_NODISCARD void *graft_array_reserve(void *array, uint32_t n, uint32_t extra, uint32_t *capacity,
                                          size_t element_bytes);

#endif
