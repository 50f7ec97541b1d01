#include "fusion_pair.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "testing/helper_ops.h"

static void build(fusion_pair *pair, const graft_fusion_def *rule, bool has_intermediates) {
  const graft_testing_example *e = pair->example;
  graft_tensor *inputs[GRAFT_CASE_MAX_INPUTS], *result[GRAFT_MAX_OUTPUTS] = {0};
  for (uint32_t i = 0; i < e->n_inputs; ++i) {
    char name[16];
    snprintf(name, sizeof name, "x%u", (unsigned)i);
    graft_constant constant = {.struct_size = sizeof constant, .data = e->values[i]};
    if (e->present >> i & 1) constant.bytes = graft_tensor_desc_bytes(&e->inputs[i]);
    if (!(e->present >> i & 1)) {
      inputs[i] = graft_graph_none();
    } else if (e->constants >> i & 1) {
      inputs[i] = graft_graph_constant(pair->graph, name, &e->inputs[i], &constant);
    } else {
      inputs[i] = graft_graph_input(pair->graph, name, &e->inputs[i]);
      if (has_intermediates) inputs[i] = graft_testing_identity(pair->graph, inputs[i]);
    }
  }
  void (*pattern)(graft_graph *, const void *, graft_tensor *const *, uint32_t, graft_tensor **) =
      rule->pattern != NULL ? rule->pattern : e->op->decompose;
  pattern(pair->graph, e->attrs, inputs, e->n_inputs, result);
  graft_graph_output(pair->graph, result[0], "y");
  if (graft_graph_status(pair->graph) != GRAFT_OK) fail_msg("%s", graft_graph_error(pair->graph)->message);
}

static graft_plan *plan_pair(fusion_pair *pair, graft_device *device, uint32_t flags, const char *fusion) {
  const graft_testing_example *e = pair->example;
  const graft_plan_options options = {
      .struct_size = sizeof options, .flags = flags, .device = device, .fusion = fusion};
  graft_plan *plan = NULL;
  if (graft_plan_create(pair->graph, &options, &plan) != GRAFT_OK) {
    fail_msg("%s", graft_context_error(graft_graph_context(pair->graph))->message);
  }
  uint32_t n = 0;
  for (uint32_t i = 0; i < e->n_inputs; ++i) {
    if (!(e->present >> i & 1) || (e->constants >> i & 1)) continue;
    assert_int_equal(graft_plan_write(plan, n++, e->values[i], graft_tensor_desc_bytes(&e->inputs[i])), GRAFT_OK);
  }
  return plan;
}

void fusion_pair_create(graft_context *context, const graft_fusion_def *rule, const graft_op_case *sample,
                        uint64_t seed, uint32_t flags, fusion_pair *out_pair) {
  graft_device *device = NULL;
  assert_int_equal(graft_device_open(context, "cpu", &device), GRAFT_OK);
  const graft_op_def *op = graft_context_find_op(context, rule->op);
  graft_testing_form form = {.name = "declared"};
  for (uint32_t i = 0; i < GRAFT_CASE_MAX_INPUTS; ++i) {
    form.repeated[i] = -1;
    if (i < sample->n_inputs) form.dtypes[i] = sample->inputs[i].dtype;
  }
  graft_error error = {0};
  memset(out_pair, 0, sizeof *out_pair);
  if (graft_testing_example_create(op, sample, &form, seed, &error, &out_pair->example) != GRAFT_OK) {
    fail_msg("%s %s: %s", op->name, sample->name, error.message);
  }
  assert_int_equal(graft_graph_create(context, &out_pair->graph), GRAFT_OK);
  build(out_pair, rule, (flags & FUSION_PAIR_INTERMEDIATES) != 0);
  out_pair->fused = plan_pair(out_pair, device, flags & ~(uint32_t)FUSION_PAIR_INTERMEDIATES, "on");
  out_pair->plain = plan_pair(out_pair, device, 0, "off");
  const size_t bytes = graft_tensor_desc_bytes(&out_pair->example->outputs[0]);
  out_pair->got = calloc(1, bytes + 1);
  out_pair->want = calloc(1, bytes + 1);
  assert_true(out_pair->got != NULL && out_pair->want != NULL);
}

graft_plan *fusion_pair_plan(fusion_pair *pair, const char *fusion) {
  graft_device *device = NULL;
  assert_int_equal(graft_device_open(graft_graph_context(pair->graph), "cpu", &device), GRAFT_OK);
  return plan_pair(pair, device, 0, fusion);
}

void fusion_pair_compare_with(fusion_pair *pair, const char *fusion) {
  graft_plan_destroy(pair->plain);
  pair->plain = fusion_pair_plan(pair, fusion);
}

void fusion_pair_destroy(fusion_pair *pair) {
  graft_plan_destroy(pair->fused);
  graft_plan_destroy(pair->plain);
  graft_graph_destroy(pair->graph);
  graft_testing_example_destroy(pair->example);
  free(pair->got);
  free(pair->want);
}

void fusion_pair_run(fusion_pair *pair) {
  const size_t bytes = graft_tensor_desc_bytes(&pair->example->outputs[0]);
  assert_int_equal(graft_plan_run(pair->fused, NULL), GRAFT_OK);
  assert_int_equal(graft_plan_run(pair->plain, NULL), GRAFT_OK);
  assert_int_equal(graft_plan_read(pair->fused, 0, pair->got, bytes), GRAFT_OK);
  assert_int_equal(graft_plan_read(pair->plain, 0, pair->want, bytes), GRAFT_OK);
}

// What lies between the group's nodes may be coarser than the result: it is of the first input's dtype.
static double tolerance_of_node(const graft_testing_example *e) {
  const int64_t reduction = e->sample->reduction;
  const double tolerance = graft_op_tolerance(e->outputs[0].dtype, reduction);
  return e->present & 1 ? fmax(tolerance, graft_op_tolerance(e->inputs[0].dtype, reduction)) : tolerance;
}

double fusion_pair_difference(const fusion_pair *pair) {
  const graft_tensor_desc *y = &pair->example->outputs[0];
  const int64_t n = graft_tensor_desc_elements(y);
  const size_t step = y->dtype->block_bytes;
  double squares = 0, worst = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double value = graft_dtype_load(y->dtype, (const char *)pair->want + (size_t)i * step);
    squares += value * value;
  }
  const double scale = n > 0 ? sqrt(squares / (double)n) : 0;
  const double bound = (2 + graft_plan_n_steps(pair->plain)) * tolerance_of_node(pair->example);
  for (int64_t i = 0; i < n; ++i) {
    const double got = graft_dtype_load(y->dtype, (const char *)pair->got + (size_t)i * step);
    const double want = graft_dtype_load(y->dtype, (const char *)pair->want + (size_t)i * step);
    const double room = bound * fmax(fabs(want), scale), difference = fabs(got - want);
    if (got == want || (isnan(got) && isnan(want))) continue;
    worst = fmax(worst, room > 0 && !isnan(difference) ? difference / room : HUGE_VAL);
  }
  return worst;
}

uint32_t fusion_count(const graft_plan *plan, const char *rule) {
  for (uint32_t i = 0; i < graft_plan_n_fusion_rules(plan); ++i) {
    graft_fusion_count count = {.struct_size = sizeof count};
    graft_plan_fusion_rule(plan, i, &count);
    if (strcmp(count.rule, rule) == 0) return count.n_groups;
  }
  return 0;
}

bool fusion_has_no_room(const graft_plan *plan) {
  for (uint32_t i = 0; i < graft_plan_n_fusion_groups(plan); ++i) {
    graft_fusion_group group = {.struct_size = sizeof group};
    graft_plan_fusion_group(plan, i, &group);
    if (group.obstacle != NULL && strstr(group.obstacle, "do not fit in a core") != NULL) return true;
  }
  return false;
}

const graft_fusion_def *fusion_rule(const graft_context *context, const char *name) {
  for (uint32_t i = 0; i < graft_context_n_fusions(context); ++i) {
    const graft_fusion_def *rule = graft_context_fusion(context, i);
    if (strcmp(rule->name, name) == 0) return rule;
  }
  fail_msg("no rule %s", name);
  return NULL;
}
