#include <string.h>

#include "graft/cpu.h"
#include "graft/extension.h"
#include "ops/upsample_nearest/upsample_nearest.h"

enum { ITEM_BYTES = 32768 };

typedef struct arguments {
  const char *x;
  char *y;
  int64_t shape[4], strides[4];  // of x
  int64_t scale_h, scale_w, unit;
  int64_t n_rows, rows_per_item;  // of x
} arguments;

static inline __attribute__((always_inline)) void repeat_each(const char *x, int64_t step, char *y, int64_t n,
                                                              int64_t scale, size_t unit) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < scale; ++k) memcpy(y + (i * scale + k) * (int64_t)unit, x + i * step, unit);
  }
}

// Writes every element of a row of x |scale_w| times. Doubling dense rows is what models do.
static void widen_row(const arguments *a, const char *x, char *y) {
  const int64_t n = a->shape[3], step = a->strides[3], scale = a->scale_w;
  if (scale == 2 && a->unit == 4 && step == 4) {
    repeat_each(x, 4, y, n, 2, 4);
  } else if (scale == 2 && a->unit == 2 && step == 2) {
    repeat_each(x, 2, y, n, 2, 2);
  } else if (scale == 1 && step == a->unit) {
    memcpy(y, x, (size_t)(n * a->unit));
  } else if (a->unit == 4) {
    repeat_each(x, step, y, n, scale, 4);
  } else {
    repeat_each(x, step, y, n, scale, (size_t)a->unit);
  }
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const int64_t y_row_bytes = a->shape[3] * a->scale_w * a->unit;
  int64_t end = (item + 1) * a->rows_per_item;
  if (end > a->n_rows) end = a->n_rows;
  for (int64_t row = item * a->rows_per_item; row < end; ++row) {
    const int64_t plane = row / a->shape[2];
    const char *x = a->x + plane / a->shape[1] * a->strides[0] + plane % a->shape[1] * a->strides[1] +
                    row % a->shape[2] * a->strides[2];
    char *y = a->y + row * a->scale_h * y_row_bytes;
    widen_row(a, x, y);
    for (int64_t k = 1; k < a->scale_h; ++k) memcpy(y + k * y_row_bytes, y, (size_t)y_row_bytes);
  }
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_upsample_attrs *attrs = args->node->attrs;
  const graft_tensor_desc *x = args->node->inputs[0];
  if (graft_tensor_desc_elements(x) == 0) return GRAFT_OK;
  arguments a = {.x = args->inputs[0],
                 .y = args->outputs[0],
                 .scale_h = attrs->scale_h,
                 .scale_w = attrs->scale_w,
                 .unit = x->dtype->block_bytes,
                 .n_rows = x->shape[0] * x->shape[1] * x->shape[2]};
  for (int d = 0; d < 4; ++d) {
    a.shape[d] = x->shape[d];
    a.strides[d] = x->strides[d];
  }
  const int64_t bytes = x->shape[3] * a.scale_w * a.scale_h * a.unit;
  a.rows_per_item = bytes < ITEM_BYTES ? ITEM_BYTES / bytes : 1;
  const graft_cpu_task task = {
      .run = run, .args = &a, .args_bytes = sizeof a, .n_items = (a.n_rows + a.rows_per_item - 1) / a.rows_per_item};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 10,
                                            .name = "upsample_nearest_any_rows__portable",
                                            .op = "graft.upsample_nearest.v1",
                                            .backend = "cpu",
                                            .encode = encode}};

extern const graft_extension graft_extension_upsample_nearest_cpu;
const graft_extension graft_extension_upsample_nearest_cpu = {
    .struct_size = sizeof graft_extension_upsample_nearest_cpu,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.upsample_nearest_cpu",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
