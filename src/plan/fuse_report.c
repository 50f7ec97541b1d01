// What a plan tells about fusion.
#include <stdio.h>
#include <string.h>

#include "graft/versioned.h"
#include "src/plan/fuse.h"

uint32_t graft_plan_n_fusion_rules(const graft_plan *plan) {
  return plan->n_fusion_rules;
}

void graft_plan_fusion_rule(const graft_plan *plan, uint32_t index, graft_fusion_count *out_count) {
  graft_fusion_count count = {.struct_size = sizeof count};
  if (index < plan->n_fusion_rules) {
    const graft_fusion_rule *rule = &plan->fusion_rules[index];
    count = (graft_fusion_count){.rule = rule->def->name,
                                 .op = rule->def->op,
                                 .n_groups = rule->n_groups,
                                 .n_near_misses = rule->n_near_misses,
                                 .is_off = rule->is_off};
  }
  graft_versioned_fill(out_count, &count, sizeof count);
}

uint32_t graft_plan_n_fusion_groups(const graft_plan *plan) {
  return plan->fused_groups.n;
}

void graft_plan_fusion_group(const graft_plan *plan, uint32_t index, graft_fusion_group *out_group) {
  graft_fusion_group told = {.struct_size = sizeof told};
  if (index < plan->fused_groups.n) {
    const graft_fused_group *group = plan->fused_groups.items[index];
    told = (graft_fusion_group){.rule = plan->fusion_rules[group->rule].def->name,
                                .label = group->label,
                                .n_nodes = group->n_nodes,
                                .obstacle = group->obstacle};
  }
  graft_versioned_fill(out_group, &told, sizeof told);
}

static graft_status print_rule(const graft_fusion_rule *rule, graft_writer writer) {
  char line[128];
  snprintf(line, sizeof line, "%-22.40s %5u fused, %u nearly%s\n", rule->def->name, (unsigned)rule->n_groups,
           (unsigned)rule->n_near_misses, rule->is_off ? "; switched off" : "");
  return writer.write(writer.user, line, strlen(line));
}

static graft_status print_near_miss(const graft_fusion_group *group, graft_writer writer) {
  char line[512];
  snprintf(line, sizeof line, "  nearly %s at %s: %s\n", group->rule, group->label, group->obstacle);
  return writer.write(writer.user, line, strlen(line));
}

graft_status graft_plan_print_fusions(const graft_plan *plan, graft_writer writer) {
  static const char off[] = "no fusion: all rules are switched off\n";
  bool is_any_on = plan->n_fusion_rules == 0;
  for (uint32_t i = 0; i < plan->n_fusion_rules; ++i) is_any_on = is_any_on || !plan->fusion_rules[i].is_off;
  if (!is_any_on) return writer.write(writer.user, off, sizeof off - 1);
  for (uint32_t i = 0; i < plan->n_fusion_rules; ++i) {
    const graft_fusion_rule *rule = &plan->fusion_rules[i];
    if (rule->is_off || rule->n_groups + rule->n_near_misses > 0) GRAFT_TRY(print_rule(rule, writer));
  }
  for (uint32_t i = 0; i < plan->fused_groups.n; ++i) {
    graft_fusion_group group = {.struct_size = sizeof group};
    graft_plan_fusion_group(plan, i, &group);
    if (group.obstacle != NULL) GRAFT_TRY(print_near_miss(&group, writer));
  }
  return GRAFT_OK;
}
