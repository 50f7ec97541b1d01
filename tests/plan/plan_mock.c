#include "plan_mock.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "src/plan/plan_internal.h"

static atomic_int n_opaque_runs, n_packs, n_states, n_slow_items;
static atomic_bool is_released;

int plan_mock_n_opaque_runs(void) {
  return n_opaque_runs;
}
int plan_mock_n_packs(void) {
  return n_packs;
}
int plan_mock_n_states(void) {
  return n_states;
}
int plan_mock_n_slow_items(void) {
  return n_slow_items;
}
void plan_mock_release(void) {
  is_released = true;
}
void plan_mock_reset(void) {
  n_opaque_runs = n_packs = n_slow_items = 0;
  is_released = false;
}

// ---- inference ----

static graft_status infer_same(graft_infer_args *args) {
  for (uint32_t i = 1; i < args->n_inputs; ++i) {
    if (args->inputs[i] != NULL && !graft_tensor_desc_same_shape(args->inputs[0], args->inputs[i])) {
      return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "shapes differ");
    }
  }
  return graft_tensor_desc_init(args->inputs[0]->dtype, args->inputs[0]->rank, args->inputs[0]->shape, args->error,
                                &args->outputs[0]);
}

static graft_status infer_split(graft_infer_args *args) {
  const graft_tensor_desc *x = args->inputs[0];
  if (x->rank != 2 || x->shape[0] % 2 != 0) return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "rows are odd");
  const int64_t shape[] = {x->shape[0] / 2, x->shape[1]};
  for (int i = 0; i < 2; ++i) GRAFT_TRY(graft_tensor_desc_init(x->dtype, 2, shape, args->error, &args->outputs[i]));
  return GRAFT_OK;
}

static graft_status infer_join(graft_infer_args *args) {
  const graft_tensor_desc *x = args->inputs[0];
  int64_t shape[] = {0, x->shape[1]};
  for (uint32_t i = 0; i < args->n_inputs; ++i) {
    if (args->inputs[i]->shape[1] != shape[1]) return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "columns differ");
    shape[0] += args->inputs[i]->shape[0];
  }
  GRAFT_TRY(graft_tensor_desc_init(x->dtype, 2, shape, args->error, &args->outputs[0]));
  if (args->n_outputs == 1) return GRAFT_OK;
  return graft_tensor_desc_init(x->dtype, 2, x->shape, args->error, &args->outputs[1]);
}

static bool part_of_join(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                         const graft_tensor_desc *output, uint32_t input, int64_t *out_offset) {
  (void)attrs;
  (void)n_inputs;
  *out_offset = 0;
  for (uint32_t i = 0; i < input; ++i) *out_offset += inputs[i]->shape[0] * output->strides[0];
  return true;
}

static graft_status infer_slice(graft_infer_args *args) {
  const plan_attrs *attrs = args->attrs;
  const graft_tensor_desc *x = args->inputs[0];
  if (attrs->first < 0 || attrs->n < 0 || attrs->first + attrs->n > x->shape[0]) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "rows out of range");
  }
  args->outputs[0] = *x;
  args->outputs[0].shape[0] = attrs->n;
  args->view_offset = attrs->n > 0 && x->shape[1] > 0 ? attrs->first * x->strides[0] : 0;
  return GRAFT_OK;
}

static graft_status infer_transpose(graft_infer_args *args) {
  const graft_tensor_desc *x = args->inputs[0];
  args->outputs[0] = *x;
  for (int i = 0; i < 2; ++i) {
    args->outputs[0].shape[i] = x->shape[1 - i];
    args->outputs[0].strides[i] = x->strides[1 - i];
  }
  return GRAFT_OK;
}

// ---- one element-wise task for all kernels ----

typedef struct element_task {
  graft_tensor_desc in[3], out;
  const char *a, *b, *c;
  char *y;
  float factor;
  int64_t rows_per_item;
} element_task;

static float load(const char *base, const graft_tensor_desc *desc, int64_t row, int64_t column) {
  float value;
  memcpy(&value, base + row * desc->strides[0] + column * desc->strides[1], sizeof value);
  return value;
}

typedef float (*element_fn)(const element_task *task, int64_t row, int64_t column);

static void for_rows(const element_task *task, int64_t item, element_fn fn) {
  int64_t end = (item + 1) * task->rows_per_item;
  if (end > task->out.shape[0]) end = task->out.shape[0];
  for (int64_t row = item * task->rows_per_item; row < end; ++row) {
    for (int64_t column = 0; column < task->out.shape[1]; ++column) {
      float value = fn(task, row, column);
      memcpy(task->y + row * task->out.strides[0] + column * task->out.strides[1], &value, sizeof value);
    }
  }
}

static float add_element(const element_task *t, int64_t row, int64_t column) {
  return load(t->a, &t->in[0], row, column) + load(t->b, &t->in[1], row, column);
}
static float scale_element(const element_task *t, int64_t row, int64_t column) {
  return t->factor * load(t->a, &t->in[0], row, column) + 1;
}
static float copy_element(const element_task *t, int64_t row, int64_t column) {
  return load(t->a, &t->in[0], row, column);
}
static float product_element(const element_task *t, int64_t row, int64_t column) {
  return load(t->a, &t->in[0], row, column) * load(t->b, &t->in[1], row, column);
}
static float even_element(const element_task *t, int64_t row, int64_t column) {
  return load(t->a, &t->in[0], 2 * row, column);
}
static float odd_element(const element_task *t, int64_t row, int64_t column) {
  return load(t->a, &t->in[0], 2 * row + 1, column);
}

#define ELEMENT_TASK(name)                                                                 \
  static void run_##name(const void *args, int64_t item, const graft_cpu_worker *worker) { \
    (void)worker;                                                                          \
    for_rows(args, item, name##_element);                                                  \
  }
ELEMENT_TASK(add)
ELEMENT_TASK(scale)
ELEMENT_TASK(copy)
ELEMENT_TASK(product)
ELEMENT_TASK(even)
ELEMENT_TASK(odd)

static element_task begin_task(const graft_encode_args *args, uint32_t output) {
  const graft_node_info *node = args->node;
  element_task task = {.out = *node->outputs[output], .y = args->outputs[output], .rows_per_item = 2};
  for (uint32_t i = 0; i < node->n_inputs && i < 3; ++i) {
    if (node->inputs[i] != NULL) task.in[i] = *node->inputs[i];
  }
  task.a = args->inputs[0];
  if (node->n_inputs > 1) task.b = args->inputs[1];
  if (node->n_inputs > 2) task.c = args->inputs[2];
  if (node->op->attrs_bytes > 0) task.factor = (float)((const plan_attrs *)node->attrs)->factor;
  return task;
}

static graft_status encode_task(graft_encoder *encoder, const graft_encode_args *args, const element_task *task,
                                void (*run)(const void *, int64_t, const graft_cpu_worker *)) {
  int64_t n_items = (task->out.shape[0] + task->rows_per_item - 1) / task->rows_per_item;
  return graft_cpu_encode(encoder,
                          &(graft_cpu_task){.run = run, .args = task, .args_bytes = sizeof *task, .n_items = n_items},
                          args->error);
}

static graft_status encode_add(graft_encoder *encoder, const graft_encode_args *args) {
  element_task task = begin_task(args, 0);
  return encode_task(encoder, args, &task, run_add);
}

static graft_status encode_scale(graft_encoder *encoder, const graft_encode_args *args) {
  element_task task = begin_task(args, 0);
  return encode_task(encoder, args, &task, run_scale);
}

static graft_status encode_copy(graft_encoder *encoder, const graft_encode_args *args) {
  element_task task = begin_task(args, 0);
  return encode_task(encoder, args, &task, run_copy);
}

static graft_status encode_split(graft_encoder *encoder, const graft_encode_args *args) {
  element_task even = begin_task(args, 0), odd = begin_task(args, 1);
  GRAFT_TRY(encode_task(encoder, args, &even, run_even));
  return encode_task(encoder, args, &odd, run_odd);
}

// ---- mix: the product goes through the workspace, which is spoiled afterwards ----

static void spoil(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)item;
  (void)worker;
  const element_task *task = args;
  if (task->y != NULL) memset(task->y, 0xff, (size_t)(task->out.shape[0] * task->out.shape[1]) * sizeof(float));
}

static graft_status prepare_mix(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  ++n_states;
  out_prepared->state = &n_states;
  out_prepared->workspace_bytes = graft_tensor_desc_bytes(node->outputs[0]);
  out_prepared->workspace_alignment = 256;
  return GRAFT_OK;
}

static void destroy_mix(void *state) {
  assert_ptr_equal(state, &n_states);
  --n_states;
}

static graft_status encode_mix(graft_encoder *encoder, const graft_encode_args *args) {
  if (args->state != &n_states || (uintptr_t)args->workspace % 256 != 0) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "wrong state or workspace");
  }
  element_task product = begin_task(args, 0), sum = product, spoiler = product;
  product.y = args->workspace;
  sum.a = args->workspace;
  sum.in[0] = sum.out;
  sum.b = product.c != NULL ? product.c : product.a;
  sum.in[1] = product.c != NULL ? product.in[2] : product.in[0];
  spoiler.y = args->workspace;
  spoiler.rows_per_item = product.out.shape[0] > 0 ? product.out.shape[0] : 1;
  GRAFT_TRY(encode_task(encoder, args, &product, run_product));
  GRAFT_TRY(encode_task(encoder, args, &sum, run_add));
  return encode_task(encoder, args, &spoiler, spoil);
}

// ---- packed: reversed rows, so that using the source instead would show ----

static graft_status prepare_packed(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  ++n_states;
  out_prepared->state = &n_states;
  out_prepared->n_packed = 1;
  out_prepared->packed[0] = (graft_packed_input){.input = 1,
                                                 .bytes = (size_t)graft_tensor_desc_elements(node->inputs[1]) * 4,
                                                 .alignment = 4096,
                                                 .layout = "reversed rows"};
  return GRAFT_OK;
}

static bool supports_packed(const graft_node_info *node, graft_reason *why) {
  if ((node->constant_inputs & 2) == 0) return graft_refuse(why, "w is no constant");
  return graft_tensor_desc_bytes(node->inputs[1]) > 0 || graft_refuse(why, "w is empty");
}

static graft_status pack_reversed(const graft_node_info *node, void *state, uint32_t input, const void *source,
                                  void *packed) {
  if (state != &n_states || (uintptr_t)source % 4 != 0 || (uintptr_t)packed % 4096 != 0) return GRAFT_E_INVALID;
  const graft_tensor_desc *desc = node->inputs[input];
  float *target = packed;
  for (int64_t row = desc->shape[0]; row-- > 0;) {
    for (int64_t column = 0; column < desc->shape[1]; ++column) *target++ = load(source, desc, row, column);
  }
  ++n_packs;
  return GRAFT_OK;
}

static float packed_element(const element_task *t, int64_t row, int64_t column) {
  float w;
  memcpy(&w, t->b + ((t->out.shape[0] - 1 - row) * t->out.shape[1] + column) * 4, sizeof w);
  return load(t->a, &t->in[0], row, column) + w;
}
ELEMENT_TASK(packed)

static graft_status encode_packed(graft_encoder *encoder, const graft_encode_args *args) {
  element_task task = begin_task(args, 0);
  return encode_task(encoder, args, &task, run_packed);
}

// ---- joining rows ----

static graft_status encode_join(graft_encoder *encoder, const graft_encode_args *args) {
  element_task task = begin_task(args, 0);
  for (uint32_t i = 0; i < args->node->n_inputs; ++i) {
    task.a = args->inputs[i];
    task.in[0] = *args->node->inputs[i];
    task.out.shape[0] = task.in[0].shape[0];
    if (task.a != task.y) GRAFT_TRY(encode_task(encoder, args, &task, run_copy));
    task.y += task.out.shape[0] * task.out.strides[0];
  }
  if (args->node->n_outputs == 1) return GRAFT_OK;
  element_task second = begin_task(args, 1);
  return encode_task(encoder, args, &second, run_copy);
}

// ---- effects, waiting and failing ----

static void run_opaque(const void *args, int64_t item, const graft_cpu_worker *worker) {
  if (item == 0) ++n_opaque_runs;
  run_copy(args, item, worker);
}

static graft_status encode_opaque(graft_encoder *encoder, const graft_encode_args *args) {
  element_task task = begin_task(args, 0);
  return encode_task(encoder, args, &task, run_opaque);
}

static void run_slow(const void *args, int64_t item, const graft_cpu_worker *worker) {
  ++n_slow_items;
  const struct timespec pause = {.tv_nsec = 200000};
  for (int i = 0; i < 10000 && !is_released; ++i) {
    if (graft_cpu_should_abort(worker)) return;
    nanosleep(&pause, NULL);
  }
  run_scale(args, item, worker);
}

static graft_status encode_slow(graft_encoder *encoder, const graft_encode_args *args) {
  element_task task = begin_task(args, 0);
  return encode_task(encoder, args, &task, run_slow);
}

static void run_check(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const element_task *task = args;
  run_copy(args, item, worker);
  for (int64_t row = item * 2; row < task->out.shape[0] && row < item * 2 + 2; ++row) {
    if (load(task->y, &task->out, row, 0) < 0) graft_cpu_fail(worker, GRAFT_E_INVALID, "row %d is negative", (int)row);
  }
}

static graft_status encode_check(graft_encoder *encoder, const graft_encode_args *args) {
  element_task task = begin_task(args, 0);
  return encode_task(encoder, args, &task, run_check);
}

static graft_status reference_triple(const graft_reference_args *args) {
  const graft_view *x = &args->inputs[0], *y = &args->outputs[0];
  for (int64_t row = 0; row < y->desc.shape[0]; ++row) {
    for (int64_t column = 0; column < y->desc.shape[1]; ++column) {
      const int64_t index[] = {row, column};
      float value = 3 * load(x->data, &x->desc, row, column);
      if (isnan(value)) return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "element is not a number");
      memcpy(graft_view_at(y, index), &value, sizeof value);
    }
  }
  return GRAFT_OK;
}

static graft_status reference_missing(const graft_reference_args *args) {
  return GRAFT_FAIL(args->error, GRAFT_E_UNSUPPORTED, "this reference is for show");
}

// ---- decompositions ----

static void decompose_twice(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                            graft_tensor **out_tensors) {
  (void)attrs;
  (void)n_inputs;
  out_tensors[0] = plan_apply2(graph, "plan.add.v1", inputs[0], inputs[0]);
}

static void decompose_nested(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                             graft_tensor **out_tensors) {
  (void)n_inputs;
  graft_tensor *scaled = plan_apply1(graph, "plan.scale.v1", *(const plan_attrs *)attrs, inputs[0]);
  (void)plan_apply1(graph, "plan.reference.v1", (plan_attrs){0}, scaled);  // in vain: must take no step
  out_tensors[0] = plan_apply1(graph, "plan.twice.v1", (plan_attrs){0}, scaled);
}

// ---- tables ----

static const graft_attr_def attrs[] = {
    {.name = "factor", .type = GRAFT_ATTR_F64, .offset = offsetof(plan_attrs, factor)},
    {.name = "first", .type = GRAFT_ATTR_I64, .offset = offsetof(plan_attrs, first)},
    {.name = "n", .type = GRAFT_ATTR_I64, .offset = offsetof(plan_attrs, n)},
};

#define OP(name_, min_, max_, outputs_, traits_, infer_)                                                             \
  .struct_size = sizeof(graft_op_def), .name = name_, .min_inputs = min_, .max_inputs = max_, .n_outputs = outputs_, \
  .traits = traits_, .infer = infer_, .attrs = attrs, .n_attrs = 3, .attrs_bytes = sizeof(plan_attrs)

static const graft_op_def ops[] = {
    {OP("plan.add.v1", 2, 2, 1, GRAFT_OP_PURE, infer_same), .reference = reference_missing},
    {OP("plan.scale.v1", 1, 1, 1, GRAFT_OP_PURE, infer_same), .reference = reference_missing},
    {OP("plan.mix.v1", 2, 3, 1, GRAFT_OP_PURE, infer_same), .reference = reference_missing, .optional_inputs = 4},
    {OP("plan.split.v1", 1, 1, 2, GRAFT_OP_PURE, infer_split), .reference = reference_missing},
    {OP("plan.slice.v1", 1, 1, 1, GRAFT_OP_PURE | GRAFT_OP_VIEW, infer_slice)},
    {OP("plan.transpose.v1", 1, 1, 1, GRAFT_OP_PURE | GRAFT_OP_VIEW, infer_transpose)},
    {OP("plan.join.v1", 1, 4, 1, GRAFT_OP_PURE, infer_join), .reference = reference_missing, .part = part_of_join},
    {OP("plan.join_twice.v1", 1, 4, 2, GRAFT_OP_PURE, infer_join), .reference = reference_missing,
     .part = part_of_join},
    {OP("plan.copy.v1", 1, 1, 1, GRAFT_OP_PURE | GRAFT_OP_COPY, infer_same), .reference = reference_missing},
    {OP("plan.packed.v1", 2, 2, 1, GRAFT_OP_PURE, infer_same), .decompose = NULL, .reference = reference_missing},
    {OP("plan.twice.v1", 1, 1, 1, GRAFT_OP_PURE, infer_same), .decompose = decompose_twice},
    {OP("plan.nested.v1", 1, 1, 1, GRAFT_OP_PURE, infer_same), .decompose = decompose_nested},
    {OP("plan.reference.v1", 1, 1, 1, GRAFT_OP_PURE, infer_same), .reference = reference_triple},
    {OP("plan.opaque.v1", 1, 1, 1, GRAFT_OP_OPAQUE_EFFECT, infer_same), .reference = reference_missing},
    {OP("plan.slow.v1", 1, 1, 1, GRAFT_OP_PURE, infer_same), .reference = reference_missing},
    {OP("plan.check.v1", 1, 1, 1, GRAFT_OP_PURE, infer_same), .reference = reference_missing},
};

#define KERNEL(name_, op_, encode_) \
  .struct_size = sizeof(graft_kernel_def), .name = name_, .op = op_, .backend = "cpu", .priority = 10, .encode = encode_

static const graft_kernel_def kernels[] = {
    {KERNEL("add_f32__mock", "plan.add.v1", encode_add), .in_place_inputs = 3},
    {KERNEL("scale_f32__mock", "plan.scale.v1", encode_scale), .in_place_inputs = 1},
    {KERNEL("mix_f32__mock", "plan.mix.v1", encode_mix), .prepare = prepare_mix, .destroy = destroy_mix},
    {KERNEL("split_f32__mock", "plan.split.v1", encode_split)},
    {KERNEL("copy_f32__mock", "plan.copy.v1", encode_copy)},
    {KERNEL("join_f32__mock", "plan.join.v1", encode_join), .traits = GRAFT_KERNEL_PLACED_INPUTS},
    {KERNEL("join_twice_f32__mock", "plan.join_twice.v1", encode_join), .traits = GRAFT_KERNEL_PLACED_INPUTS},
    {KERNEL("packed_f32__mock", "plan.packed.v1", encode_packed), .prepare = prepare_packed, .destroy = destroy_mix,
     .supports = supports_packed, .pack = pack_reversed},
    {KERNEL("unpacked_f32__mock", "plan.packed.v1", encode_add)},
    {KERNEL("opaque_f32__mock", "plan.opaque.v1", encode_opaque)},
    {KERNEL("slow_f32__mock", "plan.slow.v1", encode_slow)},
    {KERNEL("check_f32__mock", "plan.check.v1", encode_check)},
};

const graft_extension plan_extension = {
    .struct_size = sizeof plan_extension,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "tests.plan",
    .vendor = "tests",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};

// The core asks for what is built in; here that is nothing.
const graft_extension *const *graft_builtin_extensions(uint32_t *out_count) {
  static const graft_extension *const none[] = {NULL};
  *out_count = 0;
  return none;
}

// ---- helpers ----

graft_context *plan_mock_context(int32_t n_threads) {
  const graft_context_options options = {
      .struct_size = sizeof options, .n_threads = n_threads, .without_builtins = true, .ignore_environment = true};
  graft_context *context = NULL;
  assert_int_equal(graft_context_create(&options, NULL, &context), GRAFT_OK);
  assert_int_equal(graft_context_register(context, &graft_extension_cpu_backend), GRAFT_OK);
  if (graft_context_register(context, &plan_extension) != GRAFT_OK)
    fail_msg("%s", graft_context_error(context)->message);
  return context;
}

graft_device *plan_mock_device(graft_context *context, const char *name) {
  graft_device *device = NULL;
  if (graft_device_open(context, name, &device) != GRAFT_OK) fail_msg("%s", graft_context_error(context)->message);
  return device;
}

static graft_tensor_desc make_desc(int64_t rows, int64_t columns) {
  graft_tensor_desc desc;
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 2, (const int64_t[]){rows, columns}, NULL, &desc), GRAFT_OK);
  return desc;
}

graft_tensor *plan_input(graft_graph *graph, const char *name, int64_t rows, int64_t columns) {
  graft_tensor_desc desc = make_desc(rows, columns);
  return graft_graph_input(graph, name, &desc);
}

graft_tensor *plan_constant(graft_graph *graph, const char *name, int64_t rows, int64_t columns, const void *data) {
  graft_tensor_desc desc = make_desc(rows, columns);
  return graft_graph_constant(
      graph, name, &desc,
      &(graft_constant){.struct_size = sizeof(graft_constant), .data = data, .bytes = (size_t)(rows * columns) * 4});
}

graft_tensor *plan_apply1(graft_graph *graph, const char *op, plan_attrs op_attrs, graft_tensor *a) {
  graft_tensor *out[GRAFT_MAX_OUTPUTS];
  graft_graph_apply(graph, op, &op_attrs, sizeof op_attrs, &a, 1, out);
  return out[0];
}

graft_tensor *plan_apply2(graft_graph *graph, const char *op, graft_tensor *a, graft_tensor *b) {
  graft_tensor *out[GRAFT_MAX_OUTPUTS];
  graft_graph_apply(graph, op, NULL, 0, (graft_tensor *[]){a, b}, 2, out);
  return out[0];
}

graft_tensor *plan_mix(graft_graph *graph, graft_tensor *a, graft_tensor *b, graft_tensor *c) {
  graft_tensor *out[GRAFT_MAX_OUTPUTS];
  graft_graph_apply(graph, "plan.mix.v1", NULL, 0, (graft_tensor *[]){a, b, c != NULL ? c : graft_graph_none()}, 3,
                    out);
  return out[0];
}

graft_tensor *plan_join(graft_graph *graph, const char *op, graft_tensor *const *inputs, uint32_t n) {
  graft_tensor *out[GRAFT_MAX_OUTPUTS];
  graft_graph_apply(graph, op, NULL, 0, inputs, n, out);
  return out[0];
}

void plan_split(graft_graph *graph, graft_tensor *x, graft_tensor **out_halves) {
  graft_tensor *out[GRAFT_MAX_OUTPUTS];
  graft_graph_apply(graph, "plan.split.v1", NULL, 0, &x, 1, out);
  out_halves[0] = out[0];
  out_halves[1] = out[1];
}

graft_plan *plan_make_with(const graft_graph *graph, graft_plan_options options) {
  options.struct_size = sizeof options;
  options.flags |= GRAFT_PLAN_VERIFY;
  graft_plan *plan = NULL;
  if (graft_plan_create(graph, &options, &plan) != GRAFT_OK) {
    const graft_error *error = graft_context_error(graft_graph_context(graph));
    fail_msg("%s (%s:%d) %s", error->message, error->file, error->line, error->n_notes > 0 ? error->notes[0] : "");
  }
  return plan;
}

graft_plan *plan_make(const graft_graph *graph, graft_device *device, uint32_t flags) {
  return plan_make_with(graph, (graft_plan_options){.device = device, .flags = flags});
}
