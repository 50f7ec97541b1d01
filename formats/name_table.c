#include "formats/name_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

uint64_t graft_name_table_seed(void) {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == sizeof seed) return seed;
  struct timespec now = {0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return graft_name_table_mix((uint64_t)now.tv_nsec ^ (uintptr_t)&seed);
}

graft_status graft_name_table_init(graft_name_table *table, size_t n_names) {
  if (n_names >= UINT32_MAX / 2) return GRAFT_E_NO_MEMORY;
  size_t n_slots = 16;
  while (n_slots / 2 < n_names) n_slots *= 2;
  graft_name_slot *slots = calloc(n_slots, sizeof *slots);
  if (slots == NULL) return GRAFT_E_NO_MEMORY;
  *table = (graft_name_table){slots, n_slots, n_names, graft_name_table_seed()};
  return GRAFT_OK;
}

void graft_name_table_release(graft_name_table *table) {
  if (table == NULL) return;
  free(table->slots);
  *table = (graft_name_table){0};
}

static uint64_t hash_name(uint64_t seed, const char *name, size_t n_bytes) {
  uint64_t hash = seed;
  for (size_t i = 0; i < n_bytes; ++i) hash = (hash ^ (unsigned char)name[i]) * 0x100000001B3u;
  return graft_name_table_mix(hash ^ n_bytes);
}

// The slot that holds |name|, or the free one where it belongs. At least half of the slots are free.
static graft_name_slot *locate(const graft_name_table *table, const char *name, size_t n_bytes) {
  size_t mask = table->n_slots - 1;
  for (size_t i = (size_t)hash_name(table->seed, name, n_bytes) & mask;; i = (i + 1) & mask) {
    graft_name_slot *slot = &table->slots[i];
    if (slot->name == NULL || (slot->n_bytes == n_bytes && memcmp(slot->name, name, n_bytes) == 0)) return slot;
  }
}

graft_status graft_name_table_add(graft_name_table *table, const char *name, size_t n_bytes, uint32_t value) {
  if (n_bytes > UINT32_MAX || table->slots == NULL) return GRAFT_E_NO_MEMORY;
  graft_name_slot *slot = locate(table, name, n_bytes);
  if (slot->name != NULL) return GRAFT_E_EXISTS;
  if (table->n_free == 0) return GRAFT_E_NO_MEMORY;
  --table->n_free;
  *slot = (graft_name_slot){name, (uint32_t)n_bytes, value};
  return GRAFT_OK;
}

bool graft_name_table_find(const graft_name_table *table, const char *name, size_t n_bytes, uint32_t *out_value) {
  if (table->slots == NULL || n_bytes > UINT32_MAX) return false;
  const graft_name_slot *slot = locate(table, name, n_bytes);
  if (slot->name == NULL) return false;
  *out_value = slot->value;
  return true;
}
