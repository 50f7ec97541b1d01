// constant_cache.h — constants as devices hold them: uploaded, aligned or packed. Shared by the plans of a device.
#ifndef GRAFT_SRC_PLAN_CONSTANT_CACHE_H
#define GRAFT_SRC_PLAN_CONSTANT_CACHE_H

#include "graft/plan.h"

// Memory of a device with an alignment of the caller's choice.
typedef struct graft_memory_block {
  void *allocation;
  size_t allocation_bytes;
  void *address;  // the aligned part
} graft_memory_block;

// What is asked of the device for |bytes|. Errors: GRAFT_E_NO_MEMORY (the size overflows).
GRAFT_NODISCARD graft_status graft_memory_block_size(size_t bytes, size_t alignment, graft_error *error,
                                                     size_t *out_bytes);
// Errors: GRAFT_E_NO_MEMORY and what the backend reports.
GRAFT_NODISCARD graft_status graft_memory_block_allocate(const graft_device *device, size_t bytes, size_t alignment,
                                                         graft_error *error, graft_memory_block *out_block);
void graft_memory_block_release(const graft_device *device, graft_memory_block *block);

typedef graft_status (*graft_pack_fn)(const graft_node_info *node, void *state, uint32_t input, const void *source,
                                      void *packed);

// What makes two copies the same.
typedef struct graft_constant_key {
  const void *source;
  graft_tensor_desc desc;
  graft_pack_fn pack;  // NULL: a plain copy
  char layout[40];
  size_t bytes, alignment;
} graft_constant_key;

bool graft_constant_key_equal(const graft_constant_key *a, const graft_constant_key *b);

typedef struct graft_constant_entry {
  graft_constant_key key;
  graft_memory_block memory;  // empty until a plan that runs needs it
  bool is_filled;
  bool is_resident;  // not in the cache: the entry of a graft_plan_resident
  uint32_t n_users;
  const void *last_user;  // the plan that counted it last
  struct graft_constant_entry *next;
} graft_constant_entry;

typedef struct graft_constant_cache graft_constant_cache;

// The entry for |key|, made where there is none, with one more user. No memory of the device is taken.
// Errors: GRAFT_E_NO_MEMORY.
GRAFT_NODISCARD graft_status graft_constant_cache_acquire(graft_device *device, const graft_constant_key *key,
                                                          graft_error *error, graft_constant_entry **out_entry);
// Drops one user; the last one frees the entry and its memory.
void graft_constant_cache_release(graft_device *device, graft_constant_entry *entry);

#endif
