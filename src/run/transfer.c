#include "graft/transfer.h"

#include <stdlib.h>
#include <string.h>

// One side that is a device: its stream, and the event behind the copy.
typedef struct side {
  const graft_backend_def *backend;
  void *state;
  graft_stream *stream;
  graft_event *event;
} side;

struct graft_transfer {
  graft_transfer_end from, to;
  size_t bytes;
  void *staging;  // between two devices
  side source, target;
  bool is_sent;  // the last copy was begun
};

static graft_status open_side(side *s, const graft_device *device, graft_error *error) {
  if (device == NULL) return GRAFT_OK;
  s->backend = graft_device_backend(device);
  s->state = graft_device_state(device);
  if (s->backend->stream_create == NULL) return GRAFT_OK;
  GRAFT_TRY(s->backend->stream_create(s->state, error, &s->stream));
  return s->backend->event_create(s->state, error, &s->event);
}

static graft_status download(side *s, void *target, const void *source, size_t bytes, graft_error *error) {
  if (s->stream == NULL) return s->backend->download(s->state, target, source, bytes, error);
  GRAFT_TRY(s->backend->download_async(s->stream, target, source, bytes, error));
  return s->backend->event_record(s->stream, s->event, error);
}

static graft_status upload(side *s, void *target, const void *source, size_t bytes, graft_error *error) {
  if (s->stream == NULL) return s->backend->upload(s->state, target, source, bytes, error);
  GRAFT_TRY(s->backend->upload_async(s->stream, target, source, bytes, error));
  return s->backend->event_record(s->stream, s->event, error);
}

static graft_status wait_for(const side *s, graft_error *error) {
  return s->event == NULL ? GRAFT_OK : s->backend->event_wait(s->event, error);
}

static graft_status begin_copy(graft_transfer *t, graft_error *error) {
  bool has_source = t->source.backend != NULL, has_target = t->target.backend != NULL;
  if (has_source && has_target) {
    if (t->from.device == t->to.device && t->source.stream != NULL) {
      t->is_sent = true;
      GRAFT_TRY(t->source.backend->copy_async(t->source.stream, t->to.address, t->from.address, t->bytes, error));
      return t->source.backend->event_record(t->source.stream, t->source.event, error);
    }
    t->staging = malloc(t->bytes);
    if (t->staging == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to stage %zu bytes", t->bytes);
    return download(&t->source, t->staging, t->from.address, t->bytes, error);
  }
  t->is_sent = true;
  if (has_source) return download(&t->source, t->to.address, t->from.address, t->bytes, error);
  if (has_target) return upload(&t->target, t->to.address, t->from.address, t->bytes, error);
  memcpy(t->to.address, t->from.address, t->bytes);
  return GRAFT_OK;
}

graft_status graft_transfer_begin(graft_transfer_end from, graft_transfer_end to, size_t bytes, graft_error *error,
                                  graft_transfer **out_transfer) {
  graft_transfer *transfer = calloc(1, sizeof *transfer);
  if (transfer == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a transfer");
  *transfer = (graft_transfer){.from = from, .to = to, .bytes = bytes};
  graft_status status = open_side(&transfer->source, from.device, error);
  if (status == GRAFT_OK) status = open_side(&transfer->target, to.device, error);
  if (status == GRAFT_OK && bytes > 0) status = begin_copy(transfer, error);
  if (status != GRAFT_OK) {
    graft_transfer_release(transfer);
    return status;
  }
  *out_transfer = transfer;
  return GRAFT_OK;
}

graft_status graft_transfer_wait(graft_transfer *transfer, graft_error *error) {
  if (transfer->bytes == 0) return GRAFT_OK;
  GRAFT_TRY(wait_for(&transfer->source, error));
  if (!transfer->is_sent) {
    GRAFT_TRY(upload(&transfer->target, transfer->to.address, transfer->staging, transfer->bytes, error));
    transfer->is_sent = true;
  }
  return wait_for(&transfer->target, error);
}

static void synchronize(const side *s) {
  if (s->backend != NULL && s->backend->synchronize != NULL) (void)s->backend->synchronize(s->state, NULL);
}

static void close_side(side *s) {
  if (s->event != NULL) s->backend->event_destroy(s->event);
  if (s->stream != NULL) s->backend->stream_destroy(s->stream);
}

void graft_transfer_release(graft_transfer *transfer) {
  if (transfer == NULL) return;
  synchronize(&transfer->source);
  synchronize(&transfer->target);
  close_side(&transfer->source);
  close_side(&transfer->target);
  free(transfer->staging);
  free(transfer);
}
