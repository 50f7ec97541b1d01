// The verifier sees plans that were damaged in what scheduling added, and fusion leaves alone what is written over.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "schedule_support.h"
#include "src/plan/plan_internal.h"

// private:0: scale → private:1: reference, in-place sum → output.
static graft_plan *build(schedule *s, size_t budget) {
  static const float ones[64] = {1};
  graft_tensor *x = plan_input(s->graph, "x", 16, 4), *w = plan_constant(s->graph, "w", 16, 4, ones);
  graft_tensor *a = schedule_add(s->graph, schedule_scale(s->graph, x, 1), w);
  graft_tensor *b = plan_apply1(s->graph, "plan.reference.v1", (plan_attrs){0}, a);
  (void)schedule_write(s->graph, "plan.add.v1", (plan_attrs){0}, b, a, b);
  graft_graph_output(s->graph, b, "y");
  graft_device *const devices[] = {s->first, s->second};
  return plan_make_with(s->graph, (graft_plan_options){.devices = devices, .n_devices = 2, .memory_budget = budget});
}

static void expect_fault(schedule *s, const graft_plan *plan, const char *text) {
  assert_int_equal(graft_plan_verify(plan), GRAFT_E_INVALID);
  if (strstr(graft_context_error(s->context)->message, text) == NULL) {
    fail_msg("\"%s\" does not say \"%s\"", graft_context_error(s->context)->message, text);
  }
}

static graft_planned_step *find_step(const graft_plan *plan, const char *op) {
  for (uint32_t i = 0; i < plan->steps.n; ++i) {
    if (strcmp(graft_plan_step_at(plan, i)->node->op->name, op) == 0) return graft_plan_step_at(plan, i);
  }
  fail_msg("no step %s", op);
  return NULL;
}

static void SC10_steps_on_the_wrong_device_are_found(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:0 lacks=plan.reference.v1");
  graft_plan *plan = build(s, 0);
  assert_int_equal(graft_plan_verify(plan), GRAFT_OK);
  graft_planned_step *reference = find_step(plan, "plan.reference.v1");
  reference->node->device = 0;
  expect_fault(s, plan, "another device's memory");
  reference->node->device = 99;
  expect_fault(s, plan, "runs on no device");
  reference->node->device = 1;
  const graft_device *device = reference->info.device;
  reference->info.device = s->first;
  expect_fault(s, plan, "chosen for another device");
  reference->info.device = device;
  assert_int_equal(graft_plan_verify(plan), GRAFT_OK);
  graft_plan_destroy(plan);
  schedule_close(s);
}

// The bug class of SC2: storage of one device, and the in-place step behind it on the other.
static void SC10_foreign_destinations_are_found(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:0 lacks=plan.reference.v1");
  graft_plan *plan = build(s, 0);
  graft_tensor *root = find_step(plan, "plan.reference.v1")->node->outputs[0];
  root->device = 0;
  expect_fault(s, plan, "another device's memory");
  root->device = 1;
  graft_plan_storage *storage = &plan->storages[plan->values[root->id].storage];
  storage->device = 0;
  expect_fault(s, plan, "storage on another device");
  storage->device = 1;
  assert_int_equal(graft_plan_verify(plan), GRAFT_OK);
  graft_plan_destroy(plan);
  schedule_close(s);
}

static void SC10_gaps_between_segments_are_found(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:0 lacks=plan.reference.v1");
  graft_plan *plan = build(s, 0);
  assert_true(plan->n_segments >= 3);
  ++plan->segments[1].first;
  expect_fault(s, plan, "leave out a step");
  --plan->segments[1].first;
  plan->segments[2].device ^= 1;
  expect_fault(s, plan, "another device's segment");
  plan->segments[2].device ^= 1;
  --plan->segments[plan->n_segments - 1].end;
  expect_fault(s, plan, "leave out a step");
  ++plan->segments[plan->n_segments - 1].end;
  assert_int_equal(graft_plan_verify(plan), GRAFT_OK);
  graft_plan_destroy(plan);
  schedule_close(s);
}

static void SC10_constants_over_values_are_found(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:0 lacks=plan.reference.v1");
  graft_plan *plan = build(s, 8192);
  assert_int_equal(plan->residents.n, 1);
  const graft_plan_resident *resident = plan->residents.items[0];
  graft_plan_storage *storage = &plan->storages[resident->storage];
  const size_t offset = storage->offset;
  storage->offset = plan->storages[plan->values[plan->inputs[0]->id].storage].offset;
  expect_fault(s, plan, "two values share bytes");
  storage->offset = (size_t)1 << 40;
  expect_fault(s, plan, "beyond the arena");
  storage->offset = offset;
  assert_int_equal(graft_plan_verify(plan), GRAFT_OK);
  graft_plan_destroy(plan);
  schedule_close(s);
}

static void SC10_unordered_writes_are_found(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  graft_tensor *x = plan_input(s->graph, "x", 2, 1);
  graft_tensor *y = schedule_scale(s->graph, x, 1);
  (void)schedule_scale(s->graph, y, 1);
  (void)schedule_write(s->graph, "plan.scale.v1", (plan_attrs){0}, x, NULL, y);
  graft_error error;
  graft_node *write = s->graph->nodes[2];
  assert_int_equal(graft_graph_verify(s->graph, &error), GRAFT_OK);
  assert_int_equal(write->n_after, 1);  // the reader of y; its maker is an edge anyhow
  write->n_after = 0;
  assert_int_equal(graft_graph_verify(s->graph, &error), GRAFT_E_INVALID);
  assert_non_null(strstr(error.message, "no edge orders them"));
  write->n_after = 1;
  schedule_close(s);
}

// ---- fusion ----

static void decompose_pair(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                           graft_tensor **out_tensors) {
  (void)attrs;
  (void)n_inputs;
  out_tensors[0] = schedule_add(graph, schedule_scale(graph, inputs[0], 2), inputs[1]);
}

static graft_status infer_pair(graft_infer_args *args) {
  return graft_tensor_desc_init(args->inputs[0]->dtype, args->inputs[0]->rank, args->inputs[0]->shape, args->error,
                                &args->outputs[0]);
}

typedef struct pair_task {
  const float *a, *b;
  float *y;
  int64_t n;
} pair_task;

static int n_pairs;  // on one thread

static void run_pair(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const pair_task *task = args;
  ++n_pairs;
  (void)item;
  (void)worker;
  for (int64_t i = 0; i < task->n; ++i) task->y[i] = 2 * task->a[i] + 1 + task->b[i];
}

static graft_status encode_pair(graft_encoder *encoder, const graft_encode_args *args) {
  const pair_task task = {.a = args->inputs[0],
                          .b = args->inputs[1],
                          .y = args->outputs[0],
                          .n = graft_tensor_desc_elements(args->node->outputs[0])};
  return graft_cpu_encode(
      encoder, &(graft_cpu_task){.run = run_pair, .args = &task, .args_bytes = sizeof task, .n_items = 1}, args->error);
}

static bool propose_pair(graft_tensor *result, graft_fusion_proposal *proposal, graft_reason *why) {
  (void)why;
  graft_fusion_node sum = {.struct_size = sizeof sum}, scaled = {.struct_size = sizeof scaled};
  if (!graft_fusion_maker(result, &sum) || strcmp(sum.op->name, "plan.add.v1") != 0) return false;
  if (!graft_fusion_maker(sum.inputs[0], &scaled) || strcmp(scaled.op->name, "plan.scale.v1") != 0) return false;
  proposal->n_inputs = 2;
  proposal->inputs[0] = scaled.inputs[0];
  proposal->inputs[1] = sum.inputs[1];
  return true;
}

static const graft_op_def pair_op = {.struct_size = sizeof pair_op,
                                     .name = "tests.pair.v1",
                                     .min_inputs = 2,
                                     .max_inputs = 2,
                                     .n_outputs = 1,
                                     .traits = GRAFT_OP_PURE,
                                     .infer = infer_pair,
                                     .decompose = decompose_pair};
static const graft_kernel_def pair_kernel = {.struct_size = sizeof pair_kernel,
                                             .name = "pair__cpu",
                                             .op = "tests.pair.v1",
                                             .backend = "cpu",
                                             .encode = encode_pair};
static const graft_fusion_def pair_rule = {
    .struct_size = sizeof pair_rule, .name = "pair", .op = "tests.pair.v1", .propose = propose_pair};
static const graft_extension pair_extension = {.struct_size = sizeof pair_extension,
                                               .abi_version = GRAFT_ABI_VERSION,
                                               .name = "tests.pair",
                                               .vendor = "tests",
                                               .ops = &pair_op,
                                               .n_ops = 1,
                                               .kernels = &pair_kernel,
                                               .n_kernels = 1,
                                               .fusions = &pair_rule,
                                               .n_fusions = 1};

// |kind| 0: nothing is written over, and the pair becomes one. 1: its inner value is. 2: its input is, in between.
// 3: its inner node writes over storage. 4: single nodes are kept for pipeline copies.
static void check_pair(int kind, uint32_t n_fused, const float *expected) {
  schedule *s = schedule_open(1, NULL);
  assert_int_equal(graft_context_register(s->context, &pair_extension), GRAFT_OK);
  graft_tensor *x = plan_input(s->graph, "x", 2, 1), *z = plan_input(s->graph, "z", 2, 1);
  graft_tensor *a = schedule_add(s->graph, x, z);
  graft_tensor *h = kind == 3 ? schedule_write(s->graph, "plan.scale.v1", (plan_attrs){.factor = 2}, a, NULL, z)
                              : schedule_scale(s->graph, a, 2);
  if (kind == 1) (void)schedule_write(s->graph, "plan.copy.v1", (plan_attrs){0}, x, NULL, h);
  if (kind == 2) (void)schedule_write(s->graph, "plan.copy.v1", (plan_attrs){0}, x, NULL, a);
  graft_graph_output(s->graph, schedule_add(s->graph, h, x), "y");
  if (kind == 2) graft_graph_output(s->graph, a, "a");
  if (kind == 3) graft_graph_output(s->graph, z, "z");
  graft_plan *plan =
      plan_make_with(s->graph, (graft_plan_options){.device = s->cpu, .n_input_copies = kind == 4 ? 2 : 0});
  assert_int_equal(schedule_count(plan, "tests.pair.v1"), n_fused);
  schedule_put(plan, 0, (const float[]){1, 2}, 2);
  schedule_put(plan, 1, (const float[]){10, 20}, 2);
  schedule_run(plan);
  schedule_expect(plan, 0, expected, 2);
  graft_plan_destroy(plan);
  schedule_close(s);
}

static void FU1_what_is_written_over_is_not_fused(void **state) {
  (void)state;
  check_pair(0, 1, (const float[]){24, 47});
  check_pair(1, 0, (const float[]){2, 4});
  check_pair(2, 0, (const float[]){24, 47});
  check_pair(3, 0, (const float[]){24, 47});
}

static void FU5_pipeline_copies_keep_single_nodes(void **state) {
  (void)state;
  check_pair(4, 0, (const float[]){24, 47});
}

// What nodes behind a range use is kept in a direct execution of the range, bound or not.
static void SC5_ranges_keep_what_the_whole_graph_uses(void **state) {
  (void)state;
  for (int used = 0; used < 2; ++used) {
    schedule *s = schedule_open(1, NULL);
    assert_int_equal(graft_context_register(s->context, &pair_extension), GRAFT_OK);
    graft_tensor *x = plan_input(s->graph, "x", 2, 1), *h = schedule_scale(s->graph, x, 2);
    graft_tensor *y = schedule_add(s->graph, h, x);
    if (used) (void)schedule_scale(s->graph, h, 1);  // behind the range
    float in[] = {1, 2}, out[2];
    const graft_binding bindings[] = {{sizeof(graft_binding), x, in, sizeof in},
                                      {sizeof(graft_binding), y, out, sizeof out}};
    const graft_execution run = {
        .struct_size = sizeof run, .device = s->cpu, .n_nodes = 2, .bindings = bindings, .n_bindings = 2};
    n_pairs = 0;
    assert_int_equal(graft_graph_execute(s->graph, &run), GRAFT_OK);
    assert_true(out[0] == 4 && out[1] == 7);
    assert_int_equal(n_pairs, used ? 0 : 1);
    schedule_close(s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(SC10_steps_on_the_wrong_device_are_found),
      cmocka_unit_test(SC10_foreign_destinations_are_found),
      cmocka_unit_test(SC10_gaps_between_segments_are_found),
      cmocka_unit_test(SC10_constants_over_values_are_found),
      cmocka_unit_test(SC10_unordered_writes_are_found),
      cmocka_unit_test(FU1_what_is_written_over_is_not_fused),
      cmocka_unit_test(FU5_pipeline_copies_keep_single_nodes),
      cmocka_unit_test(SC5_ranges_keep_what_the_whole_graph_uses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
