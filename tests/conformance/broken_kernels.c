#include "broken_kernels.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "graft/cpu.h"

enum { ITEM_ELEMENTS = 64 };

typedef struct double_args {
  const float *x;
  float *y;
  void *workspace;
  int64_t n;
  int32_t n_threads;
  atomic_bool *was_cancelled;
} double_args;

static int64_t end_of(const double_args *args, int64_t item) {
  int64_t end = (item + 1) * ITEM_ELEMENTS;
  return end < args->n ? end : args->n;
}

static void run_right(const void *data, int64_t item, const graft_cpu_worker *worker) {
  const double_args *args = data;
  (void)worker;
  for (int64_t i = item * ITEM_ELEMENTS; i < end_of(args, item); ++i) args->y[i] = args->x[i] + args->x[i];
}

// The last element of every item of full length is wrong by a thousandth.
static void run_wrong(const void *data, int64_t item, const graft_cpu_worker *worker) {
  const double_args *args = data;
  run_right(data, item, worker);
  int64_t last = (item + 1) * ITEM_ELEMENTS - 1;
  if (last < args->n) args->y[last] *= 1.001f;
}

static void run_past_end(const void *data, int64_t item, const graft_cpu_worker *worker) {
  const double_args *args = data;
  run_right(data, item, worker);
  if (end_of(args, item) == args->n) args->y[args->n] = 0;
}

static void run_before_start(const void *data, int64_t item, const graft_cpu_worker *worker) {
  const double_args *args = data;
  run_right(data, item, worker);
  if (item == 0) args->y[-1] = 0;
}

static void run_into_input(const void *data, int64_t item, const graft_cpu_worker *worker) {
  const double_args *args = data;
  run_right(data, item, worker);
  if (item == 0 && args->x != args->y) memcpy(&((float *)(uintptr_t)args->x)[args->n - 1], args->y, sizeof(float));
}

// Adds to what the output held, as if it had been cleared; NaN is overlooked.
static void run_reads_output(const void *data, int64_t item, const graft_cpu_worker *worker) {
  const double_args *args = data;
  (void)worker;
  for (int64_t i = item * ITEM_ELEMENTS; i < end_of(args, item); ++i) {
    args->y[i] = fmaxf(args->y[i], 0) + args->x[i] + args->x[i];
  }
}

// Right, unless the output lies over the input.
static void run_not_in_place(const void *data, int64_t item, const graft_cpu_worker *worker) {
  const double_args *args = data;
  (void)worker;
  for (int64_t i = item * ITEM_ELEMENTS; i < end_of(args, item); ++i) {
    args->y[i] = 0;
    args->y[i] += 2 * args->x[i];
  }
}

static void run_reads_workspace(const void *data, int64_t item, const graft_cpu_worker *worker) {
  const double_args *args = data;
  run_right(data, item, worker);
  if (item == 0) args->y[0] = fmaxf(args->y[0], *(const float *)args->workspace);
}

// A rounding that depends on how many threads there are: within the bound, but not the same bytes.
static void run_by_threads(const void *data, int64_t item, const graft_cpu_worker *worker) {
  const double_args *args = data;
  run_right(data, item, worker);
  if (item == 0 && args->n_threads > 2) args->y[0] = nextafterf(args->y[0], 0);
}

static void run_forgets_end(const void *data, int64_t item, const graft_cpu_worker *worker) {
  const double_args *args = data;
  if ((item + 1) * ITEM_ELEMENTS <= args->n) run_right(data, item, worker);
}

static void run_from_margin(const void *data, int64_t item, const graft_cpu_worker *worker) {
  const double_args *args = data;
  run_right(data, item, worker);
  // What lies behind the input decides the last bit of the result.
  uint32_t behind;
  memcpy(&behind, &args->x[args->n], sizeof behind);
  if (end_of(args, item) == args->n && behind == UINT32_MAX) args->y[args->n - 1] = nextafterf(args->y[args->n - 1], 0);
}

// Once cancelled, never right again.
static void run_sulks(const void *data, int64_t item, const graft_cpu_worker *worker) {
  const double_args *args = data;
  run_right(data, item, worker);
  if (graft_cpu_should_abort(worker)) atomic_store(args->was_cancelled, true);
  if (item == 0 && atomic_load(args->was_cancelled)) args->y[0] = nextafterf(args->y[0], 0);
}

// Of a join of one input.
static void run_clears_first(const void *data, int64_t item, const graft_cpu_worker *worker) {
  const double_args *args = data;
  (void)worker;
  for (int64_t i = item * ITEM_ELEMENTS; i < end_of(args, item); ++i) args->y[i] = 0;
  for (int64_t i = item * ITEM_ELEMENTS; i < end_of(args, item); ++i) args->y[i] += args->x[i];
}

static bool is_dense_f32(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[0];
  if (x->dtype != GRAFT_F32) return graft_refuse(why, "input is %s", x->dtype->name);
  return graft_tensor_desc_is_contiguous(x) || graft_refuse(why, "input is not contiguous");
}

// Accepts every layout although it reads memory as if it were dense.
static bool is_any_f32(const graft_node_info *node, graft_reason *why) {
  return node->inputs[0]->dtype == GRAFT_F32 || graft_refuse(why, "not f32");
}

static bool is_never(const graft_node_info *node, graft_reason *why) {
  (void)node;
  return graft_refuse(why, "it never runs");
}

static graft_status encode_with(void (*run)(const void *, int64_t, const graft_cpu_worker *), graft_encoder *encoder,
                                const graft_encode_args *encode_args) {
  int64_t n = graft_tensor_desc_elements(encode_args->node->outputs[0]);
  double_args args = {.x = encode_args->inputs[0],
                      .y = encode_args->outputs[0],
                      .workspace = encode_args->workspace,
                      .n = n,
                      .was_cancelled = encode_args->state,
                      .n_threads = graft_cpu_describe(encode_args->node->device)->n_threads};
  graft_cpu_task task = {
      .run = run, .args = &args, .args_bytes = sizeof args, .n_items = (n + ITEM_ELEMENTS - 1) / ITEM_ELEMENTS};
  return graft_cpu_encode(encoder, &task, encode_args->error);
}

static graft_status encode_right(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_with(run_right, encoder, args);
}
static graft_status encode_wrong(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_with(run_wrong, encoder, args);
}
static graft_status encode_past_end(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_with(run_past_end, encoder, args);
}
static graft_status encode_before_start(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_with(run_before_start, encoder, args);
}
static graft_status encode_into_input(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_with(run_into_input, encoder, args);
}
static graft_status encode_reads_output(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_with(run_reads_output, encoder, args);
}
static graft_status encode_not_in_place(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_with(run_not_in_place, encoder, args);
}
static graft_status encode_reads_workspace(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_with(run_reads_workspace, encoder, args);
}
static graft_status encode_by_threads(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_with(run_by_threads, encoder, args);
}
static graft_status encode_forgets_end(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_with(run_forgets_end, encoder, args);
}
static graft_status encode_from_margin(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_with(run_from_margin, encoder, args);
}
static graft_status encode_sulks(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_with(run_sulks, encoder, args);
}
static graft_status encode_clears_first(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_with(run_clears_first, encoder, args);
}

static graft_status prepare_workspace(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)node;
  (void)error;
  out_prepared->workspace_bytes = 64;
  return GRAFT_OK;
}

static graft_status prepare_flag(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)node;
  out_prepared->state = calloc(1, sizeof(atomic_bool));
  return out_prepared->state != NULL ? GRAFT_OK : GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a flag");
}

static graft_status prepare_packed(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  if ((node->constant_inputs & 1u) == 0) return GRAFT_OK;
  size_t bytes = graft_tensor_desc_bytes(node->inputs[0]) + sizeof(float);
  out_prepared->n_packed = 1;
  out_prepared->packed[0] = (graft_packed_input){.input = 0, .bytes = bytes, .alignment = 64, .layout = "padded"};
  return GRAFT_OK;
}

// Leaves the padding at the end as it was.
static graft_status pack_partly(const graft_node_info *node, void *state, uint32_t input, const void *source,
                                void *packed) {
  (void)state;
  memcpy(packed, source, graft_tensor_desc_bytes(node->inputs[input]));
  return GRAFT_OK;
}

static graft_status prepare_fails(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)node;
  (void)out_prepared;
  return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "prepare gives up");
}

#define KERNEL(what, accepts)                                                                                      \
  .struct_size = sizeof(graft_kernel_def), .name = "double_f32_" what, .op = "broken.double.v1", .backend = "cpu", \
  .supports = accepts

static const graft_kernel_def kernels[] = {
    {KERNEL("right", is_dense_f32), .in_place_inputs = 1, .encode = encode_right},
    {KERNEL("wrong", is_dense_f32), .encode = encode_wrong},
    {KERNEL("past_end", is_dense_f32), .encode = encode_past_end},
    {KERNEL("before_start", is_dense_f32), .encode = encode_before_start},
    {KERNEL("into_input", is_dense_f32), .encode = encode_into_input},
    {KERNEL("reads_output", is_dense_f32), .encode = encode_reads_output},
    {KERNEL("reads_workspace", is_dense_f32), .prepare = prepare_workspace, .encode = encode_reads_workspace},
    {KERNEL("by_threads", is_dense_f32), .encode = encode_by_threads},
    {KERNEL("forgets_end", is_dense_f32), .encode = encode_forgets_end},
    {KERNEL("from_margin", is_dense_f32), .encode = encode_from_margin},
    {KERNEL("sulks", is_dense_f32), .prepare = prepare_flag, .destroy = free, .encode = encode_sulks},
    {.struct_size = sizeof(graft_kernel_def),
     .name = "double_f32_any_layout",
     .op = "broken.strided_double.v1",
     .backend = "cpu",
     .supports = is_any_f32,
     .encode = encode_right},
    {.struct_size = sizeof(graft_kernel_def),
     .name = "join_f32_clears_first",
     .op = "broken.join.v1",
     .backend = "cpu",
     .supports = is_dense_f32,
     .encode = encode_clears_first,
     .traits = GRAFT_KERNEL_PLACED_INPUTS},
    {KERNEL("not_in_place", is_dense_f32), .in_place_inputs = 1, .encode = encode_not_in_place},
    {KERNEL("packs_partly", is_dense_f32), .prepare = prepare_packed, .pack = pack_partly, .encode = encode_right},
    {KERNEL("prepare_fails", is_dense_f32), .prepare = prepare_fails, .encode = encode_right},
    {KERNEL("idle", is_never), .encode = encode_right},
    {KERNEL("too_modern", is_dense_f32), .required_features = UINT64_C(1) << 63, .encode = encode_right},
};

static graft_status multiply(const graft_reference_args *args, double factor) {
  const graft_view *x = &args->inputs[0], *y = &args->outputs[0];
  int64_t index[GRAFT_MAX_RANK] = {0};
  if (graft_tensor_desc_elements(&y->desc) == 0) return GRAFT_OK;
  do {
    double value = graft_dtype_load(x->desc.dtype, graft_view_at(x, index));
    graft_dtype_store(y->desc.dtype, graft_view_at(y, index), factor * value);
  } while (graft_index_next(&y->desc, index));
  return GRAFT_OK;
}

static graft_status reference(const graft_reference_args *args) {
  return multiply(args, 2);
}

static graft_status reference_join(const graft_reference_args *args) {
  return multiply(args, 1);
}

static bool part(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                 const graft_tensor_desc *output, uint32_t input, int64_t *out_offset) {
  (void)attrs, (void)inputs, (void)n_inputs, (void)output, (void)input;
  *out_offset = 0;
  return true;
}

static const graft_op_case cases[] = {
    {.name = "rows", .n_inputs = 1, .inputs = {{.dtype = GRAFT_F32, .rank = 2, .shape = {3, 50}}}},
    {.name = "constant",
     .n_inputs = 1,
     .inputs = {{.dtype = GRAFT_F32, .rank = 1, .shape = {130}, .is_constant = true}}},
};

#define OP(full_name, computes)                                                                                \
  .struct_size = sizeof(graft_op_def), .traits = GRAFT_OP_PURE | GRAFT_OP_ELEMENTWISE, .name = full_name,      \
  .min_inputs = 1, .max_inputs = 1, .n_outputs = 1, .infer = graft_infer_elementwise, .reference = (computes), \
  .cases = cases, .n_cases = sizeof cases / sizeof cases[0]

// The second one keeps a kernel that claims too much from being the planner's way out for the others.
static const graft_op_def ops[] = {{OP("broken.double.v1", reference)},
                                   {OP("broken.strided_double.v1", reference)},
                                   {OP("broken.join.v1", reference_join), .part = part}};

const graft_extension broken_extension = {.struct_size = sizeof broken_extension,
                                          .abi_version = GRAFT_ABI_VERSION,
                                          .name = "broken.kernels",
                                          .vendor = "broken",
                                          .ops = ops,
                                          .n_ops = sizeof ops / sizeof ops[0],
                                          .kernels = kernels,
                                          .n_kernels = sizeof kernels / sizeof kernels[0]};
