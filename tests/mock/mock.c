#include "mock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// The core is linked without the built-ins.
const graft_extension *const *graft_builtin_extensions(uint32_t *out_count) {
  *out_count = 0;
  return NULL;
}

static graft_status reference(const graft_reference_args *args) {
  return GRAFT_FAIL(args->error, GRAFT_E_UNSUPPORTED, "a mock computes nothing");
}

static graft_status infer_slice(graft_infer_args *args) {
  const mock_slice_attrs *attrs = args->attrs;
  graft_tensor_desc *output = &args->outputs[0];
  *output = *args->inputs[0];
  if (output->rank < 1 || attrs->start < 0 || attrs->length < 0 || attrs->start > output->shape[0] - attrs->length)
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "rows %lld + %lld are not there", (long long)attrs->start,
                      (long long)attrs->length);
  output->shape[0] = attrs->length;
  args->view_offset = attrs->start * output->strides[0];
  return GRAFT_OK;
}

static graft_status infer_split(graft_infer_args *args) {
  graft_tensor_desc half = *args->inputs[0];
  if (half.rank < 1 || half.shape[0] % 2 != 0) return GRAFT_E_SHAPE;  // without a sentence
  half.shape[0] /= 2;
  for (int i = 0; i < 2; ++i)
    GRAFT_TRY(graft_tensor_desc_init(half.dtype, half.rank, half.shape, args->error, &args->outputs[i]));
  return GRAFT_OK;
}

static graft_status infer_wrong(graft_infer_args *args) {
  const mock_wrong_attrs *attrs = args->attrs;
  graft_tensor_desc *output = &args->outputs[0];
  output->dtype = attrs->dtype;
  output->rank = attrs->rank;
  memcpy(output->shape, attrs->shape, sizeof output->shape);
  memcpy(output->strides, attrs->strides, sizeof output->strides);
  args->view_offset = attrs->offset;
  return (graft_status)attrs->status;
}

static const char *const modes[] = {"plain", "root", NULL};
#define AT(type, member) .name = #member, .offset = offsetof(type, member)
static const graft_attr_def norm_attrs[] = {
    {AT(mock_norm_attrs, eps), .type = GRAFT_ATTR_F64, .default_f64 = 1e-5},
    {AT(mock_norm_attrs, groups), .type = GRAFT_ATTR_I64, .default_i64 = -3},
    {AT(mock_norm_attrs, affine), .type = GRAFT_ATTR_BOOL, .default_i64 = 1},
    {AT(mock_norm_attrs, mode), .type = GRAFT_ATTR_ENUM, .choices = modes, .default_i64 = 1},
    {AT(mock_norm_attrs, accumulate), .type = GRAFT_ATTR_DTYPE, .default_i64 = GRAFT_DTYPE_BF16},
    {AT(mock_norm_attrs, axes), .type = GRAFT_ATTR_I64S, .default_i64 = 7, .max_count = 4,
     .count_offset = offsetof(mock_norm_attrs, n_axes)},
};
static const graft_attr_def slice_attrs[] = {
    {AT(mock_slice_attrs, start), .type = GRAFT_ATTR_I64},
    {AT(mock_slice_attrs, length), .type = GRAFT_ATTR_I64, .default_i64 = 1},
};

#define OP(text, in_least, in_most, out) \
  .struct_size = sizeof(graft_op_def), .name = text, .min_inputs = in_least, .max_inputs = in_most, .n_outputs = out
#define ATTRS(array, type) .attrs = array, .n_attrs = sizeof(array) / sizeof((array)[0]), .attrs_bytes = sizeof(type)

const graft_op_def mock_ops[] = {
    {OP("mock.add.v1", 2, 2, 1), .traits = GRAFT_OP_PURE | GRAFT_OP_ELEMENTWISE | GRAFT_OP_COMMUTATIVE,
     .infer = graft_infer_elementwise, .reference = reference},
    {OP("mock.norm.v1", 1, 2, 1), .traits = GRAFT_OP_PURE, .optional_inputs = 2, ATTRS(norm_attrs, mock_norm_attrs),
     .infer = graft_infer_elementwise, .reference = reference},
    {OP("mock.slice.v1", 1, 1, 1), .traits = GRAFT_OP_PURE | GRAFT_OP_VIEW, ATTRS(slice_attrs, mock_slice_attrs),
     .infer = infer_slice},
    {OP("mock.split.v1", 1, 1, 2), .traits = GRAFT_OP_PURE, .infer = infer_split, .reference = reference},
    {OP("mock.wrong.v1", 1, 1, 1), .traits = GRAFT_OP_PURE, .attrs_bytes = sizeof(mock_wrong_attrs),
     .infer = infer_wrong, .reference = reference},
    {OP("mock.wrong_view.v1", 1, 1, 1), .traits = GRAFT_OP_PURE | GRAFT_OP_VIEW,
     .attrs_bytes = sizeof(mock_wrong_attrs), .infer = infer_wrong},
};

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  (void)encoder;
  return GRAFT_FAIL(args->error, GRAFT_E_UNSUPPORTED, "a mock runs nothing");
}

const graft_kernel_def mock_kernel = {
    .struct_size = sizeof mock_kernel, .name = "mock_add", .op = "mock.add.v1", .backend = "mock", .encode = encode};

static atomic_int n_open;
int mock_n_open(void) {
  return n_open;
}

static uint32_t count_two(const graft_backend_config *config, graft_reason *why) {
  (void)config, (void)why;
  return 2;
}

static uint32_t count_none(const graft_backend_config *config, graft_reason *why) {
  (void)config;
  graft_refuse(why, "no driver is installed");
  return 0;
}

static graft_status open_device(const graft_backend_config *config, uint32_t index, graft_error *error,
                                void **out_state) {
  if (config->n_threads == 13) return GRAFT_FAIL(error, GRAFT_E_DEVICE, "the mock does not open");
  int *state = malloc(sizeof *state);
  if (state == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a mock");
  *state = (int)index;
  *out_state = state;
  ++n_open;
  return GRAFT_OK;
}

static void close_device(void *state) {
  free(state);
  --n_open;
}

static void describe(void *state, graft_device_info *out_info) {
  out_info->memory_bytes = 1000 + (uint64_t) * (int *)state;
  out_info->alignment = 64;
}

static graft_status allocate(void *state, size_t bytes, graft_error *error, void **out_memory) {
  (void)state, (void)out_memory;
  return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "a mock has no %zu bytes", bytes);
}

static void release(void *state, void *memory, size_t bytes) {
  (void)state, (void)memory, (void)bytes;
}

static graft_status transfer(void *state, void *target, const void *source, size_t bytes, graft_error *error) {
  (void)state, (void)target, (void)source, (void)bytes;
  return GRAFT_FAIL(error, GRAFT_E_DEVICE, "a mock moves nothing");
}

static graft_status record_begin(void *state, uint32_t n_steps, graft_error *error, graft_recording **out_recording) {
  (void)state, (void)n_steps, (void)out_recording;
  return GRAFT_FAIL(error, GRAFT_E_DEVICE, "a mock records nothing");
}

static graft_encoder *step_begin(graft_recording *recording, uint32_t step) {
  (void)recording, (void)step;
  return NULL;
}

static graft_status record_end(graft_recording *recording, graft_error *error) {
  (void)recording, (void)error;
  return GRAFT_E_DEVICE;
}

static void record_destroy(graft_recording *recording) {
  (void)recording;
}

static graft_status run(graft_recording *recording, uint32_t first, uint32_t end, const graft_run_control *control,
                        graft_error *error) {
  (void)recording, (void)first, (void)end, (void)control, (void)error;
  return GRAFT_E_DEVICE;
}

#define BACKEND(text, count_function)                                                                          \
  {                                                                                                            \
    .struct_size = sizeof(graft_backend_def), .name = text, .count = count_function, .open = open_device,      \
    .close = close_device, .describe = describe, .allocate = allocate, .release = release, .upload = transfer, \
    .download = transfer, .record_begin = record_begin, .step_begin = step_begin, .record_end = record_end,    \
    .record_destroy = record_destroy, .run = run                                                               \
  }

const graft_backend_def mock_backend = BACKEND("mock", count_two);
static const graft_backend_def backends[] = {BACKEND("mock", count_two), BACKEND("mock_absent", count_none)};

const graft_extension mock_extension = {.struct_size = sizeof mock_extension,
                                        .abi_version = GRAFT_ABI_VERSION,
                                        .name = "mock",
                                        .vendor = "mock",
                                        .ops = mock_ops,
                                        .n_ops = sizeof mock_ops / sizeof mock_ops[0],
                                        .backends = backends,
                                        .n_backends = 2};

graft_context *mock_context(void) {
  graft_context_options options = {.struct_size = sizeof options, .ignore_environment = true};
  graft_error error = {0};
  graft_context *context = NULL;
  assert_int_equal(graft_context_create(&options, &error, &context), GRAFT_OK);
  assert_int_equal(graft_context_register(context, &mock_extension), GRAFT_OK);
  return context;
}

static graft_status write_text(void *user, const char *text, size_t size) {
  mock_text *to = user;
  if (to->fail_after > 0 && ++to->n_pieces > to->fail_after) return GRAFT_E_IO;
  assert_true(to->n + size < sizeof to->text);
  memcpy(to->text + to->n, text, size);
  to->n += size;
  to->text[to->n] = '\0';
  return GRAFT_OK;
}

graft_writer mock_writer(mock_text *text) {
  *text = (mock_text){.fail_after = text->fail_after};
  return (graft_writer){write_text, text};
}
