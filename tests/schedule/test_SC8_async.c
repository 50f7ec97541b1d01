// Asynchronous copies: order, events, and when what they hold is given back.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graft/transfer.h"
#include "schedule_support.h"

enum { BYTES = 1 << 20 };

// A device whose events are over before its copies are: what is uploaded is read when the device is synchronised.
typedef struct late_copy {
  void *target;
  const void *source;
  size_t bytes;
} late_copy;

static late_copy late[8];
static int n_late, n_synchronized, n_released_early;

static graft_status late_upload(graft_stream *stream, void *target, const void *source, size_t bytes,
                                graft_error *error) {
  (void)stream;
  (void)error;
  late[n_late++] = (late_copy){target, source, bytes};
  return GRAFT_OK;
}

static graft_status late_event_record(graft_stream *stream, graft_event *event, graft_error *error) {
  (void)stream;
  (void)event;
  (void)error;
  return GRAFT_OK;
}

static graft_status late_synchronize(void *state, graft_error *error) {
  for (int i = 0; i < n_late; ++i) memcpy(late[i].target, late[i].source, late[i].bytes);
  n_late = 0;
  ++n_synchronized;
  return graft_extension_cpu_backend.backends[0].synchronize(state, error);
}

static void watched_release(void *state, void *memory, size_t bytes) {
  n_released_early += n_synchronized == 0;
  graft_extension_cpu_backend.backends[0].release(state, memory, bytes);
}

static graft_backend_def late_backend;
static graft_extension late_extension;

static graft_device *open_late(schedule *s) {
  late_backend = graft_extension_cpu_backend.backends[0];
  late_backend.name = "late";
  late_backend.kernels_of = "cpu";
  late_backend.upload_async = late_upload;
  late_backend.event_record = late_event_record;
  late_backend.synchronize = late_synchronize;
  late_backend.release = watched_release;
  late_extension = (graft_extension){.struct_size = sizeof late_extension,
                                     .abi_version = GRAFT_ABI_VERSION,
                                     .name = "tests.late",
                                     .vendor = "tests",
                                     .backends = &late_backend,
                                     .n_backends = 1};
  n_late = n_synchronized = n_released_early = 0;
  assert_int_equal(graft_context_register(s->context, &late_extension), GRAFT_OK);
  return plan_mock_device(s->context, "late");
}

static void *allocate(const graft_device *device, size_t bytes) {
  void *memory = NULL;
  assert_int_equal(graft_device_backend(device)->allocate(graft_device_state(device), bytes, NULL, &memory), GRAFT_OK);
  return memory;
}

static void release(const graft_device *device, void *memory, size_t bytes) {
  graft_device_backend(device)->release(graft_device_state(device), memory, bytes);
}

static void copy_through(graft_transfer_end from, graft_transfer_end to, size_t bytes) {
  graft_transfer *transfer = NULL;
  graft_error error = {0};
  assert_int_equal(graft_transfer_begin(from, to, bytes, &error, &transfer), GRAFT_OK);
  assert_int_equal(graft_transfer_wait(transfer, &error), GRAFT_OK);
  assert_int_equal(graft_transfer_wait(transfer, &error), GRAFT_OK);
  graft_transfer_release(transfer);
}

static unsigned char pattern(size_t i) {
  return (unsigned char)(i * 131 >> 3);
}

static void SC8_bytes_go_from_device_to_device(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  unsigned char *bytes = malloc(BYTES), *back = calloc(1, BYTES);
  for (size_t i = 0; i < BYTES; ++i) bytes[i] = pattern(i);
  void *a = allocate(s->first, BYTES), *b = allocate(s->second, BYTES), *c = allocate(s->second, BYTES);
  copy_through((graft_transfer_end){NULL, bytes}, (graft_transfer_end){s->first, a}, BYTES);
  copy_through((graft_transfer_end){s->first, a}, (graft_transfer_end){s->second, b}, BYTES);
  copy_through((graft_transfer_end){s->second, b}, (graft_transfer_end){s->second, c}, BYTES);
  copy_through((graft_transfer_end){s->second, c}, (graft_transfer_end){NULL, back}, BYTES);
  copy_through((graft_transfer_end){s->second, c}, (graft_transfer_end){NULL, back}, 0);
  assert_memory_equal(bytes, back, BYTES);
  release(s->first, a, BYTES);
  release(s->second, b, BYTES);
  release(s->second, c, BYTES);
  free(bytes);
  free(back);
  schedule_close(s);
}

// Staging memory this large goes back to the system at once: reading it afterwards ends the process.
static void SC8_staging_outlives_events_until_the_device_is_synchronised(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  graft_device *device = open_late(s);
  unsigned char *bytes = malloc(BYTES);
  for (size_t i = 0; i < BYTES; ++i) bytes[i] = pattern(i);
  void *a = allocate(s->first, BYTES);
  unsigned char *b = allocate(device, BYTES);
  copy_through((graft_transfer_end){NULL, bytes}, (graft_transfer_end){s->first, a}, BYTES);
  copy_through((graft_transfer_end){s->first, a}, (graft_transfer_end){device, b}, BYTES);
  assert_int_equal(n_late, 0);
  assert_memory_equal(bytes, b, BYTES);
  release(s->first, a, BYTES);
  release(device, b, BYTES);
  free(bytes);
  schedule_close(s);
}

static void SC8_plans_are_synchronised_before_their_memory_goes(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  graft_device *device = open_late(s);
  graft_tensor *x = plan_input(s->graph, "x", 2, 1), *y = schedule_scale(s->graph, x, 2);
  float in[] = {1, 2}, out[2];
  const graft_binding bindings[] = {{sizeof(graft_binding), x, in, sizeof in},
                                    {sizeof(graft_binding), y, out, sizeof out}};
  const graft_execution run = {.struct_size = sizeof run, .device = device, .bindings = bindings, .n_bindings = 2};
  assert_int_equal(graft_graph_execute(s->graph, &run), GRAFT_OK);
  assert_true(out[0] == 3 && out[1] == 5);
  assert_int_equal(n_synchronized, 1);
  assert_int_equal(n_released_early, 0);
  schedule_close(s);
}

// Two streams: the second waits for the first by an event, and copies what the first brought.
static void SC8_streams_wait_for_events(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  const graft_backend_def *backend = graft_device_backend(s->first);
  void *device = graft_device_state(s->first);
  unsigned char *bytes = malloc(BYTES), *back = calloc(1, BYTES);
  for (size_t i = 0; i < BYTES; ++i) bytes[i] = pattern(i);
  void *a = allocate(s->first, BYTES), *b = allocate(s->first, BYTES);
  graft_stream *streams[2];
  graft_event *events[2];
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(backend->stream_create(device, NULL, &streams[i]), GRAFT_OK);
    assert_int_equal(backend->event_create(device, NULL, &events[i]), GRAFT_OK);
  }
  for (int round = 0; round < 20; ++round) {
    bytes[round] ^= 0x5a;
    assert_int_equal(backend->upload_async(streams[0], a, bytes, BYTES, NULL), GRAFT_OK);
    assert_int_equal(backend->event_record(streams[0], events[0], NULL), GRAFT_OK);
    assert_int_equal(backend->stream_wait(streams[1], events[0], NULL), GRAFT_OK);
    assert_int_equal(backend->copy_async(streams[1], b, a, BYTES, NULL), GRAFT_OK);
    assert_int_equal(backend->download_async(streams[1], back, b, BYTES, NULL), GRAFT_OK);
    assert_int_equal(backend->event_record(streams[1], events[1], NULL), GRAFT_OK);
    assert_int_equal(backend->event_wait(events[1], NULL), GRAFT_OK);
    assert_memory_equal(bytes, back, BYTES);
  }
  assert_int_equal(backend->synchronize(device, NULL), GRAFT_OK);
  for (int i = 0; i < 2; ++i) {
    backend->event_destroy(events[i]);
    backend->stream_destroy(streams[i]);
  }
  release(s->first, a, BYTES);
  release(s->first, b, BYTES);
  free(bytes);
  free(back);
  schedule_close(s);
}

static void SC8_half_a_set_of_functions_is_refused(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  graft_backend_def half = graft_extension_cpu_backend.backends[0];
  half.name = "half";
  half.event_wait = NULL;
  const graft_extension extension = {.struct_size = sizeof extension,
                                     .abi_version = GRAFT_ABI_VERSION,
                                     .name = "tests.half",
                                     .vendor = "tests",
                                     .backends = &half,
                                     .n_backends = 1};
  assert_int_equal(graft_context_register(s->context, &extension), GRAFT_E_INVALID);
  assert_non_null(strstr(graft_context_error(s->context)->message, "it needs all"));
  schedule_close(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(SC8_bytes_go_from_device_to_device),
      cmocka_unit_test(SC8_staging_outlives_events_until_the_device_is_synchronised),
      cmocka_unit_test(SC8_plans_are_synchronised_before_their_memory_goes),
      cmocka_unit_test(SC8_streams_wait_for_events),
      cmocka_unit_test(SC8_half_a_set_of_functions_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
