// name_table.h — finds the number that belongs to a name: tensors of a file, tokens of a vocabulary.
//
// Names come from files that may be hostile, so the hash is seeded at random: nobody can prepare names that collide.
// Results never depend on the seed.
#ifndef GRAFT_FORMATS_NAME_TABLE_H
#define GRAFT_FORMATS_NAME_TABLE_H

#include "graft/status.h"

typedef struct graft_name_slot {
  const char *name;  // NULL: the slot is free
  uint32_t n_bytes;
  uint32_t value;
} graft_name_slot;

// Zero-initialise; an empty table finds nothing. Reading is thread-safe.
typedef struct graft_name_table {
  graft_name_slot *slots;
  size_t n_slots;  // a power of two
  size_t n_free;   // names that may still be added
  uint64_t seed;
} graft_name_table;

// Makes room for |n_names| names. Errors: GRAFT_E_NO_MEMORY (also when the count is absurd); no message is set.
GRAFT_NODISCARD graft_status graft_name_table_init(graft_name_table *table, size_t n_names);
void graft_name_table_release(graft_name_table *table);

// Adds a name, which must outlive the table. GRAFT_E_EXISTS when it is there already (its value stays),
// GRAFT_E_NO_MEMORY when more names are added than announced; no message is set.
GRAFT_NODISCARD graft_status graft_name_table_add(graft_name_table *table, const char *name, size_t n_bytes,
                                                  uint32_t value);

// Whether |name| is known; if so |out_value| receives its value.
bool graft_name_table_find(const graft_name_table *table, const char *name, size_t n_bytes, uint32_t *out_value);

// A value that is different in every process and hard to guess, for seeding hashes. Thread-safe.
uint64_t graft_name_table_seed(void);

// Spreads |value| over all 64 bits. Thread-safe.
static inline uint64_t graft_name_table_mix(uint64_t value) {
  value = (value ^ (value >> 33)) * 0xFF51AFD7ED558CCDu;
  value = (value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53u;
  return value ^ (value >> 33);
}

#endif
