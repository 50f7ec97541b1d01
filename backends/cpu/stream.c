#include "backends/cpu/stream.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/device.h"
#include "backends/cpu/pool.h"

// What waits in a stream: a copy, an event that is over when it is reached, or an event that is waited for.
typedef enum command_kind { COPY, RECORD, WAIT } command_kind;

typedef struct command {
  struct command *next;
  command_kind kind;
  void *target;
  const void *source;
  size_t bytes;
  graft_event *event;
  uint64_t number;  // of the recording that is made or waited for
} command;

struct graft_event {
  graft_cpu_streams *streams;
  uint64_t n_recorded, n_over;  // recordings are numbered from 1
};

struct graft_stream {
  graft_cpu_streams *streams;
  graft_stream *next;
  pthread_t thread;
  command *first, **end;
  bool is_working, is_closing;
};

static graft_cpu_streams *streams_of(void *state) {
  graft_cpu_device *device = state;
  return &device->streams;
}

void graft_cpu_streams_init(graft_cpu_streams *streams, void *state) {
  *streams = (graft_cpu_streams){.copy = graft_cpu_copy, .state = state};
  // Default mutexes and conditions need no resources on the systems we build for, so this cannot fail.
  pthread_mutex_init(&streams->lock, NULL);
  pthread_cond_init(&streams->changed, NULL);
}

void graft_cpu_streams_release(graft_cpu_streams *streams) {
  while (streams->first != NULL) graft_cpu_stream_destroy(streams->first);
  pthread_cond_destroy(&streams->changed);
  pthread_mutex_destroy(&streams->lock);
}

// Whether the first command of |stream| can go on. The lock is held.
static bool is_ready(const graft_stream *stream) {
  const command *first = stream->first;
  return first != NULL && (first->kind != WAIT || first->event->n_over >= first->number);
}

// Takes the lock away while bytes are moved.
static void perform(graft_stream *stream, const command *c) {
  graft_cpu_streams *streams = stream->streams;
  if (c->kind == RECORD && c->event->n_over < c->number) c->event->n_over = c->number;
  if (c->kind != COPY) return;
  pthread_mutex_unlock(&streams->lock);
  graft_error error = {0};
  graft_status status = streams->copy(streams->state, c->target, c->source, c->bytes, &error);
  pthread_mutex_lock(&streams->lock);
  if (streams->status == GRAFT_OK) streams->status = status;
}

static void *work(void *arg) {
  graft_stream *stream = arg;
  graft_cpu_streams *streams = stream->streams;
  pthread_mutex_lock(&streams->lock);
  for (;;) {
    while (!is_ready(stream) && !(stream->is_closing && stream->first == NULL)) {
      pthread_cond_wait(&streams->changed, &streams->lock);
    }
    command *c = stream->first;
    if (c == NULL) break;
    stream->first = c->next;
    if (stream->first == NULL) stream->end = &stream->first;
    stream->is_working = true;
    perform(stream, c);
    stream->is_working = false;
    free(c);
    pthread_cond_broadcast(&streams->changed);
  }
  pthread_mutex_unlock(&streams->lock);
  return NULL;
}

static graft_status start(graft_stream *stream, graft_error *error) {
  sigset_t before;
  graft_cpu_block_signals(&before);
  int result = pthread_create(&stream->thread, NULL, work, stream);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (result == 0) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_DEVICE, "the system refuses to start a thread for copies (%s)", strerror(result));
}

graft_status graft_cpu_stream_create(void *state, graft_error *error, graft_stream **out_stream) {
  graft_cpu_streams *streams = streams_of(state);
  graft_stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a stream");
  stream->streams = streams;
  stream->end = &stream->first;
  graft_status status = start(stream, error);
  if (status != GRAFT_OK) {
    free(stream);
    return status;
  }
  pthread_mutex_lock(&streams->lock);
  stream->next = streams->first;
  streams->first = stream;
  pthread_mutex_unlock(&streams->lock);
  *out_stream = stream;
  return GRAFT_OK;
}

void graft_cpu_stream_destroy(graft_stream *stream) {
  if (stream == NULL) return;
  graft_cpu_streams *streams = stream->streams;
  pthread_mutex_lock(&streams->lock);
  stream->is_closing = true;
  graft_stream **link = &streams->first;
  while (*link != stream) link = &(*link)->next;
  *link = stream->next;
  pthread_cond_broadcast(&streams->changed);
  pthread_mutex_unlock(&streams->lock);
  pthread_join(stream->thread, NULL);
  free(stream);
}

static graft_status add(graft_stream *stream, command what, graft_error *error) {
  command *c = malloc(sizeof *c);
  if (c == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to begin a copy");
  *c = what;
  graft_cpu_streams *streams = stream->streams;
  pthread_mutex_lock(&streams->lock);
  if (what.kind == RECORD) c->number = ++what.event->n_recorded;
  if (what.kind == WAIT) c->number = what.event->n_recorded;
  *stream->end = c;
  stream->end = &c->next;
  pthread_cond_broadcast(&streams->changed);
  pthread_mutex_unlock(&streams->lock);
  return GRAFT_OK;
}

graft_status graft_cpu_copy_async(graft_stream *stream, void *target, const void *source, size_t bytes,
                                  graft_error *error) {
  if (bytes == 0) return GRAFT_OK;
  return add(stream, (command){.kind = COPY, .target = target, .source = source, .bytes = bytes}, error);
}

graft_status graft_cpu_event_create(void *state, graft_error *error, graft_event **out_event) {
  graft_event *event = calloc(1, sizeof *event);
  if (event == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for an event");
  event->streams = streams_of(state);
  *out_event = event;
  return GRAFT_OK;
}

void graft_cpu_event_destroy(graft_event *event) {
  free(event);
}

graft_status graft_cpu_event_record(graft_stream *stream, graft_event *event, graft_error *error) {
  return add(stream, (command){.kind = RECORD, .event = event}, error);
}

graft_status graft_cpu_stream_wait(graft_stream *stream, graft_event *event, graft_error *error) {
  return add(stream, (command){.kind = WAIT, .event = event}, error);
}

// The lock is held.
static graft_status tell_failure(graft_cpu_streams *streams, graft_error *error) {
  if (streams->status == GRAFT_OK) return GRAFT_OK;
  return GRAFT_FAIL(error, streams->status, "an asynchronous copy failed: %s", graft_status_name(streams->status));
}

graft_status graft_cpu_event_wait(graft_event *event, graft_error *error) {
  graft_cpu_streams *streams = event->streams;
  pthread_mutex_lock(&streams->lock);
  uint64_t number = event->n_recorded;
  while (event->n_over < number) pthread_cond_wait(&streams->changed, &streams->lock);
  graft_status status = tell_failure(streams, error);
  pthread_mutex_unlock(&streams->lock);
  return status;
}

static bool is_idle(const graft_cpu_streams *streams) {
  for (const graft_stream *s = streams->first; s != NULL; s = s->next) {
    if (s->first != NULL || s->is_working) return false;
  }
  return true;
}

graft_status graft_cpu_synchronize(void *state, graft_error *error) {
  graft_cpu_streams *streams = streams_of(state);
  pthread_mutex_lock(&streams->lock);
  while (!is_idle(streams)) pthread_cond_wait(&streams->changed, &streams->lock);
  graft_status status = tell_failure(streams, error);
  streams->status = GRAFT_OK;
  pthread_mutex_unlock(&streams->lock);
  return status;
}
