// names.h — finding inputs and outputs of a graph by name, in constant time however many there are.
#ifndef GRAFT_SRC_GRAPH_NAMES_H
#define GRAFT_SRC_GRAPH_NAMES_H

#include "graft/graph.h"

// A hash table of indices. The names themselves stay where they are, so an index may come to nothing (its name was
// taken back) and be given to another name later. Zero-initialise; released with free(slots).
typedef struct graft_graph_names {
  uint32_t *slots;  // 1 + index; 0: free
  uint32_t n_slots, n_used;
} graft_graph_names;

// The name at |index|; NULL where there is none any more.
typedef const char *(*graft_name_at)(const graft_graph *graph, uint32_t index);

// The index of |name|, or UINT32_MAX.
uint32_t graft_graph_names_find(const graft_graph_names *names, const graft_graph *graph, graft_name_at name_at,
                                const char *name);

// Makes room for one more name; false when memory ends.
GRAFT_NODISCARD bool graft_graph_names_reserve(graft_graph_names *names, const graft_graph *graph,
                                               graft_name_at name_at);

// Adds |index|, whose name is |name| and not in the table. There is room.
void graft_graph_names_add(graft_graph_names *names, const char *name, uint32_t index);

#endif
