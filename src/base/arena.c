#include "src/base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/checked.h"

enum { ALIGNMENT = 16, FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 18 };

struct graft_arena_block {
  graft_arena_block *next;
  _Alignas(ALIGNMENT) unsigned char bytes[];
};

static bool add_block(graft_arena *arena, size_t at_least) {
  size_t capacity = arena->capacity == 0 ? FIRST_BLOCK : arena->capacity * 2;
  if (capacity > LARGEST_BLOCK) capacity = LARGEST_BLOCK;
  if (capacity < at_least) capacity = at_least;
  size_t total;
  if (!graft_checked_add(sizeof(graft_arena_block), capacity, &total)) return false;
  graft_arena_block *block = calloc(1, total);
  if (block == NULL) return false;
  block->next = arena->blocks;
  arena->blocks = block;
  arena->used = 0;
  arena->capacity = capacity;
  return true;
}

void *graft_arena_alloc(graft_arena *arena, size_t bytes) {
  size_t rounded;
  if (!graft_checked_align(bytes == 0 ? 1 : bytes, ALIGNMENT, &rounded)) return NULL;
  if (arena->capacity - arena->used < rounded && !add_block(arena, rounded)) return NULL;
  void *address = arena->blocks->bytes + arena->used;
  arena->used += rounded;
  return address;
}

void *graft_arena_alloc_array(graft_arena *arena, size_t n, size_t element_bytes) {
  size_t bytes;
  return graft_checked_mul(n, element_bytes, &bytes) ? graft_arena_alloc(arena, bytes) : NULL;
}

char *graft_arena_copy_string(graft_arena *arena, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = graft_arena_alloc(arena, bytes);
  return copy == NULL ? NULL : memcpy(copy, text, bytes);
}

char *graft_arena_format(graft_arena *arena, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int n = vsnprintf(NULL, 0, format, arguments);
  char *text = n < 0 ? NULL : graft_arena_alloc(arena, (size_t)n + 1);
  if (text != NULL) vsnprintf(text, (size_t)n + 1, format, again);
  va_end(again);
  va_end(arguments);
  return text;
}

void graft_arena_release(graft_arena *arena) {
  graft_arena_block *block = arena->blocks;
  while (block != NULL) {
    graft_arena_block *next = block->next;
    free(block);
    block = next;
  }
  *arena = (graft_arena){0};
}
