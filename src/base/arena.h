// arena.h — memory that is handed out piece by piece and freed at once.
#ifndef GRAFT_SRC_BASE_ARENA_H
#define GRAFT_SRC_BASE_ARENA_H

#include "graft/base.h"

typedef struct graft_arena_block graft_arena_block;

// Zero-initialise. Not thread-safe.
typedef struct graft_arena {
  graft_arena_block *blocks;
  size_t used, capacity;  // of the newest block
} graft_arena;

// |bytes| zeroed bytes aligned to 16, or NULL when memory ends. 0 bytes give a valid address.
void *graft_arena_alloc(graft_arena *arena, size_t bytes);

// The same for |n| elements; NULL also when the product overflows.
void *graft_arena_alloc_array(graft_arena *arena, size_t n, size_t element_bytes);

// A copy of |text|, or NULL.
char *graft_arena_copy_string(graft_arena *arena, const char *text);
char *graft_arena_format(graft_arena *arena, const char *format, ...) GRAFT_PRINTF(2, 3);

void graft_arena_release(graft_arena *arena);

#endif
