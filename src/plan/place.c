// On which device every node runs. Nodes are marked, nothing is cut or copied yet:
//   0. where a device cannot keep all weights, what follows once it is full is placed by split.c;
//   1. what one device alone can run, what is pinned, and what reads inputs or constants is placed first;
//   2. placed regions grow along edges, those of earlier devices first; what is left goes to the first device that can;
//   3. a node that writes over storage moves to the device that owns it, where that can run it (SC2).
#include <stdlib.h>

#include "src/plan/plan_internal.h"

enum { UNPLACED = UINT32_MAX, MAX_DEPTH = 16 };

typedef struct place_pass {
  graft_plan *plan;
  graft_plan_list nodes;  // with decompositions in the place of what no device runs whole
  uint32_t *masks;        // by node: bit d: device d can run it
  uint32_t capacity;      // of masks
} place_pass;

static graft_node *node_at(const place_pass *pass, uint32_t index) {
  return pass->nodes.items[index];
}

static bool is_view(const graft_node *node) {
  return (node->op->traits & GRAFT_OP_VIEW) != 0;
}

static graft_tensor *root_of(graft_tensor *tensor) {
  while (tensor->view_of != NULL) tensor = tensor->view_of;
  return tensor;
}

// ---- which devices can run a node ----

static graft_status can_run(graft_plan *plan, graft_node *node, uint32_t device, uint32_t depth, bool *out_can);

static graft_status can_run_parts(graft_plan *plan, graft_node *node, uint32_t device, uint32_t depth, bool *out_can) {
  graft_tensor *results[GRAFT_MAX_OUTPUTS] = {0};
  uint32_t first = plan->scratch->n_nodes;
  *out_can = false;
  if (depth == MAX_DEPTH) return GRAFT_OK;  // expanding it will say what is wrong
  GRAFT_TRY(graft_plan_decompose(plan, node, results));
  *out_can = true;
  uint32_t end = plan->scratch->n_nodes;
  for (uint32_t i = first; i < end && *out_can; ++i) {
    GRAFT_TRY(can_run(plan, plan->scratch->nodes[i], device, depth + 1, out_can));
  }
  return GRAFT_OK;
}

static graft_status can_run(graft_plan *plan, graft_node *node, uint32_t device, uint32_t depth, bool *out_can) {
  *out_can = true;
  if (is_view(node)) return GRAFT_OK;
  node->device = device;
  graft_planned_step *step = graft_plan_make_step(plan, node);
  if (step == NULL) return graft_plan_no_memory(plan);
  bool is_expansion = false;
  graft_status status = graft_plan_select(plan, step, &is_expansion);
  if (status == GRAFT_OK && is_expansion) return can_run_parts(plan, node, device, depth, out_can);
  *out_can = status == GRAFT_OK;
  return status == GRAFT_E_UNSUPPORTED ? GRAFT_OK : status;
}

static graft_status append(place_pass *pass, graft_node *node, uint32_t mask) {
  if (pass->nodes.n == pass->capacity) {
    uint32_t capacity = pass->capacity == 0 ? 64 : 2 * pass->capacity;
    uint32_t *masks = realloc(pass->masks, (size_t)capacity * sizeof *masks);
    if (masks == NULL) return graft_plan_no_memory(pass->plan);
    pass->masks = masks;
    pass->capacity = capacity;
  }
  pass->masks[pass->nodes.n] = mask;
  node->device = UNPLACED;
  return graft_plan_append(pass->plan, &pass->nodes, node);
}

static graft_status fail(place_pass *pass, graft_node *node) {
  graft_plan *plan = pass->plan;
  graft_error summary = {0};
  graft_status status = GRAFT_FAIL(&summary, GRAFT_E_UNSUPPORTED, "none of the plan's %u devices can run %s (%s)",
                                   (unsigned)plan->n_devices, node->op->name, node->label);
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    bool can;
    GRAFT_TRY(can_run(plan, node, d, 0, &can));
    graft_error_note(&summary, "%s: %s", graft_device_name(plan->devices[d].device),
                     plan->error->n_notes > 0 ? plan->error->notes[0] : plan->error->message);
  }
  *plan->error = summary;
  return status;
}

static graft_status resolve(place_pass *pass, graft_node *node, uint32_t depth);

// Takes the parts of |node| instead of it.
static graft_status replace(place_pass *pass, graft_node *node, uint32_t depth) {
  graft_plan *plan = pass->plan;
  graft_tensor *results[GRAFT_MAX_OUTPUTS] = {0};
  uint32_t first = plan->scratch->n_nodes, first_tensor = plan->scratch->n_tensors;
  GRAFT_TRY(graft_plan_decompose(plan, node, results));
  GRAFT_TRY(graft_plan_adopt_tensors(plan, first_tensor));
  uint32_t end = plan->scratch->n_nodes;
  for (uint32_t i = first; i < end; ++i) GRAFT_TRY(resolve(pass, plan->scratch->nodes[i], depth + 1));
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    graft_tensor *output = node->outputs[i];
    GRAFT_TRY(graft_plan_check_result(plan, node, i, results[i]));
    bool is_write = i == 0 && node->into != NULL;
    graft_node *link =
        graft_plan_make_node(plan, is_write ? &graft_plan_transfer_op : &graft_plan_alias_op, results[i], output);
    if (link == NULL) return graft_plan_no_memory(plan);
    link->into = is_write ? node->into : NULL;
    if (!is_write) output->view_of = results[i];
    output->node = link;
    GRAFT_TRY(append(pass, link, (1u << plan->n_devices) - 1));
  }
  return GRAFT_OK;
}

static graft_status resolve(place_pass *pass, graft_node *node, uint32_t depth) {
  graft_plan *plan = pass->plan;
  uint32_t mask = 0;
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    bool can;
    GRAFT_TRY(can_run(plan, node, d, 0, &can));
    if (can) mask |= 1u << d;
  }
  if (mask != 0) return append(pass, node, mask);
  if (node->op->decompose == NULL || depth == MAX_DEPTH) return fail(pass, node);
  return replace(pass, node, depth);
}

// ---- where they go ----

// Why a node is where it is: "reads w, which can be on cpu:0".
typedef struct placement_text {
  const char *before, *what, *after;  // the name of the device follows
} placement_text;

static graft_status set(place_pass *pass, uint32_t index, uint32_t device, placement_text why) {
  graft_plan *plan = pass->plan;
  graft_node *node = node_at(pass, index);
  node->device = device;
  node->placement = graft_arena_format(&plan->arena, "%s%s%s%s", why.before, why.what, why.after,
                                       graft_device_name(plan->devices[device].device));
  return node->placement != NULL ? GRAFT_OK : graft_plan_no_memory(plan);
}

static uint32_t first_device(uint32_t mask) {
  return (uint32_t)__builtin_ctz(mask);
}

static graft_status pin(place_pass *pass, uint32_t index, uint32_t wanted) {
  const graft_plan *plan = pass->plan;
  const graft_node *node = node_at(pass, index);
  if (!(pass->masks[index] >> wanted & 1)) {
    return GRAFT_FAIL(plan->error, GRAFT_E_UNSUPPORTED, "%s is pinned to %s, which cannot run %s", node->label,
                      graft_device_name(plan->devices[wanted].device), node->op->name);
  }
  return set(pass, index, wanted, (placement_text){"pinned to ", "", ""});
}

static graft_status seed(place_pass *pass, uint32_t index) {
  const graft_node *node = node_at(pass, index);
  uint32_t mask = pass->masks[index];
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    if (node->outputs[i]->pin != 0) return pin(pass, index, node->outputs[i]->pin - 1);
  }
  if ((mask & (mask - 1)) == 0)
    return set(pass, index, first_device(mask), (placement_text){"can run only on ", "", ""});
  const graft_tensor *leaf = NULL;
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    const graft_tensor *root = node->inputs[i] != NULL ? root_of(node->inputs[i]) : NULL;
    if (root == NULL || root->kind == GRAFT_TENSOR_RESULT) continue;
    if (root->pin != 0 && (mask >> (root->pin - 1) & 1)) {
      return set(pass, index, root->pin - 1, (placement_text){"reads ", root->name, ", which is pinned to "});
    }
    if (leaf == NULL) leaf = root;
  }
  if (leaf == NULL) return GRAFT_OK;
  return set(pass, index, first_device(mask), (placement_text){"reads ", leaf->name, ", which can be on "});
}

// A node without a place beside one that is on |device| goes there too.
static graft_status grow(place_pass *pass, uint32_t index, uint32_t device, const graft_node *beside) {
  bool is_open = node_at(pass, index)->device == UNPLACED && (pass->masks[index] >> device & 1) != 0;
  return is_open ? set(pass, index, device, (placement_text){"beside ", beside->label, " on "}) : GRAFT_OK;
}

static graft_status grow_down(place_pass *pass, uint32_t device) {
  for (uint32_t n = 0; n < pass->nodes.n; ++n) {
    const graft_node *node = node_at(pass, n);
    for (uint32_t i = 0; i < node->n_inputs && !is_view(node); ++i) {
      const graft_node *maker = node->inputs[i] != NULL ? root_of(node->inputs[i])->node : NULL;
      if (maker != NULL && maker->device == device) GRAFT_TRY(grow(pass, n, device, maker));
    }
  }
  return GRAFT_OK;
}

static graft_status grow_up(place_pass *pass, uint32_t device, const uint32_t *positions) {
  for (uint32_t n = pass->nodes.n; n-- > 0;) {
    const graft_node *node = node_at(pass, n);
    if (is_view(node) || node->device != device) continue;
    for (uint32_t i = 0; i < node->n_inputs; ++i) {
      const graft_tensor *root = node->inputs[i] != NULL ? root_of(node->inputs[i]) : NULL;
      if (root != NULL && root->node != NULL) GRAFT_TRY(grow(pass, positions[root->id], device, node));
    }
  }
  return GRAFT_OK;
}

static graft_status grow_all(place_pass *pass) {
  const graft_plan *plan = pass->plan;
  uint32_t *positions = calloc((size_t)plan->tensors.n + 1, sizeof *positions);  // of makers, by tensor
  if (positions == NULL) return graft_plan_no_memory(pass->plan);
  for (uint32_t n = 0; n < pass->nodes.n; ++n) {
    const graft_node *node = node_at(pass, n);
    for (uint32_t i = 0; i < node->n_outputs; ++i) positions[node->outputs[i]->id] = n;
  }
  graft_status status = GRAFT_OK;
  for (uint32_t d = 0; d < plan->n_devices && status == GRAFT_OK; ++d) {
    status = grow_down(pass, d);
    if (status == GRAFT_OK) status = grow_up(pass, d, positions);
  }
  free(positions);
  return status;
}

// Inputs live where they are read or written first.
static void place_inputs(place_pass *pass) {
  graft_plan *plan = pass->plan;
  for (uint32_t i = 0; i < plan->n_inputs; ++i) {
    graft_tensor *input = plan->inputs[i];
    input->device = input->pin != 0 ? input->pin - 1 : UNPLACED;
  }
  for (uint32_t n = 0; n < pass->nodes.n; ++n) {
    const graft_node *node = node_at(pass, n);
    for (uint32_t i = 0; i <= node->n_inputs && !is_view(node); ++i) {
      graft_tensor *used = i < node->n_inputs ? node->inputs[i] : node->into;
      graft_tensor *root = used != NULL ? root_of(used) : NULL;
      if (root != NULL && root->kind == GRAFT_TENSOR_INPUT && root->device == UNPLACED) root->device = node->device;
    }
  }
  for (uint32_t i = 0; i < plan->n_inputs; ++i) {
    if (plan->inputs[i]->device == UNPLACED) plan->inputs[i]->device = 0;
  }
}

// SC2: storage is written where it is. A node that its owner's device can run goes there; any other computes apart, and
// expansion adds the copy back.
static graft_status follow_owner(place_pass *pass, uint32_t index) {
  graft_plan *plan = pass->plan;
  graft_node *node = node_at(pass, index);
  const graft_tensor *root = root_of(node->into);
  uint32_t owner = root->kind == GRAFT_TENSOR_INPUT ? root->device : root->node->device;
  if (graft_plan_can_access(plan, node->device, owner) || node->outputs[0]->pin != 0) return GRAFT_OK;
  if (pass->masks[index] >> owner & 1)
    return set(pass, index, owner, (placement_text){"writes over ", root->name, ", which is on "});
  return set(pass, index, node->device,
             (placement_text){"copied back, as the owner of ", root->name, " cannot run it: on "});
}

static graft_status place(place_pass *pass) {
  for (uint32_t n = 0; n < pass->nodes.n; ++n) {
    if (!is_view(node_at(pass, n)) && node_at(pass, n)->device == UNPLACED) GRAFT_TRY(seed(pass, n));
  }
  GRAFT_TRY(grow_all(pass));
  for (uint32_t n = 0; n < pass->nodes.n; ++n) {
    graft_node *node = node_at(pass, n);
    if (is_view(node)) {
      node->device = 0;
    } else if (node->device == UNPLACED) {
      GRAFT_TRY(set(pass, n, first_device(pass->masks[n]), (placement_text){"the first that can: ", "", ""}));
    }
  }
  place_inputs(pass);
  for (uint32_t n = 0; n < pass->nodes.n; ++n) {
    if (node_at(pass, n)->into != NULL) GRAFT_TRY(follow_owner(pass, n));
  }
  return GRAFT_OK;
}

graft_status graft_plan_place(graft_plan *plan) {
  if (plan->n_devices == 1) return GRAFT_OK;
  place_pass pass = {.plan = plan};
  graft_status status = GRAFT_OK;
  for (uint32_t i = 0; i < plan->nodes.n && status == GRAFT_OK; ++i) status = resolve(&pass, plan->nodes.items[i], 0);
  free(plan->nodes.items);
  plan->nodes = pass.nodes;
  if (status == GRAFT_OK) status = graft_plan_split(plan, pass.masks);
  if (status == GRAFT_OK) status = place(&pass);
  free(pass.masks);
  *plan->error = status == GRAFT_OK ? (graft_error){0} : *plan->error;
  return status;
}
