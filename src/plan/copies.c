// What a step reads on another device is copied before it; then copies that give nothing new are taken out again.
#include <stdlib.h>

#include "src/plan/plan_internal.h"

typedef struct copies_pass {
  graft_plan *plan;
  graft_plan_list steps;     // the new order
  graft_tensor **constants;  // by tensor and device: the constant as that device has it
} copies_pass;

static graft_tensor *root_of(graft_tensor *tensor) {
  return tensor->view_of != NULL ? tensor->view_of : tensor;
}

// |input| of |node| shows |root| from now on instead of the value that it showed.
static graft_status show_instead(graft_plan *plan, graft_node *node, uint32_t input, graft_tensor *root) {
  const graft_tensor *old = node->inputs[input];
  if (old->view_of == NULL) {
    node->inputs[input] = root;
    return GRAFT_OK;
  }
  graft_tensor *view = graft_arena_alloc(&plan->arena, sizeof *view);
  if (view == NULL) return graft_plan_no_memory(plan);
  *view = *old;
  view->view_of = root;
  view->device = root->device;
  node->inputs[input] = view;
  return graft_plan_add_tensor(plan, view);
}

// Constants need no transfers: every device takes its own copy from the host.
static graft_status constant_for(copies_pass *pass, graft_tensor *root, uint32_t device, graft_tensor **out_root) {
  graft_plan *plan = pass->plan;
  graft_tensor **known = &pass->constants[(size_t)root->id * plan->n_devices];
  bool is_new = true;
  for (uint32_t d = 0; d < plan->n_devices; ++d) is_new = is_new && known[d] == NULL;
  if (is_new) {
    root->device = device;
    known[device] = root;
  }
  if (known[device] == NULL) {
    graft_tensor *twin = graft_arena_alloc(&plan->arena, sizeof *twin);
    if (twin == NULL) return graft_plan_no_memory(plan);
    *twin = *root;
    twin->device = device;
    GRAFT_TRY(graft_plan_add_tensor(plan, twin));
    known[device] = twin;
  }
  *out_root = known[device];
  return GRAFT_OK;
}

static graft_status copy_for(copies_pass *pass, graft_tensor *root, uint32_t device, graft_tensor **out_root) {
  graft_plan *plan = pass->plan;
  *out_root = root;
  if (root->device == device) return GRAFT_OK;
  graft_tensor *copy = graft_plan_make_tensor(plan, root, device);
  if (copy == NULL) return plan->error->status;
  graft_planned_step *step = graft_plan_make_transfer(plan, root, copy);
  if (step == NULL) return graft_plan_no_memory(plan);
  *out_root = copy;
  return graft_plan_append(plan, &pass->steps, step);
}

static graft_status serve(copies_pass *pass, graft_node *node) {
  graft_plan *plan = pass->plan;
  graft_tensor *roots[GRAFT_MAX_INPUTS] = {0}, *here[GRAFT_MAX_INPUTS] = {0};
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (node->inputs[i] == NULL) continue;
    roots[i] = root_of(node->inputs[i]);
    for (uint32_t j = 0; j < i; ++j) {
      if (roots[j] == roots[i]) here[i] = here[j];
    }
    if (here[i] != NULL) continue;
    bool is_constant = roots[i]->kind == GRAFT_TENSOR_CONSTANT;
    GRAFT_TRY((is_constant ? constant_for : copy_for)(pass, roots[i], node->device, &here[i]));
  }
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (roots[i] != here[i]) GRAFT_TRY(show_instead(plan, node, i, here[i]));
  }
  return GRAFT_OK;
}

graft_status graft_plan_insert_copies(graft_plan *plan) {
  plan->is_copied = true;
  if (plan->n_devices == 1) return GRAFT_OK;
  copies_pass pass = {.plan = plan};
  pass.constants = calloc(((size_t)plan->tensors.n + 1) * plan->n_devices, sizeof(graft_tensor *));
  graft_status status = pass.constants != NULL ? GRAFT_OK : graft_plan_no_memory(plan);
  for (uint32_t s = 0; s < plan->steps.n && status == GRAFT_OK; ++s) {
    graft_planned_step *step = graft_plan_step_at(plan, s);
    if (!graft_plan_is_transfer(step)) status = serve(&pass, step->node);
    if (status == GRAFT_OK) status = graft_plan_append(plan, &pass.steps, step);
  }
  free(pass.constants);
  if (status != GRAFT_OK) {
    free(pass.steps.items);
    return status;
  }
  free(plan->steps.items);
  plan->steps = pass.steps;
  return GRAFT_OK;
}

// ---- taking copies out ----

typedef struct known_copy {
  graft_tensor *copy;
  uint32_t version;  // of the value that was copied
} known_copy;

typedef struct elide_pass {
  graft_plan *plan;
  known_copy *known;   // by tensor and device
  uint32_t *versions;  // by tensor: how often it was written over
} elide_pass;

// The step for which the transfer at |index| was inserted reads |root| instead of |copy|.
static graft_status redirect(graft_plan *plan, uint32_t index, const graft_tensor *copy, graft_tensor *root) {
  uint32_t user = index + 1;
  while (graft_plan_is_transfer(graft_plan_step_at(plan, user))) ++user;
  graft_node *node = graft_plan_step_at(plan, user)->node;
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (node->inputs[i] != NULL && root_of(node->inputs[i]) == copy) GRAFT_TRY(show_instead(plan, node, i, root));
  }
  return GRAFT_OK;
}

static graft_status elide(elide_pass *pass, uint32_t index, bool *out_gone) {
  graft_plan *plan = pass->plan;
  const graft_planned_step *step = graft_plan_step_at(plan, index);
  graft_tensor *copy = step->node->outputs[0], *root = root_of(step->node->inputs[0]);
  *out_gone = graft_plan_can_access(plan, copy->device, root->device);
  if (*out_gone) return redirect(plan, index, copy, root);
  known_copy *known = &pass->known[(size_t)root->id * plan->n_devices + copy->device];
  *out_gone = known->copy != NULL && known->version == pass->versions[root->id];
  if (*out_gone) return redirect(plan, index, copy, known->copy);
  *known = (known_copy){copy, pass->versions[root->id]};
  return GRAFT_OK;
}

static graft_status elide_all(elide_pass *pass) {
  graft_plan *plan = pass->plan;
  uint32_t n = 0;
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    const graft_planned_step *step = graft_plan_step_at(plan, s);
    bool is_gone = false;
    if (graft_plan_writes_over(step)) {
      ++pass->versions[graft_plan_root(step->node->outputs[0])->id];
    } else if (graft_plan_is_transfer(step)) {
      GRAFT_TRY(elide(pass, s, &is_gone));
    }
    if (is_gone) plan->steps.items[s] = NULL;
  }
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    if (plan->steps.items[s] != NULL) plan->steps.items[n++] = plan->steps.items[s];
  }
  plan->steps.n = n;
  return GRAFT_OK;
}

graft_status graft_plan_elide_copies(graft_plan *plan) {
  if (plan->n_devices == 1) return GRAFT_OK;
  size_t n = plan->tensors.n;
  elide_pass pass = {.plan = plan,
                     .known = calloc((n + 1) * plan->n_devices, sizeof *pass.known),
                     .versions = calloc(n + 1, sizeof *pass.versions)};
  graft_status status = pass.known != NULL && pass.versions != NULL ? elide_all(&pass) : graft_plan_no_memory(plan);
  free(pass.known);
  free(pass.versions);
  return status;
}
