// Which kernel a node gets, and what kernels may do while a plan is made.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/null/null.h"
#include "plan_mock.h"

// Kernels for plan.reference.v1, of which the operators' extension has none. Each test registers those it needs.
static bool refuse(const graft_node_info *node, graft_reason *why) {
  (void)node;
  return graft_refuse(why, "rows are not sorted");
}

static graft_status encode_nothing(graft_encoder *encoder, const graft_encode_args *args) {
  (void)encoder;
  (void)args;
  return GRAFT_OK;
}

static graft_status fail_prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)node;
  (void)out_prepared;
  return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no room for tables");
}

static graft_status prepare_badly(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)node;
  (void)error;
  out_prepared->n_packed = 1;
  out_prepared->packed[0] = (graft_packed_input){.input = 0, .bytes = 4, .alignment = 64, .layout = "x"};
  return GRAFT_OK;
}

static int n_destroyed;
static graft_status prepare_state(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)node;
  (void)error;
  out_prepared->state = &n_destroyed;
  return GRAFT_OK;
}
static void destroy_state(void *state) {
  ++*(int *)state;
}

static graft_status fail_encode(graft_encoder *encoder, const graft_encode_args *args) {
  (void)encoder;
  return GRAFT_FAIL(args->error, GRAFT_E_DEVICE, "no pipeline");
}

#define KERNEL(name_, priority_)                                                                       \
  .struct_size = sizeof(graft_kernel_def), .name = name_, .op = "plan.reference.v1", .backend = "cpu", \
  .priority = priority_

typedef struct fixture {
  graft_context *context;
  graft_device *device;
  graft_graph *graph;
  graft_extension extensions[3];
  uint32_t n_extensions;
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->context = plan_mock_context(1);
  f->device = plan_mock_device(f->context, "cpu");
  n_destroyed = 0;
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  graft_graph_destroy(f->graph);
  graft_context_destroy(f->context);
  free(f);
  return 0;
}

static void add_kernels(fixture *f, const char *name, const char *vendor, const graft_kernel_def *kernels, uint32_t n) {
  graft_extension *extension = &f->extensions[f->n_extensions++];
  *extension = (graft_extension){.struct_size = sizeof *extension,
                                 .abi_version = GRAFT_ABI_VERSION,
                                 .name = name,
                                 .vendor = vendor,
                                 .kernels = kernels,
                                 .n_kernels = n};
  if (graft_context_register(f->context, extension) != GRAFT_OK)
    fail_msg("%s", graft_context_error(f->context)->message);
}

static void make_graph(fixture *f, const char *op) {
  assert_int_equal(graft_graph_create(f->context, &f->graph), GRAFT_OK);
  graft_tensor *x = plan_input(f->graph, "x", 2, 2);
  graft_graph_output(f->graph, plan_apply1(f->graph, op, (plan_attrs){.factor = 2}, x), "y");
}

static graft_step_info first_step(const graft_plan *plan) {
  graft_step_info info = {.struct_size = sizeof info};
  graft_plan_step(plan, 0, &info);
  return info;
}

static graft_status try_plan(fixture *f, uint32_t flags) {
  const graft_plan_options options = {.struct_size = sizeof options, .device = f->device, .flags = flags};
  graft_plan *plan = NULL;
  graft_status status = graft_plan_create(f->graph, &options, &plan);
  graft_plan_destroy(plan);
  return status;
}

static const char *chosen(fixture *f, const char *force) {
  graft_plan *plan = plan_make_with(f->graph, (graft_plan_options){.device = f->device, .force_kernel = force});
  const char *name = first_step(plan).kernel->name;
  graft_plan_destroy(plan);
  return name;
}

static void KS1_priority_then_application_before_native(void **state) {
  fixture *f = *state;
  static const graft_kernel_def native[] = {{KERNEL("native__a", 5), .encode = encode_nothing},
                                            {KERNEL("native__b", 7), .encode = encode_nothing}};
  static const graft_kernel_def application[] = {{KERNEL("application__c", 7), .encode = encode_nothing}};
  add_kernels(f, "native", "graft", native, 2);
  make_graph(f, "plan.reference.v1");
  assert_string_equal(chosen(f, NULL), "native__b");
  graft_graph_destroy(f->graph);
  f->graph = NULL;
  add_kernels(f, "application", "acme", application, 1);
  make_graph(f, "plan.reference.v1");
  assert_string_equal(chosen(f, NULL), "application__c");
  assert_string_equal(chosen(f, "native__a"), "native__a");
  assert_string_equal(chosen(f, "reference__cpu"), "reference__cpu");
}

static void KS1_preferred_decides_only_where_a_native_kernel_can_run(void **state) {
  fixture *f = *state;
  static const graft_kernel_def application[] = {
      {KERNEL("application__shy", 9), .encode = encode_nothing, .preferred = refuse}};
  static const graft_kernel_def native[] = {{KERNEL("native__able", 1), .encode = encode_nothing}};
  static const graft_kernel_def unable[] = {
      {KERNEL("native__unable", 5), .encode = encode_nothing, .supports = refuse}};
  add_kernels(f, "application", "acme", application, 1);
  add_kernels(f, "unable", "graft", unable, 1);
  make_graph(f, "plan.reference.v1");
  // The backend's reference could run it, but that is a last resort and no reason to refuse a kernel.
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  assert_string_equal(first_step(plan).kernel->name, "application__shy");
  assert_string_equal(first_step(plan).rejections, "native__unable: rows are not sorted\n");
  graft_plan_destroy(plan);
  graft_graph_destroy(f->graph);
  f->graph = NULL;
  add_kernels(f, "able", "graft", native, 1);
  make_graph(f, "plan.reference.v1");
  plan = plan_make(f->graph, f->device, 0);
  assert_string_equal(first_step(plan).kernel->name, "native__able");
  assert_string_equal(first_step(plan).rejections,
                      "application__shy: not preferred: rows are not sorted\nnative__unable: rows are not sorted\n");
  graft_plan_destroy(plan);
}

static void KS6_every_refusal_has_a_reason(void **state) {
  fixture *f = *state;
  static const graft_kernel_def kernels[] = {
      {KERNEL("needs__future", 9), .encode = encode_nothing, .required_features = 1ull << 60},
      {KERNEL("refuses", 8), .encode = encode_nothing, .supports = refuse}};
  add_kernels(f, "application", "acme", kernels, 2);
  make_graph(f, "plan.reference.v1");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  graft_step_info info = first_step(plan);
  assert_string_equal(info.kernel->name, "reference__cpu");
  assert_non_null(strstr(info.rejections, "needs__future: the device lacks features 0x1000000000000000"));
  assert_non_null(strstr(info.rejections, "refuses: rows are not sorted\n"));
  assert_string_equal(info.device, "cpu:0");
  assert_true(info.flops > 0 && info.bytes == 32);
  graft_plan_destroy(plan);
}

static void OP3_what_nothing_can_run_is_unsupported_with_each_reason(void **state) {
  fixture *f = *state;
  static const graft_kernel_def kernels[] = {{KERNEL("refuses", 8), .encode = encode_nothing, .supports = refuse}};
  add_kernels(f, "application", "acme", kernels, 1);
  if (graft_context_register(f->context, &graft_extension_null_backend) != GRAFT_OK) fail();
  static const graft_kernel_def elsewhere[] = {{.struct_size = sizeof elsewhere[0],
                                                .name = "refuses__null",
                                                .op = "plan.reference.v1",
                                                .backend = "null",
                                                .encode = encode_nothing,
                                                .supports = refuse}};
  add_kernels(f, "elsewhere", "acme", elsewhere, 1);
  f->device = plan_mock_device(f->context, "null");
  make_graph(f, "plan.reference.v1");
  assert_int_equal(try_plan(f, 0), GRAFT_E_UNSUPPORTED);
  const graft_error *error = graft_context_error(f->context);
  assert_string_equal(error->op, "plan.reference.v1");
  assert_string_equal(error->notes[0], "refuses__null: rows are not sorted");
  graft_graph_destroy(f->graph);
  make_graph(f, "plan.scale.v1");
  assert_int_equal(try_plan(f, 0), GRAFT_E_UNSUPPORTED);
  assert_non_null(strstr(error->message, "no kernel is registered"));
}

static void OP5_an_op_without_kernels_is_expanded(void **state) {
  fixture *f = *state;
  make_graph(f, "plan.nested.v1");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  assert_int_equal(graft_plan_n_steps(plan), 2);  // scale, add; what the decomposition makes in vain takes no step
  assert_string_equal(first_step(plan).kernel->name, "scale_f32__mock");
  assert_non_null(strstr(first_step(plan).label, "nested#0"));
  graft_plan_destroy(plan);
}

static void KS3_a_failing_prepare_is_the_plans_failure(void **state) {
  fixture *f = *state;
  static const graft_kernel_def kernels[] = {{KERNEL("fails", 8), .encode = encode_nothing, .prepare = fail_prepare}};
  add_kernels(f, "application", "acme", kernels, 1);
  make_graph(f, "plan.reference.v1");
  assert_int_equal(try_plan(f, 0), GRAFT_E_NO_MEMORY);
  const graft_error *error = graft_context_error(f->context);
  assert_string_equal(error->message, "no room for tables");
  assert_non_null(strstr(error->notes[0], "preparing kernel fails"));
}

static void KS3_what_prepare_reports_is_checked(void **state) {
  fixture *f = *state;
  static const graft_kernel_def kernels[] = {
      {KERNEL("packs_input", 8), .encode = encode_nothing, .prepare = prepare_badly}};
  add_kernels(f, "application", "acme", kernels, 1);
  make_graph(f, "plan.reference.v1");
  assert_int_equal(try_plan(f, 0), GRAFT_E_INVALID);
  assert_int_equal(try_plan(f, GRAFT_PLAN_NO_PACKING), GRAFT_OK);  // then it is not chosen
}

static void KS3_state_is_destroyed_once_also_after_failures(void **state) {
  fixture *f = *state;
  static const graft_kernel_def kernels[] = {
      {KERNEL("stateful", 8), .encode = encode_nothing, .prepare = prepare_state, .destroy = destroy_state},
      {KERNEL("unencodable", 3), .encode = fail_encode, .prepare = prepare_state, .destroy = destroy_state}};
  add_kernels(f, "application", "acme", kernels, 2);
  make_graph(f, "plan.reference.v1");
  assert_int_equal(try_plan(f, GRAFT_PLAN_MEASURE_ONLY), GRAFT_OK);
  assert_int_equal(n_destroyed, 1);
  const graft_plan_options options = {
      .struct_size = sizeof options, .device = f->device, .force_kernel = "unencodable"};
  graft_plan *plan = NULL;
  assert_int_equal(graft_plan_create(f->graph, &options, &plan), GRAFT_E_DEVICE);
  assert_string_equal(graft_context_error(f->context)->message, "no pipeline");
  assert_int_equal(n_destroyed, 2);
  assert_null(plan);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(KS1_priority_then_application_before_native),
      TEST(KS1_preferred_decides_only_where_a_native_kernel_can_run),
      TEST(KS6_every_refusal_has_a_reason),
      TEST(OP3_what_nothing_can_run_is_unsupported_with_each_reason),
      TEST(OP5_an_op_without_kernels_is_expanded),
      TEST(KS3_a_failing_prepare_is_the_plans_failure),
      TEST(KS3_what_prepare_reports_is_checked),
      TEST(KS3_state_is_destroyed_once_also_after_failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
