// Whether a plan for several devices fits the memory that is free on them. What does not is made anew with fewer
// weights on the device, at last with nothing on it that another one can run.
#include "src/plan/plan_internal.h"

// A thirty-second part is left to drivers, device code and whoever else uses the device; 1 / ROOM is for constants that
// are brought.
enum { RESERVED = 32, ROOM = 8 };

size_t graft_plan_capacity(const graft_plan *plan, uint32_t index) {
  const uint64_t free_bytes = plan->devices[index].info.free_bytes;
  return free_bytes > 0 && free_bytes <= SIZE_MAX ? (size_t)(free_bytes - free_bytes / RESERVED) : SIZE_MAX;
}

static bool lower(graft_plan_limits *limits, uint32_t device, size_t to) {
  if (limits->is_closed[device]) return false;
  if (limits->weights[device] == 0) limits->is_closed[device] = true;
  limits->weights[device] = to < limits->weights[device] ? to : limits->weights[device] / 2;
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

bool graft_plan_tighten(const graft_plan *plan, graft_status status, graft_plan_limits *limits) {
  if (plan->n_devices < 2 || plan->memory_budget > 0) return false;
  bool is_tighter = false;
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    const graft_plan_device *device = &plan->devices[d];
    if (graft_plan_is_host(plan, d)) continue;
    if (status == GRAFT_E_NO_MEMORY && limits->weights[d] < SIZE_MAX) {
      // What is brought does not fit beside what is kept.
      is_tighter = lower(limits, d, limits->weights[d] / 2) || is_tighter;
      continue;
    }
    const size_t over = status == GRAFT_OK ? excess(plan, d) : 0;
    if (over == 0) continue;
    const size_t room = graft_plan_capacity(plan, d) / ROOM;
    const size_t less = over < SIZE_MAX - room ? over + room : SIZE_MAX;
    is_tighter = lower(limits, d, device->kept_bytes > less ? device->kept_bytes - less : 0) || is_tighter;
  }
  return is_tighter;
}
