// Device memory, and copies through pinned staging memory: while one part is on its way, the next is filled.
#include <string.h>

#include "backends/cuda/device.h"

static const size_t staging_bytes = (size_t)8 << 20;

static void *pointer_of(CUdeviceptr address) {
  return (void *)(uintptr_t)address;
}

static CUdeviceptr address_of(const void *pointer) {
  return (CUdeviceptr)(uintptr_t)pointer;
}

static void count_allocation(graft_cuda_device *device, size_t bytes) {
  uint64_t now = atomic_fetch_add(&device->allocated_bytes, bytes) + bytes;
  uint64_t peak = atomic_load(&device->peak_bytes);
  while (now > peak && !atomic_compare_exchange_weak(&device->peak_bytes, &peak, now)) continue;
}

graft_status graft_cuda_allocate(void *state, size_t bytes, graft_error *error, void **out_memory) {
  graft_cuda_device *device = state;
  CUdeviceptr address = 0;
  GRAFT_TRY(graft_cuda_enter(device, error));
  const CUresult result = device->driver.cuMemAlloc(&address, bytes);
  graft_status status = graft_cuda_check(device, result, "allocating GPU memory", error);
  graft_cuda_leave(device);
  if (status != GRAFT_OK) {
    graft_error_note(error, "%zu bytes were asked for", bytes);
    return status;
  }
  count_allocation(device, bytes);
  *out_memory = pointer_of(address);
  return GRAFT_OK;
}

void graft_cuda_release(void *state, void *memory, size_t bytes) {
  graft_cuda_device *device = state;
  if (memory == NULL) return;
  atomic_fetch_sub(&device->allocated_bytes, bytes);
  const bool is_held = graft_cuda_hold_runs(device);
  // What a lost device held is gone with it.
  if (graft_cuda_enter(device, NULL) == GRAFT_OK) {
    // Uploads return before they arrive.
    (void)device->driver.cuStreamSynchronize(device->stream);
    (void)device->driver.cuMemFree(address_of(memory));
    graft_cuda_leave(device);
  }
  graft_cuda_resume_runs(device, is_held);
}

graft_status graft_cuda_allocate_host(void *state, size_t bytes, graft_error *error, void **out_memory) {
  graft_cuda_device *device = state;
  GRAFT_TRY(graft_cuda_enter(device, error));
  const CUresult result = device->driver.cuMemHostAlloc(out_memory, bytes, 0);
  graft_status status = graft_cuda_check(device, result, "allocating pinned host memory", error);
  if (status == GRAFT_OK) graft_cuda_count_pinned(device, bytes);
  graft_cuda_leave(device);
  return status;
}

void graft_cuda_release_host(void *state, void *memory, size_t bytes) {
  graft_cuda_device *device = state;
  if (memory == NULL) return;
  graft_cuda_uncount_pinned(device, bytes);
  if (graft_cuda_enter(device, NULL) != GRAFT_OK) return;
  (void)device->driver.cuMemFreeHost(memory);
  graft_cuda_leave(device);
}

graft_status graft_cuda_staging_create(graft_cuda_device *device, graft_error *error) {
  for (int i = 0; i < GRAFT_CUDA_N_STAGING; ++i) {
    graft_cuda_staging *staging = &device->staging[i];
    GRAFT_TRY(graft_cuda_check(device, device->driver.cuMemHostAlloc(&staging->memory, staging_bytes, 0),
                               "allocating pinned host memory", error));
    graft_cuda_count_pinned(device, staging_bytes);
    GRAFT_TRY(graft_cuda_check(device, device->driver.cuEventCreate(&staging->is_free, CU_EVENT_DISABLE_TIMING),
                               "making a CUDA event", error));
  }
  return GRAFT_OK;
}

void graft_cuda_staging_destroy(graft_cuda_device *device) {
  for (int i = 0; i < GRAFT_CUDA_N_STAGING; ++i) {
    graft_cuda_staging *staging = &device->staging[i];
    if (staging->is_free != NULL) (void)device->driver.cuEventDestroy(staging->is_free);
    if (staging->memory != NULL) (void)device->driver.cuMemFreeHost(staging->memory);
  }
}

// The staging memory whose turn it is, once its last copy is done.
static graft_status take_staging(graft_cuda_device *device, graft_error *error, graft_cuda_staging **out_staging) {
  graft_cuda_staging *staging = &device->staging[device->next_staging];
  device->next_staging = (device->next_staging + 1) % GRAFT_CUDA_N_STAGING;
  const CUresult result = device->driver.cuEventSynchronize(staging->is_free);
  GRAFT_TRY(graft_cuda_check(device, result, "waiting for a copy to the GPU", error));
  *out_staging = staging;
  return GRAFT_OK;
}

static graft_status upload_part(graft_cuda_device *device, CUdeviceptr target, const void *source, size_t bytes,
                                graft_error *error) {
  graft_cuda_staging *staging = NULL;
  GRAFT_TRY(take_staging(device, error, &staging));
  memcpy(staging->memory, source, bytes);
  CUresult result = device->driver.cuMemcpyHtoDAsync(target, staging->memory, bytes, device->stream);
  if (result == CUDA_SUCCESS) result = device->driver.cuEventRecord(staging->is_free, device->stream);
  return graft_cuda_check(device, result, "copying to the GPU", error);
}

// Returns when |source| has been read: later work on the stream finds the bytes in place.
graft_status graft_cuda_upload(void *state, void *target, const void *source, size_t bytes, graft_error *error) {
  graft_cuda_device *device = state;
  GRAFT_TRY(graft_cuda_begin_turn(device, error));
  graft_status status = graft_cuda_refuse_captured(device, "nothing can be written to the GPU", error);
  for (size_t done = 0; done < bytes && status == GRAFT_OK; done += staging_bytes) {
    const size_t part = bytes - done < staging_bytes ? bytes - done : staging_bytes;
    status = upload_part(device, address_of(target) + done, (const char *)source + done, part, error);
  }
  graft_cuda_end_turn(device);
  return status;
}

static graft_status download_part(graft_cuda_device *device, void *target, CUdeviceptr source, size_t bytes,
                                  graft_error *error) {
  graft_cuda_staging *staging = NULL;
  GRAFT_TRY(take_staging(device, error, &staging));
  CUresult result = device->driver.cuMemcpyDtoHAsync(staging->memory, source, bytes, device->stream);
  if (result == CUDA_SUCCESS) result = device->driver.cuEventRecord(staging->is_free, device->stream);
  if (result == CUDA_SUCCESS) result = device->driver.cuEventSynchronize(staging->is_free);
  GRAFT_TRY(graft_cuda_check(device, result, "copying from the GPU", error));
  memcpy(target, staging->memory, bytes);
  return GRAFT_OK;
}

graft_status graft_cuda_download(void *state, void *target, const void *source, size_t bytes, graft_error *error) {
  graft_cuda_device *device = state;
  GRAFT_TRY(graft_cuda_begin_turn(device, error));
  graft_status status = graft_cuda_refuse_captured(device, "nothing can be read from the GPU", error);
  for (size_t done = 0; done < bytes && status == GRAFT_OK; done += staging_bytes) {
    const size_t part = bytes - done < staging_bytes ? bytes - done : staging_bytes;
    status = download_part(device, (char *)target + done, address_of(source) + done, part, error);
  }
  graft_cuda_end_turn(device);
  return status;
}
