// Copies between devices, and over storage that a kernel does not write itself: the plan's own steps.
#include <string.h>

#include "src/plan/plan_internal.h"

const graft_op_def graft_plan_transfer_op = {.struct_size = sizeof graft_plan_transfer_op,
                                             .name = "transfer",
                                             .min_inputs = 1,
                                             .max_inputs = 1,
                                             .n_outputs = 1,
                                             .traits = GRAFT_OP_COPY};

const graft_op_def graft_plan_alias_op = {.struct_size = sizeof graft_plan_alias_op,
                                          .name = "alias",
                                          .min_inputs = 1,
                                          .max_inputs = 1,
                                          .n_outputs = 1,
                                          .traits = GRAFT_OP_PURE | GRAFT_OP_VIEW};

// The host moves the bytes itself; this is what reports show.
static const graft_kernel_def transfer_kernel = {
    .struct_size = sizeof transfer_kernel, .name = "transfer", .op = "transfer", .backend = "host"};

graft_node *graft_plan_make_node(graft_plan *plan, const graft_op_def *op, graft_tensor *input, graft_tensor *output) {
  graft_node *node = graft_arena_alloc(&plan->arena, sizeof *node);
  graft_tensor **edges = graft_arena_alloc_array(&plan->arena, 2, sizeof *edges);
  if (node == NULL || edges == NULL) return NULL;
  edges[0] = input;
  edges[1] = output;
  *node = (graft_node){.op = op,
                       .n_inputs = 1,
                       .n_outputs = 1,
                       .inputs = edges,
                       .outputs = edges + 1,
                       .device = output->device,
                       .scope = "",
                       .label = output->name};
  return node;
}

graft_planned_step *graft_plan_make_transfer(graft_plan *plan, graft_tensor *source, graft_tensor *target) {
  graft_node *node = graft_plan_make_node(plan, &graft_plan_transfer_op, source, target);
  if (node == NULL) return NULL;
  const graft_tensor *root = graft_plan_root(target);
  node->device = root->device;
  target->node = node;
  if (root != target) node->into = target->view_of;
  graft_planned_step *step = graft_plan_make_step(plan, node);
  if (step == NULL) return NULL;
  step->kernel = &transfer_kernel;
  step->rejections = "";
  return step;
}

graft_tensor *graft_plan_make_tensor(graft_plan *plan, const graft_tensor *like, uint32_t device) {
  graft_tensor *tensor = graft_arena_alloc(&plan->arena, sizeof *tensor);
  if (tensor == NULL) {
    (void)graft_plan_no_memory(plan);
    return NULL;
  }
  *tensor = (graft_tensor){.graph = plan->scratch, .kind = GRAFT_TENSOR_RESULT, .name = like->name, .device = device};
  if (graft_tensor_desc_init(like->desc.dtype, like->desc.rank, like->desc.shape, plan->error, &tensor->desc) !=
          GRAFT_OK ||
      graft_plan_add_tensor(plan, tensor) != GRAFT_OK) {
    return NULL;
  }
  return tensor;
}
