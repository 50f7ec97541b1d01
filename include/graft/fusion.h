// fusion.h — rules that replace a group of nodes by one. A rule's pattern is normally the decomposition of a fused
// operator: the operator says both what to look for and what the group means.
//
//   const graft_fusion_def fusions[] = {{.struct_size = sizeof fusions[0], .name = "swiglu", .op = "graft.swiglu.v1",
//                                        .forms = graft_swiglu_cases, .n_forms = 1}};
//
// A rule only proposes: a fused operator, its attributes and its inputs. The planner builds the pattern once more with
// exactly these and compares it, node by node and attribute by attribute, with what the graph has; then it checks that
// the group may be taken (docs/fusion.md) and that a kernel wants it, and makes the change itself. A wrong rule
// therefore fuses nothing, but never changes what a graph computes.
//
// Callbacks are pure, see metadata only, and may run on several threads at a time for different plans.
#ifndef GRAFT_FUSION_H
#define GRAFT_FUSION_H

#include "graft/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GRAFT_FUSION_MAX_NODES = 32 };  // of a pattern

// Nodes that have the pattern's operators and edges. Borrowed for the call.
typedef struct graft_fusion_match {
  uint32_t struct_size;
  uint32_t form;
  uint32_t n_inputs;                       // of the fused operator
  const graft_tensor_desc *const *inputs;  // NULL entry: omitted
  const graft_tensor_desc *output;
  uint32_t n_nodes;               // of the pattern, in the order in which it makes them, views included
  const void *const *node_attrs;  // of the graph's nodes in their places
} graft_fusion_match;

// The node that made a value. Borrowed from the plan.
typedef struct graft_fusion_node {
  uint32_t struct_size;
  const graft_op_def *op;
  const void *attrs;
  uint32_t n_inputs;
  graft_tensor *const *inputs;  // NULL entry: omitted
  uint32_t n_readers;           // of the value asked about and of views of it, each mention counted
} graft_fusion_node;

// Writes the maker of |tensor| to |out_node|; false for inputs and constants. For use within `propose`.
GRAFT_API bool graft_fusion_maker(graft_tensor *tensor, graft_fusion_node *out_node);

// What `propose` fills: the fused operator's inputs (NULL: omitted) and its attributes, which hold the defaults.
typedef struct graft_fusion_proposal {
  uint32_t struct_size;
  void *attrs;
  uint32_t n_inputs;
  graft_tensor *inputs[GRAFT_MAX_INPUTS];
} graft_fusion_proposal;

// The order of a plan's steps, while `optimise` may change it.
typedef struct graft_fusion_editor graft_fusion_editor;

// Number of steps, and the operator, attributes and inputs of step |index| (zeros out of range).
GRAFT_API uint32_t graft_fusion_n_steps(const graft_fusion_editor *editor);
GRAFT_API void graft_fusion_step(const graft_fusion_editor *editor, uint32_t index, graft_fusion_node *out_node);

// Moves the |n| steps from |first| on to directly behind step |after|. Crossed steps that work in place on what the
// range makes go along; crossed copies, dtype conversions and other steps on unrelated storage keep their order; edges
// and names stay as they are. Refuses, changes nothing and writes the reason to |why| (may be NULL) where a crossed
// step reads what the range makes, where one writes over storage that the other uses, or where an operator is not pure:
// what else it touches is unknown.
GRAFT_API bool graft_fusion_delay(graft_fusion_editor *editor, uint32_t first, uint32_t n, uint32_t after,
                                  graft_reason *why);

// A rule. Constant, with static storage; must outlive every plan that uses it. Either |forms| or |propose| is given.
typedef struct graft_fusion_def {
  uint32_t struct_size;
  int32_t priority;  // higher is tried first; ties: larger patterns, then registration; proposals last
  const char *name;  // unique; the name that switches it off
  const char *op;    // the fused operator; it has one output

  // Builds the group from simpler operators, as graft_op_def.decompose does; NULL: the operator's own decomposition.
  // The last node is the group's result and not a view; there are no inputs or constants of its own.
  void (*pattern)(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                  graft_tensor **out_tensors);

  // Examples of the operator's use, one for each shape that the pattern can take: which inputs are left out and which
  // attributes change the nodes. Often the first of the operator's cases. Sizes only need to be valid.
  const graft_op_case *forms;
  uint32_t n_forms;

  // Fills the fused operator's attributes, which hold those of the form, from the nodes' and refuses groups that it
  // does not want. NULL: those of the form, always.
  bool (*capture)(const graft_fusion_match *match, void *attrs, graft_reason *why);

  // The way out when examples cannot say it: asked for every value that a step makes, whether a group that ends there
  // is |op| with such inputs and attributes. False with an empty |why|: nothing of interest here; false with a reason
  // is reported as a near miss.
  bool (*propose)(graft_tensor *result, graft_fusion_proposal *proposal, graft_reason *why);

  // Runs before anything is matched, to bring together what belongs together. NULL: nothing to do. A failure is the
  // plan's.
  graft_status (*optimise)(graft_fusion_editor *editor, graft_error *error);
} graft_fusion_def;

#ifdef __cplusplus
}
#endif

#endif
