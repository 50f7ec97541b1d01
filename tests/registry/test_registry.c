// What registration refuses — each rule by breaking one good definition — and the order of what it keeps.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "mock.h"
#include "src/run/registry.h"

static const graft_extension empty = {
    .struct_size = sizeof empty, .abi_version = GRAFT_ABI_VERSION, .name = "other", .vendor = "other"};

static void assert_refused(graft_context *context, const graft_extension *extension, graft_status status,
                           const char *part) {
  uint32_t n_ops = graft_context_n_ops(context), n_kernels = graft_context_n_kernels(context);
  assert_int_equal(graft_context_register(context, extension), status);
  const graft_error *error = graft_context_error(context);
  assert_int_equal(error->status, status);
  if (strstr(error->message, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", error->message, part);
  assert_int_equal(graft_context_n_ops(context), n_ops);
  assert_int_equal(graft_context_n_kernels(context), n_kernels);
  assert_int_equal(graft_context_unregister(context, extension), GRAFT_E_NOT_FOUND);
}

static int set_up(void **state) {
  *state = mock_context();
  return 0;
}

static int tear_down(void **state) {
  graft_context_destroy(*state);
  return 0;
}

static void OP1_definitions_are_found_by_name(void **state) {
  graft_context *context = *state;
  assert_int_equal(graft_context_n_ops(context), mock_extension.n_ops);
  for (uint32_t i = 1; i < graft_context_n_ops(context); ++i)
    assert_true(strcmp(graft_context_op(context, i - 1)->name, graft_context_op(context, i)->name) < 0);
  assert_null(graft_context_op(context, mock_extension.n_ops));
  for (uint32_t i = 0; i < mock_extension.n_ops; ++i) {
    const graft_op_def *op = graft_context_find_op(context, mock_ops[i].name);
    assert_memory_equal(op, &mock_ops[i], sizeof *op);
  }
  assert_null(graft_context_find_op(context, "mock.add.v2"));
  assert_null(graft_context_find_op(context, NULL));
  assert_null(graft_context_find_kernel(context, "mock_add"));
  assert_int_equal(graft_context_n_backends(context), 2);
  assert_string_equal(graft_context_backend(context, 0)->name, "mock");
}

static void OP1_duplicate_name_refused(void **state) {
  graft_context *context = *state;
  const graft_op_def *live = graft_context_find_op(context, "mock.add.v1");
  graft_op_def ops[2] = {mock_ops[1], mock_ops[0]};
  ops[0].name = "other.fresh.v1";
  graft_extension other = empty;
  other.ops = ops, other.n_ops = 2;
  assert_refused(context, &other, GRAFT_E_EXISTS, "mock.add.v1 of extension other exists already, from extension mock");
  assert_ptr_equal(graft_context_find_op(context, "mock.add.v1"), live);
  assert_null(graft_context_find_op(context, "other.fresh.v1"));
  ops[1].name = "other.fresh.v1";
  assert_refused(context, &other, GRAFT_E_EXISTS, "other.fresh.v1");
  ops[1].name = "mock.add.v2";
  assert_int_equal(graft_context_register(context, &other), GRAFT_OK);
  assert_int_equal(graft_context_register(context, &other), GRAFT_E_EXISTS);
  assert_int_equal(graft_context_unregister(context, &other), GRAFT_OK);
  assert_null(graft_context_find_op(context, "mock.add.v2"));
  assert_ptr_equal(graft_context_find_op(context, "mock.add.v1"), live);
}

static bool propose(graft_tensor *result, graft_fusion_proposal *proposal, graft_reason *why) {
  (void)result, (void)proposal, (void)why;
  return false;
}

static graft_dtype_def good_dtype(void) {
  graft_dtype_def dtype = graft_dtype_f16;
  dtype.code = GRAFT_DTYPE_CUSTOM;
  dtype.name = "mock.half";
  return dtype;
}

static void OP1_every_kind_of_name_is_unique(void **state) {
  graft_context *context = *state;
  graft_dtype_def dtype = good_dtype(), twin = dtype;
  graft_dtype dtypes[] = {&dtype}, twins[] = {&twin}, built_in[] = {&twin};
  graft_fusion_def fusion = {.struct_size = sizeof fusion, .name = "mock_fused", .op = "mock.f.v1", .propose = propose};
  graft_extension first = empty, second = empty;
  first.dtypes = dtypes, first.n_dtypes = 1, first.fusions = &fusion, first.n_fusions = 1;
  first.kernels = &mock_kernel, first.n_kernels = 1;
  assert_int_equal(graft_context_register(context, &first), GRAFT_OK);
  assert_refused(context, &second, GRAFT_E_EXISTS, "the extension other");
  second.name = "second";
  second.dtypes = twins, second.n_dtypes = 1;
  assert_refused(context, &second, GRAFT_E_EXISTS, "the dtype mock.half");
  second.n_dtypes = 0, second.fusions = &fusion, second.n_fusions = 1;
  assert_refused(context, &second, GRAFT_E_EXISTS, "the fusion rule mock_fused");
  second.n_fusions = 0, second.kernels = &mock_kernel, second.n_kernels = 1;
  assert_refused(context, &second, GRAFT_E_EXISTS, "the kernel mock_add");
  second.n_kernels = 0, second.backends = &mock_backend, second.n_backends = 1;
  assert_refused(context, &second, GRAFT_E_EXISTS, "the backend mock");
  second.n_backends = 0, second.dtypes = built_in, second.n_dtypes = 1;
  twin.name = "f32";
  assert_refused(context, &second, GRAFT_E_INVALID, "vendor.name");
}

static void OP8_extension_header_is_checked(void **state) {
  graft_context *context = *state;
  graft_extension bad = empty;
  bad.abi_version = GRAFT_ABI_VERSION + 1;
  assert_refused(context, &bad, GRAFT_E_UNSUPPORTED, "update graft");
  bad.abi_version = 0;
  assert_refused(context, &bad, GRAFT_E_INVALID, "abi_version");
  bad = empty, bad.struct_size = 0;
  assert_refused(context, &bad, GRAFT_E_INVALID, "struct_size");
  bad = empty, bad.name = NULL;
  assert_refused(context, &bad, GRAFT_E_INVALID, "(null)");
  bad.name = "a..b";
  assert_refused(context, &bad, GRAFT_E_INVALID, "a..b");
  bad = empty, bad.vendor = "has.dot";
  assert_refused(context, &bad, GRAFT_E_INVALID, "vendor");
  bad = empty, bad.n_ops = 1;
  assert_refused(context, &bad, GRAFT_E_INVALID, "NULL");
  bad = empty, bad.n_dtypes = 1;
  assert_refused(context, &bad, GRAFT_E_INVALID, "NULL");
  assert_int_equal(graft_context_register(context, NULL), GRAFT_E_INVALID);
}

static void refuse_op(graft_context *context, graft_op_def op, const char *part) {
  graft_extension extension = empty;
  extension.ops = &op, extension.n_ops = 1;
  assert_refused(context, &extension, GRAFT_E_INVALID, part);
}

static graft_op_def good_op(void) {
  graft_op_def op = mock_ops[1];  // mock.norm.v1
  op.name = "other.norm.v1";
  return op;
}

static void OP1_operator_rules(void **state) {
  graft_context *context = *state;
  const char *const names[] = {NULL,
                               "",
                               "norm",
                               "other.norm",
                               "other.norm.1",
                               "other.norm.v0",
                               "other.norm.v",
                               "other..v1",
                               "other.no rm.v1",
                               "other.norm.v1.",
                               ".norm.v1",
                               "other.norm.v1x",
                               "other.a_name_that_is_too_long_for_records_of_errors.v1"};
  graft_op_def op;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    op = good_op(), op.name = names[i];
    refuse_op(context, op, "vendor.name.v1");
  }
  op = good_op(), op.struct_size = 0;
  refuse_op(context, op, "struct_size");
  op = good_op(), op.min_inputs = 3;
  refuse_op(context, op, "3 to 2 inputs");
  op = good_op(), op.max_inputs = GRAFT_MAX_INPUTS + 1;
  refuse_op(context, op, "the limit is 32");
  op = good_op(), op.n_outputs = 0;
  refuse_op(context, op, "0 outputs");
  op = good_op(), op.n_outputs = GRAFT_MAX_OUTPUTS + 1;
  refuse_op(context, op, "9 outputs");
  op = good_op(), op.optional_inputs = 1 << 2;
  refuse_op(context, op, "optional_inputs");
  op = good_op(), op.traits = 1u << 31;
  refuse_op(context, op, "unknown traits");
  op = good_op(), op.traits = GRAFT_OP_PURE | GRAFT_OP_OPAQUE_EFFECT;
  refuse_op(context, op, "opaque effect");
  op = good_op(), op.traits = GRAFT_OP_VIEW, op.n_outputs = 2;
  refuse_op(context, op, "is a view");
  op = good_op(), op.traits = GRAFT_OP_VIEW, op.optional_inputs = 1;
  refuse_op(context, op, "is a view");
  op = good_op(), op.traits = GRAFT_OP_COMMUTATIVE;
  refuse_op(context, op, "commutative");
  op = good_op(), op.infer = NULL;
  refuse_op(context, op, "no infer");
  op = good_op(), op.n_cases = 1;
  refuse_op(context, op, "cases");
}

static void OP5_an_oracle_is_required(void **state) {
  graft_op_def op = good_op();
  op.reference = NULL;
  refuse_op(*state, op, "neither a reference nor a decomposition");
}

static void refuse_attr(graft_context *context, graft_attr_def attr, const char *part) {
  graft_attr_def attrs[2] = {{.name = "eps", .type = GRAFT_ATTR_F64}, attr};
  graft_op_def op = good_op();
  op.attrs = attrs, op.n_attrs = 2, op.attrs_bytes = 40;
  refuse_op(context, op, part);
}

static void OP2_schema_rules(void **state) {
  graft_context *context = *state;
  static const char *const none[] = {NULL}, *const two[] = {"a", "b", NULL};
  refuse_attr(context, (graft_attr_def){.name = NULL}, "name");
  refuse_attr(context, (graft_attr_def){.name = "eps"}, "two attributes eps");
  refuse_attr(context, (graft_attr_def){.name = "a", .type = (graft_attr_type)17}, "unknown type");
  refuse_attr(context, (graft_attr_def){.name = "a", .offset = 36}, "inside the 40 bytes");
  refuse_attr(context, (graft_attr_def){.name = "a", .offset = 40}, "inside the 40 bytes");
  refuse_attr(context, (graft_attr_def){.name = "a", .offset = UINT32_MAX - 7}, "inside the 40 bytes");
  refuse_attr(context, (graft_attr_def){.name = "a", .type = GRAFT_ATTR_ENUM}, "no choices");
  refuse_attr(context, (graft_attr_def){.name = "a", .type = GRAFT_ATTR_ENUM, .choices = none}, "no choices");
  refuse_attr(context, (graft_attr_def){.name = "a", .type = GRAFT_ATTR_ENUM, .choices = two, .default_i64 = 2},
              "none of its choices");
  refuse_attr(context, (graft_attr_def){.name = "a", .type = GRAFT_ATTR_DTYPE, .default_i64 = 99}, "graft_dtype_code");
  refuse_attr(context, (graft_attr_def){.name = "a", .type = GRAFT_ATTR_I64S}, "max_count");
  refuse_attr(context, (graft_attr_def){.name = "a", .type = GRAFT_ATTR_I64S, .max_count = 6}, "inside the 40 bytes");
  refuse_attr(context, (graft_attr_def){.name = "a", .type = GRAFT_ATTR_I64S, .max_count = 2, .count_offset = 38},
              "inside the 40 bytes");
  graft_op_def op = good_op();
  op.attrs_bytes = GRAFT_MAX_ATTRS_BYTES + 1;
  refuse_op(context, op, "what is large is an input");
  op = good_op();
  op.struct_size -= 4;  // would end within a pointer
  refuse_op(context, op, "struct_size of graft_op_def");
}

static void OP5_cases_must_fit_their_operator(void **state) {
  const graft_op_case good = {.name = "c", .n_inputs = 1, .inputs = {{.dtype = GRAFT_F32, .rank = 1, .shape = {3}}}};
  graft_op_case example = good;
  graft_op_def op = good_op();
  op.cases = &example, op.n_cases = 1;
  example.name = NULL;
  refuse_op(*state, op, "no name");
  example = good, example.n_inputs = 3;
  refuse_op(*state, op, "has 3 inputs");
  example = good, example.inputs[0].dtype = NULL;
  refuse_op(*state, op, "leaves out input 0");
  example = good, example.inputs[0].rank = 9;
  refuse_op(*state, op, "rank 9");
}

static void KS1_kernel_rules(void **state) {
  const struct {
    graft_kernel_def kernel;
    const char *part;
  } bad[] = {
      {{.name = NULL, .backend = "mock"}, "(null)"},
      {{.name = "has space", .backend = "mock"}, "has space"},
      {{.name = "k", .op = "add", .backend = "mock"}, "vendor.name.v1"},
      {{.name = "k", .op = "mock.add.v1"}, "no backend"},
      {{.name = "k", .op = "mock.add.v1", .backend = "mock"}, "no encode"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    graft_kernel_def kernel = bad[i].kernel;
    kernel.struct_size = sizeof kernel;
    graft_extension extension = empty;
    extension.kernels = &kernel, extension.n_kernels = 1;
    assert_refused(*state, &extension, GRAFT_E_INVALID, bad[i].part);
  }
}

static void OP6_dtype_rules(void **state) {
  graft_dtype_def bad[10];
  for (int i = 0; i < 10; ++i) bad[i] = good_dtype();
  bad[0].struct_size = 8;
  bad[1].name = NULL;
  bad[2].code = GRAFT_DTYPE_F16;
  bad[3].block_elements = 0;
  bad[4].block_bytes = 0;
  bad[5].alignment = 3;
  bad[6].alignment = 4;
  bad[7].to_f32 = NULL;
  bad[8].from_f32 = NULL;
  bad[9].alignment = 0;
  for (int i = 0; i < 10; ++i) {
    graft_dtype dtypes[] = {&bad[i]};
    graft_extension extension = empty;
    extension.dtypes = dtypes, extension.n_dtypes = 1;
    assert_refused(*state, &extension, GRAFT_E_INVALID, "dtype");
  }
  graft_dtype none[] = {NULL};
  graft_extension extension = empty;
  extension.dtypes = none, extension.n_dtypes = 1;
  assert_refused(*state, &extension, GRAFT_E_INVALID, "NULL");
}

static graft_status register_nothing(void *device, const void *memory, size_t bytes, graft_error *error) {
  (void)device, (void)memory, (void)bytes, (void)error;
  return GRAFT_E_UNSUPPORTED;
}

static void backend_and_fusion_rules(void **state) {
  graft_backend_def backend = mock_backend;
  graft_extension extension = empty;
  extension.backends = &backend, extension.n_backends = 1;
  backend.name = "a:b";
  assert_refused(*state, &extension, GRAFT_E_INVALID, "a:b");
  backend.name = "fresh", backend.run = NULL;
  assert_refused(*state, &extension, GRAFT_E_INVALID, "lacks a function");
  backend.run = mock_backend.run, backend.allocate_host = mock_backend.allocate;
  assert_refused(*state, &extension, GRAFT_E_INVALID, "needs all three");
  backend.allocate_host = NULL, backend.register_host = register_nothing;
  assert_refused(*state, &extension, GRAFT_E_INVALID, "needs both, with streams");
  graft_fusion_def fusion = {.struct_size = sizeof fusion, .name = "f", .op = "mock.add.v1"};
  extension = empty, extension.fusions = &fusion, extension.n_fusions = 1;
  assert_refused(*state, &extension, GRAFT_E_INVALID, "neither forms nor propose");
  fusion.n_forms = 1;
  assert_refused(*state, &extension, GRAFT_E_INVALID, "forms of fusion rule");
  fusion.n_forms = 0, fusion.propose = propose, fusion.op = "add";
  assert_refused(*state, &extension, GRAFT_E_INVALID, "vendor.name.v1");
  fusion.name = "";
  assert_refused(*state, &extension, GRAFT_E_INVALID, "fusion rule");
}

// Tables of a newer and of an older age, as other code would have compiled them.
typedef struct newer_kernel {
  graft_kernel_def known;
  void *unknown;
} newer_kernel;

static void OP8_older_and_newer_tables(void **state) {
  graft_context *context = *state;
  newer_kernel newer[2] = {{.known = mock_kernel}, {.known = mock_kernel}};
  graft_extension extension = empty;
  extension.kernels = &newer[0].known, extension.n_kernels = 2;
  newer[1].known.name = "second";
  newer[0].known.struct_size = newer[1].known.struct_size = sizeof newer[0];
  newer[1].unknown = &extension;
  assert_refused(context, &extension, GRAFT_E_UNSUPPORTED, "graft_kernel_def uses members");
  newer[1].unknown = NULL;
  assert_int_equal(graft_context_register(context, &extension), GRAFT_OK);
  assert_ptr_equal(graft_context_find_kernel(context, "second")->encode, mock_kernel.encode);
  assert_int_equal(graft_context_find_kernel(context, "second")->struct_size, sizeof(graft_kernel_def));
  assert_int_equal(graft_context_unregister(context, &extension), GRAFT_OK);

  enum { OLD = offsetof(graft_op_def, flops) };
  unsigned char *old = malloc(2 * OLD);  // exactly, so that a read beyond an element is found
  assert_non_null(old);
  for (int i = 0; i < 2; ++i) {
    graft_op_def op = good_op();
    op.struct_size = OLD;
    op.name = i == 0 ? "other.a.v1" : "other.b.v1";
    memcpy(old + i * OLD, &op, OLD);
  }
  extension = empty, extension.ops = (const graft_op_def *)old, extension.n_ops = 2;
  assert_int_equal(graft_context_register(context, &extension), GRAFT_OK);
  const graft_op_def *b = graft_context_find_op(context, "other.b.v1");
  assert_non_null(b);
  assert_null(b->flops);
  assert_int_equal(b->n_cases, 0);
  assert_int_equal(graft_context_unregister(context, &extension), GRAFT_OK);

  uint32_t other_size = OLD - 8;
  memcpy(old + OLD, &other_size, sizeof other_size);
  assert_refused(context, &extension, GRAFT_E_INVALID, "of the first one");
  free(old);
}

static graft_kernel_def kernel(const char *name, const char *op, const char *backend, int32_t priority) {
  graft_kernel_def made = mock_kernel;
  made.name = name, made.op = op, made.backend = backend, made.priority = priority;
  return made;
}

static void assert_order(const graft_context *context, const char *op, const char *backend, const char *want) {
  const graft_kernel_def *const *kernels;
  uint32_t n = graft_registry_find_kernels(context, op, backend, &kernels);
  char got[200] = "";
  for (uint32_t i = 0; i < n; ++i) {
    strcat(got, i == 0 ? "" : " ");
    strcat(got, kernels[i]->name);
  }
  assert_string_equal(got, want);
}

static void KS1_order_of_choice(void **state) {
  graft_context *context = *state;
  const graft_kernel_def native[] = {kernel("n_any", NULL, "mock", 100), kernel("n_low", "mock.add.v1", "mock", 0),
                                     kernel("n_high", "mock.add.v1", "mock", 5),
                                     kernel("n_other", "mock.add.v1", "elsewhere", 9),
                                     kernel("n_last", "mock.add.v1", "mock", -1)};
  const graft_kernel_def foreign[] = {kernel("z_low", "mock.add.v1", "mock", 0),
                                      kernel("a_low", "mock.add.v1", "mock", 0),
                                      kernel("f_high", "mock.add.v1", "mock", 5), kernel("f_any", NULL, "mock", 100),
                                      kernel("f_future", "other.later.v1", "mock", 0)};
  graft_extension first = empty, second = empty;
  first.name = "first", first.vendor = "mock", first.kernels = native, first.n_kernels = 5;
  second.kernels = foreign, second.n_kernels = 5;
  assert_int_equal(graft_context_register(context, &first), GRAFT_OK);
  assert_order(context, "mock.add.v1", "mock", "n_high n_low n_last n_any");
  assert_int_equal(graft_context_register(context, &second), GRAFT_OK);
  assert_order(context, "mock.add.v1", "mock", "f_high n_high z_low a_low n_low n_last f_any n_any");
  assert_order(context, "mock.norm.v1", "mock", "f_any n_any");
  assert_order(context, "other.later.v1", "mock", "f_future f_any n_any");
  assert_order(context, "mock.add.v1", "elsewhere", "n_other");
  assert_order(context, "mock.norm.v1", "elsewhere", "");
  assert_order(context, "mock.add.v1", "nowhere", "");
  assert_true(graft_registry_is_native(context, graft_context_find_kernel(context, "n_low")));
  assert_false(graft_registry_is_native(context, graft_context_find_kernel(context, "n_other")));
  assert_false(graft_registry_is_native(context, graft_context_find_kernel(context, "a_low")));
  const char *const want[] = {"n_other", "f_high", "n_high", "z_low", "a_low", "n_low", "n_last", "f_future"};
  for (uint32_t i = 0; i < 8; ++i) assert_string_equal(graft_context_kernel(context, i)->name, want[i]);
  assert_null(graft_context_kernel(context, 10));
  assert_int_equal(graft_context_unregister(context, &first), GRAFT_OK);
  assert_order(context, "mock.add.v1", "mock", "f_high z_low a_low f_any");
}

static void OP1_removal_while_in_use_is_refused(void **state) {
  graft_context *context = *state;
  graft_graph *graph;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  assert_int_equal(graft_context_unregister(context, &mock_extension), GRAFT_E_BUSY);
  assert_non_null(strstr(graft_context_error(context)->message, "are alive (1)"));
  graft_graph_destroy(graph);
  graft_device *device;
  assert_int_equal(graft_device_open(context, "mock:1", &device), GRAFT_OK);
  assert_int_equal(graft_context_unregister(context, &mock_extension), GRAFT_E_BUSY);
  assert_non_null(strstr(graft_context_error(context)->message, "mock:1"));
}

static void OP1_removal_when_unused(void **state) {
  graft_context *context = *state;
  assert_int_equal(graft_context_unregister(context, &mock_extension), GRAFT_OK);
  assert_int_equal(graft_context_n_ops(context), 0);
  assert_int_equal(graft_context_n_backends(context), 0);
  assert_int_equal(graft_context_unregister(context, &mock_extension), GRAFT_E_NOT_FOUND);
  assert_int_equal(graft_context_register(context, &mock_extension), GRAFT_OK);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(OP1_definitions_are_found_by_name),
      TEST(OP1_duplicate_name_refused),
      TEST(OP1_every_kind_of_name_is_unique),
      TEST(OP8_extension_header_is_checked),
      TEST(OP1_operator_rules),
      TEST(OP5_an_oracle_is_required),
      TEST(OP2_schema_rules),
      TEST(OP5_cases_must_fit_their_operator),
      TEST(KS1_kernel_rules),
      TEST(OP6_dtype_rules),
      TEST(backend_and_fusion_rules),
      TEST(OP8_older_and_newer_tables),
      TEST(KS1_order_of_choice),
      TEST(OP1_removal_while_in_use_is_refused),
      TEST(OP1_removal_when_unused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
