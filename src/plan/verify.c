// Checks a finished layout against the steps alone: nothing that the passes concluded is believed, only their results.
#include <stdlib.h>

#include "src/graph/effects.h"
#include "src/plan/plan_internal.h"

// A value, or a workspace, while it must stay.
typedef struct occupant {
  const graft_tensor *tensor;  // NULL: workspace
  uint32_t step;               // that writes it; inputs: 0
  uint32_t first, last;        // times
  uint32_t device;
  size_t begin, end;  // bytes in its arena
} occupant;

typedef struct verify_pass {
  const graft_plan *plan;
  uint32_t *last;              // by tensor id
  bool *is_ready;              // by tensor id
  const graft_tensor **whole;  // by tensor id: what has the value's bytes, too, as a part
  occupant *alive;             // those that reach the step being looked at
  uint32_t n_alive;
} verify_pass;

static graft_status fault(const graft_plan *plan, const char *what, const char *name) {
  return GRAFT_FAIL(plan->error, GRAFT_E_INVALID, "planning went wrong, please report it: %s (%s)", what, name);
}

static graft_status check_view(const graft_plan *plan, const graft_tensor *tensor) {
  const graft_tensor *root = graft_plan_root(tensor);
  size_t offset = tensor == root ? 0 : (size_t)tensor->view_offset;
  size_t bytes = graft_tensor_desc_bytes(&tensor->desc), room = graft_tensor_desc_bytes(&root->desc);
  if (root->view_of != NULL) return fault(plan, "a view of a view was left", tensor->name);
  if (bytes > 0 && (offset > room || bytes > room - offset))
    return fault(plan, "a view leaves its storage", tensor->name);
  return GRAFT_OK;
}

static graft_status read_input(verify_pass *pass, const graft_tensor *tensor, uint32_t time) {
  const graft_tensor *root = graft_plan_root(tensor);
  GRAFT_TRY(check_view(pass->plan, tensor));
  if (root->device >= pass->plan->n_devices) return fault(pass->plan, "a value is on no device", tensor->name);
  if (root->kind == GRAFT_TENSOR_RESULT && !pass->is_ready[root->id]) {
    return fault(pass->plan, "a step reads what is not computed yet", tensor->name);
  }
  pass->last[root->id] = time;
  return GRAFT_OK;
}

static graft_status find_reads(verify_pass *pass) {
  const graft_plan *plan = pass->plan;
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    const graft_node *node = graft_plan_step_at(plan, s)->node;
    for (uint32_t i = 0; i < node->n_inputs; ++i) {
      if (node->inputs[i] != NULL) GRAFT_TRY(read_input(pass, node->inputs[i], s + 1));
    }
    // Storage that is written over has been made before.
    if (node->outputs[0]->view_of != NULL) GRAFT_TRY(read_input(pass, node->outputs[0], s + 1));
    for (uint32_t i = 0; i < node->n_outputs; ++i) pass->is_ready[node->outputs[i]->id] = true;
  }
  for (uint32_t i = 0; i < plan->n_outputs; ++i) {
    GRAFT_TRY(read_input(pass, plan->outputs[i].tensor, plan->steps.n + 1));
  }
  return GRAFT_OK;
}

// Where the bytes of |root|, which has storage, begin in the arena.
static size_t begin_of(const graft_plan *plan, const graft_tensor *root) {
  size_t offset;
  (void)graft_plan_whole(plan, root, &offset);
  return plan->storages[plan->values[root->id].storage].offset + offset;
}

// Notes which inputs lie where |step|, whose operator joins them, wants them.
static void find_parts(verify_pass *pass, const graft_planned_step *step) {
  const graft_plan *plan = pass->plan;
  const graft_node *node = step->node;
  const graft_tensor *output = node->outputs[0];
  if (node->op->part == NULL || !(step->kernel->traits & GRAFT_KERNEL_PLACED_INPUTS) || output->view_of != NULL) return;
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    const graft_tensor *root = node->inputs[i] != NULL ? graft_plan_root(node->inputs[i]) : NULL;
    int64_t offset;
    if (root == NULL || plan->values[root->id].storage == GRAFT_PLAN_NONE || root->device != output->device ||
        graft_tensor_desc_bytes(&root->desc) != graft_tensor_desc_bytes(&node->inputs[i]->desc) ||
        !node->op->part(node->attrs, step->info.inputs, node->n_inputs, &output->desc, i, &offset))
      continue;
    if (begin_of(plan, root) == begin_of(plan, output) + (size_t)offset) pass->whole[root->id] = output;
  }
}

// Whether |tensor| is a part of |whole|, which has been made of it as it is, or is it.
static bool is_part(const verify_pass *pass, const graft_tensor *tensor, const graft_tensor *whole) {
  while (tensor != NULL && tensor != whole) tensor = pass->whole[tensor->id];
  return tensor != NULL;
}

// Whether |next| may lie on |before| because its step computes in place, on it or on what it is all of.
static bool is_in_place(const verify_pass *pass, const occupant *before, const occupant *next) {
  const graft_planned_step *step = graft_plan_step_at(pass->plan, next->step);
  if (step->in_place_input == GRAFT_PLAN_NONE) return false;
  return next->tensor == step->node->outputs[0] && before->last == next->first && before->begin == next->begin &&
         before->end == next->end && before->tensor->kind == GRAFT_TENSOR_RESULT &&
         is_part(pass, before->tensor, graft_plan_root(step->node->inputs[step->in_place_input]));
}

// Whether |next| may share bytes with |before|.
static bool may_share(const verify_pass *pass, const occupant *before, const occupant *next) {
  if (next->tensor == NULL || before->tensor == NULL) return false;
  return is_part(pass, before->tensor, next->tensor) || is_in_place(pass, before, next);
}

// What |step| writes over is one value's, and nobody wants it as another's any more.
static graft_status check_write_over(const verify_pass *pass, const graft_planned_step *step, uint32_t time) {
  const graft_tensor *written = step->node->outputs[0], *root = graft_plan_root(written);
  if (written == root || pass->plan->values[root->id].storage == GRAFT_PLAN_NONE) return GRAFT_OK;
  const graft_extent extent = graft_tensor_extent(written);
  const size_t base = begin_of(pass->plan, root), begin = base + (size_t)extent.begin, end = base + (size_t)extent.end;
  for (uint32_t i = 0; i < pass->n_alive; ++i) {
    const occupant *other = &pass->alive[i];
    if (other->tensor == root || other->last < time || other->device != root->device) continue;
    if (other->begin < end && begin < other->end) return fault(pass->plan, "a part is written over", written->name);
  }
  return GRAFT_OK;
}

static graft_status enter(verify_pass *pass, const occupant *next) {
  const graft_plan *plan = pass->plan;
  const char *name = next->tensor != NULL ? next->tensor->name : "workspace";
  if (next->end > plan->devices[next->device].report.arena_bytes || next->begin > next->end)
    return fault(plan, "beyond the arena", name);
  uint32_t n = 0;
  for (uint32_t i = 0; i < pass->n_alive; ++i) {
    const occupant *other = &pass->alive[i];
    if (other->last < next->first) continue;
    bool overlaps = next->device == other->device && next->begin < other->end && other->begin < next->end;
    if (overlaps && !may_share(pass, other, next)) return fault(plan, "two values share bytes", name);
    pass->alive[n++] = *other;
  }
  pass->alive[n++] = *next;
  pass->n_alive = n;
  return GRAFT_OK;
}

static graft_status enter_value(verify_pass *pass, const graft_tensor *tensor, uint32_t step, uint32_t first) {
  const graft_plan *plan = pass->plan;
  int32_t storage = plan->values[tensor->id].storage;
  if (storage == GRAFT_PLAN_NONE) {
    return pass->last[tensor->id] == 0 ? GRAFT_OK : fault(plan, "a value without storage", tensor->name);
  }
  occupant o = {
      .tensor = tensor, .step = step, .first = first, .last = pass->last[tensor->id], .device = tensor->device};
  if (plan->storages[storage].device != o.device) return fault(plan, "storage on another device", tensor->name);
  if (tensor->kind == GRAFT_TENSOR_INPUT) o.last = plan->steps.n + 1;
  if (o.last < first) o.last = first;
  o.begin = begin_of(plan, tensor);
  if (o.begin % GRAFT_DEVICE_ALIGNMENT != 0) return fault(plan, "a value is not aligned", tensor->name);
  o.end = o.begin + graft_tensor_desc_bytes(&tensor->desc);
  return enter(pass, &o);
}

// Constants that are brought lie in the arena while their segments run.
static graft_status enter_residents(verify_pass *pass, uint32_t step) {
  const graft_plan *plan = pass->plan;
  for (uint32_t i = 0; i < plan->residents.n; ++i) {
    const graft_plan_resident *resident = plan->residents.items[i];
    if (resident->storage == GRAFT_PLAN_NONE || plan->segments[resident->begin].first != step) continue;
    size_t begin = plan->storages[resident->storage].offset;
    GRAFT_TRY(enter(pass, &(occupant){.step = step,
                                      .first = step + 1,
                                      .last = plan->segments[resident->last].end,
                                      .device = resident->device,
                                      .begin = begin,
                                      .end = begin + resident->entry.key.bytes}));
  }
  return GRAFT_OK;
}

static graft_status enter_all(verify_pass *pass) {
  const graft_plan *plan = pass->plan;
  for (uint32_t i = 0; i < plan->n_inputs; ++i) {
    GRAFT_TRY(enter_value(pass, plan->inputs[i], 0, 0));
    if (plan->values[plan->inputs[i]->id].storage == GRAFT_PLAN_NONE) continue;
    for (uint32_t k = 0; k < plan->n_slots; ++k) {
      const graft_plan_storage *slot = &plan->storages[plan->slots[i * plan->n_slots + k]];
      GRAFT_TRY(enter(pass, &(occupant){.last = plan->steps.n + 1,
                                        .device = slot->device,
                                        .begin = slot->offset,
                                        .end = slot->offset + slot->bytes}));
    }
  }
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    const graft_planned_step *step = graft_plan_step_at(plan, s);
    GRAFT_TRY(enter_residents(pass, s));
    GRAFT_TRY(check_write_over(pass, step, s + 1));
    find_parts(pass, step);
    for (uint32_t i = 0; i < step->node->n_outputs; ++i) {
      if (step->node->outputs[i]->view_of != NULL) continue;
      GRAFT_TRY(enter_value(pass, step->node->outputs[i], s, s + 1));
    }
    if (step->workspace == GRAFT_PLAN_NONE) continue;
    size_t begin = plan->storages[step->workspace].offset;
    GRAFT_TRY(enter(pass, &(occupant){.step = s,
                                      .first = s + 1,
                                      .last = s + 1,
                                      .device = step->node->device,
                                      .begin = begin,
                                      .end = begin + step->prepared.workspace_bytes}));
  }
  return GRAFT_OK;
}

// SC9: nothing but a transfer touches what its device cannot reach.
static graft_status check_reach(const graft_plan *plan, const graft_planned_step *step) {
  const graft_node *node = step->node;
  if (node->device >= plan->n_devices) return fault(plan, "a step runs on no device", node->label);
  if (graft_plan_is_transfer(step)) return GRAFT_OK;
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (node->inputs[i] == NULL) continue;
    if (!graft_plan_can_access(plan, node->device, graft_plan_root(node->inputs[i])->device)) {
      return fault(plan, "a step reads another device's memory", node->label);
    }
  }
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    if (!graft_plan_can_access(plan, node->device, graft_plan_root(node->outputs[i])->device)) {
      return fault(plan, "a step writes another device's memory", node->label);
    }
  }
  return step->info.device == plan->devices[node->device].device
             ? GRAFT_OK
             : fault(plan, "a kernel was chosen for another device", node->label);
}

static graft_status check_segments(const graft_plan *plan) {
  uint32_t next = 0;
  for (uint32_t g = 0; g < plan->n_segments; ++g) {
    const graft_plan_segment *segment = &plan->segments[g];
    if (segment->first != next || segment->end < next) return fault(plan, "segments leave out a step", "");
    for (next = segment->first; next < segment->end; ++next) {
      const graft_planned_step *step = graft_plan_step_at(plan, next);
      bool is_here = graft_plan_is_transfer(step) ? segment->is_transfer
                                                  : !segment->is_transfer && segment->device == step->node->device;
      if (!is_here) return fault(plan, "a step is in another device's segment", step->node->label);
    }
  }
  return next == plan->steps.n ? GRAFT_OK : fault(plan, "segments leave out a step", "");
}

// What holds from the pass on that sees to it.
static graft_status check_devices(const graft_plan *plan) {
  for (uint32_t i = 0; i < plan->nodes.n; ++i) {
    const graft_node *node = plan->nodes.items[i];
    if (node->device >= plan->n_devices) return fault(plan, "a node has no place", node->label);
  }
  for (uint32_t s = 0; plan->is_copied && s < plan->steps.n; ++s) {
    GRAFT_TRY(check_reach(plan, graft_plan_step_at(plan, s)));
  }
  return plan->n_segments > 0 ? check_segments(plan) : GRAFT_OK;
}

graft_status graft_plan_verify(const graft_plan *plan) {
  verify_pass pass = {
      .plan = plan,
      .last = calloc((size_t)plan->tensors.n + 1, sizeof *pass.last),
      .is_ready = calloc((size_t)plan->tensors.n + 1, sizeof *pass.is_ready),
      .whole = calloc((size_t)plan->tensors.n + 1, sizeof *pass.whole),
      .alive = calloc((size_t)plan->n_storages + plan->tensors.n + plan->residents.n + 1, sizeof *pass.alive)};
  graft_status status;
  if (pass.last == NULL || pass.is_ready == NULL || pass.whole == NULL || pass.alive == NULL) {
    status = GRAFT_FAIL(plan->error, GRAFT_E_NO_MEMORY, "no memory to check the plan");
  } else {
    status = check_devices(plan);
    // Before expansion there are nodes and no steps.
    if (status == GRAFT_OK && plan->nodes.n == 0) status = find_reads(&pass);
    if (status == GRAFT_OK && plan->is_laid_out) status = enter_all(&pass);
  }
  free(pass.last);
  free(pass.is_ready);
  free(pass.whole);
  free(pass.alive);
  return status;
}
