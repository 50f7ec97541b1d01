// Constants: used where they lie, copied, uploaded or packed; shared between plans; given back when nobody reads them.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "backends/null/null.h"
#include "plan_mock.h"

static atomic_int n_discards;
static const void *discarded;

static void discard(void *user, const void *data, size_t bytes) {
  assert_ptr_equal(user, &n_discards);
  assert_int_equal(bytes, 24);
  discarded = data;
  ++n_discards;
}

typedef struct fixture {
  graft_context *context;
  graft_device *device;
  graft_graph *graph;
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->context = plan_mock_context(2);
  f->device = plan_mock_device(f->context, "cpu");
  assert_int_equal(graft_graph_create(f->context, &f->graph), GRAFT_OK);
  plan_mock_reset();
  n_discards = 0;
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  graft_graph_destroy(f->graph);
  assert_int_equal(plan_mock_n_states(), 0);
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(f->device, &info);
  assert_int_equal(info.allocated_bytes, 0);
  graft_context_destroy(f->context);
  free(f);
  return 0;
}

static graft_tensor *constant(graft_graph *graph, const void *data) {
  graft_tensor_desc desc;
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 2, (const int64_t[]){2, 3}, NULL, &desc), GRAFT_OK);
  return graft_graph_constant(
      graph, "w", &desc,
      &(graft_constant){
          .struct_size = sizeof(graft_constant), .data = data, .bytes = 24, .discard = discard, .user = &n_discards});
}

static graft_memory_report report_of(const graft_plan *plan) {
  graft_memory_report report = {.struct_size = sizeof report};
  graft_plan_memory(plan, &report);
  return report;
}

static void expect_sum(graft_plan *plan, uint32_t output, const float *a, const float *b) {
  float got[6];
  assert_int_equal(graft_plan_write(plan, 0, a, 24), GRAFT_OK);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  assert_int_equal(graft_plan_read(plan, output, got, 24), GRAFT_OK);
  for (int i = 0; i < 6; ++i) assert_true(got[i] == a[i] + b[i]);
}

static const float x_values[6] = {1, 2, 3, 4, 5, 6};
static _Alignas(64) const float w_values[8] = {10, 20, 30, 40, 50, 60};

static void KS8_packed_once_and_shared_between_plans(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 2, 3), *w = constant(f->graph, w_values);
  graft_tensor *y = plan_apply2(f->graph, "plan.packed.v1", x, w);
  graft_graph_output(f->graph, y, "y");
  graft_graph_output(f->graph, plan_apply2(f->graph, "plan.packed.v1", y, w), "z");
  graft_plan *measured = plan_make(f->graph, f->device, GRAFT_PLAN_MEASURE_ONLY);
  assert_int_equal(plan_mock_n_packs(), 0);
  assert_int_equal(n_discards, 0);
  graft_plan *first = plan_make(f->graph, f->device, 0), *second = plan_make(f->graph, f->device, 0);
  assert_int_equal(plan_mock_n_packs(), 1);
  assert_int_equal(n_discards, 2);  // once per plan
  assert_ptr_equal(discarded, w_values);
  const graft_plan *plans[] = {measured, first, second};
  for (int i = 0; i < 3; ++i) {
    assert_int_equal(report_of(plans[i]).packed_bytes, 24);
    assert_int_equal(report_of(plans[i]).constant_bytes, 0);
  }
  graft_plan_destroy(first);
  expect_sum(second, 0, x_values, w_values);
  graft_plan_destroy(second);
  second = plan_make(f->graph, f->device, 0);
  assert_int_equal(plan_mock_n_packs(), 1);  // the measured plan kept it
  graft_plan_destroy(measured);
  graft_plan_destroy(second);
  second = plan_make(f->graph, f->device, 0);
  assert_int_equal(plan_mock_n_packs(), 2);
  graft_plan_destroy(second);
}

static void KS8_a_source_that_is_read_as_well_is_kept(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 2, 3), *w = constant(f->graph, w_values);
  graft_graph_output(f->graph, plan_apply2(f->graph, "plan.packed.v1", x, w), "y");
  graft_graph_output(f->graph, plan_apply2(f->graph, "plan.add.v1", x, w), "z");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  assert_int_equal(n_discards, 0);
  assert_int_equal(report_of(plan).packed_bytes, 24);
  assert_int_equal(report_of(plan).constant_bytes, 24);
  expect_sum(plan, 0, x_values, w_values);
  expect_sum(plan, 1, x_values, w_values);
  graft_plan_destroy(plan);
}

static void KS8_a_source_that_is_an_output_is_kept(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 2, 3), *w = constant(f->graph, w_values);
  graft_graph_output(f->graph, plan_apply2(f->graph, "plan.packed.v1", x, w), "y");
  graft_graph_output(f->graph, w, "w");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  assert_int_equal(n_discards, 0);
  expect_sum(plan, 0, x_values, w_values);
  graft_plan_destroy(plan);
}

static void KS8_packing_can_be_switched_off(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 2, 3), *w = constant(f->graph, w_values);
  graft_graph_output(f->graph, plan_apply2(f->graph, "plan.packed.v1", x, w), "y");
  graft_plan *plan = plan_make(f->graph, f->device, GRAFT_PLAN_NO_PACKING);
  graft_step_info info = {.struct_size = sizeof info};
  graft_plan_step(plan, 0, &info);
  assert_string_equal(info.kernel->name, "unpacked_f32__mock");
  assert_non_null(strstr(info.rejections, "switched off"));
  assert_int_equal(plan_mock_n_packs(), 0);
  expect_sum(plan, 0, x_values, w_values);
  graft_plan_destroy(plan);
}

static void KS8_views_of_constants_are_packed(void **state) {
  fixture *f = *state;
  static const float wide[] = {10, 40, 20, 50, 30, 60};
  graft_tensor *x = plan_input(f->graph, "x", 2, 3), *w = plan_constant(f->graph, "wide", 3, 2, wide);
  graft_tensor *turned = plan_apply1(f->graph, "plan.transpose.v1", (plan_attrs){0}, w);
  graft_graph_output(f->graph, plan_apply2(f->graph, "plan.packed.v1", x, turned), "y");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  assert_int_equal(plan_mock_n_packs(), 1);
  expect_sum(plan, 0, x_values, w_values);
  graft_plan_destroy(plan);
}

// Sources at odd addresses: kernels and pack functions see aligned ones (the sanitizers would tell).
static void misaligned_constants_are_copied(void **state) {
  fixture *f = *state;
  char bytes[64];
  memcpy(bytes + 1, w_values, 24);
  char *odd = (uintptr_t)bytes % 4 == 3 ? bytes + 2 : bytes + 1;
  memmove(odd, bytes + 1, 24);
  graft_tensor *x = plan_input(f->graph, "x", 2, 3), *w = constant(f->graph, odd);
  graft_graph_output(f->graph, plan_apply2(f->graph, "plan.packed.v1", x, w), "y");
  graft_graph_output(f->graph, plan_apply2(f->graph, "plan.add.v1", x, w), "z");
  graft_plan *plan = plan_make(f->graph, f->device, 0), *second = plan_make(f->graph, f->device, 0);
  assert_int_equal(n_discards, 2);
  memset(bytes, 0, sizeof bytes);  // neither plan reads the source any more
  expect_sum(plan, 0, x_values, w_values);
  expect_sum(second, 1, x_values, w_values);
  graft_plan_destroy(plan);
  graft_plan_destroy(second);
}

// ---- a device with memory of its own ----

typedef struct null_add {
  const float *a, *b;
  float *y;
  int64_t n;
} null_add;

static void run_null_add(const void *args) {
  const null_add *add = args;
  for (int64_t i = 0; i < add->n; ++i) add->y[i] = add->a[i] + add->b[i];
}

static graft_status encode_null_add(graft_encoder *encoder, const graft_encode_args *args) {
  const null_add add = {args->inputs[0], args->inputs[1], args->outputs[0],
                        graft_tensor_desc_elements(args->node->outputs[0])};
  return graft_null_encode(encoder, &(graft_null_command){.run = run_null_add, .args = &add, .args_bytes = sizeof add},
                           args->error);
}

static graft_status prepare_null_pack(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  out_prepared->n_packed = 1;
  out_prepared->packed[0] = (graft_packed_input){
      .input = 1, .bytes = graft_tensor_desc_bytes(node->inputs[1]), .alignment = 64, .layout = "doubled"};
  return GRAFT_OK;
}

static graft_status pack_doubled(const graft_node_info *node, void *own, uint32_t input, const void *source,
                                 void *packed) {
  (void)own;
  const float *from = source;
  float *to = packed;
  for (int64_t i = 0; i < graft_tensor_desc_elements(node->inputs[input]); ++i) to[i] = 2 * from[i];
  return from[0] < 0 ? GRAFT_E_INVALID : GRAFT_OK;
}

#define NULL_KERNEL(name_, op_) \
  .struct_size = sizeof(graft_kernel_def), .name = name_, .op = op_, .backend = "null", .encode = encode_null_add
static const graft_kernel_def null_kernels[] = {
    {NULL_KERNEL("add__null", "plan.add.v1"), .in_place_inputs = 3},
    {NULL_KERNEL("packed__null", "plan.packed.v1"), .prepare = prepare_null_pack, .pack = pack_doubled},
};
static const graft_extension null_kernel_extension = {.struct_size = sizeof null_kernel_extension,
                                                      .abi_version = GRAFT_ABI_VERSION,
                                                      .name = "tests.null",
                                                      .vendor = "tests",
                                                      .kernels = null_kernels,
                                                      .n_kernels = 2};

static graft_device *open_null(fixture *f) {
  assert_int_equal(graft_context_register(f->context, &graft_extension_null_backend), GRAFT_OK);
  assert_int_equal(graft_context_register(f->context, &null_kernel_extension), GRAFT_OK);
  return plan_mock_device(f->context, "null");
}

static bool always(void *user) {
  (void)user;
  return true;
}

static void SC8_devices_with_their_own_memory_get_copies(void **state) {
  fixture *f = *state;
  graft_device *device = open_null(f);
  float source[6];
  memcpy(source, w_values, sizeof source);
  graft_tensor *x = plan_input(f->graph, "x", 2, 3), *w = constant(f->graph, source);
  graft_tensor *y = plan_apply2(f->graph, "plan.add.v1", x, w);
  graft_graph_output(f->graph, y, "y");
  graft_graph_output(f->graph, plan_apply2(f->graph, "plan.packed.v1", x, w), "z");
  graft_graph_output(f->graph, plan_apply1(f->graph, "plan.transpose.v1", (plan_attrs){0}, y), "t");
  graft_plan *plan = plan_make(f->graph, device, 0);
  assert_int_equal(n_discards, 1);
  memset(source, 0, sizeof source);
  float doubled[6], turned[6];
  for (int i = 0; i < 6; ++i) doubled[i] = 2 * w_values[i];
  expect_sum(plan, 0, x_values, w_values);
  expect_sum(plan, 1, x_values, doubled);
  assert_int_equal(graft_plan_read(plan, 2, turned, 24), GRAFT_OK);
  assert_true(turned[1] == x_values[3] + w_values[3] && turned[2] == x_values[1] + w_values[1]);
  const graft_run_control cancelled = {.struct_size = sizeof cancelled, .abort = always};
  assert_int_equal(graft_plan_run(plan, &cancelled), GRAFT_E_CANCELLED);
  expect_sum(plan, 0, x_values, w_values);
  graft_plan_destroy(plan);
}

static void a_failing_pack_is_the_plans_failure(void **state) {
  fixture *f = *state;
  const graft_plan_options options = {.struct_size = sizeof options, .device = open_null(f)};
  static const float negative[6] = {-1};
  graft_tensor *x = plan_input(f->graph, "x", 2, 3);
  graft_graph_output(f->graph, plan_apply2(f->graph, "plan.packed.v1", x, constant(f->graph, negative)), "y");
  graft_plan *plan = NULL;
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(graft_plan_create(f->graph, &options, &plan), GRAFT_E_INVALID);
    assert_non_null(strstr(graft_context_error(f->context)->message, "constant w"));
    assert_non_null(strstr(graft_context_error(f->context)->notes[0], "packed__null"));
  }
}

static void PR4_measuring_touches_no_constant(void **state) {
  fixture *f = *state;
  // A large weight whose pages cannot even be read. (An emulator keeps notes of every page, so 16 GiB must do.)
  const int64_t rows = 1 << 16, columns = 1 << 16;
  size_t bytes = (size_t)rows * (size_t)columns * 4;
  void *data = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) skip();
  graft_tensor *x = plan_input(f->graph, "x", rows, columns), *w = plan_constant(f->graph, "w", rows, columns, data);
  graft_tensor *y = plan_apply2(f->graph, "plan.packed.v1", x, w);
  graft_graph_output(f->graph, plan_mix(f->graph, y, w, NULL), "y");
  graft_plan *plan = plan_make(f->graph, f->device, GRAFT_PLAN_MEASURE_ONLY);
  assert_int_equal(report_of(plan).packed_bytes, bytes);
  assert_int_equal(report_of(plan).constant_bytes, bytes);
  assert_int_equal(report_of(plan).arena_bytes, 4 * bytes);
  graft_plan_destroy(plan);
  munmap(data, bytes);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(KS8_packed_once_and_shared_between_plans),
      TEST(KS8_a_source_that_is_read_as_well_is_kept),
      TEST(KS8_a_source_that_is_an_output_is_kept),
      TEST(KS8_packing_can_be_switched_off),
      TEST(KS8_views_of_constants_are_packed),
      TEST(misaligned_constants_are_copied),
      TEST(SC8_devices_with_their_own_memory_get_copies),
      TEST(a_failing_pack_is_the_plans_failure),
      TEST(PR4_measuring_touches_no_constant),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
