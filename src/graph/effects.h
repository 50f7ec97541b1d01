// effects.h — nodes that write over existing storage, and the order that this asks for. Not installed.
#ifndef GRAFT_SRC_GRAPH_EFFECTS_H
#define GRAFT_SRC_GRAPH_EFFECTS_H

#include "src/graph/graph_internal.h"

// The bytes that a tensor shows, from its first to just past its last element: where its owner's storage begins them.
typedef struct graft_extent {
  const graft_tensor *owner;
  int64_t begin, end;
} graft_extent;

graft_extent graft_tensor_extent(const graft_tensor *tensor);
// Whether two extents share bytes. Layouts that interleave without sharing count as overlapping.
bool graft_extents_overlap(const graft_extent *a, const graft_extent *b);

// Whether output 0 of |op|, which inference describes as |output|, may be written over |into|.
graft_status graft_graph_check_into(const graft_graph *graph, const graft_op_def *op, const graft_tensor_desc *output,
                                    const graft_tensor *into, graft_error *error);

// Fills node->after for a node that is not in its graph's list yet; false when memory ends.
bool graft_graph_order(graft_graph *graph, graft_node *node);
// Whether |node| need not follow |earlier|, or an edge says that it does.
bool graft_graph_is_ordered(const graft_node *node, const graft_node *earlier);
// Remembers what |node|, which is in the list now, writes over; forgets it again, the newest node first.
void graft_graph_note_write(graft_node *node);
void graft_graph_forget_write(const graft_node *node);

#endif
