// Values that a step joins are made where their whole wants them, so that nothing is copied: graft_op_def.part. The
// whole's storage is then needed from its first part on, which is only worth it where little more memory is.
#include <stdlib.h>

#include "src/plan/plan_internal.h"

enum { ROOM = 16 };  // one more byte for so many that are alive at most

// An input that might be made as a part of output 0 of the step that joins it.
typedef struct candidate {
  const graft_tensor *value;
  size_t offset, bytes;
  uint32_t input;
} candidate;

typedef struct parts_pass {
  graft_plan *plan;
  uint32_t *made;         // by tensor: time of the step that makes it
  uint32_t *first_write;  // by tensor: when it is written over, or UINT32_MAX …
  uint32_t *last_write;   // … or 0
  size_t *live;           // by device and time: bytes of storages that are alive
  size_t n_times;
  uint32_t n_most;                      // parts of one whole
  size_t most[GRAFT_PLAN_MAX_DEVICES];  // that may be alive
} parts_pass;

const graft_tensor *graft_plan_whole(const graft_plan *plan, const graft_tensor *root, size_t *out_offset) {
  *out_offset = 0;
  for (const graft_plan_value *value = &plan->values[root->id]; value->whole != GRAFT_PLAN_NONE;) {
    *out_offset += value->offset;
    root = plan->tensors.items[value->whole];
    value = &plan->values[root->id];
  }
  return root;
}

static bool is_joining(const graft_planned_step *step) {
  return step->node->op->part != NULL && (step->kernel->traits & GRAFT_KERNEL_PLACED_INPUTS) != 0 &&
         step->in_place_input == GRAFT_PLAN_NONE && step->node->outputs[0]->view_of == NULL;
}

static void find_times(parts_pass *pass) {
  const graft_plan *plan = pass->plan;
  for (uint32_t i = 0; i < plan->tensors.n; ++i) pass->first_write[i] = UINT32_MAX;
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    const graft_node *node = graft_plan_step_at(plan, s)->node;
    for (uint32_t i = 0; i < node->n_outputs; ++i) {
      const graft_tensor *output = node->outputs[i], *root = graft_plan_root(output);
      if (output == root) pass->made[root->id] = s + 1;
      if (output == root) continue;
      if (pass->first_write[root->id] == UINT32_MAX) pass->first_write[root->id] = s + 1;
      pass->last_write[root->id] = s + 1;
    }
  }
}

static void count_live(parts_pass *pass) {
  const graft_plan *plan = pass->plan;
  for (uint32_t i = 0; i < plan->n_storages; ++i) {
    const graft_plan_storage *storage = &plan->storages[i];
    size_t *live = pass->live + storage->device * pass->n_times;
    live[storage->first] += storage->bytes;
    live[storage->last + 1] -= storage->bytes;
  }
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    size_t *live = pass->live + d * pass->n_times;
    for (size_t t = 0; t < pass->n_times; ++t) {
      if (t > 0) live[t] += live[t - 1];
      if (live[t] > pass->most[d]) pass->most[d] = live[t];
    }
    pass->most[d] += pass->most[d] / ROOM;
  }
}

// Whether |tensor| shows a result from its first byte to its last, in order.
static bool shows_all(const graft_tensor *tensor) {
  const graft_tensor *root = graft_plan_root(tensor);
  return root->kind == GRAFT_TENSOR_RESULT && (tensor == root || tensor->view_offset == 0) &&
         graft_tensor_desc_is_contiguous(&tensor->desc) && graft_tensor_desc_is_contiguous(&root->desc) &&
         graft_tensor_desc_bytes(&tensor->desc) == graft_tensor_desc_bytes(&root->desc);
}

// What the operator of |step| says of its inputs; none where they would not all have a place of their own.
static uint32_t list_parts(const graft_planned_step *step, candidate *out_parts) {
  const graft_node *node = step->node;
  const size_t room = graft_tensor_desc_bytes(&node->outputs[0]->desc);
  uint32_t n = 0;
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    int64_t offset;
    if (node->inputs[i] == NULL ||
        !node->op->part(node->attrs, step->info.inputs, node->n_inputs, step->info.outputs[0], i, &offset))
      continue;
    const candidate p = {node->inputs[i], (size_t)offset, graft_tensor_desc_bytes(&node->inputs[i]->desc), i};
    if (p.bytes == 0) continue;
    if (offset < 0 || p.offset > room || p.bytes > room - p.offset) return 0;
    for (uint32_t j = 0; j < n; ++j) {
      if (p.offset < out_parts[j].offset + out_parts[j].bytes && out_parts[j].offset < p.offset + p.bytes) return 0;
    }
    out_parts[n++] = p;
  }
  return n;
}

// The values that the step at |index| may find in place.
static uint32_t find_parts(const parts_pass *pass, uint32_t index, candidate *out_parts) {
  const graft_planned_step *step = graft_plan_step_at(pass->plan, index);
  const uint32_t n = list_parts(step, out_parts);
  uint32_t n_kept = 0;
  for (uint32_t i = 0; i < n; ++i) {
    candidate p = out_parts[i];
    if (!shows_all(p.value)) continue;
    p.value = graft_plan_root(p.value);
    // Kernels are promised results that begin as the arena's do.
    if (p.offset % GRAFT_DEVICE_ALIGNMENT != 0 || p.value->desc.dtype->alignment > GRAFT_DEVICE_ALIGNMENT) continue;
    // Bytes of both must be the same as long as anybody reads either.
    if (p.value->device != step->node->outputs[0]->device || pass->last_write[p.value->id] > index) continue;
    out_parts[n_kept++] = p;
  }
  return n_kept;
}

// Whether |part| is read for the last time before somebody writes over what it is a part of.
static bool is_kept(const parts_pass *pass, const candidate *part, const graft_tensor *whole) {
  const graft_plan *plan = pass->plan;
  const uint32_t last = plan->values[part->value->id].last;
  for (int32_t id = (int32_t)whole->id; id != GRAFT_PLAN_NONE; id = plan->values[id].whole) {
    if (pass->first_write[id] <= last) return false;
  }
  return true;
}

// What is alive while |part| and its whole are, before and after the whole's storage has the part's bytes, too.
typedef struct change {
  graft_plan_storage *storage;  // of the whole
  size_t freed;
  uint32_t first, last;            // the times of |storage| afterwards
  uint32_t freed_from, freed_end;  // when the part's own storage is not needed any more
} change;

static change change_by(const parts_pass *pass, const candidate *part, const graft_tensor *whole) {
  const graft_plan *plan = pass->plan;
  const graft_plan_value *value = &plan->values[part->value->id];
  const uint32_t made = pass->made[part->value->id];
  const graft_plan_storage *own = &plan->storages[value->storage];
  size_t offset;
  const graft_tensor *owner = graft_plan_whole(plan, whole, &offset);
  change c = {.storage = &plan->storages[plan->values[owner->id].storage], .freed = own->bytes};
  c.first = made < c.storage->first ? made : c.storage->first;
  c.last = value->last > c.storage->last ? value->last : c.storage->last;
  // Where results take over storage in turn, it stays for those before and behind.
  c.freed_from = made + (own->first < made);
  c.freed_end = value->last + (own->last == value->last);
  return c;
}

static bool is_worth_it(const parts_pass *pass, const change *c) {
  const size_t *live = pass->live + c->storage->device * pass->n_times;
  for (uint32_t t = c->first; t <= c->last; ++t) {
    const bool is_new = t < c->storage->first || t > c->storage->last;
    const size_t more = is_new ? c->storage->bytes : 0, less = t >= c->freed_from && t < c->freed_end ? c->freed : 0;
    if (more > less && live[t] + (more - less) > pass->most[c->storage->device]) return false;
  }
  return true;
}

static void make_change(parts_pass *pass, const change *c) {
  size_t *live = pass->live + c->storage->device * pass->n_times;
  for (uint32_t t = c->first; t <= c->last; ++t) {
    if (t < c->storage->first || t > c->storage->last) live[t] += c->storage->bytes;
    if (t >= c->freed_from && t < c->freed_end) live[t] -= c->freed;
  }
  c->storage->first = c->first;
  c->storage->last = c->last;
}

static bool place(parts_pass *pass, graft_planned_step *step, const candidate *part) {
  const graft_tensor *whole = step->node->outputs[0];
  graft_plan_value *value = &pass->plan->values[part->value->id];
  if (value->whole != GRAFT_PLAN_NONE || !is_kept(pass, part, whole)) return false;
  const change c = change_by(pass, part, whole);
  if (!is_worth_it(pass, &c)) return false;
  make_change(pass, &c);
  value->whole = (int32_t)whole->id;
  value->offset = part->offset;
  step->placed_inputs |= 1u << part->input;
  return pass->plan->has_parts = true;
}

// The latest first: each of the others then only asks for the time between it and the next.
static void place_all(parts_pass *pass, graft_planned_step *step, candidate *parts, uint32_t n) {
  for (uint32_t n_placed = 0; n > 0 && n_placed < pass->n_most; --n) {
    uint32_t latest = 0;
    for (uint32_t i = 1; i < n; ++i) {
      if (pass->made[parts[i].value->id] > pass->made[parts[latest].value->id]) latest = i;
    }
    n_placed += place(pass, step, &parts[latest]);
    parts[latest] = parts[n - 1];
  }
}

static graft_status find_all(parts_pass *pass) {
  const graft_plan *plan = pass->plan;
  if (pass->made == NULL || pass->first_write == NULL || pass->last_write == NULL || pass->live == NULL)
    return graft_plan_no_memory(pass->plan);
  find_times(pass);
  count_live(pass);
  // From the end, so that a whole that is a part itself is placed before its parts are.
  for (uint32_t s = plan->steps.n; s-- > 0;) {
    graft_planned_step *step = graft_plan_step_at(plan, s);
    candidate parts[GRAFT_MAX_INPUTS];
    if (is_joining(step)) place_all(pass, step, parts, find_parts(pass, s, parts));
  }
  return GRAFT_OK;
}

// |n_most|: of every whole, the last ones that are made.
static graft_status choose(graft_plan *plan, uint32_t n_most) {
  const size_t n = (size_t)plan->tensors.n + 1, n_times = (size_t)plan->steps.n + 3;
  parts_pass pass = {.plan = plan,
                     .made = calloc(n, sizeof *pass.made),
                     .first_write = calloc(n, sizeof *pass.first_write),
                     .last_write = calloc(n, sizeof *pass.last_write),
                     .live = calloc(n_times * plan->n_devices, sizeof *pass.live),
                     .n_times = n_times,
                     .n_most = n_most};
  graft_status status = find_all(&pass);
  free(pass.made);
  free(pass.first_write);
  free(pass.last_write);
  free(pass.live);
  return status;
}

static void choose_none(graft_plan *plan) {
  for (uint32_t i = 0; i < plan->tensors.n; ++i) plan->values[i].whole = GRAFT_PLAN_NONE;
  for (uint32_t s = 0; s < plan->steps.n; ++s) graft_plan_step_at(plan, s)->placed_inputs = 0;
  plan->has_parts = false;
}

// Bytes of every device's arena.
static graft_status measure(graft_plan *plan, size_t *out_bytes) {
  GRAFT_TRY(graft_plan_lay_out(plan));
  plan->is_laid_out = false;
  for (uint32_t d = 0; d < plan->n_devices; ++d) out_bytes[d] = plan->devices[d].report.arena_bytes;
  return GRAFT_OK;
}

// No more being alive is not enough: gaps between what is may be larger.
static graft_status try_parts(graft_plan *plan, uint32_t n_most, const size_t *apart) {
  size_t together[GRAFT_PLAN_MAX_DEVICES];
  GRAFT_TRY(choose(plan, n_most));
  if (!plan->has_parts) return GRAFT_OK;
  GRAFT_TRY(graft_plan_find_storages(plan));
  GRAFT_TRY(measure(plan, together));
  bool is_larger = false;
  for (uint32_t d = 0; d < plan->n_devices; ++d) is_larger = is_larger || together[d] > apart[d] + apart[d] / ROOM;
  if (!is_larger) return GRAFT_OK;
  choose_none(plan);
  return graft_plan_find_storages(plan);
}

static bool has_joins(const graft_plan *plan) {
  const uint32_t apart = GRAFT_PLAN_NO_IN_PLACE | GRAFT_PLAN_NO_REUSE | GRAFT_PLAN_REFERENCE | GRAFT_PLAN_KEEP_NODES;
  if (plan->is_apart || (plan->flags & apart) != 0) return false;
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    if (is_joining(graft_plan_step_at(plan, s))) return true;
  }
  return false;
}

graft_status graft_plan_place_parts(graft_plan *plan) {
  size_t apart[GRAFT_PLAN_MAX_DEVICES];
  if (!has_joins(plan)) return GRAFT_OK;
  GRAFT_TRY(measure(plan, apart));
  GRAFT_TRY(try_parts(plan, GRAFT_MAX_INPUTS, apart));
  return plan->has_parts ? GRAFT_OK : try_parts(plan, 1, apart);
}
