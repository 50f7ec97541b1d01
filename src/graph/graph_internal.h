// graph_internal.h — the graph as the passes of src/plan see it. Not installed.
#ifndef GRAFT_SRC_GRAPH_GRAPH_INTERNAL_H
#define GRAFT_SRC_GRAPH_GRAPH_INTERNAL_H

#include "graft/context.h"
#include "src/base/arena.h"
#include "src/graph/names.h"

typedef struct graft_node graft_node;

struct graft_tensor {
  graft_graph *graph;
  graft_tensor_kind kind;
  uint32_t id;  // index into graph->tensors
  graft_tensor_desc desc;
  const char *name;       // inputs and constants; results: made on demand
  graft_node *node;       // results: the maker
  uint32_t output_index;  // results: which output of it
  uint32_t n_uses;        // by nodes, each mention counted
  bool is_output;
  graft_tensor *view_of;   // results of view ops: input 0; of nodes that write over existing storage: that destination
  int64_t view_offset;     // bytes into view_of, whose storage may itself be a view's
  graft_node *last_write;  // of owners of storage: the newest node that wrote over it
  uint32_t device;         // of owners of storage in a plan: which of its devices has the bytes
  uint32_t pin;            // in a plan: 1 + the device that the caller wants for it; 0: any
  bool is_brought;         // constants in a plan: stays on the host, and is brought to other memory when it is needed
  graft_constant constant;
};

struct graft_node {
  const graft_op_def *op;
  void *attrs;
  uint32_t id;  // index into graph->nodes
  uint32_t n_inputs, n_outputs;
  graft_tensor **inputs;  // NULL entry: omitted optional input
  graft_tensor **outputs;
  graft_tensor *into;         // output 0 is written over the storage that this shows; NULL: storage of its own
  graft_node *earlier_write;  // with |into|: the write before, of the same owner
  graft_node **after;         // nodes that come first although no input says so: they read or write what this writes,
  uint32_t n_after;           // or write what this reads
  uint32_t device;            // in a plan: on which of its devices it runs …
  const char *placement;      // … and why
  const char *scope;          // "" at top level
  const char *label;          // "scope.op#id" with the operator's short name
};

typedef struct graft_graph_output_entry {
  graft_tensor *tensor;
  const char *name;
} graft_graph_output_entry;

struct graft_graph {
  graft_context *context;
  graft_arena arena;
  graft_node **nodes;
  uint32_t n_nodes, node_capacity;
  graft_tensor **tensors;
  uint32_t n_tensors, tensor_capacity;
  graft_tensor **inputs;
  uint32_t n_inputs, input_capacity;
  graft_graph_output_entry *outputs;
  uint32_t n_outputs, output_capacity;
  graft_graph_names input_names, output_names;
  char scope[160];  // what a push would join is cut here; the depth is kept exactly
  uint32_t scope_lengths[32];
  uint32_t scope_depth;
  graft_error error;  // the first failure
};

#endif
