#include "backends/cuda/stream.h"

#include <stdlib.h>

struct graft_stream {
  graft_stream *next;
  graft_cuda_device *device;
  CUstream stream;
};

struct graft_event {
  graft_cuda_device *device;
  CUevent event;
};

// Leaves the context and passes |result| on.
static graft_status finish(graft_cuda_device *device, CUresult result, const char *what, graft_error *error) {
  graft_status status = graft_cuda_check(device, result, what, error);
  graft_cuda_leave(device);
  return status;
}

// For all of them, whatever becomes of one: callers give memory back then.
static graft_status wait_for_copies(graft_cuda_device *device, graft_error *error) {
  graft_status status = GRAFT_OK;
  pthread_mutex_lock(&device->copying);
  for (const graft_stream *stream = device->copies; stream != NULL; stream = stream->next) {
    const CUresult result = device->driver.cuStreamSynchronize(stream->stream);
    graft_status waited = graft_cuda_check(device, result, "waiting for a copy", status == GRAFT_OK ? error : NULL);
    if (status == GRAFT_OK) status = waited;
  }
  pthread_mutex_unlock(&device->copying);
  return status;
}

// One stream after another: waiting for the context would break the captures of whoever else uses it, such as another
// device of the same card.
graft_status graft_cuda_synchronize(void *state, graft_error *error) {
  graft_cuda_device *device = state;
  const bool is_held = graft_cuda_hold_runs(device);
  graft_status status = graft_cuda_enter(device, error);
  if (status == GRAFT_OK) {
    status = graft_cuda_refuse_captured(device, "the GPU cannot be waited for", error);
    if (status == GRAFT_OK) status = graft_cuda_wait(device, error);
    graft_status copied = wait_for_copies(device, status == GRAFT_OK ? error : NULL);
    if (status == GRAFT_OK) status = copied;
    graft_cuda_leave(device);
  }
  graft_cuda_resume_runs(device, is_held);
  return status;
}

graft_status graft_cuda_stream_create(void *state, graft_error *error, graft_stream **out_stream) {
  graft_cuda_device *device = state;
  graft_stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a stream");
  stream->device = device;
  graft_status status = graft_cuda_enter(device, error);
  if (status == GRAFT_OK) {
    const CUresult result = device->driver.cuStreamCreate(&stream->stream, CU_STREAM_NON_BLOCKING);
    status = finish(device, result, "making a CUDA stream", error);
  }
  if (status != GRAFT_OK) {
    free(stream);
    return status;
  }
  pthread_mutex_lock(&device->copying);
  stream->next = device->copies;
  device->copies = stream;
  pthread_mutex_unlock(&device->copying);
  *out_stream = stream;
  return GRAFT_OK;
}

static void forget(graft_stream *stream) {
  graft_cuda_device *device = stream->device;
  pthread_mutex_lock(&device->copying);
  graft_stream **link = &device->copies;
  while (*link != stream) link = &(*link)->next;
  *link = stream->next;
  pthread_mutex_unlock(&device->copying);
}

void graft_cuda_stream_destroy(graft_stream *stream) {
  if (stream == NULL) return;
  graft_cuda_device *device = stream->device;
  forget(stream);
  if (graft_cuda_enter(device, NULL) == GRAFT_OK) {
    (void)device->driver.cuStreamSynchronize(stream->stream);
    (void)device->driver.cuStreamDestroy(stream->stream);
    graft_cuda_leave(device);
  }
  free(stream);
}

static CUdeviceptr address_of(const void *pointer) {
  return (CUdeviceptr)(uintptr_t)pointer;
}

graft_status graft_cuda_upload_async(graft_stream *stream, void *target, const void *source, size_t bytes,
                                     graft_error *error) {
  graft_cuda_device *device = stream->device;
  GRAFT_TRY(graft_cuda_enter(device, error));
  const CUresult result = device->driver.cuMemcpyHtoDAsync(address_of(target), source, bytes, stream->stream);
  return finish(device, result, "copying to the GPU", error);
}

graft_status graft_cuda_download_async(graft_stream *stream, void *target, const void *source, size_t bytes,
                                       graft_error *error) {
  graft_cuda_device *device = stream->device;
  GRAFT_TRY(graft_cuda_enter(device, error));
  const CUresult result = device->driver.cuMemcpyDtoHAsync(target, address_of(source), bytes, stream->stream);
  return finish(device, result, "copying from the GPU", error);
}

graft_status graft_cuda_copy_async(graft_stream *stream, void *target, const void *source, size_t bytes,
                                   graft_error *error) {
  graft_cuda_device *device = stream->device;
  GRAFT_TRY(graft_cuda_enter(device, error));
  const CUresult result =
      device->driver.cuMemcpyDtoDAsync(address_of(target), address_of(source), bytes, stream->stream);
  return finish(device, result, "copying on the GPU", error);
}

graft_status graft_cuda_event_create(void *state, graft_error *error, graft_event **out_event) {
  graft_cuda_device *device = state;
  graft_event *event = calloc(1, sizeof *event);
  if (event == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for an event");
  event->device = device;
  graft_status status = graft_cuda_enter(device, error);
  if (status == GRAFT_OK) {
    const CUresult result = device->driver.cuEventCreate(&event->event, CU_EVENT_DISABLE_TIMING);
    status = finish(device, result, "making a CUDA event", error);
  }
  if (status != GRAFT_OK) {
    free(event);
    return status;
  }
  *out_event = event;
  return GRAFT_OK;
}

void graft_cuda_event_destroy(graft_event *event) {
  if (event == NULL) return;
  graft_cuda_device *device = event->device;
  if (graft_cuda_enter(device, NULL) == GRAFT_OK) {
    (void)device->driver.cuEventDestroy(event->event);
    graft_cuda_leave(device);
  }
  free(event);
}

graft_status graft_cuda_event_record(graft_stream *stream, graft_event *event, graft_error *error) {
  graft_cuda_device *device = stream->device;
  GRAFT_TRY(graft_cuda_enter(device, error));
  return finish(device, device->driver.cuEventRecord(event->event, stream->stream), "recording a CUDA event", error);
}

graft_status graft_cuda_event_wait(graft_event *event, graft_error *error) {
  graft_cuda_device *device = event->device;
  GRAFT_TRY(graft_cuda_enter(device, error));
  return finish(device, device->driver.cuEventSynchronize(event->event), "waiting for a CUDA event", error);
}

graft_status graft_cuda_stream_wait(graft_stream *stream, graft_event *event, graft_error *error) {
  graft_cuda_device *device = stream->device;
  GRAFT_TRY(graft_cuda_enter(device, error));
  const CUresult result = device->driver.cuStreamWaitEvent(stream->stream, event->event, 0);
  return finish(device, result, "waiting for a CUDA event", error);
}
