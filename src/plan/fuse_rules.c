// The rules of one plan: which are on, and what their patterns look like.
#include <stdlib.h>
#include <string.h>

#include "src/graph/attrs.h"
#include "src/plan/fuse.h"
#include "src/run/registry.h"

static const char *find_fault(const graft_fusion_rule *rule) {
  if (rule->op == NULL) return "its operator is not registered";
  if (rule->op->n_outputs != 1) return "its operator has more than one output";
  if (rule->def->pattern == NULL && rule->op->decompose == NULL) return "its operator has no decomposition";
  for (uint32_t i = 0; i < rule->def->n_forms; ++i) {
    if (rule->def->forms[i].n_inputs > GRAFT_CASE_MAX_INPUTS) return "a form has too many inputs";
  }
  return NULL;
}

static graft_status describe_form(graft_plan *plan, const graft_op_case *form, graft_tensor_desc *descs,
                                  const graft_tensor_desc **out_inputs, graft_reason *why) {
  graft_error error = {0};
  for (uint32_t i = 0; i < form->n_inputs; ++i) {
    const graft_case_input *input = &form->inputs[i];
    out_inputs[i] = input->dtype == NULL ? NULL : &descs[i];
    if (input->dtype == NULL) continue;
    if (graft_tensor_desc_init(input->dtype, input->rank, input->shape, &error, &descs[i]) == GRAFT_OK) continue;
    graft_refuse(why, "form %.40s: %.70s", form->name == NULL ? "" : form->name, error.message);
    *plan->error = (graft_error){0};
    return GRAFT_E_INVALID;
  }
  return GRAFT_OK;
}

static graft_status build_form(graft_fuse_pass *pass, graft_fusion_rule *rule, const graft_op_case *form) {
  graft_plan *plan = pass->plan;
  graft_tensor_desc descs[GRAFT_CASE_MAX_INPUTS];
  const graft_tensor_desc *inputs[GRAFT_CASE_MAX_INPUTS];
  graft_reason why = {0};
  void *attrs = graft_arena_alloc(&plan->arena, rule->op->attrs_bytes);
  if (attrs == NULL) return graft_plan_no_memory(plan);
  graft_op_default_attrs(rule->op, attrs);
  if (form->attrs != NULL && rule->op->attrs_bytes > 0) memcpy(attrs, form->attrs, rule->op->attrs_bytes);
  graft_status status = describe_form(plan, form, descs, inputs, &why);
  graft_pattern *pattern = &rule->patterns[rule->n_patterns];
  if (status == GRAFT_OK) status = graft_pattern_build(plan, rule, attrs, inputs, form->n_inputs, pattern, &why);
  if (status == GRAFT_OK) ++rule->n_patterns;
  return status == GRAFT_E_INVALID ? graft_fuse_note(pass, rule, NULL, 0, why.text) : status;
}

static graft_status load_rule(graft_fuse_pass *pass, graft_fusion_rule *rule) {
  const char *fault = find_fault(rule);
  if (rule->is_off) return GRAFT_OK;
  if (fault != NULL) return graft_fuse_note(pass, rule, NULL, 0, fault);
  const uint32_t n = rule->def->n_forms;
  rule->patterns = graft_arena_alloc_array(&pass->plan->arena, n, sizeof *rule->patterns);
  if (rule->patterns == NULL) return graft_plan_no_memory(pass->plan);
  rule->is_usable = true;
  for (uint32_t i = 0; i < n; ++i) GRAFT_TRY(build_form(pass, rule, &rule->def->forms[i]));
  return GRAFT_OK;
}

// Larger groups first, so that a rule does not take what another would take together with more.
static int compare_attempts(const void *left, const void *right) {
  const graft_rule_attempt *a = left, *b = right;
  const uint32_t n_a = a->pattern != NULL ? a->pattern->n_steps : 0, n_b = b->pattern != NULL ? b->pattern->n_steps : 0;
  if (a->rule->def->priority != b->rule->def->priority) {
    return a->rule->def->priority > b->rule->def->priority ? -1 : 1;
  }
  if (n_a != n_b) return n_a > n_b ? -1 : 1;
  if (a->rule != b->rule) return a->rule < b->rule ? -1 : 1;
  return a->pattern < b->pattern ? -1 : 1;
}

static graft_status list_attempts(graft_fuse_pass *pass) {
  size_t n = pass->n_rules;
  for (uint32_t i = 0; i < pass->n_rules; ++i) n += pass->rules[i].n_patterns;
  pass->attempts = graft_arena_alloc_array(&pass->plan->arena, n, sizeof *pass->attempts);
  if (pass->attempts == NULL) return graft_plan_no_memory(pass->plan);
  for (uint32_t i = 0; i < pass->n_rules; ++i) {
    graft_fusion_rule *rule = &pass->rules[i];
    for (uint32_t k = 0; k < rule->n_patterns; ++k) {
      pass->attempts[pass->n_attempts++] = (graft_rule_attempt){rule, &rule->patterns[k]};
    }
    if (rule->is_usable && rule->def->propose != NULL) {
      pass->attempts[pass->n_attempts++] = (graft_rule_attempt){rule, NULL};
    }
  }
  qsort(pass->attempts, pass->n_attempts, sizeof *pass->attempts, compare_attempts);
  return GRAFT_OK;
}

graft_status graft_fuse_load_rules(graft_fuse_pass *pass, const char *switches) {
  graft_plan *plan = pass->plan;
  GRAFT_TRY(graft_fusion_check_switch(plan, switches));
  const uint32_t n_rules = graft_context_n_fusions(plan->context);
  pass->rules = graft_arena_alloc_array(&plan->arena, n_rules, sizeof *pass->rules);
  if (pass->rules == NULL) return graft_plan_no_memory(plan);
  plan->fusion_rules = pass->rules;
  plan->n_fusion_rules = pass->n_rules = n_rules;
  const bool keeps_nodes = (plan->flags & (GRAFT_PLAN_KEEP_NODES | GRAFT_PLAN_REFERENCE)) != 0;
  size_t attrs_bytes = 0;
  for (uint32_t i = 0; i < pass->n_rules; ++i) {
    graft_fusion_rule *rule = &pass->rules[i];
    rule->def = graft_context_fusion(plan->context, i);
    rule->op = graft_context_find_op(plan->context, rule->def->op);
    rule->is_native = graft_registry_is_native_fusion(plan->context, rule->def, plan->backend->name);
    rule->is_off = keeps_nodes || graft_fusion_switched_off(switches, rule->def->name);
    if (rule->op != NULL && rule->op->attrs_bytes > attrs_bytes) attrs_bytes = rule->op->attrs_bytes;
  }
  pass->attrs = graft_arena_alloc(&plan->arena, attrs_bytes);
  if (pass->attrs == NULL) return graft_plan_no_memory(plan);
  for (uint32_t i = 0; i < pass->n_rules; ++i) GRAFT_TRY(load_rule(pass, &pass->rules[i]));
  return list_attempts(pass);
}

void graft_fuse_release_rules(graft_fuse_pass *pass) {
  for (uint32_t i = 0; i < pass->n_rules; ++i) {
    graft_fusion_rule *rule = &pass->rules[i];
    for (uint32_t k = 0; k < rule->n_patterns; ++k) graft_pattern_release(&rule->patterns[k]);
    rule->n_patterns = 0;
  }
}

graft_status graft_fuse_note(graft_fuse_pass *pass, graft_fusion_rule *rule, const graft_node *result, uint32_t n_nodes,
                             const char *obstacle) {
  graft_plan *plan = pass->plan;
  graft_fused_group *group = graft_arena_alloc(&plan->arena, sizeof *group);
  if (group == NULL) return graft_plan_no_memory(plan);
  *group = (graft_fused_group){.rule = (uint32_t)(rule - pass->rules), .n_nodes = n_nodes};
  group->label = result != NULL ? result->label : "";
  if (obstacle != NULL) {
    group->obstacle = graft_arena_copy_string(&plan->arena, obstacle);
    if (group->obstacle == NULL) return graft_plan_no_memory(plan);
  }
  *(obstacle == NULL ? &rule->n_groups : &rule->n_near_misses) += 1;
  return graft_plan_append(plan, &plan->fused_groups, group);
}
