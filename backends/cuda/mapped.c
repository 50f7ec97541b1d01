// Host memory of the caller's from which the card copies by itself, such as a mapped file's: registered with the
// driver, which keeps its pages where they are.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/cuda/device.h"

struct graft_cuda_range {
  graft_cuda_range *next;
  const void *memory;
  size_t bytes;
  uint32_t n_users;  // plans that share a constant; 0: the device was lost, and closing it gives the range back
};

void graft_cuda_count_pinned(graft_cuda_device *device, size_t bytes) {
  const uint64_t now = atomic_fetch_add(&device->pinned_bytes, bytes) + bytes;
  uint64_t peak = atomic_load(&device->peak_pinned_bytes);
  while (now > peak && !atomic_compare_exchange_weak(&device->peak_pinned_bytes, &peak, now)) continue;
}

void graft_cuda_uncount_pinned(graft_cuda_device *device, size_t bytes) {
  atomic_fetch_sub(&device->pinned_bytes, bytes);
}

static uint64_t read_limit(const char *path) {
  unsigned long long bytes = ULLONG_MAX;
  FILE *file = fopen(path, "re");
  if (file == NULL) return UINT64_MAX;
  if (fscanf(file, "%llu", &bytes) != 1) bytes = ULLONG_MAX;  // "max"
  fclose(file);
  return bytes;
}

// Pinned pages cannot be taken away from a process that needs too many: they get a quarter of what it may have.
static uint64_t most_pinned_bytes(void) {
  static const char *const limits[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  uint64_t most = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  for (int i = 0; i < 2; ++i) {
    const uint64_t limit = read_limit(limits[i]);
    if (limit < most) most = limit;
  }
  return most / 4;
}

static bool has(const graft_cuda_device *device, CUdevice_attribute attribute) {
  int value = 0;
  return device->driver.cuDeviceGetAttribute(&value, attribute, device->card) == CUDA_SUCCESS && value > 0;
}

static graft_status check(graft_cuda_device *device, size_t bytes, graft_error *error) {
  if (device->options.is_mapping_off || !has(device, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED)) {
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED, "the GPU does not copy from memory that was not allocated for it");
  }
  if (device->most_pinned_bytes == 0) device->most_pinned_bytes = most_pinned_bytes();
  const uint64_t most = device->most_pinned_bytes, now = atomic_load(&device->pinned_bytes);
  if (now <= most && bytes <= most - now) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%zu bytes more would be pinned than a quarter of the memory", bytes);
}

// Pages of a file that is open for reading can be pinned only by who says that the card will not write to them.
static graft_status pin(graft_cuda_device *device, const void *memory, size_t bytes, graft_error *error) {
  const bool is_known = has(device, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
  GRAFT_TRY(graft_cuda_enter(device, error));
  const CUresult result =
      device->driver.cuMemHostRegister((void *)(uintptr_t)memory, bytes, is_known ? CU_MEMHOSTREGISTER_READ_ONLY : 0);
  graft_status status = graft_cuda_check(device, result, "registering host memory", error);
  graft_cuda_leave(device);
  return status;
}

static graft_status add_range(graft_cuda_device *device, const void *memory, size_t bytes, graft_error *error) {
  GRAFT_TRY(check(device, bytes, error));
  graft_cuda_range *range = malloc(sizeof *range);
  if (range == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to remember registered memory");
  graft_status status = pin(device, memory, bytes, error);
  if (status != GRAFT_OK) {
    free(range);
    return status;
  }
  graft_cuda_count_pinned(device, bytes);
  *range = (graft_cuda_range){.next = device->ranges, .memory = memory, .bytes = bytes, .n_users = 1};
  device->ranges = range;
  return GRAFT_OK;
}

static graft_cuda_range **find(graft_cuda_device *device, const void *memory, size_t bytes) {
  graft_cuda_range **link = &device->ranges;
  while (*link != NULL && ((*link)->memory != memory || (*link)->bytes != bytes)) link = &(*link)->next;
  return link;
}

graft_status graft_cuda_register_host(void *state, const void *memory, size_t bytes, graft_error *error) {
  graft_cuda_device *device = state;
  graft_status status = GRAFT_OK;
  pthread_mutex_lock(&device->pinning);
  graft_cuda_range *known = *find(device, memory, bytes);
  if (known == NULL) {
    status = add_range(device, memory, bytes, error);
  } else if (known->n_users > 0) {
    ++known->n_users;
  } else {
    status = GRAFT_FAIL(error, GRAFT_E_DEVICE, "other memory at this address could not be given back");
  }
  pthread_mutex_unlock(&device->pinning);
  return status;
}

static void remove_range(graft_cuda_device *device, graft_cuda_range **link) {
  graft_cuda_range *range = *link;
  (void)device->driver.cuMemHostUnregister((void *)(uintptr_t)range->memory);
  graft_cuda_uncount_pinned(device, range->bytes);
  *link = range->next;
  free(range);
}

void graft_cuda_unregister_host(void *state, const void *memory, size_t bytes) {
  graft_cuda_device *device = state;
  pthread_mutex_lock(&device->pinning);
  graft_cuda_range **link = find(device, memory, bytes);
  if (--(*link)->n_users == 0 && graft_cuda_enter(device, NULL) == GRAFT_OK) {
    remove_range(device, link);
    graft_cuda_leave(device);
  }
  pthread_mutex_unlock(&device->pinning);
}

void graft_cuda_ranges_clear(graft_cuda_device *device) {
  while (device->ranges != NULL) remove_range(device, &device->ranges);
}
