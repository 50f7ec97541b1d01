#include <math.h>
#include <string.h>

#include "graft/cpu.h"
#include "graft/extension.h"
#include "ops/timestep_embedding/timestep_embedding.h"

enum { ITEM_PAIRS = 512 };

typedef struct arguments {
  const char *t;
  float *y;
  int64_t t_stride;
  graft_timestep_attrs attrs;
  int64_t parts;  // items of one row
} arguments;

// Angles are computed in double: at t = 1000 a float's own rounding would already show in the result.
static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const int64_t half = a->attrs.dim / 2, row = item / a->parts, first = item % a->parts * ITEM_PAIRS;
  const int64_t end = first + ITEM_PAIRS < half ? first + ITEM_PAIRS : half;
  float t, *y = a->y + row * a->attrs.dim;
  memcpy(&t, a->t + row * a->t_stride, sizeof t);
  const double step = -log(a->attrs.max_period) / (double)half;
  for (int64_t i = first; i < end; ++i) {
    const double angle = a->attrs.scale * (double)t * exp(step * (double)i);
    y[i] = (float)cos(angle);
    y[half + i] = (float)sin(angle);
  }
  if (first == 0 && a->attrs.dim % 2 != 0) y[a->attrs.dim - 1] = 0;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_tensor_desc *t = args->node->inputs[0];
  arguments a = {.t = args->inputs[0], .y = args->outputs[0], .t_stride = t->strides[0]};
  a.attrs = *(const graft_timestep_attrs *)args->node->attrs;
  a.parts = a.attrs.dim / 2 / ITEM_PAIRS + 1;
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = t->shape[0] * a.parts};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 10,
                                            .name = "timestep_embedding_f32__portable",
                                            .op = "graft.timestep_embedding.v1",
                                            .backend = "cpu",
                                            .encode = encode}};

extern const graft_extension graft_extension_timestep_embedding_cpu;
const graft_extension graft_extension_timestep_embedding_cpu = {
    .struct_size = sizeof graft_extension_timestep_embedding_cpu,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.timestep_embedding_cpu",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
