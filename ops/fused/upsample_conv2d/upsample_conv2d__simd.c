#include "graft/extension.h"
#include "ops/common/cpu/gemm_operand.h"
#include "ops/common/cpu/simd.h"
#include "ops/common/cpu/target.h"

// An image that was enlarged twice has four equal pixels for each of x, so that every element of a kernel meets every
// pixel of x with one product only: nine planes for each filter, W · x. A pixel of y is a sum of nine of their pixels,
// one from each: of row y of x, even rows of the output take the planes of the kernel's rows from y - 1, y, y, and odd
// ones from y, y, y + 1; so do columns. That is a quarter of the products that the enlarged image takes.
//
// Planes are made for some filters and a band of rows at a time, as many as the caches hold.
enum { X, WEIGHT, BIAS };
enum { IMAGES, CHANNELS, DOWN, ACROSS, SIDE = 3, AREA = 9 };
enum { PLANES_BYTES = 6 << 20, FILTERS_WANTED = 14, CHANNELS_TOO_FEW = 4, ITEM_ELEMENTS = 16384 };

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
  graft_gemm gemm;
  int64_t height, width;
  int64_t first_row, end_row;  // of the band, and of x
  int64_t planes_row;          // row of x that planes begin with
  int64_t plane_elements, rows_per_item, items_per_filter;
  const char *bias;  // of the first filter; NULL: none
  graft_dtype_code bias_type, y_type;
  char *y;              // of the first filter
  const float *planes;  // [filters][SIDE][SIDE][rows][width]
  char *scratch;        // one part for each worker
  size_t scratch_bytes;
} arguments;

static void run_planes(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  graft_gemm_run(&a->gemm, item, a->scratch + (size_t)worker->index * a->scratch_bytes);
}

static inline vec load(const float *p, int64_t n) {
  return n < LANES ? vec_load_n(p, n) : vec_load(p);
}

static inline void store(char *p, graft_dtype_code type, vec v, int64_t n) {
  if (n < LANES) vec_store_typed_n(p, type, v, n);
  else vec_store_typed(p, type, v);
}

// Adds planes of the kernel's three rows; there is nothing where a row lies outside of x.
static void add_rows(const float *const rows[SIDE], int64_t n, float *sum) {
  for (int64_t i = 0; i < n; i += LANES) {
    const int64_t left = n - i;
    vec v = load(rows[1] + i, left);
    if (rows[0]) v += load(rows[0] + i, left);
    if (rows[2]) v += load(rows[2] + i, left);
    store((char *)(sum + i), GRAFT_DTYPE_F32, v, left);
  }
}

// Two pixels of y for each of x, from the sums of the kernel's columns, which have a zero before and after them.
static void make_row(const float *const sums[SIDE], int64_t n, float bias, char *y, graft_dtype_code type) {
  const int64_t element = graft_gemm_element_bytes(type);
  for (int64_t i = 0; i < n; i += LANES) {
    const int64_t left = n - i;
    const vec middle = load(sums[1] + i, left) + bias;
    const vec even = load(sums[0] + i - 1, left) + middle + load(sums[2] + i, left);
    const vec odd = load(sums[0] + i, left) + middle + load(sums[2] + i + 1, left);
    store(y + 2 * i * element, type, __builtin_shufflevector(even, odd, LOW_LANES), 2 * left);
    if (2 * left <= LANES) break;
    store(y + (2 * i + LANES) * element, type, __builtin_shufflevector(even, odd, HIGH_LANES), 2 * left - LANES);
  }
}

// Floats between sums of the kernel's columns, whole vectors apart.
static int64_t sums_stride(int64_t width) {
  return (width + 2 + 2 * LANES - 1) / LANES * LANES;
}

// Both rows of y that belong to row |row| of x, for one filter.
static void make_rows(const arguments *a, int64_t filter, int64_t row, float bias, float *sums) {
  const int64_t stride = sums_stride(a->width), n = a->width, down = SIDE * a->plane_elements;
  const float *const columns[SIDE] = {sums, sums + stride, sums + 2 * stride};
  const float *planes = a->planes + filter * AREA * a->plane_elements;
  for (int64_t odd = 0; odd < 2; ++odd) {
    const int64_t above = row - 1 + odd, below = row + odd;
    for (int64_t j = 0; j < SIDE; ++j) {
      const float *plane = planes + j * a->plane_elements;
      const float *const rows[SIDE] = {above < 0 ? NULL : plane + (above - a->planes_row) * n,
                                       plane + down + (row - a->planes_row) * n,
                                       below < a->height ? plane + 2 * down + (below - a->planes_row) * n : NULL};
      add_rows(rows, n, sums + j * stride);
    }
    const int64_t y = (filter * 2 * a->height + 2 * row + odd) * 2 * n;
    make_row(columns, n, bias, a->y + y * graft_gemm_element_bytes(a->y_type), a->y_type);
  }
}

static void run_sums(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  const int64_t filter = item / a->items_per_filter;
  const int64_t first = a->first_row + item % a->items_per_filter * a->rows_per_item;
  const int64_t end = first + a->rows_per_item < a->end_row ? first + a->rows_per_item : a->end_row;
  const char *bias = a->bias ? a->bias + filter * graft_gemm_element_bytes(a->bias_type) : NULL;
  float *sums = (float *)(void *)(a->scratch + (size_t)worker->index * a->scratch_bytes) + LANES;
  sums[-1] = sums[2 * sums_stride(a->width) + a->width] = 0;
  for (int64_t row = first; row < end; ++row) {
    make_rows(a, filter, row, bias ? vec_load_typed_n(bias, a->bias_type, 1)[0] : 0, sums);
  }
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X], *weight = node->inputs[WEIGHT], *bias = node->inputs[BIAS];
  if (!graft_gemm_takes(x->dtype)) return graft_refuse(why, "x is %s, not f32, f16 or bf16", x->dtype->name);
  if (!(node->constant_inputs & 1u << WEIGHT)) return graft_refuse(why, "the weight is not constant");
  if (graft_tensor_desc_elements(weight) == 0) return graft_refuse(why, "the weight is empty");
  if (!graft_gemm_takes(weight->dtype)) return graft_refuse(why, "the weight is %s", weight->dtype->name);
  if (bias && !graft_gemm_takes(bias->dtype)) return graft_refuse(why, "the bias is %s", bias->dtype->name);
  if (!graft_tensor_desc_is_dense_from(x, DOWN)) return graft_refuse(why, "planes of x are not contiguous");
  if (!graft_tensor_desc_is_contiguous(weight)) return graft_refuse(why, "the weight is not contiguous");
  if (!graft_tensor_desc_is_contiguous(node->outputs[0])) return graft_refuse(why, "y is not contiguous");
  return !bias || graft_gemm_has_dense_rows(bias) || graft_refuse(why, "the bias is not contiguous");
}

// To write planes of many filters and add them takes as long as the products that are saved where these are short.
static bool preferred(const graft_node_info *node, graft_reason *why) {
  const int64_t filters = node->inputs[WEIGHT]->shape[IMAGES], channels = node->inputs[WEIGHT]->shape[CHANNELS];
  return channels > CHANNELS_TOO_FEW || filters <= FILTERS_WANTED ||
         graft_refuse(why, "%lld filters of %lld channels are faster apart", (long long)filters, (long long)channels);
}

static int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
static int64_t clamp(int64_t i, int64_t least, int64_t most) {
  return i > most ? most : i < least ? least : i;
}

// What is done at a time.
typedef struct portion {
  int64_t rows, filters;
} portion;

static portion portion_of(const graft_node_info *node) {
  const int64_t height = node->inputs[X]->shape[DOWN], filters = node->inputs[WEIGHT]->shape[IMAGES];
  const int64_t planes_rows = PLANES_BYTES / (AREA * (int64_t)sizeof(float)) / node->inputs[X]->shape[ACROSS];
  const int64_t few = clamp(filters, 1, FILTERS_WANTED);
  portion p = {.rows = clamp(planes_rows / few - 2, 4, height)};
  p.rows = ceil_div(height, ceil_div(height, p.rows));
  p.filters = clamp(planes_rows / (p.rows + 2), few, filters);
  p.filters = ceil_div(filters, ceil_div(filters, p.filters));
  return p;
}

// The product for the portion that begins with |row| and |filter|; everything but addresses. Planes have a row more
// above and below, where x has one.
static arguments describe(const graft_node_info *node, const portion *p, int64_t row, int64_t filter) {
  const graft_tensor_desc *x = node->inputs[X], *weight = node->inputs[WEIGHT];
  arguments a = {.height = x->shape[DOWN],
                 .width = x->shape[ACROSS],
                 .first_row = row,
                 .planes_row = row > 0 ? row - 1 : 0,
                 .y_type = x->dtype->code};
  a.end_row = row + p->rows < a.height ? row + p->rows : a.height;
  const int64_t planes_end = a.end_row < a.height ? a.end_row + 1 : a.height, left = weight->shape[IMAGES] - filter;
  a.plane_elements = (planes_end - a.planes_row) * a.width;
  a.gemm = (graft_gemm){
      .core = &GRAFT_TARGETED(graft_gemm_core),
      .m = AREA * (p->filters < left ? p->filters : left),
      .n = a.plane_elements,
      .k = weight->shape[CHANNELS],
      .a = {.type = weight->dtype->code, .row_stride = weight->shape[CHANNELS], .column_stride = 1},
      .b = {.type = x->dtype->code, .row_stride = graft_gemm_stride(x, CHANNELS), .column_stride = 1},
      .out = {.type = GRAFT_DTYPE_F32, .row_stride = a.plane_elements},
  };
  a.rows_per_item = a.width < ITEM_ELEMENTS ? ITEM_ELEMENTS / a.width : 1;
  a.items_per_filter = ceil_div(a.end_row - a.first_row, a.rows_per_item);
  return a;
}

static size_t planes_bytes(const graft_node_info *node, const portion *p) {
  const int64_t height = node->inputs[X]->shape[DOWN], rows = p->rows + 2 < height ? p->rows + 2 : height;
  return (size_t)p->filters * AREA * (size_t)rows * (size_t)node->inputs[X]->shape[ACROSS] * sizeof(float);
}

static size_t aligned(size_t bytes) {
  return (bytes + 63) & ~(size_t)63;
}

// The most that any portion wants. Only the last of filters and the first and last of rows differ from the others.
static size_t scratch_bytes(const graft_node_info *node, const portion *p) {
  const int64_t last_row = (node->inputs[X]->shape[DOWN] - 1) / p->rows * p->rows;
  const int64_t last_filter = (node->inputs[WEIGHT]->shape[IMAGES] - 1) / p->filters * p->filters;
  const int64_t rows[] = {0, clamp(p->rows, 0, last_row), last_row}, filters[] = {0, last_filter};
  size_t most = (size_t)(LANES + SIDE * sums_stride(node->inputs[X]->shape[ACROSS])) * sizeof(float);
  for (int i = 0; i < 6; ++i) {
    const arguments a = describe(node, p, rows[i % 3], filters[i / 3]);
    const size_t bytes = graft_gemm_scratch_bytes(&a.gemm);
    most = bytes > most ? bytes : most;
  }
  return aligned(most);
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  out_prepared->n_packed = 1;
  out_prepared->packed[0] = (graft_packed_input){.input = WEIGHT,
                                                 .bytes = graft_tensor_desc_bytes(node->inputs[WEIGHT]),
                                                 .alignment = 64,
                                                 .layout = "filter, kernel, channel"};
  if (graft_tensor_desc_elements(node->outputs[0]) == 0) return GRAFT_OK;
  const portion p = portion_of(node);
  const size_t n_workers = (size_t)graft_cpu_describe(node->device)->n_threads;
  out_prepared->workspace_bytes = aligned(planes_bytes(node, &p)) + n_workers * scratch_bytes(node, &p);
  return GRAFT_OK;
}

static graft_status pack(const graft_node_info *node, void *state, uint32_t input, const void *source, void *packed) {
  (void)state, (void)input;
  const graft_tensor_desc *weight = node->inputs[WEIGHT];
  const int64_t filters = weight->shape[IMAGES], channels = weight->shape[CHANNELS];
  const size_t element = weight->dtype->block_bytes;
  for (int64_t o = 0; o < filters; ++o) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t i = 0; i < AREA; ++i) {
        const char *from = (const char *)source + (size_t)((o * channels + c) * AREA + i) * element;
        memcpy((char *)packed + (size_t)((o * AREA + i) * channels + c) * element, from, element);
      }
    }
  }
  return GRAFT_OK;
}

static graft_status encode_portion(graft_encoder *encoder, const graft_encode_args *args, arguments *a,
                                   int64_t filter) {
  graft_cpu_task task = {.run = run_planes, .args = a, .args_bytes = sizeof *a, .n_items = graft_gemm_items(&a->gemm)};
  const graft_tensor_desc *bias = args->node->inputs[BIAS];
  const size_t weight_bytes = (size_t)(filter * AREA * a->gemm.k * graft_gemm_element_bytes(a->gemm.a.type));
  a->gemm.a.data = (const char *)args->inputs[WEIGHT] + weight_bytes;
  a->gemm.out.data = args->workspace;
  a->planes = args->workspace;
  if (bias) {
    a->bias_type = bias->dtype->code;
    a->bias = (const char *)args->inputs[BIAS] + filter * graft_gemm_element_bytes(a->bias_type);
  }
  GRAFT_TRY(graft_cpu_encode(encoder, &task, args->error));
  task.run = run_sums;
  task.n_items = a->gemm.m / AREA * a->items_per_filter;
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_node_info *node = args->node;
  const graft_tensor_desc *x = node->inputs[X], *y = node->outputs[0];
  if (graft_tensor_desc_elements(y) == 0) return GRAFT_OK;
  const portion p = portion_of(node);
  const size_t bytes = scratch_bytes(node, &p);
  for (int64_t image = 0; image < x->shape[IMAGES]; ++image) {
    const char *from = (const char *)args->inputs[X] + image * x->strides[IMAGES];
    char *to = (char *)args->outputs[0] + image * y->strides[IMAGES];
    for (int64_t row = 0; row < x->shape[DOWN]; row += p.rows) {
      for (int64_t filter = 0; filter < y->shape[CHANNELS]; filter += p.filters) {
        arguments a = describe(node, &p, row, filter);
        a.scratch = (char *)args->workspace + aligned(planes_bytes(node, &p));
        a.scratch_bytes = bytes;
        a.gemm.b.data = from + a.planes_row * a.width * graft_gemm_element_bytes(a.y_type);
        a.y = to + filter * y->strides[CHANNELS];
        GRAFT_TRY(encode_portion(encoder, args, &a, filter));
      }
    }
  }
  return GRAFT_OK;
}

static const graft_kernel_def kernels[] = {{
    .struct_size = sizeof kernels[0],
    .priority = GRAFT_TARGET_PRIORITY,
    .name = GRAFT_TARGETED_NAME(upsample_conv2d_float_planes),
    .op = "graft.upsample_conv2d.v1",
    .backend = "cpu",
    .required_features = GRAFT_TARGET_REQUIRES,
    .supports = supports,
    .preferred = preferred,
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
