#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "backends/cpu/device.h"

static const size_t huge_page = (size_t)2 << 20;

void graft_cpu_count_allocation(graft_cpu_device *device, size_t bytes) {
  uint64_t now = atomic_fetch_add(&device->allocated_bytes, bytes) + bytes;
  uint64_t peak = atomic_load(&device->peak_bytes);
  while (now > peak && !atomic_compare_exchange_weak(&device->peak_bytes, &peak, now)) continue;
}

graft_status graft_cpu_allocate(void *state, size_t bytes, graft_error *error, void **out_memory) {
  // Large blocks begin at huge pages: fewer address translations for weights and activations.
  bool is_large = bytes >= 2 * huge_page;
  size_t alignment = is_large ? huge_page : GRAFT_DEVICE_ALIGNMENT;
  void *memory = NULL;
  // More than PTRDIFF_MAX is never granted, and some allocators stop the process when they are asked.
  if (bytes > PTRDIFF_MAX || posix_memalign(&memory, alignment, bytes) != 0) memory = NULL;
  if (memory == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for %zu bytes on the CPU", bytes);
#if defined(__linux__)
  // Advice only: where the system knows no huge pages, nothing is lost. The last part page is left alone.
  if (is_large) (void)madvise(memory, bytes & ~(huge_page - 1), MADV_HUGEPAGE);
#endif
  graft_cpu_count_allocation(state, bytes);
  *out_memory = memory;
  return GRAFT_OK;
}

void graft_cpu_release(void *state, void *memory, size_t bytes) {
  if (memory == NULL) return;
  graft_cpu_device *device = state;
  atomic_fetch_sub(&device->allocated_bytes, bytes);
  free(memory);
}

graft_status graft_cpu_copy(void *state, void *target, const void *source, size_t bytes, graft_error *error) {
  (void)state;
  (void)error;
  memcpy(target, source, bytes);
  return GRAFT_OK;
}
