#include "graft/extension.h"
#include "ops/common/cpu/conv.h"
#include "ops/common/cpu/gemm_operand.h"
#include "ops/common/cpu/simd.h"
#include "ops/common/cpu/target.h"

// Under a kernel of three elements an image that was enlarged twice shows only two pixels of the original: for even
// outputs the one before and, twice, the one itself; for odd ones itself, twice, and the one after. So each of the four
// phases of the output, even and odd rows by even and odd columns, is a convolution of x with 2 × 2 sums of weights.
enum { X, WEIGHT, BIAS };
enum { IMAGES, CHANNELS, DOWN, ACROSS, N_PHASES = 4, AREA = 9, PHASE_AREA = 4, ITEM_ELEMENTS = 16384 };

#if defined(__AVX512F__)
#define LOW_LANES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_LANES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(__AVX2__)
#define LOW_LANES 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_LANES 4, 12, 5, 13, 6, 14, 7, 15
#else
#define LOW_LANES 0, 4, 1, 5
#define HIGH_LANES 2, 6, 3, 7
#endif

typedef struct arguments {
  graft_conv conv;     // of phase 0
  int64_t conv_items;  // of one phase
  int64_t phase_elements, n_rows, rows_per_item;
  char *scratch;  // one part for each worker
  size_t scratch_bytes;
  float *phases, *y;
} arguments;

static void run_phase(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  const int64_t phase = item / a->conv_items;
  graft_conv conv = a->conv;
  conv.padding[0] = phase / 2 == 0;
  conv.padding[1] = phase % 2 == 0;
  conv.weight.data = (const float *)conv.weight.data + phase * conv.out_channels * conv.channels * PHASE_AREA;
  conv.out.data = a->phases + phase * a->phase_elements;
  graft_conv_run(&conv, item % a->conv_items, a->scratch + (size_t)worker->index * a->scratch_bytes);
}

static void interleave(const float *even, const float *odd, int64_t n, float *y) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const vec a = vec_load(even + i), b = vec_load(odd + i);
    vec_store(y + 2 * i, __builtin_shufflevector(a, b, LOW_LANES));
    vec_store(y + 2 * i + LANES, __builtin_shufflevector(a, b, HIGH_LANES));
  }
  for (; i < n; ++i) {
    y[2 * i] = even[i];
    y[2 * i + 1] = odd[i];
  }
}

// Brings rows of the phases together; two rows of y for each of x.
static void run_interleave(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const int64_t width = a->conv.size[1], first = item * a->rows_per_item, left = a->n_rows - first;
  for (int64_t row = first; row < first + (left < a->rows_per_item ? left : a->rows_per_item); ++row) {
    for (int64_t odd = 0; odd < 2; ++odd) {
      const float *even_columns = a->phases + 2 * odd * a->phase_elements + row * width;
      interleave(even_columns, even_columns + a->phase_elements, width, a->y + 2 * (2 * row + odd) * width);
    }
  }
}

static graft_conv describe(const graft_node_info *node) {
  const graft_tensor_desc *x = node->inputs[X], *weight = node->inputs[WEIGHT];
  return (graft_conv){
      .core = &GRAFT_TARGETED(graft_conv_core),
      .images = x->shape[IMAGES],
      .groups = 1,
      .channels = weight->shape[CHANNELS],
      .out_channels = weight->shape[IMAGES],
      .size = {x->shape[DOWN], x->shape[ACROSS]},
      .out_size = {x->shape[DOWN], x->shape[ACROSS]},
      .kernel = {2, 2},
      .stride = {1, 1},
      .dilation = {1, 1},
      .padding = {1, 1},
      .x_type = GRAFT_DTYPE_F32,
      .image_stride = graft_gemm_stride(x, IMAGES),
      .channel_stride = graft_gemm_stride(x, CHANNELS),
      .row_stride = graft_gemm_stride(x, DOWN),
      .weight = {.type = GRAFT_DTYPE_F32},
      .out = {.type = GRAFT_DTYPE_F32},
  };
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X], *weight = node->inputs[WEIGHT], *bias = node->inputs[BIAS];
  if (x->dtype != GRAFT_F32) return graft_refuse(why, "x is %s, not f32", x->dtype->name);
  if (!(node->constant_inputs & 1u << WEIGHT)) return graft_refuse(why, "the weight is not constant");
  if (graft_tensor_desc_elements(weight) == 0) return graft_refuse(why, "the weight is empty");
  if (!graft_gemm_takes(weight->dtype)) return graft_refuse(why, "the weight is %s", weight->dtype->name);
  if (bias && !graft_gemm_takes(bias->dtype)) return graft_refuse(why, "the bias is %s", bias->dtype->name);
  if (!graft_gemm_has_dense_rows(x)) return graft_refuse(why, "rows of x are not contiguous");
  if (!graft_tensor_desc_is_contiguous(weight)) return graft_refuse(why, "the weight is not contiguous");
  if (!graft_tensor_desc_is_contiguous(node->outputs[0])) return graft_refuse(why, "y is not contiguous");
  return !bias || graft_gemm_has_dense_rows(bias) || graft_refuse(why, "the bias is not contiguous");
}

static size_t phases_bytes(const graft_node_info *node) {
  return (graft_tensor_desc_bytes(node->outputs[0]) + 63) & ~(size_t)63;
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  const graft_conv conv = describe(node);
  const size_t n_workers = (size_t)graft_cpu_describe(node->device)->n_threads;
  out_prepared->workspace_bytes = phases_bytes(node) + n_workers * graft_conv_scratch_bytes(&conv);
  out_prepared->n_packed = 1;
  out_prepared->packed[0] = (graft_packed_input){
      .input = WEIGHT,
      .bytes =
          (size_t)(graft_tensor_desc_elements(node->inputs[WEIGHT]) / AREA * N_PHASES * PHASE_AREA) * sizeof(float),
      .alignment = 64,
      .layout = "2 x 2 sums of an enlarged image's f32"};
  return GRAFT_OK;
}

// Of three weights in a line: what the first and the second pixel of |phase| are multiplied with.
static void fold(const float *w, int64_t step, int64_t phase, float out[2]) {
  out[0] = phase == 0 ? w[0] : w[0] + w[step];
  out[1] = phase == 0 ? w[step] + w[2 * step] : w[2 * step];
}

static graft_status pack(const graft_node_info *node, void *state, uint32_t input, const void *source, void *packed) {
  (void)state, (void)input;
  const graft_dtype dtype = node->inputs[WEIGHT]->dtype;
  const int64_t n = graft_tensor_desc_elements(node->inputs[WEIGHT]) / AREA;
  for (int64_t i = 0; i < n; ++i) {
    float w[AREA];
    dtype->to_f32((const char *)source + (size_t)(i * AREA) * dtype->block_bytes, w, AREA);
    for (int64_t phase = 0; phase < N_PHASES; ++phase) {
      float *to = (float *)packed + (phase * n + i) * PHASE_AREA, rows[2][3];
      for (int64_t column = 0; column < 3; ++column) {
        float pair[2];
        fold(w + column, 3, phase / 2, pair);
        rows[0][column] = pair[0];
        rows[1][column] = pair[1];
      }
      fold(rows[0], 1, phase % 2, to);
      fold(rows[1], 1, phase % 2, to + 2);
    }
  }
  return GRAFT_OK;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_node_info *node = args->node;
  const graft_tensor_desc *x = node->inputs[X], *bias = node->inputs[BIAS];
  if (graft_tensor_desc_elements(node->outputs[0]) == 0) return GRAFT_OK;
  arguments a = {.conv = describe(node), .phases = args->workspace, .y = args->outputs[0]};
  a.scratch = (char *)args->workspace + phases_bytes(node);
  a.scratch_bytes = graft_conv_scratch_bytes(&a.conv);
  a.conv.x = args->inputs[X];
  a.conv.weight.data = args->inputs[WEIGHT];
  a.conv.out.data = a.phases;
  if (bias) a.conv.out.bias = (graft_gemm_matrix){.data = args->inputs[BIAS], .type = bias->dtype->code};
  a.conv_items = graft_conv_items(&a.conv);
  a.phase_elements = graft_tensor_desc_elements(node->outputs[0]) / N_PHASES;
  a.n_rows = a.phase_elements / x->shape[ACROSS];
  a.rows_per_item = x->shape[ACROSS] < ITEM_ELEMENTS ? ITEM_ELEMENTS / x->shape[ACROSS] : 1;
  graft_cpu_task task = {.run = run_phase, .args = &a, .args_bytes = sizeof a, .n_items = N_PHASES * a.conv_items};
  GRAFT_TRY(graft_cpu_encode(encoder, &task, args->error));
  task.run = run_interleave;
  task.n_items = (a.n_rows + a.rows_per_item - 1) / a.rows_per_item;
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{
    .struct_size = sizeof kernels[0],
    .priority = GRAFT_TARGET_PRIORITY,
    .name = GRAFT_TARGETED_NAME(upsample_conv2d_f32_phases),
    .op = "graft.upsample_conv2d.v1",
    .backend = "cpu",
    .required_features = GRAFT_TARGET_REQUIRES,
    .supports = supports,
    .prepare = prepare,
    .pack = pack,
    .encode = encode,
}};

extern const graft_extension GRAFT_TARGETED(graft_extension_upsample_conv2d);
const graft_extension GRAFT_TARGETED(graft_extension_upsample_conv2d) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(upsample_conv2d),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
