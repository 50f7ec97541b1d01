#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/stream.h"
#include "ops/common/cpu/target.h"
#include "ops/fused/rms_norm_modulate/rms_norm_modulate.h"
#include "ops/fused/rms_norm_modulate/rms_norm_modulate_row.h"

enum { X, WEIGHT, SCALE };                  // of the node
enum { TO, FROM, SCALE_ROWS, N_OPERANDS };  // of the walk

typedef struct arguments {
  graft_loops loops;
  const char *x, *scale;
  const char *weight;  // NULL: none
  char *y;
  graft_dtype_code weight_type;
  double eps;
  bool streams;
} arguments;

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const graft_loops_item part = graft_loops_find_item(&a->loops, item);
  for (int64_t i = part.first_row; i < part.end_row; ++i) {
    int64_t offsets[N_OPERANDS];
    graft_loops_find_row(&a->loops, i, offsets);
    const rms_norm_modulate_row r = {.x = (const float *)(const void *)(a->x + offsets[FROM]),
                                     .scale = (const float *)(const void *)(a->scale + offsets[SCALE_ROWS]),
                                     .y = (float *)(void *)(a->y + offsets[TO]),
                                     .n = a->loops.row_length,
                                     .eps = a->eps,
                                     .weight = a->weight,
                                     .weight_type = a->weight_type,
                                     .streams = a->streams};
    rms_norm_modulate_make_row(&r);
  }
  if (a->streams) vec_stream_end();
}

static void plan_walk(const graft_node_info *node, graft_loops *loops) {
  const graft_tensor_desc *const operands[N_OPERANDS] = {
      [TO] = node->outputs[0], [FROM] = node->inputs[X], [SCALE_ROWS] = node->inputs[SCALE]};
  graft_loops_init(loops, operands, N_OPERANDS, GRAFT_LOOPS_LAST_DIMENSION);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X], *scale = node->inputs[SCALE];
  if (x->dtype != GRAFT_F32 || scale->dtype != GRAFT_F32) {
    return graft_refuse(why, "x is %s and the scale %s, not f32", x->dtype->name, scale->dtype->name);
  }
  if (!rms_takes_weight(node->inputs[WEIGHT])) {
    return graft_refuse(why, "the weight is not contiguous f32, f16 or bf16");
  }
  graft_loops loops;
  plan_walk(node, &loops);
  for (int32_t k = 0; k < N_OPERANDS; ++k) {
    if (loops.steps[k] != (int64_t)sizeof(float)) return graft_refuse(why, "rows are not contiguous");
  }
  return true;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_node_info *node = args->node;
  const graft_rms_norm_modulate_attrs *attrs = node->attrs;
  arguments a = {.x = args->inputs[X],
                 .scale = args->inputs[SCALE],
                 .weight = args->inputs[WEIGHT],
                 .y = args->outputs[0],
                 .weight_type = node->inputs[WEIGHT] ? node->inputs[WEIGHT]->dtype->code : GRAFT_DTYPE_F32,
                 .eps = attrs->eps};
  plan_walk(node, &a.loops);
  a.streams = graft_stream_pays(args, a.loops.row_length * (int64_t)sizeof(float));
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.loops.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{
    .struct_size = sizeof kernels[0],
    .priority = GRAFT_TARGET_PRIORITY,
    .name = GRAFT_TARGETED_NAME(rms_norm_modulate_f32_rows),
    .op = "graft.rms_norm_modulate.v1",
    .backend = "cpu",
    .required_features = GRAFT_TARGET_REQUIRES,
    .supports = supports,
    .in_place_inputs = 1u << X,
    .encode = encode,
}};

extern const graft_extension GRAFT_TARGETED(graft_extension_rms_norm_modulate);
const graft_extension GRAFT_TARGETED(graft_extension_rms_norm_modulate) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(rms_norm_modulate),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
