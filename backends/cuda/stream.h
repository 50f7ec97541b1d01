// stream.h — asynchronous copies beside the stream on which plans run.
#ifndef GRAFT_BACKENDS_CUDA_STREAM_H
#define GRAFT_BACKENDS_CUDA_STREAM_H

#include "backends/cuda/device.h"

// Members of the backend table; see graft/device.h.
graft_status graft_cuda_synchronize(void *state, graft_error *error);
graft_status graft_cuda_stream_create(void *state, graft_error *error, graft_stream **out_stream);
void graft_cuda_stream_destroy(graft_stream *stream);
graft_status graft_cuda_upload_async(graft_stream *stream, void *target, const void *source, size_t bytes,
                                     graft_error *error);
graft_status graft_cuda_download_async(graft_stream *stream, void *target, const void *source, size_t bytes,
                                       graft_error *error);
graft_status graft_cuda_copy_async(graft_stream *stream, void *target, const void *source, size_t bytes,
                                   graft_error *error);
graft_status graft_cuda_event_create(void *state, graft_error *error, graft_event **out_event);
void graft_cuda_event_destroy(graft_event *event);
graft_status graft_cuda_event_record(graft_stream *stream, graft_event *event, graft_error *error);
graft_status graft_cuda_event_wait(graft_event *event, graft_error *error);
graft_status graft_cuda_stream_wait(graft_stream *stream, graft_event *event, graft_error *error);

#define GRAFT_CUDA_STREAM_FUNCTIONS                                                       \
  .stream_create = graft_cuda_stream_create, .stream_destroy = graft_cuda_stream_destroy, \
  .upload_async = graft_cuda_upload_async, .download_async = graft_cuda_download_async,   \
  .copy_async = graft_cuda_copy_async, .event_create = graft_cuda_event_create,           \
  .event_destroy = graft_cuda_event_destroy, .event_record = graft_cuda_event_record,     \
  .event_wait = graft_cuda_event_wait, .stream_wait = graft_cuda_stream_wait

#endif
