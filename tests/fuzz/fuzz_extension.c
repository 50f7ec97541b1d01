// Tables as a plug-in may bring them, with members that the input chooses.
#include <stdlib.h>
#include <string.h>

#include "fuzz_targets.h"
#include "graft/graft.h"

typedef struct bytes {
  const uint8_t *data;
  size_t n;
} bytes;

static uint32_t take(bytes *from) {
  if (from->n == 0) return 0;
  --from->n;
  return *from->data++;
}

// A small number, or one near the ends of what 32 bits hold.
static uint32_t take_u32(bytes *from) {
  uint32_t kind = take(from), low = take(from);
  if (kind < 128) return low % 40;
  return kind < 192 ? UINT32_MAX - low : low << (kind % 25);
}

static const char *take_name(bytes *from) {
  static const char *const names[] = {"a.b.v1",
                                      "a.b.v2",
                                      "c.d.e.v1",
                                      "",
                                      NULL,
                                      "a..v1",
                                      "a.b.v0",
                                      "word",
                                      "two words",
                                      "cpu",
                                      "f32",
                                      "x.y",
                                      "\x80",
                                      "eps",
                                      "axes",
                                      "a.b.v18446744073709551616",
                                      "long_long_long_long_long_long_long_long_long_long_long_long_long_long_name"};
  return names[take(from) % (sizeof names / sizeof names[0])];
}

static graft_status infer(graft_infer_args *args) {
  return graft_infer_elementwise(args);
}

static graft_status reference(const graft_reference_args *args) {
  (void)args;
  return GRAFT_OK;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  (void)encoder;
  (void)args;
  return GRAFT_OK;
}

static void to_f32(const void *source, float *target, size_t n) {
  (void)source;
  memset(target, 0, n * sizeof *target);
}

static void from_f32(const float *source, void *target, size_t n) {
  (void)source;
  (void)target;
  (void)n;
}

enum { N_ATTRS = 3, N_OPS = 2, N_KERNELS = 2 };

typedef struct tables {
  graft_attr_def attrs[N_ATTRS];
  graft_op_case cases[2];
  graft_op_def ops[N_OPS];
  graft_kernel_def kernels[N_KERNELS];
  graft_dtype_def dtype;
  graft_dtype dtypes[1];
  graft_extension extension;
} tables;

static void make_ops(tables *t, bytes *from) {
  static const char *const choices[] = {"one", "two", NULL};
  for (int i = 0; i < N_ATTRS; ++i)
    t->attrs[i] = (graft_attr_def){.name = take_name(from),
                                   .type = (graft_attr_type)(take(from) % 8),
                                   .offset = take_u32(from),
                                   .default_i64 = (int64_t)take_u32(from) - 3,
                                   .choices = take(from) % 4 == 0 ? NULL : choices,
                                   .max_count = take_u32(from),
                                   .count_offset = take_u32(from)};
  for (int i = 0; i < 2; ++i)
    t->cases[i] = (graft_op_case){.name = take_name(from),
                                  .n_inputs = take_u32(from),
                                  .inputs = {{.dtype = GRAFT_F32, .rank = (int32_t)take_u32(from)}}};
  for (int i = 0; i < N_OPS; ++i)
    t->ops[i] = (graft_op_def){.struct_size = sizeof t->ops[0],
                               .traits = take_u32(from),
                               .name = take_name(from),
                               .min_inputs = take_u32(from),
                               .max_inputs = take_u32(from),
                               .n_outputs = take_u32(from),
                               .optional_inputs = take_u32(from),
                               .attrs = t->attrs,
                               .n_attrs = take(from) % (N_ATTRS + 1),
                               .attrs_bytes = take_u32(from),
                               .infer = take(from) % 8 == 7 ? NULL : infer,
                               .reference = take(from) % 8 == 7 ? NULL : reference,
                               .cases = t->cases,
                               .n_cases = take(from) % 3};
}

static void make_rest(tables *t, bytes *from) {
  for (int i = 0; i < N_KERNELS; ++i)
    t->kernels[i] = (graft_kernel_def){.struct_size = sizeof t->kernels[0],
                                       .priority = (int32_t)take_u32(from),
                                       .name = take_name(from),
                                       .op = take_name(from),
                                       .backend = take_name(from),
                                       .encode = take(from) % 8 == 7 ? NULL : encode};
  t->dtype = (graft_dtype_def){.struct_size = sizeof t->dtype,
                               .code = take(from) % 4 == 3 ? GRAFT_DTYPE_F32 : GRAFT_DTYPE_CUSTOM,
                               .name = take_name(from),
                               .block_elements = take_u32(from),
                               .block_bytes = take_u32(from),
                               .alignment = take_u32(from),
                               .to_f32 = to_f32,
                               .from_f32 = take(from) % 8 == 7 ? NULL : from_f32};
  t->dtypes[0] = &t->dtype;
  t->extension = (graft_extension){.struct_size = sizeof t->extension,
                                   .abi_version = take(from) % 8 == 7 ? take_u32(from) : GRAFT_ABI_VERSION,
                                   .name = take_name(from),
                                   .vendor = take_name(from),
                                   .ops = t->ops,
                                   .n_ops = take(from) % (N_OPS + 1),
                                   .kernels = t->kernels,
                                   .n_kernels = take(from) % (N_KERNELS + 1),
                                   .dtypes = t->dtypes,
                                   .n_dtypes = take(from) % 2};
  // A size that is too small is an old table, or a mistake; one that is too large would be a lie about what lies there.
  if (t->extension.n_ops == 1 && take(from) % 8 == 7) t->ops[0].struct_size = take(from) % sizeof t->ops[0];
}

// What was accepted can be used, by callers who do not know how.
static void use(graft_context *context) {
  graft_graph *graph = NULL;
  graft_tensor_desc desc;
  if (graft_graph_create(context, &graph) != GRAFT_OK) abort();
  if (graft_tensor_desc_init(GRAFT_F32, 1, (int64_t[]){3}, NULL, &desc) != GRAFT_OK) abort();
  graft_tensor *x = graft_graph_input(graph, "x", &desc), *inputs[GRAFT_MAX_INPUTS], *outputs[GRAFT_MAX_OUTPUTS];
  for (int i = 0; i < GRAFT_MAX_INPUTS; ++i) inputs[i] = x;
  const graft_op_def *op = graft_context_op(context, 0);
  graft_graph_apply(graph, op->name, NULL, 0, inputs, op->max_inputs, outputs);
  graft_graph_destroy(graph);
}

int fuzz_extension(const uint8_t *data, size_t size) {
  bytes from = {data, size};
  tables t;
  make_ops(&t, &from);
  make_rest(&t, &from);
  const graft_context_options options = {
      .struct_size = sizeof options, .n_threads = 1, .ignore_environment = true, .without_builtins = true};
  graft_context *context = NULL;
  if (graft_context_create(&options, NULL, &context) != GRAFT_OK) abort();
  graft_status status = graft_context_register(context, &t.extension);
  if (status != GRAFT_OK && (graft_context_error(context)->message[0] == '\0' || graft_context_n_ops(context) != 0))
    abort();
  if (graft_context_n_ops(context) > 0) use(context);
  if (status == GRAFT_OK && graft_context_unregister(context, &t.extension) != GRAFT_OK) abort();
  graft_context_destroy(context);
  return 0;
}
