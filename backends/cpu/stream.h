// stream.h — streams of CPU devices: each has a thread that makes its copies in order.
#ifndef GRAFT_BACKENDS_CPU_STREAM_H
#define GRAFT_BACKENDS_CPU_STREAM_H

#include <pthread.h>

#include "graft/device.h"

// The streams of one device.
typedef struct graft_cpu_streams {
  pthread_mutex_t lock;  // guards the list, and all that waits in its streams
  pthread_cond_t changed;
  graft_stream *first;
  graft_status status;  // of the first copy that failed since the last synchronize
  // What makes one copy; the device's own function where its memory is special. |state| is the device.
  graft_status (*copy)(void *state, void *target, const void *source, size_t bytes, graft_error *error);
  void *state;
} graft_cpu_streams;

void graft_cpu_streams_init(graft_cpu_streams *streams, void *state);
void graft_cpu_streams_release(graft_cpu_streams *streams);

// Members of the backend table; see graft/device.h.
graft_status graft_cpu_synchronize(void *state, graft_error *error);
graft_status graft_cpu_stream_create(void *state, graft_error *error, graft_stream **out_stream);
void graft_cpu_stream_destroy(graft_stream *stream);
graft_status graft_cpu_copy_async(graft_stream *stream, void *target, const void *source, size_t bytes,
                                  graft_error *error);
graft_status graft_cpu_event_create(void *state, graft_error *error, graft_event **out_event);
void graft_cpu_event_destroy(graft_event *event);
graft_status graft_cpu_event_record(graft_stream *stream, graft_event *event, graft_error *error);
graft_status graft_cpu_event_wait(graft_event *event, graft_error *error);
graft_status graft_cpu_stream_wait(graft_stream *stream, graft_event *event, graft_error *error);

#define GRAFT_CPU_STREAM_FUNCTIONS                                                                                    \
  .synchronize = graft_cpu_synchronize, .stream_create = graft_cpu_stream_create,                                     \
  .stream_destroy = graft_cpu_stream_destroy, .upload_async = graft_cpu_copy_async,                                   \
  .download_async = graft_cpu_copy_async, .copy_async = graft_cpu_copy_async, .event_create = graft_cpu_event_create, \
  .event_destroy = graft_cpu_event_destroy, .event_record = graft_cpu_event_record,                                   \
  .event_wait = graft_cpu_event_wait, .stream_wait = graft_cpu_stream_wait

#endif
