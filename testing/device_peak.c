#include "testing/device_peak.h"

#include <string.h>
#include <time.h>

#include "testing/device_peak_internal.h"

enum { N_COPIES = 8, N_ROUNDS = 5 };

const char *graft_device_product_name(graft_device_product product) {
  static const char *const names[GRAFT_N_PRODUCTS] = {"f32", "bf16", "f16", "f8_e4m3", "i8"};
  return (uint32_t)product < GRAFT_N_PRODUCTS ? names[product] : "unknown";
}

double graft_device_peak_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct copies {
  const graft_backend_def *backend;
  void *state;
  void *memory[2];
  graft_stream *stream;
  graft_event *event;
  size_t bytes;
} copies;

static graft_status copy_round(const copies *c, graft_error *error, double *out_seconds) {
  const double begun = graft_device_peak_now();
  for (int i = 0; i < N_COPIES; ++i) {
    GRAFT_TRY(c->backend->copy_async(c->stream, c->memory[(i + 1) % 2], c->memory[i % 2], c->bytes, error));
  }
  GRAFT_TRY(c->backend->event_record(c->stream, c->event, error));
  GRAFT_TRY(c->backend->event_wait(c->event, error));
  *out_seconds = (graft_device_peak_now() - begun) / N_COPIES;
  return GRAFT_OK;
}

static graft_status run_copies(copies *c, graft_error *error, double *out_gbytes) {
  double best = 0, seconds;
  for (int i = 0; i < 2; ++i) GRAFT_TRY(c->backend->allocate(c->state, c->bytes, error, &c->memory[i]));
  GRAFT_TRY(c->backend->stream_create(c->state, error, &c->stream));
  GRAFT_TRY(c->backend->event_create(c->state, error, &c->event));
  for (int i = 0; i < N_ROUNDS; ++i) {
    GRAFT_TRY(copy_round(c, error, &seconds));
    const double gbytes = 2e-9 * (double)c->bytes / seconds;
    if (gbytes > best) best = gbytes;
  }
  *out_gbytes = best;
  return GRAFT_OK;
}

static graft_status measure_copies(const graft_device *device, size_t bytes, graft_error *error, double *out_gbytes) {
  copies c = {.backend = graft_device_backend(device), .state = graft_device_state(device), .bytes = bytes};
  if (c.backend->stream_create == NULL) {
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED, "%s has no copies of its own to measure", graft_device_name(device));
  }
  graft_status status = run_copies(&c, error, out_gbytes);
  if (c.event != NULL) c.backend->event_destroy(c.event);
  if (c.stream != NULL) c.backend->stream_destroy(c.stream);
  for (int i = 0; i < 2; ++i) {
    if (c.memory[i] != NULL) c.backend->release(c.state, c.memory[i], bytes);
  }
  return status;
}

graft_status graft_device_peaks_measure(graft_device *device, size_t copy_bytes, int64_t side, graft_error *error,
                                        graft_device_peaks *out_peaks) {
  graft_device_peaks peaks = {.copy_gbytes = 0};
  GRAFT_TRY(measure_copies(device, copy_bytes, error, &peaks.copy_gbytes));
  GRAFT_TRY(graft_device_peak_products(device, side, error, &peaks));
  *out_peaks = peaks;
  return GRAFT_OK;
}
