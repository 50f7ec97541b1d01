// Whether a plan for several devices fits the memory that is free on them. What does not is made anew with fewer
// weights on the device, at last with nothing on it that another one can run.
#include "src/plan/plan_internal.h"

// A thirty-second part is left to drivers, device code and whoever else uses the device; what is brought gets room in
// steps of 1 / ROOM.
enum { RESERVED = 32, ROOM = 8 };

size_t graft_plan_capacity(const graft_plan *plan, uint32_t index) {
  const graft_device_info *info = &plan->devices[index].info;
  if (info->memory_bytes == 0) return SIZE_MAX;  // it does not say
  const uint64_t bytes = info->free_bytes - info->free_bytes / RESERVED;
  return bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}

static bool lower(graft_plan_limits *limits, uint32_t device, size_t to) {
  if (limits->is_closed[device]) return false;
  if (limits->weights[device] == 0) limits->is_closed[device] = true;
  // Packed weights are larger than the limit's, so that taking away what is too much may not be enough.
  const size_t now = limits->weights[device], less = now - now / ROOM - (now > 0);
  limits->weights[device] = to < now ? to : less;
  return true;
}

// The arena's bytes on device |index| beyond what it has.
static size_t excess(const graft_plan *plan, uint32_t index) {
  const graft_plan_device *device = &plan->devices[index];
  const size_t capacity = graft_plan_capacity(plan, index), arena = device->report.arena_bytes;
  const uint64_t largest = device->info.max_buffer_bytes;
  size_t beyond = largest > 0 && arena > largest ? arena - (size_t)largest : 0;
  const size_t left = capacity > device->kept_bytes ? capacity - device->kept_bytes : 0;
  if (arena > left && arena - left > beyond) beyond = arena - left;
  return beyond;
}

// Whether constants are brought that might come early, were there more room beside what is kept.
static bool comes_late(const graft_plan *plan, uint32_t index, const graft_plan_limits *limits) {
  const graft_plan_device *device = &plan->devices[index];
  return device->budget > 0 && !device->is_prefetching && device->backend->run_beside != NULL &&
         limits->weights[index] > 0;
}

bool graft_plan_tighten(const graft_plan *plan, graft_status status, graft_plan_limits *limits) {
  if (plan->n_devices < 2 || plan->memory_budget > 0) return false;
  bool is_tighter = false;
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    const graft_plan_device *device = &plan->devices[d];
    if (graft_plan_is_host(plan, d)) continue;
    const bool lacks_room =
        limits->weights[d] < SIZE_MAX && (status == GRAFT_E_NO_MEMORY || comes_late(plan, d, limits));
    const size_t capacity = graft_plan_capacity(plan, d);
    // From what there is, not from what there would be: many plans lie between the two.
    const size_t wanted = lacks_room ? limits->weights[d] : device->kept_bytes;
    const size_t kept = wanted < capacity ? wanted : capacity;
    const size_t over = lacks_room ? capacity / ROOM + 1 : status == GRAFT_OK ? excess(plan, d) : 0;
    if (over > 0) is_tighter = lower(limits, d, kept > over ? kept - over : 0) || is_tighter;
  }
  return is_tighter;
}
