#include "graft/extension.h"
#include "ops/common/cpu/moments.h"
#include "ops/common/cpu/stream.h"
#include "ops/common/cpu/target.h"
#include "ops/common/cpu/vector_math.h"
#include "ops/group_norm/group_norm.h"

enum { X, WEIGHT, BIAS };

// Large groups are cut into chunks that stay in a core's cache, but into no more than can be merged in no time.
enum { CHUNK_ELEMENTS = 16384, MAX_CHUNKS = 256 };

// How a tensor is shared out: a unit is one chunk of one group of one item.
typedef struct layout {
  int64_t n_channels, channel_size;  // elements of one channel of one item
  int64_t channels_per_group, group_size;
  int64_t n_chunks, chunk_size;  // of a group; the last chunk may be shorter
  int64_t n_units, units_per_item;
} layout;

typedef struct per_channel {
  const char *data;  // NULL: none
  graft_dtype_code type;
  int64_t step;  // bytes between elements
} per_channel;

typedef struct arguments {
  layout layout;
  const float *x;
  float *y;
  per_channel weight, bias;
  double eps;
  bool has_silu;   // of graft.group_norm_silu.v1
  bool streams;    // results past the caches
  moments *parts;  // of each unit; not used where a group is one chunk
} arguments;

// Elements of unit |unit|, counted from the start of its group.
typedef struct chunk {
  int64_t group;  // among the groups of all items
  int64_t begin, end;
} chunk;

static chunk find_chunk(const layout *l, int64_t unit) {
  chunk c = {.group = unit / l->n_chunks, .begin = unit % l->n_chunks * l->chunk_size};
  c.end = c.begin + l->chunk_size < l->group_size ? c.begin + l->chunk_size : l->group_size;
  return c;
}

static int64_t end_unit(const layout *l, int64_t item) {
  const int64_t end = (item + 1) * l->units_per_item;
  return end < l->n_units ? end : l->n_units;
}

static void run_measure(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  for (int64_t unit = item * a->layout.units_per_item; unit < end_unit(&a->layout, item); ++unit) {
    const chunk c = find_chunk(&a->layout, unit);
    a->parts[unit] = moments_measure(a->x + c.group * a->layout.group_size + c.begin, c.end - c.begin);
  }
}

static float channel_value(const per_channel *p, int64_t channel, float otherwise) {
  float value = otherwise;
  if (p->data) vec_load_typed_row(p->data + channel * p->step, p->type, &value, 1);
  return value;
}

static inline __attribute__((always_inline)) vec transform(vec x, moments_scaling s, vec shift, bool has_silu) {
  const vec y = vec_madd(moments_distance(x, s), vec_all(s.factor), shift);
  return has_silu ? vec_silu(y) : y;
}

static inline __attribute__((always_inline)) void normalise_run(const float *x, float *y, int64_t n, moments_scaling s,
                                                                float bias, bool has_silu, bool streams) {
  const vec shift = vec_all(bias);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const vec v = transform(vec_load(x + i), s, shift, has_silu);
    vec_store_or_stream(y + i, v, streams);
  }
  if (i < n) vec_store_n(y + i, transform(vec_load_n(x + i, n - i), s, shift, has_silu), n - i);
}

// Channel by channel, as each has its own weight and bias.
static void normalise_chunk(const arguments *a, chunk c, moments_scaling scaling) {
  const layout *l = &a->layout;
  const int64_t first_channel = c.group * l->channels_per_group % l->n_channels;
  const int64_t base = c.group * l->group_size;
  for (int64_t begin = c.begin; begin < c.end;) {
    const int64_t in_group = begin / l->channel_size, channel = first_channel + in_group;
    const int64_t channel_end = (in_group + 1) * l->channel_size, end = channel_end < c.end ? channel_end : c.end;
    moments_scaling s = scaling;
    s.factor *= channel_value(&a->weight, channel, 1);
    const float bias = channel_value(&a->bias, channel, 0);
    const float *x = a->x + base + begin;
    float *y = a->y + base + begin;
    if (a->streams && (uintptr_t)y % sizeof(vec) == 0) {
      normalise_run(x, y, end - begin, s, bias, true, true);
    } else if (a->has_silu) {
      normalise_run(x, y, end - begin, s, bias, true, false);
    } else {
      normalise_run(x, y, end - begin, s, bias, false, false);
    }
    begin = end;
  }
}

static void run_normalise(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const layout *l = &a->layout;
  for (int64_t unit = item * l->units_per_item; unit < end_unit(l, item); ++unit) {
    const chunk c = find_chunk(l, unit);
    const moments m = l->n_chunks > 1 ? moments_merge(a->parts + c.group * l->n_chunks, l->n_chunks)
                                      : moments_measure(a->x + c.group * l->group_size, l->group_size);
    normalise_chunk(a, c, moments_normalise(m, a->eps));
  }
  if (a->streams) vec_stream_end();
}

static bool is_plain(const graft_tensor_desc *desc) {
  if (!desc) return true;
  if (desc->dtype != GRAFT_F32 && desc->dtype != GRAFT_F16 && desc->dtype != GRAFT_BF16) return false;
  return graft_tensor_desc_is_contiguous(desc);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X];
  if (x->dtype != GRAFT_F32) return graft_refuse(why, "x is %s, not f32", x->dtype->name);
  if (!graft_tensor_desc_is_contiguous(x) || !graft_tensor_desc_is_contiguous(node->outputs[0])) {
    return graft_refuse(why, "x or the output is not contiguous");
  }
  if (!is_plain(node->inputs[WEIGHT]) || !is_plain(node->inputs[BIAS])) {
    return graft_refuse(why, "weight or bias is not contiguous f32, f16 or bf16");
  }
  return true;
}

// Depends on the sizes of one item alone, so that an item gives the same bytes in any batch.
static layout plan_layout(const graft_node_info *node) {
  const graft_group_norm_attrs *attrs = node->attrs;
  const graft_tensor_desc *x = node->inputs[X];
  const int64_t n = graft_tensor_desc_elements(x), n_groups = x->shape[0] * attrs->n_groups;
  if (n == 0) return (layout){.units_per_item = 1};
  layout l = {.n_channels = x->shape[1], .channels_per_group = x->shape[1] / attrs->n_groups};
  l.group_size = n / n_groups;
  l.channel_size = l.group_size / l.channels_per_group;
  const int64_t least = (l.group_size + MAX_CHUNKS - 1) / MAX_CHUNKS;
  l.chunk_size = least > CHUNK_ELEMENTS ? least : CHUNK_ELEMENTS;
  l.n_chunks = (l.group_size + l.chunk_size - 1) / l.chunk_size;
  l.n_units = n_groups * l.n_chunks;
  l.units_per_item = l.group_size < CHUNK_ELEMENTS ? CHUNK_ELEMENTS / l.group_size : 1;
  return l;
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  const layout l = plan_layout(node);
  if (l.n_chunks > 1) out_prepared->workspace_bytes = (size_t)l.n_units * sizeof(moments);
  return GRAFT_OK;
}

static per_channel find_channels(const graft_encode_args *args, uint32_t input) {
  const graft_tensor_desc *desc = args->node->inputs[input];
  if (!desc) return (per_channel){0};
  return (per_channel){.data = args->inputs[input], .type = desc->dtype->code, .step = desc->dtype->block_bytes};
}

static graft_status encode_with(graft_encoder *encoder, const graft_encode_args *args, bool has_silu) {
  const graft_group_norm_attrs *attrs = args->node->attrs;
  arguments a = {.layout = plan_layout(args->node),
                 .x = args->inputs[X],
                 .y = args->outputs[0],
                 .weight = find_channels(args, WEIGHT),
                 .bias = find_channels(args, BIAS),
                 .eps = attrs->eps,
                 .has_silu = has_silu,
                 .parts = args->workspace};
  a.streams = has_silu && graft_stream_pays(args, 0);
  graft_cpu_task task = {.run = run_measure, .args = &a, .args_bytes = sizeof a};
  task.n_items = (a.layout.n_units + a.layout.units_per_item - 1) / a.layout.units_per_item;
  if (a.layout.n_chunks > 1) GRAFT_TRY(graft_cpu_encode(encoder, &task, args->error));
  task.run = run_normalise;
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_with(encoder, args, false);
}

static graft_status encode_silu(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_with(encoder, args, true);
}

#define KERNEL(op_name, suffix)                                                                      \
  .struct_size = sizeof(graft_kernel_def), .priority = GRAFT_TARGET_PRIORITY,                        \
  .name = GRAFT_TARGETED_NAME(group_norm##suffix##_f32_contiguous), .op = op_name, .backend = "cpu", \
  .required_features = GRAFT_TARGET_REQUIRES, .supports = supports, .in_place_inputs = 1u << X, .prepare = prepare

// The second has the first's inputs and attributes.
static const graft_kernel_def kernels[] = {
    {KERNEL("graft.group_norm.v1", ), .encode = encode},
    {KERNEL("graft.group_norm_silu.v1", _silu), .encode = encode_silu},
};

extern const graft_extension GRAFT_TARGETED(graft_extension_group_norm);
const graft_extension GRAFT_TARGETED(graft_extension_group_norm) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(group_norm),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
