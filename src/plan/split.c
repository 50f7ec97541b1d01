// Placing a graph whose weights are more than a device may keep: it takes nodes in their order until it is full. A
// later node with weights goes to the next device, or its weights are brought to the full one for it where its work is
// worth that; nodes without weights stay with the last one that has some, so that what lies between devices is copied
// seldom.
#include <stdlib.h>

#include "src/plan/plan_internal.h"

enum {
  SMALL_BYTES = 1 << 16,  // constants below this are no weights: they are kept wherever they are read
  FLOPS_FOR_A_BYTE = 32,  // of work, from which on bringing a byte of weights takes less time than working elsewhere
};

typedef struct split_pass {
  graft_plan *plan;
  uint32_t device;  // that is filled
  size_t used;      // of its limit
  bool is_full;
  bool is_here;   // where it is full: the last node with weights runs on it
  bool *is_kept;  // by tensor: the weight is on the device
} split_pass;

static graft_tensor *weight_of(const graft_node *node, uint32_t input) {
  graft_tensor *root = node->inputs[input];
  while (root != NULL && root->view_of != NULL) root = root->view_of;
  const bool is_weight = root != NULL && root->kind == GRAFT_TENSOR_CONSTANT;
  return is_weight && graft_tensor_desc_bytes(&root->desc) >= SMALL_BYTES ? root : NULL;
}

// Bytes of |node|'s weights that the device does not keep already. |keeps|: from now on it does. |brings|: they come
// when they are needed.
static size_t missing_weights(split_pass *pass, const graft_node *node, bool keeps, bool brings) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    graft_tensor *weight = weight_of(node, i);
    if (weight == NULL || pass->is_kept[weight->id]) continue;
    bytes += graft_tensor_desc_bytes(&weight->desc);
    if (keeps) pass->is_kept[weight->id] = true;
    if (brings) weight->is_brought = true;
  }
  return bytes;
}

static double count_flops(const graft_node *node) {
  const graft_tensor_desc *inputs[GRAFT_MAX_INPUTS] = {0};
  graft_tensor_desc outputs[GRAFT_MAX_OUTPUTS];
  double n_elements = 0;
  for (uint32_t i = 0; i < node->n_inputs; ++i) inputs[i] = node->inputs[i] != NULL ? &node->inputs[i]->desc : NULL;
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    outputs[i] = node->outputs[i]->desc;
    n_elements += (double)graft_tensor_desc_elements(&outputs[i]);
  }
  return node->op->flops != NULL ? node->op->flops(node->attrs, inputs, node->n_inputs, outputs) : n_elements;
}

static bool is_pinned(const graft_node *node) {
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    if (node->outputs[i]->pin != 0) return true;
  }
  return false;
}

static graft_status put(const split_pass *pass, graft_node *node, uint32_t device, bool has_weights) {
  graft_plan *plan = pass->plan;
  const graft_plan_device *full = graft_plan_device_at(plan, pass->device);
  const bool is_here = device == pass->device;
  const char *why = has_weights ? (is_here ? "its weights are brought to " : "weights do not fit ")
                                : (is_here ? "its weights before are brought to " : "what is before does not fit ");
  node->device = device;
  node->placement =
      graft_arena_format(&plan->arena, "%s%s%s%s", why, graft_device_name(full->device), is_here ? "" : ": on ",
                         is_here ? "" : graft_device_name(plan->devices[device].device));
  return node->placement != NULL ? GRAFT_OK : graft_plan_no_memory(plan);
}

// |others|: the devices behind this one that can run |node|.
static graft_status visit(split_pass *pass, graft_node *node, uint32_t others) {
  const graft_plan_device *device = graft_plan_device_at(pass->plan, pass->device);
  const size_t bytes = missing_weights(pass, node, false, false);
  if (bytes > 0 && !pass->is_full && bytes <= device->weight_limit - pass->used) {
    pass->used += missing_weights(pass, node, true, false);
    return GRAFT_OK;
  }
  if (bytes > 0) {
    const bool pays_off = !device->is_closed && count_flops(node) >= (double)FLOPS_FOR_A_BYTE * (double)bytes;
    pass->is_full = true;
    pass->is_here = others == 0 || pays_off;
    if (pass->is_here) (void)missing_weights(pass, node, false, true);
  }
  if (!pass->is_full || others == 0) return GRAFT_OK;
  return put(pass, node, pass->is_here ? pass->device : (uint32_t)__builtin_ctz(others), bytes > 0);
}

static graft_status fill(split_pass *pass, const uint32_t *masks) {
  graft_plan *plan = pass->plan;
  for (uint32_t n = 0; n < plan->nodes.n; ++n) {
    graft_node *node = plan->nodes.items[n];
    if ((node->op->traits & GRAFT_OP_VIEW) != 0 || is_pinned(node)) continue;
    // Where it would go: a device before this one that was full said so, or the first that can.
    const uint32_t device = node->device < plan->n_devices ? node->device : (uint32_t)__builtin_ctz(masks[n]);
    if (device != pass->device) continue;
    GRAFT_TRY(visit(pass, node, masks[n] & ~((2u << pass->device) - 1)));
  }
  return GRAFT_OK;
}

graft_status graft_plan_split(graft_plan *plan, const uint32_t *masks) {
  graft_status status = GRAFT_OK;
  for (uint32_t d = 0; d < plan->n_devices && status == GRAFT_OK; ++d) {
    const graft_plan_device *device = graft_plan_device_at(plan, d);
    if (device->weight_limit == SIZE_MAX) continue;
    split_pass pass = {.plan = plan, .device = d, .is_full = device->is_closed};
    pass.is_kept = calloc((size_t)plan->tensors.n + 1, sizeof *pass.is_kept);
    status = pass.is_kept != NULL ? fill(&pass, masks) : graft_plan_no_memory(plan);
    free(pass.is_kept);
  }
  return status;
}
