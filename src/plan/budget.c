// Runs within a memory budget: constants are brought to a device segment by segment, into the arena, where they have
// lifetimes as values do.
#include <stdlib.h>

#include "src/plan/plan_internal.h"

enum { MAX_TRIES = 24 };

graft_status graft_plan_acquire_resident(graft_plan *plan, const graft_plan_resident *wanted,
                                         graft_constant_entry **out_entry) {
  for (uint32_t i = 0; i < plan->residents.n; ++i) {
    graft_plan_resident *known = plan->residents.items[i];
    if (known->device != wanted->device || !graft_constant_key_equal(&known->entry.key, &wanted->entry.key)) continue;
    *out_entry = &known->entry;
    return GRAFT_OK;
  }
  graft_plan_resident *resident = graft_arena_alloc(&plan->arena, sizeof *resident);
  if (resident == NULL) return graft_plan_no_memory(plan);
  *resident = *wanted;
  resident->entry.is_resident = true;
  resident->storage = GRAFT_PLAN_NONE;
  resident->index = plan->residents.n;
  *out_entry = &resident->entry;
  return graft_plan_append(plan, &plan->residents, resident);
}

static graft_plan_resident *resident_at(const graft_plan *plan, uint32_t index) {
  return plan->residents.items[index];
}

// Which segments need what.
static void find_segments(graft_plan *plan) {
  for (uint32_t i = 0; i < plan->residents.n; ++i) resident_at(plan, i)->first = UINT32_MAX;
  for (uint32_t g = 0; g < plan->n_segments; ++g) {
    const graft_plan_segment *segment = &plan->segments[g];
    for (uint32_t s = segment->first; s < segment->end; ++s) {
      const graft_planned_step *step = graft_plan_step_at(plan, s);
      for (uint32_t i = 0; i < step->node->n_inputs; ++i) {
        graft_constant_entry *entry = NULL;
        graft_plan_constant *constant = graft_plan_constant_use(plan, step, i, &entry);
        if (constant != NULL && entry == NULL) constant->last_segment = g;
        graft_plan_resident *resident = graft_plan_resident_of(entry);
        if (resident == NULL) continue;
        if (resident->first == UINT32_MAX) resident->first = g;
        resident->last = g;
      }
    }
  }
}

// The segment of the same device that runs before |segment|, beside which constants of |segment| are brought; else
// |segment| itself.
static uint32_t find_begin(const graft_plan *plan, uint32_t segment) {
  const uint32_t device = plan->segments[segment].device;
  for (uint32_t g = segment; plan->devices[device].is_prefetching && g-- > 0;) {
    if (!plan->segments[g].is_transfer && plan->segments[g].device == device) return g;
  }
  return segment;
}

static graft_status add_residents(graft_plan *plan) {
  for (uint32_t i = 0; i < plan->residents.n; ++i) {
    graft_plan_resident *resident = resident_at(plan, i);
    resident->begin = find_begin(plan, resident->first);
    const graft_plan_storage storage = {.bytes = resident->entry.key.bytes,
                                        .alignment = resident->entry.key.alignment,
                                        .first = plan->segments[resident->begin].first + 1,
                                        .last = plan->segments[resident->last].end,
                                        .device = resident->device};
    GRAFT_TRY(graft_plan_add_storage(plan, &storage, &resident->storage));
  }
  return GRAFT_OK;
}

// The most that a segment of |device| reads where it lies.
static size_t most_in_place(const graft_plan *plan, uint32_t device) {
  size_t most = 0;
  for (uint32_t g = 0; g < plan->n_segments; ++g) {
    if (plan->segments[g].device != device) continue;
    size_t bytes = graft_plan_segment_constants(plan, &plan->segments[g]);
    if (bytes > most) most = bytes;
  }
  return most;
}

static bool fits(const graft_plan *plan, uint32_t *out_device) {
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    const size_t budget = plan->devices[d].budget, arena = plan->devices[d].report.arena_bytes;
    *out_device = d;
    if (budget > 0 && (arena > budget || most_in_place(plan, d) > budget - arena)) return false;
  }
  return true;
}

static graft_status refuse(const graft_plan *plan, uint32_t device, size_t needed) {
  return GRAFT_FAIL(plan->error, GRAFT_E_NO_MEMORY,
                    "the memory budget is %zu bytes, and %s needs at least %zu at one time, however the run is cut; "
                    "raise the budget or make the graph's values smaller",
                    plan->devices[device].budget, graft_device_name(plan->devices[device].device), needed);
}

// One way to cut: constants of a segment take at most |limits|.
static graft_status try_limits(graft_plan *plan, const size_t *limits, uint32_t n_values) {
  plan->n_storages = n_values;
  GRAFT_TRY(graft_plan_cut_steps(plan, limits));
  find_segments(plan);
  GRAFT_TRY(add_residents(plan));
  return graft_plan_lay_out(plan);
}

// |values|: bytes of each device's arena without constants.
static graft_status cut_within_budget(graft_plan *plan, uint32_t n_values, const size_t *values) {
  size_t limits[GRAFT_PLAN_MAX_DEVICES] = {0}, naive[GRAFT_PLAN_MAX_DEVICES] = {0};
  uint32_t device = 0;
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    const size_t budget = plan->devices[d].budget;
    if (budget > 0 && values[d] > budget) return refuse(plan, d, values[d]);
    limits[d] = budget > 0 ? budget - values[d] : SIZE_MAX;
    naive[d] = plan->devices[d].report.naive_bytes;
  }
  for (int i = 0; i < MAX_TRIES; ++i) {
    GRAFT_TRY(try_limits(plan, limits, n_values));
    for (uint32_t d = 0; d < plan->n_devices; ++d) plan->devices[d].report.naive_bytes = naive[d];
    if (fits(plan, &device)) return GRAFT_OK;
    // Gaps and constants that several segments share take more than the sum said: cut finer, at last at every step.
    limits[device] = i + 2 < MAX_TRIES ? limits[device] / 4 * 3 : 0;
  }
  return refuse(plan, device, plan->devices[device].report.arena_bytes + most_in_place(plan, device));
}

static int compare_residents(const void *a, const void *b) {
  const graft_plan_resident *x = *(graft_plan_resident *const *)a, *y = *(graft_plan_resident *const *)b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static void list_residents(graft_plan *plan) {
  if (plan->residents.n > 0) qsort(plan->residents.items, plan->residents.n, sizeof(void *), compare_residents);
  uint32_t next = 0;
  for (uint32_t g = 0; g < plan->n_segments; ++g) {
    plan->segments[g].first_resident = next;
    while (next < plan->residents.n && resident_at(plan, next)->first == g) ++next;
    plan->segments[g].end_resident = next;
  }
}

// What values and brought constants may take together. False: nothing is brought anywhere.
static bool find_budgets(graft_plan *plan) {
  bool has_budget = false;
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    graft_plan_device *device = &plan->devices[d];
    device->budget = plan->memory_budget;
    for (uint32_t i = 0; i < plan->residents.n && device->budget == 0; ++i) {
      const size_t capacity = graft_plan_capacity(plan, d);
      if (resident_at(plan, i)->device == d)
        device->budget = capacity > device->kept_bytes ? capacity - device->kept_bytes : 1;
    }
    has_budget = has_budget || device->budget > 0;
  }
  return has_budget;
}

// Constants that come early take more room. Where that is too much they come when they are needed.
static graft_status cut_early_or_late(graft_plan *plan) {
  size_t values[GRAFT_PLAN_MAX_DEVICES] = {0};
  const uint32_t n_values = plan->n_storages;
  bool is_early = false;
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    graft_plan_device *device = &plan->devices[d];
    values[d] = device->report.arena_bytes;
    device->is_prefetching = !graft_plan_is_host(plan, d) && device->backend->run_beside != NULL;
    is_early = is_early || device->is_prefetching;
  }
  graft_status status = cut_within_budget(plan, n_values, values);
  if (status != GRAFT_E_NO_MEMORY || !is_early) return status;
  *plan->error = (graft_error){0};
  for (uint32_t d = 0; d < plan->n_devices; ++d) plan->devices[d].is_prefetching = false;
  return cut_within_budget(plan, n_values, values);
}

graft_status graft_plan_cut(graft_plan *plan) {
  if (!find_budgets(plan)) return graft_plan_cut_steps(plan, NULL);
  GRAFT_TRY(cut_early_or_late(plan));
  list_residents(plan);
  for (uint32_t d = 0; d < plan->n_devices && plan->memory_budget > 0; ++d) {
    plan->devices[d].report.constant_bytes = most_in_place(plan, d);
  }
  return GRAFT_OK;
}
