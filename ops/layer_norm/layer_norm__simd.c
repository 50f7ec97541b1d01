#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/moments.h"
#include "ops/common/cpu/stream.h"
#include "ops/common/cpu/target.h"
#include "ops/layer_norm/layer_norm.h"

enum { X, WEIGHT, BIAS, SCALE, SHIFT };  // of the node; the last two of graft.layer_norm_modulate.v1 only
enum { TO, FROM, SCALE_ROWS, SHIFT_ROWS, N_OPERANDS };  // of the walk

// A weight or bias: one element for each of a row's, or none.
typedef struct per_channel {
  const char *data;  // NULL: none
  graft_dtype_code type;
  int64_t step;  // bytes between elements
} per_channel;

typedef struct arguments {
  graft_loops loops;
  const char *x;
  char *y;
  per_channel weight, bias;
  const char *scale, *shift;  // NULL: none
  double eps;
  bool streams;  // results past the caches
} arguments;

typedef struct row {
  const float *x, *scale, *shift;
  float *y;
} row;

static inline vec load_floats(const float *p, int64_t n) {
  return n < LANES ? vec_load_n(p, n) : vec_load(p);
}

// What makes a row of one that was read: copies, so that storing floats does not force them to be loaded again.
typedef struct recipe {
  moments_scaling scaling;
  per_channel weight, bias;
  const float *scale, *shift;
} recipe;

static inline __attribute__((always_inline)) vec load_channels(per_channel p, int64_t i, int64_t n) {
  const char *address = p.data + i * p.step;
  return n < LANES ? vec_load_typed_n(address, p.type, n) : vec_load_typed(address, p.type);
}

// The |n| ≤ LANES elements |x| from |i| on.
static inline __attribute__((always_inline)) vec finish(recipe r, vec x, int64_t i, int64_t n) {
  vec v = moments_distance(x, r.scaling) * r.scaling.factor;
  if (r.weight.data) v *= load_channels(r.weight, i, n);
  if (r.bias.data) v += load_channels(r.bias, i, n);
  if (r.scale) v *= load_floats(r.scale + i, n) + 1;
  return r.shift ? v + load_floats(r.shift + i, n) : v;
}

static inline __attribute__((always_inline)) void make_row(recipe r, const float *x, float *y, int64_t n,
                                                           bool streams) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const vec v = finish(r, vec_load(x + i), i, LANES);
    vec_store_or_stream(y + i, v, streams);
    vec_fetch_next_row(x + i, n);
  }
  if (i < n) vec_store_n(y + i, finish(r, vec_load_n(x + i, n - i), i, n - i), n - i);
}

// The usual recipes get loops of their own.
static void normalise(const arguments *a, row r) {
  const int64_t n = a->loops.row_length;
  const moments_scaling scaling = moments_normalise(moments_measure(r.x, n), a->eps);
  const bool is_weighted = a->weight.data || a->bias.data;
  if (!is_weighted && !r.scale) {
    make_row((recipe){.scaling = scaling}, r.x, r.y, n, a->streams);
  } else if (!is_weighted) {
    make_row((recipe){.scaling = scaling, .scale = r.scale, .shift = r.shift}, r.x, r.y, n, a->streams);
  } else {
    make_row((recipe){scaling, a->weight, a->bias, r.scale, r.shift}, r.x, r.y, n, a->streams);
  }
}

static const float *floats_at(const char *base, int64_t offset) {
  return base ? (const float *)(const void *)(base + offset) : NULL;
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const graft_loops_item part = graft_loops_find_item(&a->loops, item);
  for (int64_t i = part.first_row; i < part.end_row; ++i) {
    int64_t offsets[N_OPERANDS] = {0};
    graft_loops_find_row(&a->loops, i, offsets);
    const row r = {.x = floats_at(a->x, offsets[FROM]),
                   .scale = floats_at(a->scale, offsets[SCALE_ROWS]),
                   .shift = floats_at(a->shift, offsets[SHIFT_ROWS]),
                   .y = (float *)(void *)(a->y + offsets[TO])};
    normalise(a, r);
  }
  if (a->streams) vec_stream_end();
}

static bool is_plain(const graft_tensor_desc *desc) {
  if (!desc) return true;
  if (desc->dtype != GRAFT_F32 && desc->dtype != GRAFT_F16 && desc->dtype != GRAFT_BF16) return false;
  return graft_tensor_desc_is_contiguous(desc);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X], *y = node->outputs[0];
  if (x->dtype != GRAFT_F32) return graft_refuse(why, "x is %s, not f32", x->dtype->name);
  if (!graft_tensor_desc_is_dense_from(x, x->rank - 1) || !graft_tensor_desc_is_dense_from(y, y->rank - 1)) {
    return graft_refuse(why, "rows are not contiguous");
  }
  if (!is_plain(node->inputs[WEIGHT]) || !is_plain(node->inputs[BIAS])) {
    return graft_refuse(why, "weight or bias is not contiguous f32, f16 or bf16");
  }
  return true;
}

// Without a shift the scale takes its place in the walk.
static void plan_walk(const graft_node_info *node, bool is_modulated, graft_loops *loops) {
  const graft_tensor_desc *operands[N_OPERANDS] = {[TO] = node->outputs[0], [FROM] = node->inputs[X]};
  if (is_modulated) {
    operands[SCALE_ROWS] = node->inputs[SCALE];
    operands[SHIFT_ROWS] = node->inputs[SHIFT] ? node->inputs[SHIFT] : node->inputs[SCALE];
  }
  graft_loops_init(loops, operands, is_modulated ? N_OPERANDS : SCALE_ROWS, GRAFT_LOOPS_LAST_DIMENSION);
}

static bool supports_modulated(const graft_node_info *node, graft_reason *why) {
  if (!supports(node, why)) return false;
  const graft_tensor_desc *scale = node->inputs[SCALE], *shift = node->inputs[SHIFT];
  if (scale->dtype != GRAFT_F32 || (shift && shift->dtype != GRAFT_F32)) {
    return graft_refuse(why, "scale or shift is not f32");
  }
  graft_loops loops;
  plan_walk(node, true, &loops);
  for (int32_t k = 0; k < N_OPERANDS; ++k) {
    if (loops.steps[k] != (int64_t)sizeof(float)) return graft_refuse(why, "rows are not contiguous");
  }
  return true;
}

static per_channel find_channels(const graft_encode_args *args, uint32_t input) {
  const graft_tensor_desc *desc = args->node->inputs[input];
  if (!desc) return (per_channel){0};
  return (per_channel){.data = args->inputs[input], .type = desc->dtype->code, .step = desc->dtype->block_bytes};
}

static graft_status encode_rows(graft_encoder *encoder, const graft_encode_args *args, bool is_modulated) {
  const graft_layer_norm_attrs *attrs = args->node->attrs;
  arguments a = {.x = args->inputs[X],
                 .y = args->outputs[0],
                 .weight = find_channels(args, WEIGHT),
                 .bias = find_channels(args, BIAS),
                 .scale = is_modulated ? args->inputs[SCALE] : NULL,
                 .shift = is_modulated ? args->inputs[SHIFT] : NULL,
                 .eps = attrs->eps};
  plan_walk(args->node, is_modulated, &a.loops);
  a.streams = graft_stream_pays(args, a.loops.row_length * (int64_t)sizeof(float));
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.loops.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_rows(encoder, args, false);
}

static graft_status encode_modulated(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_rows(encoder, args, true);
}

#define KERNEL(kernel, op_name)                                                                                    \
  .struct_size = sizeof(graft_kernel_def), .priority = GRAFT_TARGET_PRIORITY, .name = GRAFT_TARGETED_NAME(kernel), \
  .op = op_name, .backend = "cpu", .required_features = GRAFT_TARGET_REQUIRES, .in_place_inputs = 1u << X

static const graft_kernel_def kernels[] = {
    {KERNEL(layer_norm_f32_rows, "graft.layer_norm.v1"), .supports = supports, .encode = encode},
    {KERNEL(layer_norm_modulate_f32_rows, "graft.layer_norm_modulate.v1"), .supports = supports_modulated,
     .encode = encode_modulated},
};

extern const graft_extension GRAFT_TARGETED(graft_extension_layer_norm);
const graft_extension GRAFT_TARGETED(graft_extension_layer_norm) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(layer_norm),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
