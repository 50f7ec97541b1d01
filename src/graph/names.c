#include "src/graph/names.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash(const char *name) {
  uint32_t h = 0x811c9dc5u;
  for (; *name != '\0'; ++name) h = (h ^ (unsigned char)*name) * 0x01000193u;
  return h ^ h >> 15;
}

uint32_t graft_graph_names_find(const graft_graph_names *names, const graft_graph *graph, graft_name_at name_at,
                                const char *name) {
  if (names->n_slots == 0) return UINT32_MAX;
  for (uint32_t at = hash(name);; ++at) {
    const uint32_t slot = names->slots[at & (names->n_slots - 1)];
    if (slot == 0) return UINT32_MAX;
    const char *found = name_at(graph, slot - 1);
    if (found != NULL && strcmp(found, name) == 0) return slot - 1;
  }
}

void graft_graph_names_add(graft_graph_names *names, const char *name, uint32_t index) {
  uint32_t at = hash(name);
  while (names->slots[at & (names->n_slots - 1)] != 0) ++at;
  names->slots[at & (names->n_slots - 1)] = index + 1;
  ++names->n_used;
}

bool graft_graph_names_reserve(graft_graph_names *names, const graft_graph *graph, graft_name_at name_at) {
  if (2 * (uint64_t)names->n_used + 2 <= names->n_slots) return true;
  if (names->n_slots > UINT32_MAX / 4) return false;
  graft_graph_names wider = {.n_slots = names->n_slots == 0 ? 16 : 2 * names->n_slots};
  wider.slots = calloc(wider.n_slots, sizeof *wider.slots);
  if (wider.slots == NULL) return false;
  // Names only: what was taken back is left behind.
  const char *name;
  for (uint32_t i = 0; (name = name_at(graph, i)) != NULL; ++i) graft_graph_names_add(&wider, name, i);
  free(names->slots);
  *names = wider;
  return true;
}
