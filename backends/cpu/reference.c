// The catch-all kernel: runs an operator's own reference as one item. Slow and always right.
#include <string.h>

#include "backends/cpu/device.h"

typedef struct reference_task {
  const graft_op_def *op;
  const void *attrs;
  uint32_t n_inputs, n_outputs;
  graft_view views[GRAFT_MAX_INPUTS + GRAFT_MAX_OUTPUTS];  // inputs, then outputs; only these are recorded
} reference_task;

static bool should_abort(void *user) {
  return graft_cpu_should_abort(user);
}

static void run_reference(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)item;
  const reference_task *task = args;
  graft_cpu_worker self = *worker;
  graft_error error = {0};
  const graft_reference_args reference = {
      .struct_size = sizeof reference,
      .attrs = task->attrs,
      .n_inputs = task->n_inputs,
      .n_outputs = task->n_outputs,
      .inputs = task->views,
      .outputs = task->views + task->n_inputs,
      .should_abort = should_abort,
      .abort_user = &self,
      .error = &error,
  };
  graft_status status = task->op->reference(&reference);
  if (status == GRAFT_OK) return;
  graft_cpu_fail(worker, status, "%s: %s", task->op->name,
                 error.message[0] ? error.message : graft_status_name(status));
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  if (node->op->reference != NULL) return true;
  return graft_refuse(why, "the operator has no reference");
}

static void fill_view(graft_view *view, const graft_tensor_desc *desc, void *data) {
  *view = (graft_view){0};
  if (desc == NULL) return;
  view->desc = *desc;
  view->data = data;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_node_info *node = args->node;
  reference_task task = {
      .op = node->op, .attrs = node->attrs, .n_inputs = node->n_inputs, .n_outputs = node->n_outputs};
  for (uint32_t i = 0; i < node->n_inputs; ++i) fill_view(&task.views[i], node->inputs[i], args->inputs[i]);
  graft_view *outputs = task.views + node->n_inputs;
  for (uint32_t i = 0; i < node->n_outputs; ++i) fill_view(&outputs[i], node->outputs[i], args->outputs[i]);
  size_t n_views = node->n_inputs + node->n_outputs;
  return graft_cpu_encode(
      encoder,
      &(graft_cpu_task){.run = run_reference,
                        .args = &task,
                        .args_bytes = offsetof(reference_task, views) + n_views * sizeof task.views[0],
                        .n_items = 1},
      args->error);
}

const graft_kernel_def graft_cpu_reference_kernel = {
    .struct_size = sizeof graft_cpu_reference_kernel,
    .priority = INT32_MIN,
    .name = "reference__cpu",
    .op = NULL,
    .backend = "cpu",
    .supports = supports,
    .encode = encode,
};
