// Offsets in the arena: each storage goes into the smallest gap that fits among those that live at the same time. Once
// the largest is placed first, and once what is used first, and the smaller arena of the two is kept: large storages
// are best where sizes differ a lot, the order of use where a few large ones come and go between many of middle size. A
// tree over storages in order of their first use finds neighbours without looking at the others.
#include <stdlib.h>
#include <string.h>

#include "src/base/checked.h"
#include "src/plan/plan_internal.h"

typedef struct layout_pass {
  graft_plan *plan;
  uint32_t device;                  // whose arena is laid out
  graft_plan_storage **sorted;      // by first use, which the tree relies on
  graft_plan_storage **neighbours;  // those placed that live with the one to be placed
  uint32_t n_neighbours;
  uint32_t *max_last;  // tree: the largest |last| of placed storages below, 0 for none; leaves begin at |n_leaves|
  uint32_t n_leaves;
  size_t *kept;  // offsets of the better order so far
} layout_pass;

typedef struct by_size {
  size_t bytes;
  uint32_t index;
} by_size;

static int compare_sizes(const void *a, const void *b) {
  const by_size *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static int compare_firsts(const void *a, const void *b) {
  const graft_plan_storage *x = *(graft_plan_storage *const *)a, *y = *(graft_plan_storage *const *)b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x < y ? -1 : x > y;
}

static int compare_offsets(const void *a, const void *b) {
  const graft_plan_storage *x = *(graft_plan_storage *const *)a, *y = *(graft_plan_storage *const *)b;
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// Collects placed storages below tree node |node|, whose leaves are [begin, end), that live during |storage|.
static void collect(layout_pass *pass, const graft_plan_storage *storage, uint32_t node, uint32_t begin, uint32_t end) {
  if (pass->max_last[node] == 0 || pass->max_last[node] < storage->first) return;
  if (pass->sorted[begin]->first > storage->last) return;
  if (end - begin == 1) {
    pass->neighbours[pass->n_neighbours++] = pass->sorted[begin];
    return;
  }
  uint32_t middle = begin + (end - begin) / 2;
  collect(pass, storage, 2 * node, begin, middle);
  collect(pass, storage, 2 * node + 1, middle, end);
}

static void mark_placed(layout_pass *pass, uint32_t index) {
  uint32_t last = pass->sorted[index]->last;
  for (uint32_t node = pass->n_leaves + index; node > 0; node /= 2) {
    if (pass->max_last[node] < last) pass->max_last[node] = last;
  }
}

static graft_status place(layout_pass *pass, uint32_t index) {
  graft_plan *plan = pass->plan;
  graft_plan_storage *storage = pass->sorted[index];
  pass->n_neighbours = 0;
  collect(pass, storage, 1, 0, pass->n_leaves);
  qsort(pass->neighbours, pass->n_neighbours, sizeof(graft_plan_storage *), compare_offsets);
  size_t top = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
  for (uint32_t i = 0; i < pass->n_neighbours; ++i) {
    const graft_plan_storage *next = pass->neighbours[i];
    size_t start = (top + storage->alignment - 1) & ~(storage->alignment - 1);
    bool fits = start <= next->offset && next->offset - start >= storage->bytes;
    if (fits && next->offset - start < best_gap) {
      best = start;
      best_gap = next->offset - start;
    }
    if (next->offset + next->bytes > top) top = next->offset + next->bytes;
  }
  size_t end;
  bool is_sized = best != SIZE_MAX || graft_checked_align(top, storage->alignment, &best);
  if (!is_sized || !graft_checked_add(best, storage->bytes, &end)) {
    return GRAFT_FAIL(plan->error, GRAFT_E_NO_MEMORY, "the graph's values together are larger than any memory");
  }
  storage->offset = best;
  size_t *arena_bytes = &plan->devices[pass->device].report.arena_bytes;
  if (end > *arena_bytes) *arena_bytes = end;
  mark_placed(pass, index);
  return GRAFT_OK;
}

// Places the storages of one device in the order given; its arena is as large as that takes.
static graft_status place_in_order(layout_pass *pass, const by_size *order) {
  graft_plan *plan = pass->plan;
  plan->devices[pass->device].report.arena_bytes = 0;
  memset(pass->max_last, 0, 2 * (size_t)pass->n_leaves * sizeof *pass->max_last);
  for (uint32_t i = 0; i < plan->n_storages; ++i) {
    const graft_plan_storage *storage = pass->sorted[order[i].index];
    if (storage->device == pass->device && storage->bytes > 0) GRAFT_TRY(place(pass, order[i].index));
  }
  return GRAFT_OK;
}

static graft_status place_device(layout_pass *pass, const by_size *sizes, const by_size *uses) {
  graft_plan *plan = pass->plan;
  size_t *arena_bytes = &plan->devices[pass->device].report.arena_bytes;
  GRAFT_TRY(place_in_order(pass, sizes));
  for (uint32_t i = 0; i < plan->n_storages; ++i) pass->kept[i] = plan->storages[i].offset;
  const size_t kept_bytes = *arena_bytes;
  GRAFT_TRY(place_in_order(pass, uses));
  if (*arena_bytes < kept_bytes) return GRAFT_OK;
  for (uint32_t i = 0; i < plan->n_storages; ++i) {
    if (plan->storages[i].device == pass->device) plan->storages[i].offset = pass->kept[i];
  }
  *arena_bytes = kept_bytes;
  return GRAFT_OK;
}

static graft_status place_all(layout_pass *pass, by_size *orders) {
  graft_plan *plan = pass->plan;
  if (orders == NULL || pass->neighbours == NULL || pass->max_last == NULL || pass->sorted == NULL ||
      pass->kept == NULL) {
    return graft_plan_no_memory(plan);
  }
  by_size *sizes = orders, *uses = orders + plan->n_storages;
  for (uint32_t i = 0; i < plan->n_storages; ++i) pass->sorted[i] = &plan->storages[i];
  qsort(pass->sorted, plan->n_storages, sizeof(graft_plan_storage *), compare_firsts);
  for (uint32_t i = 0; i < plan->n_storages; ++i) sizes[i] = uses[i] = (by_size){pass->sorted[i]->bytes, i};
  qsort(sizes, plan->n_storages, sizeof *sizes, compare_sizes);
  for (pass->device = 0; pass->device < plan->n_devices; ++pass->device) {
    GRAFT_TRY(place_device(pass, sizes, uses));
  }
  return GRAFT_OK;
}

// Every storage behind the one before.
static graft_status lay_out_naively(graft_plan *plan) {
  for (uint32_t i = 0; i < plan->n_storages; ++i) {
    graft_plan_storage *storage = &plan->storages[i];
    size_t *end = &plan->devices[storage->device].report.arena_bytes;
    if (!graft_checked_align(*end, storage->alignment, &storage->offset) ||
        !graft_checked_add(storage->offset, storage->bytes, end)) {
      return GRAFT_FAIL(plan->error, GRAFT_E_NO_MEMORY, "the graph's values together are larger than any memory");
    }
  }
  return GRAFT_OK;
}

graft_status graft_plan_lay_out(graft_plan *plan) {
  plan->is_laid_out = true;
  for (uint32_t d = 0; d < plan->n_devices; ++d) plan->devices[d].report.arena_bytes = 0;
  if (plan->flags & GRAFT_PLAN_NO_REUSE) return lay_out_naively(plan);
  layout_pass pass = {.plan = plan, .n_leaves = 1};
  while (pass.n_leaves < plan->n_storages) pass.n_leaves *= 2;
  by_size *orders = calloc(2 * (size_t)plan->n_storages + 1, sizeof *orders);
  pass.kept = calloc((size_t)plan->n_storages + 1, sizeof *pass.kept);
  pass.neighbours = calloc((size_t)plan->n_storages + 1, sizeof(graft_plan_storage *));
  pass.sorted = calloc((size_t)plan->n_storages + 1, sizeof(graft_plan_storage *));
  pass.max_last = calloc(2 * (size_t)pass.n_leaves, sizeof *pass.max_last);
  graft_status status = place_all(&pass, orders);
  free(orders);
  free(pass.kept);
  free(pass.neighbours);
  free(pass.sorted);
  free(pass.max_last);
  return status;
}
