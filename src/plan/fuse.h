// fuse.h — how groups of steps are found and replaced; shared by the fuse*.c files. Not installed.
#ifndef GRAFT_SRC_PLAN_FUSE_H
#define GRAFT_SRC_PLAN_FUSE_H

#include "src/plan/plan_internal.h"

// Operators and edges to look for, as a small graph of its own.
typedef struct graft_pattern {
  graft_graph *graph;
  const void *attrs;  // of the fused operator
  uint32_t n_inputs;
  graft_tensor *inputs[GRAFT_MAX_INPUTS];  // placeholders; NULL: omitted
  graft_tensor *result;
  uint32_t n_steps;        // nodes that are no views
  uint32_t n_commutative;  // nodes whose inputs may be exchanged
} graft_pattern;

// What a pattern's values and nodes are in the plan.
typedef struct graft_pattern_match {
  const graft_pattern *pattern;
  bool is_exact;               // attributes and descriptions must be equal, too
  graft_tensor *const *given;  // what the pattern's inputs must be; NULL: found out
  graft_tensor *values[GRAFT_MAX_INPUTS + GRAFT_FUSION_MAX_NODES * GRAFT_MAX_OUTPUTS];  // by the pattern's tensor ids
  graft_node *nodes[GRAFT_FUSION_MAX_NODES];                                            // by the pattern's node ids
  uint32_t swaps, n_swaps_seen;  // bit i: the i-th commutative node that is met has its inputs exchanged
  graft_reason why;              // of the last disagreement
} graft_pattern_match;

// One rule in one plan.
typedef struct graft_fusion_rule {
  const graft_fusion_def *def;
  const graft_op_def *op;
  bool is_off;
  bool is_usable;  // on, and without faults
  bool is_native;  // of the backend's own vendor
  graft_pattern *patterns;
  uint32_t n_patterns;
  uint32_t n_groups, n_near_misses;
} graft_fusion_rule;

// Something to try: a pattern of a rule, or (pattern NULL) what it proposes.
typedef struct graft_rule_attempt {
  graft_fusion_rule *rule;
  const graft_pattern *pattern;
} graft_rule_attempt;

// A group that was replaced, or that was not because of |obstacle|.
typedef struct graft_fused_group {
  uint32_t rule;
  const char *label;
  uint32_t n_nodes;
  const char *obstacle;  // NULL: replaced
} graft_fused_group;

typedef struct graft_fuse_pass {
  graft_plan *plan;
  graft_fusion_rule *rules;  // the plan's
  uint32_t n_rules;
  graft_rule_attempt *attempts;  // of all rules, in their order
  uint32_t n_attempts;
  void *attrs;  // room for those of any fused operator
  // What is read is kept in graft_tensor.n_uses of the values themselves: mentions by steps, also through views.
  int32_t *step_of;  // by tensor id: the step that makes it, or GRAFT_PLAN_NONE
  bool *is_output;   // by tensor id: it or a view of it is an output of the graph
} graft_fuse_pass;

struct graft_fusion_editor {
  graft_plan *plan;
};

// Builds |rule|'s pattern for inputs described by |inputs| (NULL entry: omitted). On failure |why| says what is wrong
// with it and nothing is to be released. Errors: GRAFT_E_INVALID, GRAFT_E_NO_MEMORY.
graft_status graft_pattern_build(graft_plan *plan, const graft_fusion_rule *rule, const void *attrs,
                                 const graft_tensor_desc *const *inputs, uint32_t n_inputs, graft_pattern *out_pattern,
                                 graft_reason *why);
void graft_pattern_release(graft_pattern *pattern);

// Whether match->pattern ends in |result|. |match| is zero but for its first three members.
bool graft_pattern_find(graft_pattern_match *match, graft_tensor *result);

// The value that |tensor| stands for where it is another name for the same bytes.
graft_tensor *graft_fuse_resolve(graft_tensor *tensor);

// The node that computed what |tensor| shows, behind views; NULL for inputs and constants.
const graft_node *graft_fuse_maker(graft_tensor *tensor);

// Whether the nodes of |match| may be replaced by one; else |why|.
bool graft_fuse_is_legal(const graft_fuse_pass *pass, const graft_pattern_match *match, graft_reason *why);

// Whether |text|, as GRAFT_FUSION and graft_plan_options.fusion have it, switches |rule| off.
bool graft_fusion_switched_off(const char *text, const char *rule);
// Errors: GRAFT_E_INVALID (neither "on" nor "off" nor a list of "-rule"), GRAFT_E_NOT_FOUND (no rule has that name).
graft_status graft_fusion_check_switch(const graft_plan *plan, const char *text);

// fuse_rules.c: the registered rules with their patterns, largest first; releases what |pass| holds.
graft_status graft_fuse_load_rules(graft_fuse_pass *pass, const char *switches);
void graft_fuse_release_rules(graft_fuse_pass *pass);
// Adds to the plan's report. |obstacle| NULL: the group was replaced.
graft_status graft_fuse_note(graft_fuse_pass *pass, graft_fusion_rule *rule, const graft_node *result, uint32_t n_nodes,
                             const char *obstacle);

#endif
