#include "src/plan/constant_cache.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/checked.h"
#include "src/run/context_internal.h"

enum { N_BUCKETS = 1024 };

struct graft_constant_cache {
  uint32_t n_entries;
  graft_constant_entry *buckets[N_BUCKETS];
};

graft_status graft_memory_block_size(size_t bytes, size_t alignment, graft_error *error, size_t *out_bytes) {
  size_t extra = alignment > GRAFT_DEVICE_ALIGNMENT ? alignment - GRAFT_DEVICE_ALIGNMENT : 0;
  if (graft_checked_add(bytes > 0 ? bytes : 1, extra, out_bytes)) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%zu bytes are more than any device has", bytes);
}

graft_status graft_memory_block_allocate(const graft_device *device, size_t bytes, size_t alignment, graft_error *error,
                                         graft_memory_block *out_block) {
  graft_memory_block block = {0};
  GRAFT_TRY(graft_memory_block_size(bytes, alignment, error, &block.allocation_bytes));
  GRAFT_TRY(graft_device_backend(device)->allocate(graft_device_state(device), block.allocation_bytes, error,
                                                   &block.allocation));
  uintptr_t address = (uintptr_t)block.allocation;
  block.address = (char *)block.allocation + ((alignment - address % alignment) % alignment);
  *out_block = block;
  return GRAFT_OK;
}

void graft_memory_block_release(const graft_device *device, graft_memory_block *block) {
  if (block->allocation == NULL) return;
  graft_device_backend(device)->release(graft_device_state(device), block->allocation, block->allocation_bytes);
  *block = (graft_memory_block){0};
}

static uint32_t bucket_of(const graft_constant_key *key) {
  uint64_t h = (uint64_t)(uintptr_t)key->source * 0x9e3779b97f4a7c15u;
  for (const char *c = key->layout; *c != 0; ++c) h = (h ^ (uint8_t)*c) * 0x100000001b3u;
  return (uint32_t)(h >> 32) % N_BUCKETS;
}

bool graft_constant_key_equal(const graft_constant_key *a, const graft_constant_key *b) {
  return a->source == b->source && a->pack == b->pack && a->bytes == b->bytes && a->alignment == b->alignment &&
         strcmp(a->layout, b->layout) == 0 && graft_tensor_desc_same_layout(&a->desc, &b->desc);
}

static graft_status add_entry(graft_constant_cache *cache, const graft_constant_key *key, graft_error *error,
                              graft_constant_entry **out_entry) {
  graft_constant_entry *entry = calloc(1, sizeof *entry);
  if (entry == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to remember a packed constant");
  graft_constant_entry **bucket = &cache->buckets[bucket_of(key)];
  entry->key = *key;
  entry->next = *bucket;
  *bucket = entry;
  ++cache->n_entries;
  *out_entry = entry;
  return GRAFT_OK;
}

graft_status graft_constant_cache_acquire(graft_device *device, const graft_constant_key *key, graft_error *error,
                                          graft_constant_entry **out_entry) {
  graft_constant_cache **slot = graft_device_constants(device);
  graft_constant_cache *cache = *slot;
  if (cache == NULL) cache = calloc(1, sizeof *cache);
  if (cache == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to remember packed constants");
  graft_constant_entry *entry = cache->buckets[bucket_of(key)];
  while (entry != NULL && !graft_constant_key_equal(&entry->key, key)) entry = entry->next;
  if (entry == NULL) {
    graft_status status = add_entry(cache, key, error, &entry);
    if (status != GRAFT_OK) {
      if (cache->n_entries == 0) free(cache);
      return status;
    }
  }
  *slot = cache;
  ++entry->n_users;
  *out_entry = entry;
  return GRAFT_OK;
}

void graft_constant_cache_release(graft_device *device, graft_constant_entry *entry) {
  if (entry == NULL || --entry->n_users > 0) return;
  graft_constant_cache **slot = graft_device_constants(device);
  graft_constant_entry **link = &(*slot)->buckets[bucket_of(&entry->key)];
  while (*link != entry) link = &(*link)->next;
  *link = entry->next;
  graft_memory_block_release(device, &entry->memory);
  free(entry);
  if (--(*slot)->n_entries > 0) return;
  free(*slot);
  *slot = NULL;
}
