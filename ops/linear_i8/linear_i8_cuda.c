// CUDA kernels of graft.linear_i8.v1: two sizes of tiles for tensor cores, and one kernel for everything else, with and
// without packed weights.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graft/extension.h"
#include "ops/common/cpu/quantize.h"
#include "ops/common/cuda/quantize.h"
#include "ops/linear_i8/linear_i8_form.h"
#include "ops/linear_i8/linear_i8_params.h"

enum { X = LINEAR_I8_X, X_SCALE, WEIGHT, WEIGHT_SCALE, BIAS };
enum { ROW_BYTES = 16, ALIGNMENT = 256 };

extern const unsigned char graft_cuda_image_linear_i8[];
static const graft_cuda_module module = {
    .struct_size = sizeof module, .name = "linear_i8", .image = graft_cuda_image_linear_i8};

// Parts of the workspace: where floats are quantised to, and what quantising takes.
typedef struct layout {
  size_t x, x_scales, weight, weight_scales, rows, end;
} layout;

typedef struct linear_i8 {
  graft_cuda_function *mma, *tiles;  // mma: NULL where tiles do everything
  uint32_t mma_size, mma_threads;
  bool is_packed;  // the weight: its rows begin at multiples of 16 bytes, floats are quantised for good
  graft_quantizer x_quantizer, weight_quantizer;
  layout places;
} linear_i8;

static int64_t padded(int64_t k) {
  return (k + ROW_BYTES - 1) / ROW_BYTES * ROW_BYTES;
}

static size_t place(size_t *end, size_t bytes) {
  const size_t at = *end;
  *end = (at + bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return at;
}

static linear_i8_form form_of(const graft_node_info *node) {
  return linear_i8_form_of(node->attrs, node->inputs[X]->dtype);
}

static int64_t count_rows(const graft_node_info *node) {
  const int64_t n = node->inputs[WEIGHT]->shape[0];
  const graft_tensor_desc *y = node->outputs[0];
  int64_t m = 1;
  for (int32_t d = 0; d + 1 < y->rank; ++d) m *= y->shape[d];
  return n > 0 ? m : 0;
}

static bool has_dense_rows(const graft_tensor_desc *weight) {
  return weight->strides[1] == (int64_t)weight->dtype->block_bytes || weight->shape[1] <= 1;
}

// Whether packing the weight does any good: a constant that is not what kernels for tensor cores want already.
static bool is_packable(const graft_node_info *node) {
  const graft_tensor_desc *weight = node->inputs[WEIGHT];
  const bool is_constant = (node->constant_inputs & 1u << WEIGHT) != 0 && graft_tensor_desc_elements(weight) > 0;
  if (!is_constant || !has_dense_rows(weight)) return false;
  return weight->dtype->is_float || weight->shape[1] % ROW_BYTES != 0 || weight->strides[0] % ROW_BYTES != 0;
}

static bool is_quantized_here(const graft_node_info *node, const linear_i8 *state) {
  return node->inputs[WEIGHT]->dtype->is_float && !state->is_packed;
}

// Dimensions from |first| to |end| - 1 as one with an even stride; false where that is not so.
static bool join(const graft_tensor_desc *desc, int32_t first, int32_t end, int64_t *out_stride) {
  int64_t n = 1, stride = 0;
  for (int32_t d = end - 1; d >= first; --d) {
    if (desc->shape[d] == 1) continue;
    if (n == 1) stride = desc->strides[d];
    if (desc->strides[d] != stride * n) return false;
    n *= desc->shape[d];
  }
  *out_stride = stride;
  return true;
}

// Bytes between the rows of an int8 x.
static bool find_x_stride(const graft_node_info *node, int64_t *out_stride) {
  const graft_tensor_desc *x = node->inputs[X];
  if (form_of(node) == LINEAR_I8_PACKED) {
    *out_stride = node->inputs[WEIGHT]->shape[1];
    return graft_tensor_desc_is_contiguous(x);
  }
  const int32_t last = x->rank - 1;
  return (x->strides[last] == 1 || x->shape[last] <= 1) && join(x, 0, last, out_stride);
}

static bool is_int8_or_float(const graft_tensor_desc *desc) {
  return desc->dtype == GRAFT_I8 || graft_cuda_takes(desc);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  if (!is_int8_or_float(node->inputs[X]) || !is_int8_or_float(node->inputs[WEIGHT])) {
    return graft_refuse(why, "x or the weight is neither int8 nor a built-in float");
  }
  if (!graft_cuda_takes(node->inputs[X_SCALE]) || !graft_cuda_takes(node->inputs[WEIGHT_SCALE]) ||
      !graft_cuda_takes(node->inputs[BIAS]) || !graft_cuda_takes(node->outputs[0])) {
    return graft_refuse(why, "a scale, the bias or the result is no built-in float");
  }
  return node->inputs[WEIGHT]->shape[0] <= (int64_t)UINT16_MAX * GRAFT_I8_TILE ||
         graft_refuse(why, "the weight has too many rows");
}

static bool supports_packed(const graft_node_info *node, graft_reason *why) {
  const bool is_float = node->inputs[WEIGHT]->dtype->is_float && is_packable(node);
  return supports(node, why) && (is_float || graft_refuse(why, "there is no constant weight to quantise"));
}

// Whether rows of x and weight can begin at multiples of 16 bytes and be that long.
static bool has_even_rows(const graft_node_info *node) {
  const graft_tensor_desc *weight = node->inputs[WEIGHT];
  int64_t stride = 0;
  if (!node->inputs[X]->dtype->is_float) {
    if (weight->shape[1] % ROW_BYTES != 0 || !find_x_stride(node, &stride) || stride % ROW_BYTES != 0) return false;
  }
  if (weight->dtype->is_float || is_packable(node)) return true;
  return has_dense_rows(weight) && weight->shape[1] % ROW_BYTES == 0 && weight->strides[0] % ROW_BYTES == 0;
}

static bool supports_mma(const graft_node_info *node, graft_reason *why) {
  const graft_cuda_info *info = graft_cuda_describe(node->device);
  if (!supports(node, why)) return false;
  if (info == NULL || info->compute_major < 8)
    return graft_refuse(why, "the card is older than compute capability 8.0");
  if (node->inputs[WEIGHT]->shape[1] > GRAFT_I8_MOST_TERMS) return graft_refuse(why, "sums do not fit in 32 bits");
  const graft_tensor_desc *scale = node->inputs[X_SCALE];
  int64_t step;
  if (scale != NULL && !join(scale, 0, scale->rank, &step))
    return graft_refuse(why, "scales of x are not equally far apart");
  return has_even_rows(node) || graft_refuse(why, "rows do not begin at multiples of 16 bytes");
}

// Large tiles need less memory, and enough of them to keep the whole card busy.
static bool prefers_large(const graft_node_info *node, graft_reason *why) {
  const graft_cuda_info *info = graft_cuda_describe(node->device);
  const int64_t down = (count_rows(node) + GRAFT_I8_LARGE - 1) / GRAFT_I8_LARGE;
  const int64_t across = (node->inputs[WEIGHT]->shape[0] + GRAFT_I8_LARGE - 1) / GRAFT_I8_LARGE;
  return (info != NULL && down * across >= info->n_multiprocessors) ||
         graft_refuse(why, "fewer tiles than multiprocessors");
}

static uint32_t mma_shared_bytes(uint32_t size) {
  return GRAFT_I8_STAGES * 2 * size * GRAFT_I8_DEPTH;
}

static graft_status plan_quantizing(const graft_node_info *node, graft_error *error, linear_i8 *state) {
  const graft_tensor_desc *weight = node->inputs[WEIGHT];
  const int64_t m = count_rows(node), n = weight->shape[0], k = weight->shape[1];
  size_t end = 0, rows = 0;
  if (node->inputs[X]->dtype->is_float) {
    GRAFT_TRY(graft_quantizer_init(node->device, m, k, error, &state->x_quantizer));
    state->places.x = place(&end, (size_t)m * (size_t)padded(k));
    state->places.x_scales = place(&end, (size_t)m * sizeof(float));
    rows = state->x_quantizer.workspace_bytes;
  }
  if (is_quantized_here(node, state)) {
    GRAFT_TRY(graft_quantizer_init(node->device, n, k, error, &state->weight_quantizer));
    state->places.weight = place(&end, (size_t)n * (size_t)padded(k));
    state->places.weight_scales = place(&end, (size_t)n * sizeof(float));
    if (state->weight_quantizer.workspace_bytes > rows) rows = state->weight_quantizer.workspace_bytes;
  }
  state->places.rows = place(&end, rows);
  state->places.end = end;
  return GRAFT_OK;
}

// Where the scales of a weight that was quantised when it was packed lie behind it.
static size_t packed_scales(const graft_tensor_desc *weight) {
  return ((size_t)weight->shape[0] * (size_t)padded(weight->shape[1]) + 63) / 64 * 64;
}

static void plan_packing(const graft_node_info *node, graft_prepared *prepared) {
  const graft_linear_i8_attrs *attrs = node->attrs;
  const graft_tensor_desc *weight = node->inputs[WEIGHT];
  graft_packed_input *packed = &prepared->packed[prepared->n_packed++];
  packed->input = WEIGHT;
  packed->alignment = 64;
  packed->bytes = packed_scales(weight);
  if (!weight->dtype->is_float) {
    snprintf(packed->layout, sizeof packed->layout, "rows of 16 bytes");
    return;
  }
  packed->bytes += (size_t)weight->shape[0] * sizeof(float);
  snprintf(packed->layout, sizeof packed->layout, "i8 of 16, group %lld, grid %d", (long long)attrs->group,
           attrs->grid);
}

static graft_status load(const graft_node_info *node, uint32_t mma_size, graft_error *error, linear_i8 *state) {
  GRAFT_TRY(graft_cuda_function_load(node->device, &module, "graft_linear_i8_tiles", 0, error, &state->tiles));
  GRAFT_TRY(plan_quantizing(node, error, state));
  if (mma_size == 0) return GRAFT_OK;
  const bool is_large = mma_size == GRAFT_I8_LARGE;
  state->mma_size = mma_size;
  state->mma_threads = is_large ? GRAFT_I8_LARGE_THREADS : GRAFT_I8_SMALL_THREADS;
  return graft_cuda_function_load(node->device, &module, is_large ? "graft_linear_i8_large" : "graft_linear_i8_small",
                                  mma_shared_bytes(mma_size), error, &state->mma);
}

static graft_status prepare_as(const graft_node_info *node, uint32_t mma_size, bool may_pack, graft_error *error,
                               graft_prepared *out_prepared) {
  linear_i8 *state = calloc(1, sizeof *state);
  if (state == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to prepare a kernel");
  state->is_packed = may_pack && is_packable(node);
  graft_status status = load(node, mma_size, error, state);
  if (status != GRAFT_OK) {
    free(state);
    return status;
  }
  if (state->is_packed) plan_packing(node, out_prepared);
  out_prepared->state = state;
  out_prepared->workspace_bytes = state->places.end;
  out_prepared->workspace_alignment = ALIGNMENT;
  return GRAFT_OK;
}

static graft_status prepare_large(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return prepare_as(node, GRAFT_I8_LARGE, true, error, out_prepared);
}

static graft_status prepare_small(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return prepare_as(node, GRAFT_I8_SMALL, true, error, out_prepared);
}

static graft_status prepare_packed(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return prepare_as(node, 0, true, error, out_prepared);
}

static graft_status prepare_tiles(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return prepare_as(node, 0, false, error, out_prepared);
}

static graft_status pack(const graft_node_info *node, void *state, uint32_t input, const void *source, void *packed) {
  (void)state, (void)input;
  const graft_linear_i8_attrs *attrs = node->attrs;
  const graft_tensor_desc *weight = node->inputs[WEIGHT];
  const int64_t n = weight->shape[0], k = weight->shape[1], width = padded(k);
  float *scales = (float *)(void *)((char *)packed + packed_scales(weight));
  memset(packed, 0, packed_scales(weight));
  if (!weight->dtype->is_float) {
    for (int64_t i = 0; i < n; ++i) {
      memcpy((char *)packed + i * width, (const char *)source + i * weight->strides[0], (size_t)k);
    }
    return GRAFT_OK;
  }
  const size_t floats = (size_t)graft_quantize_scratch_floats(k);
  float *row = aligned_alloc(64, 2 * floats * sizeof *row);
  if (row == NULL) return GRAFT_E_NO_MEMORY;
  for (int64_t i = 0; i < n; ++i) {
    weight->dtype->to_f32((const char *)source + i * weight->strides[0], row, (size_t)k);
    const graft_quantize_row one = {.x = row,
                                    .type = GRAFT_DTYPE_F32,
                                    .n = k,
                                    .group = attrs->group,
                                    .has_bf16_grid = attrs->grid == GRAFT_QUANTIZE_BF16,
                                    .q = (int8_t *)packed + i * width,
                                    .scale = scales + i,
                                    .scratch = row + floats};
    graft_quantize_core__baseline.row(&one);
  }
  free(row);
  return GRAFT_OK;
}

static graft_cuda_operand operand_of(const graft_tensor_desc *desc, void *data) {
  if (desc == NULL) return (graft_cuda_operand){0};
  return (graft_cuda_operand){
      .data = data, .type = (int32_t)desc->dtype->code, .element_bytes = (int32_t)desc->dtype->block_bytes};
}

static graft_cuda_operand floats_at(void *data) {
  return (graft_cuda_operand){.data = data, .type = GRAFT_DTYPE_F32, .element_bytes = (int32_t)sizeof(float)};
}

// Bytes from one number of a vector to the next; 0: one for all.
static int64_t step_of(const graft_tensor_desc *desc) {
  int64_t stride = 0;
  return desc != NULL && join(desc, 0, desc->rank, &stride) ? stride : 0;
}

static graft_status quantize(graft_encoder *encoder, const graft_encode_args *args, uint32_t input) {
  const graft_node_info *node = args->node;
  const graft_linear_i8_attrs *attrs = node->attrs;
  const linear_i8 *state = args->state;
  const bool is_x = input == X;
  char *workspace = args->workspace;
  const graft_quantize_job job = {
      .desc = node->inputs[input],
      .x = args->inputs[input],
      .group = attrs->group,
      .n_rows = is_x ? count_rows(node) : node->inputs[WEIGHT]->shape[0],
      .q_stride = padded(node->inputs[WEIGHT]->shape[1]),
      .has_bf16_grid = attrs->grid == GRAFT_QUANTIZE_BF16,
      .q = workspace + (is_x ? state->places.x : state->places.weight),
      .scales = workspace + (is_x ? state->places.x_scales : state->places.weight_scales),
      .workspace = workspace + state->places.rows,
  };
  return graft_quantizer_encode(encoder, is_x ? &state->x_quantizer : &state->weight_quantizer, &job, args->error);
}

// Rows that are |stride| bytes apart, as a walk.
static graft_walk even_rows(int64_t n, int64_t stride) {
  return (graft_walk){.rank = 1, .n_operands = 1, .width = 1, .n = n, .shape = {n}, .strides = {{stride}}};
}

static graft_walk rows_of(const graft_tensor_desc *desc, int32_t n_skipped) {
  const graft_cuda_operands operands = {.n = 1, .desc = {desc}};
  return graft_walk_init(&operands, n_skipped, false);
}

// Rows and scales of a quantised x that follow each other.
static void set_rows(graft_linear_i8_params *params, int64_t stride, void *scales) {
  params->x_stride = stride;
  params->x_rows = even_rows(params->m, stride);
  params->x_scale = floats_at(scales);
  params->x_scale_step = sizeof(float);
  params->x_scales = even_rows(params->m, params->x_scale_step);
}

// An int8 x with its scales behind it.
static void describe_packed(const graft_encode_args *args, graft_linear_i8_params *params) {
  const graft_tensor_desc *x = args->node->inputs[X];
  if (graft_tensor_desc_is_contiguous(x)) {
    set_rows(params, params->depth, (char *)args->inputs[X] + x->shape[0] * params->depth);
    return;
  }
  params->x_stride = x->strides[0];
  params->x_step = x->strides[1];
  params->packed_columns = x->shape[1];
  params->packed_rows = x->shape[0];
}

static void describe_separate(const graft_encode_args *args, graft_linear_i8_params *params) {
  const graft_tensor_desc *x = args->node->inputs[X], *scale = args->node->inputs[X_SCALE];
  (void)find_x_stride(args->node, &params->x_stride);
  params->x_step = x->strides[x->rank - 1];
  params->x_rows = rows_of(x, 1);
  params->x_scale = operand_of(scale, args->inputs[X_SCALE]);
  params->x_scale_step = step_of(scale);
  params->x_scales = rows_of(scale, 0);
}

static graft_status describe_x(graft_encoder *encoder, const graft_encode_args *args, graft_linear_i8_params *params) {
  const linear_i8 *state = args->state;
  char *workspace = args->workspace;
  params->x = args->inputs[X];
  switch (form_of(args->node)) {
    case LINEAR_I8_PACKED: describe_packed(args, params); break;
    case LINEAR_I8_SEPARATE: describe_separate(args, params); break;
    default:
      params->x = (const int8_t *)workspace + state->places.x;
      set_rows(params, padded(params->depth), workspace + state->places.x_scales);
      return quantize(encoder, args, X);
  }
  return GRAFT_OK;
}

static graft_status describe_weight(graft_encoder *encoder, const graft_encode_args *args,
                                    graft_linear_i8_params *params) {
  const graft_node_info *node = args->node;
  const graft_tensor_desc *weight = node->inputs[WEIGHT];
  const linear_i8 *state = args->state;
  char *workspace = args->workspace;
  const bool is_here = is_quantized_here(node, state), is_padded = is_here || state->is_packed;
  params->weight = is_here ? (const int8_t *)workspace + state->places.weight : args->inputs[WEIGHT];
  params->weight_stride = is_padded ? padded(weight->shape[1]) : weight->strides[0];
  params->weight_step = is_padded ? 1 : weight->strides[1];
  params->weight_scale = operand_of(node->inputs[WEIGHT_SCALE], args->inputs[WEIGHT_SCALE]);
  params->weight_scale_step = step_of(node->inputs[WEIGHT_SCALE]);
  if (!weight->dtype->is_float) return GRAFT_OK;
  params->weight_scale = floats_at(is_here ? workspace + state->places.weight_scales
                                           : (char *)args->inputs[WEIGHT] + packed_scales(weight));
  params->weight_scale_step = sizeof(float);
  return is_here ? quantize(encoder, args, WEIGHT) : GRAFT_OK;
}

// Whether all rows are dense, equally far apart, and begin at multiples of |bytes|.
static bool are_multiples(const graft_linear_i8_params *params, uintptr_t bytes) {
  const uintptr_t all =
      (uintptr_t)params->x | (uintptr_t)params->weight | (uintptr_t)params->x_stride | (uintptr_t)params->weight_stride;
  return all % bytes == 0 && params->packed_columns == 0 && params->x_rows.rank <= 1 && params->x_step == 1 &&
         params->weight_step == 1;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_node_info *node = args->node;
  const graft_linear_i8_attrs *attrs = node->attrs;
  const linear_i8 *state = args->state;
  graft_linear_i8_params params = {
      .m = count_rows(node),
      .n = node->inputs[WEIGHT]->shape[0],
      .depth = node->inputs[WEIGHT]->shape[1],
      .x_step = 1,
      .y = operand_of(node->outputs[0], args->outputs[0]),
      .bias = operand_of(node->inputs[BIAS], args->inputs[BIAS]),
      .bias_step = step_of(node->inputs[BIAS]),
      .is_comfy = attrs->order == GRAFT_LINEAR_I8_COMFY,
  };
  if (params.m == 0 || params.n == 0) return GRAFT_OK;
  GRAFT_TRY(describe_x(encoder, args, &params));
  GRAFT_TRY(describe_weight(encoder, args, &params));
  params.has_pairs = params.n % 2 == 0 && (uintptr_t)params.y.data % 8 == 0;
  params.has_words = are_multiples(&params, 4);
  const bool is_mma = state->mma != NULL && are_multiples(&params, ROW_BYTES);
  const int64_t size = is_mma ? state->mma_size : GRAFT_I8_TILE;
  const graft_cuda_launch launch = {
      .struct_size = sizeof launch,
      .function = is_mma ? state->mma : state->tiles,
      .grid = {(uint32_t)((params.m + size - 1) / size), (uint32_t)((params.n + size - 1) / size), 1},
      .block = {is_mma ? state->mma_threads : GRAFT_I8_TILE_THREADS, 1, 1},
      .shared_bytes = is_mma ? mma_shared_bytes(state->mma_size) : 0,
      .params = &params,
      .params_bytes = sizeof params,
  };
  return graft_cuda_encode(encoder, &launch, args->error);
}

#define KERNEL(rank, file_name, supports_function, preferred_function, prepare_function)                               \
  {                                                                                                                    \
    .struct_size = sizeof(graft_kernel_def), .priority = (rank), .name = "linear_i8_" file_name "__cuda",              \
    .op = "graft.linear_i8.v1", .backend = "cuda", .supports = (supports_function), .preferred = (preferred_function), \
    .prepare = (prepare_function), .pack = pack, .encode = encode, .destroy = free                                     \
  }

static const graft_kernel_def kernels[] = {
    KERNEL(30, "mma_large", supports_mma, prefers_large, prepare_large),
    KERNEL(20, "mma_small", supports_mma, NULL, prepare_small),
    KERNEL(10, "tiles_packed", supports_packed, NULL, prepare_packed),
    KERNEL(5, "tiles", supports, NULL, prepare_tiles),
};

extern const graft_extension graft_extension_linear_i8_cuda;
const graft_extension graft_extension_linear_i8_cuda = {
    .struct_size = sizeof graft_extension_linear_i8_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.linear_i8_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
