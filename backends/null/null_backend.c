// The smallest complete backend: copy this folder to begin a new one (README.md says what to replace). Its "device" is
// host memory that claims to be elsewhere, so that everything a device with memory of its own needs is exercised.
#include "backends/null/null.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graft/versioned.h"

// One open device. A real one holds handles: a driver context, a queue, a compiler cache.
typedef struct null_device {
  _Atomic uint64_t allocated_bytes, peak_bytes;
} null_device;

// ---- devices: how many, opening one, what it is ----

static uint32_t count(const graft_backend_config *config, graft_reason *why) {
  (void)config;
  // Where the driver is missing or there is no device: write why into |why| (graft_refuse) and return 0.
  (void)why;
  return 1;
}

static graft_status open_device(const graft_backend_config *config, uint32_t index, graft_error *error,
                                void **out_state) {
  (void)config;
  (void)index;
  null_device *device = calloc(1, sizeof *device);
  if (device == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a device");
  *out_state = device;
  return GRAFT_OK;
}

static void close_device(void *state) {
  free(state);
}

static void describe(void *state, graft_device_info *out_info) {
  null_device *device = state;
  graft_device_info info = {
      .struct_size = sizeof info,
      .flags = 0,  // GRAFT_DEVICE_HOST_MEMORY where kernels can read and write ordinary host pointers
      .features = 0,
      .alignment = GRAFT_DEVICE_ALIGNMENT,
      .allocated_bytes = device->allocated_bytes,
      .peak_bytes = device->peak_bytes,
  };
  snprintf(info.name, sizeof info.name, "null device");
  graft_versioned_fill(out_info, &info, sizeof info);
}

// ---- memory ----

static graft_status allocate(void *state, size_t bytes, graft_error *error, void **out_memory) {
  null_device *device = state;
  void *memory = NULL;
  if (bytes <= SIZE_MAX - GRAFT_DEVICE_ALIGNMENT) {
    size_t rounded = (bytes + GRAFT_DEVICE_ALIGNMENT - 1) / GRAFT_DEVICE_ALIGNMENT * GRAFT_DEVICE_ALIGNMENT;
    memory = aligned_alloc(GRAFT_DEVICE_ALIGNMENT, rounded);
  }
  if (memory == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for %zu bytes on the null device", bytes);
  device->allocated_bytes += bytes;
  if (device->allocated_bytes > device->peak_bytes) device->peak_bytes = device->allocated_bytes;
  *out_memory = memory;
  return GRAFT_OK;
}

static void release(void *state, void *memory, size_t bytes) {
  null_device *device = state;
  if (memory != NULL) device->allocated_bytes -= bytes;
  free(memory);
}

// Both directions wait until the bytes are there.
static graft_status copy(void *state, void *target, const void *source, size_t bytes, graft_error *error) {
  (void)state;
  (void)error;
  memcpy(target, source, bytes);
  return GRAFT_OK;
}

// ---- recording ----

typedef struct null_record {
  struct null_record *next;
  uint32_t step;
  void (*run)(const void *args);
  _Alignas(max_align_t) unsigned char args[];
} null_record;

struct graft_encoder {
  graft_recording *recording;
  uint32_t step;
};

struct graft_recording {
  graft_encoder encoder;
  null_record *first, **end;
};

static graft_status record_begin(void *state, uint32_t n_steps, graft_error *error, graft_recording **out_recording) {
  (void)state;
  (void)n_steps;
  graft_recording *recording = calloc(1, sizeof *recording);
  if (recording == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a recording");
  recording->encoder.recording = recording;
  recording->end = &recording->first;
  *out_recording = recording;
  return GRAFT_OK;
}

static graft_encoder *step_begin(graft_recording *recording, uint32_t step) {
  recording->encoder.step = step;
  return &recording->encoder;
}

graft_status graft_null_encode(graft_encoder *encoder, const graft_null_command *command, graft_error *error) {
  null_record *record = malloc(sizeof *record + command->args_bytes);
  if (record == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to record a command");
  record->next = NULL;
  record->step = encoder->step;
  record->run = command->run;
  if (command->args_bytes > 0) memcpy(record->args, command->args, command->args_bytes);
  *encoder->recording->end = record;
  encoder->recording->end = &record->next;
  return GRAFT_OK;
}

// Where a device compiles or uploads what was recorded.
static graft_status record_end(graft_recording *recording, graft_error *error) {
  (void)recording;
  (void)error;
  return GRAFT_OK;
}

static void record_destroy(graft_recording *recording) {
  if (recording == NULL) return;
  while (recording->first != NULL) {
    null_record *record = recording->first;
    recording->first = record->next;
    free(record);
  }
  free(recording);
}

// ---- running ----

static const null_record *run_step(const null_record *record, uint32_t step, const graft_run_control *control) {
  if (control->on_step != NULL) control->on_step(control->on_step_user, step, false);
  for (; record != NULL && record->step == step; record = record->next) record->run(record->args);
  if (control->on_step != NULL) control->on_step(control->on_step_user, step, true);
  return record;
}

static graft_status run(graft_recording *recording, uint32_t first, uint32_t end, const graft_run_control *control,
                        graft_error *error) {
  static const graft_run_control nobody = {0};
  if (control == NULL) control = &nobody;
  const null_record *record = recording->first;
  while (record != NULL && record->step < first) record = record->next;
  for (uint32_t step = first; step < end; ++step) {
    if (control->out_step != NULL) *control->out_step = step;
    if (control->abort != NULL && control->abort(control->abort_user)) {
      return GRAFT_FAIL(error, GRAFT_E_CANCELLED, "the run was cancelled");
    }
    record = run_step(record, step, control);
  }
  return GRAFT_OK;
}

static const graft_backend_def backends[] = {{
    .struct_size = sizeof backends[0],
    .name = "null",
    .count = count,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .allocate = allocate,
    .release = release,
    .upload = copy,
    .download = copy,
    .record_begin = record_begin,
    .step_begin = step_begin,
    .record_end = record_end,
    .record_destroy = record_destroy,
    .run = run,
    .parallel = NULL,  // constants are packed one after another
}};

const graft_extension graft_extension_null_backend = {
    .struct_size = sizeof graft_extension_null_backend,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.null_backend",
    .vendor = "graft",
    .backends = backends,
    .n_backends = 1,
};
