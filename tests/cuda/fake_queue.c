#include "fake_queue.h"

#include <stdlib.h>
#include <string.h>

#include "fake_libcuda.h"

struct fake_stream {
  fake_stream *next;
  fake_list list;
};

struct fake_event {
  fake_event *next;
  fake_stream *stream;  // of the last recording
  uint64_t n_recorded, n_over;
};

// Kept until the end, so that a handle that was given back can be seen to be used.
static fake_stream *streams;
static fake_event *events;
static int64_t n_hazards;

bool fake_list_add(fake_list *list, const fake_op *op, const void *params) {
  fake_op *copy = malloc(sizeof *copy + op->params_bytes);
  if (copy == NULL) return false;
  *copy = *op;
  copy->next = NULL;
  if (op->params_bytes > 0) memcpy(copy->params, params, op->params_bytes);
  if (list->last != NULL) list->last->next = copy;
  if (list->first == NULL) list->first = copy;
  list->last = copy;
  return true;
}

static void drop_first(fake_list *list) {
  fake_op *op = list->first;
  list->first = op->next;
  if (list->first == NULL) list->last = NULL;
  free(op);
}

void fake_list_clear(fake_list *list) {
  while (list->first != NULL) drop_first(list);
}

fake_stream *fake_stream_make(void) {
  fake_stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) return NULL;
  stream->next = streams;
  streams = stream;
  return stream;
}

fake_event *fake_event_make(void) {
  fake_event *event = calloc(1, sizeof *event);
  if (event == NULL) return NULL;
  event->next = events;
  events = event;
  return event;
}

fake_list *fake_stream_list(fake_stream *stream) {
  return &stream->list;
}

bool fake_event_record(fake_event *event, fake_stream *stream) {
  event->stream = stream;
  return fake_list_add(&stream->list, &(fake_op){.kind = FAKE_RECORD, .event = event, .number = ++event->n_recorded},
                       NULL);
}

bool fake_stream_wait(fake_stream *stream, fake_event *event) {
  return fake_list_add(&stream->list, &(fake_op){.kind = FAKE_WAIT, .event = event, .number = event->n_recorded}, NULL);
}

static bool lies_in(const void *address, const char *begin, size_t bytes) {
  return (const char *)address >= begin && (const char *)address < begin + bytes;
}

// Whether a parameter of |launch| points into the range.
static bool points_into(const fake_op *launch, const char *begin, size_t bytes) {
  for (size_t at = 0; at + sizeof(void *) <= launch->params_bytes; at += sizeof(void *)) {
    const void *address;
    memcpy(&address, launch->params + at, sizeof address);
    if (lies_in(address, begin, bytes)) return true;
  }
  return false;
}

static bool conflict(const fake_op *a, const fake_op *b) {
  if (a->kind == FAKE_LAUNCH && b->kind == FAKE_COPY) return points_into(a, b->target, b->bytes);
  if (a->kind == FAKE_COPY && b->kind == FAKE_LAUNCH) return points_into(b, a->target, a->bytes);
  return false;
}

// What other streams have begun and may do at any time, up to where they wait for somebody.
static void look_for_hazards(const fake_stream *stream, const fake_op *op) {
  for (const fake_stream *other = streams; other != NULL; other = other->next) {
    for (const fake_op *begun = other->list.first; other != stream && begun != NULL; begun = begun->next) {
      if (begun->kind == FAKE_WAIT) break;
      n_hazards += conflict(op, begun);
    }
  }
}

// The one function that computes: what else is launched changes nothing.
static void launch(const fake_op *op) {
  fake_cuda_add p;
  if (strcmp(op->function, FAKE_CUDA_ADD) != 0 || op->params_bytes != sizeof p) return;
  memcpy(&p, op->params, sizeof p);
  for (int64_t i = 0; i < p.n; ++i) p.y[i] = p.factor * p.x[i] + p.w[i];
}

static void run_until(fake_stream *stream, const fake_event *event, uint64_t number);

static void run_first(fake_stream *stream) {
  const fake_op *op = stream->list.first;
  look_for_hazards(stream, op);
  switch (op->kind) {
    case FAKE_COPY: memmove(op->target, op->source, op->bytes); break;
    case FAKE_FILL: memset(op->target, op->value, op->bytes); break;
    case FAKE_LAUNCH: launch(op); break;
    case FAKE_RECORD: op->event->n_over = op->number; break;
    case FAKE_WAIT:
      if (op->event->n_over < op->number) run_until(op->event->stream, op->event, op->number);
      break;
  }
  drop_first(&stream->list);
}

static void run_until(fake_stream *stream, const fake_event *event, uint64_t number) {
  while (stream->list.first != NULL && event->n_over < number) run_first(stream);
}

void fake_stream_run(fake_stream *stream) {
  while (stream->list.first != NULL) run_first(stream);
}

void fake_event_run(fake_event *event) {
  if (event->stream != NULL) run_until(event->stream, event, event->n_recorded);
}

void fake_run_all(void) {
  for (fake_stream *stream = streams; stream != NULL; stream = stream->next) fake_stream_run(stream);
}

void fake_memory_leaves(const void *memory, size_t bytes) {
  for (fake_stream *stream = streams; stream != NULL; stream = stream->next) {
    bool is_used = false;
    for (const fake_op *op = stream->list.first; op != NULL; op = op->next) {
      is_used = is_used || lies_in(op->source, memory, bytes) || lies_in(op->target, memory, bytes) ||
                (op->kind == FAKE_LAUNCH && points_into(op, memory, bytes));
    }
    if (!is_used) continue;
    ++n_hazards;
    fake_stream_run(stream);
  }
}

bool fake_has_launch_beside(const fake_stream *stream) {
  for (const fake_stream *other = streams; other != NULL; other = other->next) {
    for (const fake_op *op = other->list.first; other != stream && op != NULL; op = op->next) {
      if (op->kind == FAKE_LAUNCH) return true;
    }
  }
  return false;
}

int64_t fake_n_hazards(void) {
  return n_hazards;
}

void fake_queue_reset(void) {
  for (fake_stream *stream = streams; stream != NULL; stream = stream->next) fake_list_clear(&stream->list);
  for (fake_event *event = events; event != NULL; event = event->next) event->n_over = event->n_recorded;
  n_hazards = 0;
}

void fake_queue_free(void) {
  fake_queue_reset();
  while (streams != NULL) {
    fake_stream *stream = streams;
    streams = stream->next;
    free(stream);
  }
  while (events != NULL) {
    fake_event *event = events;
    events = event->next;
    free(event);
  }
}
