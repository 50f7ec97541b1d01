#include "cuda_layer.h"

#include <stddef.h>
#include <string.h>

#include "fake_libcuda.h"
#include "graft/cuda.h"

static const graft_attr_def layer_schema[] = {
    {.name = "factor", .type = GRAFT_ATTR_F64, .offset = offsetof(cuda_layer_attrs, factor), .default_f64 = 1},
    {.name = "work", .type = GRAFT_ATTR_I64, .offset = offsetof(cuda_layer_attrs, work), .default_i64 = 1},
    {.name = "packs", .type = GRAFT_ATTR_BOOL, .offset = offsetof(cuda_layer_attrs, packs)}};

static graft_status infer(graft_infer_args *args) {
  args->outputs[0] = *args->inputs[0];
  return GRAFT_OK;
}

static graft_status reference(const graft_reference_args *args) {
  const cuda_layer_attrs *attrs = args->attrs;
  int64_t at[GRAFT_MAX_RANK] = {0};
  do {
    const float x = *(const float *)graft_view_at(&args->inputs[0], at);
    const float w = *(const float *)graft_view_at(&args->inputs[1], at);
    *(float *)graft_view_at(&args->outputs[0], at) = (float)attrs->factor * x + w;
  } while (graft_index_next(&args->inputs[0].desc, at));
  return GRAFT_OK;
}

static double count_flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                          const graft_tensor_desc *outputs) {
  (void)inputs, (void)n_inputs;
  return (double)((const cuda_layer_attrs *)attrs)->work * (double)graft_tensor_desc_elements(outputs);
}

// What a launch may have unasked, were it not for what its function declares itself.
enum { SHARED_BYTES = 48 << 10 };

static const char image[] = "none";
static const graft_cuda_module module = {.struct_size = sizeof module, .name = "tests", .image = image};

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  graft_cuda_function *function = NULL;
  GRAFT_TRY(graft_cuda_function_load(node->device, &module, FAKE_CUDA_ADD, SHARED_BYTES, error, &function));
  const cuda_layer_attrs *attrs = node->attrs;
  out_prepared->state = function;
  out_prepared->workspace_bytes = CUDA_LAYER_WORKSPACE;
  out_prepared->n_packed = attrs->packs;
  out_prepared->packed[0] = (graft_packed_input){.input = 1,
                                                 .bytes = CUDA_LAYER_PADDING + graft_tensor_desc_bytes(node->inputs[1]),
                                                 .alignment = 64,
                                                 .layout = "tests.late"};
  return GRAFT_OK;
}

static graft_status pack(const graft_node_info *node, void *state, uint32_t input, const void *source, void *packed) {
  (void)state;
  memset(packed, 0, CUDA_LAYER_PADDING);
  memcpy((char *)packed + CUDA_LAYER_PADDING, source, graft_tensor_desc_bytes(node->inputs[input]));
  return GRAFT_OK;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const cuda_layer_attrs *attrs = args->node->attrs;
  const fake_cuda_add params = {
      .x = args->inputs[0],
      .w = (const float *)args->inputs[1] + (attrs->packs ? CUDA_LAYER_PADDING / sizeof(float) : 0),
      .y = args->outputs[0],
      .n = graft_tensor_desc_elements(args->node->outputs[0]),
      .factor = (float)attrs->factor};
  const graft_cuda_launch launch = {.struct_size = sizeof launch,
                                    .function = args->state,
                                    .grid = {1, 1, 1},
                                    .block = {32, 1, 1},
                                    .shared_bytes = SHARED_BYTES,
                                    .params = &params,
                                    .params_bytes = sizeof params};
  return graft_cuda_encode(encoder, &launch, args->error);
}

static const graft_op_def op = {.struct_size = sizeof op,
                                .name = "tests.layer.v1",
                                .traits = GRAFT_OP_PURE,
                                .min_inputs = 2,
                                .max_inputs = 2,
                                .n_outputs = 1,
                                .attrs = layer_schema,
                                .n_attrs = 3,
                                .attrs_bytes = sizeof(cuda_layer_attrs),
                                .infer = infer,
                                .reference = reference,
                                .flops = count_flops};
static const graft_kernel_def kernel = {.struct_size = sizeof kernel,
                                        .name = "layer__cuda",
                                        .op = "tests.layer.v1",
                                        .backend = "cuda",
                                        .prepare = prepare,
                                        .pack = pack,
                                        .encode = encode};
const graft_extension cuda_layer_extension = {.struct_size = sizeof cuda_layer_extension,
                                              .abi_version = GRAFT_ABI_VERSION,
                                              .name = "tests.layers",
                                              .vendor = "tests",
                                              .ops = &op,
                                              .n_ops = 1,
                                              .kernels = &kernel,
                                              .n_kernels = 1};
