// fusion.h — rules that replace a group of nodes by one. A rule's pattern is the decomposition of a fused operator: the
// operator says both what to look for and what the group means, so fused and unfused can always be compared.
#ifndef GRAFT_FUSION_H
#define GRAFT_FUSION_H

#include "graft/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

// A candidate group, as a predicate sees it. Borrowed for the call.
typedef struct graft_fusion_match {
  const graft_op_def *op;  // the fused operator
  const void *attrs;       // its attributes as captured from the group
  uint32_t n_inputs;
  const graft_tensor_desc *const *inputs;
  const graft_tensor_desc *const *outputs;
} graft_fusion_match;

// A rule. Constant, with static storage; must outlive every plan that uses it.
typedef struct graft_fusion_def {
  uint32_t struct_size;
  const char *name;  // "<op>" or "<op>_<variant>", unique; the name that switches it off
  const char *op;    // the fused operator

  // Builds one form of the pattern in |graph| out of |inputs| (placeholders whose shapes are an example that the form
  // accepts) and returns its output; forms are tried in order, NULL ends them. Attribute values in the pattern are
  // wildcards; the predicate captures them.
  graft_tensor *(*pattern)(graft_graph *graph, uint32_t form, graft_tensor **out_inputs, uint32_t *out_n_inputs);

  // Given the nodes' attributes in pattern order, fills the fused operator's attributes and accepts or refuses the
  // group on metadata. NULL: defaults, always.
  bool (*capture)(const graft_fusion_match *match, const void *const *node_attrs, void *out_attrs, graft_reason *why);
} graft_fusion_def;

#ifdef __cplusplus
}
#endif

#endif
