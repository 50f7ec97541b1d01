#include "backends/cuda/recording.h"

#include <stdlib.h>
#include <string.h>

#include "backends/cuda/replay.h"
#include "graft/versioned.h"

graft_status graft_cuda_record_begin(void *state, uint32_t n_steps, graft_error *error,
                                     graft_recording **out_recording) {
  graft_recording *recording = calloc(1, sizeof *recording + ((size_t)n_steps + 1) * sizeof(uint32_t));
  if (recording == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to record %u steps", n_steps);
  recording->device = state;
  recording->encoder.recording = recording;
  recording->n_steps = n_steps;
  recording->is_capture_safe = true;
  *out_recording = recording;
  return GRAFT_OK;
}

static void begin_steps_to(graft_recording *recording, uint32_t end) {
  while (recording->n_begun < end) recording->first_command[recording->n_begun++] = recording->n_commands;
}

graft_encoder *graft_cuda_step_begin(graft_recording *recording, uint32_t step) {
  begin_steps_to(recording, step + 1);
  recording->encoder.step = step;
  return &recording->encoder;
}

graft_status graft_cuda_record_end(graft_recording *recording, graft_error *error) {
  (void)error;
  begin_steps_to(recording, recording->n_steps);
  recording->first_command[recording->n_steps] = recording->n_commands;
  graft_cuda_retired_take(recording);
  return GRAFT_OK;
}

static void free_faults(graft_recording *recording) {
  graft_cuda_device *device = recording->device;
  if (recording->faults == NULL || graft_cuda_enter(device, NULL) != GRAFT_OK) return;
  (void)device->driver.cuMemFreeHost(recording->faults);
  graft_cuda_leave(device);
}

void graft_cuda_record_destroy(graft_recording *recording) {
  if (recording == NULL) return;
  graft_cuda_retire(recording);
  free_faults(recording);
  graft_arena_release(&recording->arena);
  free(recording->commands);
  free(recording);
}

static bool reserve_command(graft_recording *recording) {
  if (recording->n_commands < recording->capacity) return true;
  if (recording->capacity > UINT32_MAX / 2) return false;
  const uint32_t capacity = recording->capacity == 0 ? 64 : 2 * recording->capacity;
  graft_cuda_command *commands = realloc(recording->commands, (size_t)capacity * sizeof *commands);
  if (commands == NULL) return false;
  recording->commands = commands;
  recording->capacity = capacity;
  return true;
}

// Appends |command| with a copy of its arguments.
static graft_status append(graft_encoder *encoder, const graft_cuda_command *command, const void *args,
                           graft_error *error) {
  graft_recording *recording = encoder->recording;
  void *copy = graft_arena_alloc(&recording->arena, command->args_bytes);
  if (copy == NULL || !reserve_command(recording)) {
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to record a launch");
  }
  if (command->args_bytes > 0) memcpy(copy, args, command->args_bytes);
  recording->commands[recording->n_commands] = *command;
  recording->commands[recording->n_commands].weight = 1;
  recording->commands[recording->n_commands++].args = copy;
  return GRAFT_OK;
}

static graft_status check_launch(const graft_cuda_device *device, const graft_cuda_launch *launch, graft_error *error) {
  const uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
  const bool fits = threads > 0 && threads <= (uint64_t)device->info.max_threads_per_block &&
                    launch->grid[0] <= INT32_MAX && launch->grid[1] <= UINT16_MAX && launch->grid[2] <= UINT16_MAX &&
                    launch->shared_bytes <= launch->function->shared_bytes && launch->params_bytes <= 4000;
  if (fits) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s cannot be launched with a grid of %u, %u, %u and blocks of %u, %u, %u",
                    launch->function->name, launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0],
                    launch->block[1], launch->block[2]);
}

graft_status graft_cuda_encode(graft_encoder *encoder, const graft_cuda_launch *given, graft_error *error) {
  graft_cuda_launch launch;
  GRAFT_TRY(graft_versioned_copy(&launch, sizeof launch, given, "a graft_cuda_launch", error));
  if (launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0) return GRAFT_OK;
  GRAFT_TRY(check_launch(encoder->recording->device, &launch, error));
  graft_cuda_command command = {.kind = GRAFT_CUDA_LAUNCH,
                                .function = launch.function->handle,
                                .shared_bytes = launch.shared_bytes,
                                .args_bytes = launch.params_bytes,
                                .key_bytes = launch.params_bytes};
  memcpy(command.grid, launch.grid, sizeof command.grid);
  memcpy(command.block, launch.block, sizeof command.block);
  return append(encoder, &command, launch.params, error);
}

graft_status graft_cuda_encode_call(graft_encoder *encoder, const graft_cuda_call *given, graft_error *error) {
  graft_cuda_call call;
  GRAFT_TRY(graft_versioned_copy(&call, sizeof call, given, "a graft_cuda_call", error));
  const graft_cuda_command command = {
      .kind = GRAFT_CUDA_CALL, .run = call.run, .args_bytes = call.args_bytes, .key_bytes = call.key_bytes};
  if (!call.is_capture_safe) encoder->recording->is_capture_safe = false;
  if (call.is_bound) encoder->recording->is_bound = true;
  return append(encoder, &command, call.args, error);
}

graft_status graft_cuda_encode_fill(graft_encoder *encoder, void *target, uint8_t value, size_t bytes,
                                    graft_error *error) {
  const graft_cuda_fill fill = {.target = (CUdeviceptr)(uintptr_t)target, .bytes = bytes, .value = value};
  const graft_cuda_command command = {.kind = GRAFT_CUDA_FILL, .args_bytes = sizeof fill, .key_bytes = sizeof fill};
  return bytes > 0 ? append(encoder, &command, &fill, error) : GRAFT_OK;
}

static graft_status make_faults(graft_recording *recording, graft_error *error) {
  if (recording->faults != NULL) return GRAFT_OK;
  graft_cuda_device *device = recording->device;
  const size_t bytes = GRAFT_CUDA_MAX_FAULTS * sizeof *recording->faults;
  void *memory = NULL;
  GRAFT_TRY(graft_cuda_enter(device, error));
  const CUresult result = device->driver.cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_DEVICEMAP);
  graft_status status = graft_cuda_check(device, result, "allocating pinned host memory", error);
  graft_cuda_leave(device);
  if (status != GRAFT_OK) return status;
  recording->faults = memset(memory, 0, bytes);
  return GRAFT_OK;
}

graft_status graft_cuda_encode_fault(graft_encoder *encoder,
                                     graft_status (*report)(const graft_cuda_fault *fault, graft_error *error),
                                     graft_error *error, void **out_address) {
  graft_recording *recording = encoder->recording;
  graft_cuda_device *device = recording->device;
  if (recording->n_faults == GRAFT_CUDA_MAX_FAULTS) {
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED, "more than %d fault records in one plan", GRAFT_CUDA_MAX_FAULTS);
  }
  GRAFT_TRY(make_faults(recording, error));
  CUdeviceptr address = 0;
  GRAFT_TRY(graft_cuda_enter(device, error));
  const CUresult result = device->driver.cuMemHostGetDevicePointer(&address, recording->faults, 0);
  graft_status status = graft_cuda_check(device, result, "finding pinned memory on the GPU", error);
  graft_cuda_leave(device);
  if (status != GRAFT_OK) return status;
  const uint32_t index = recording->n_faults++;
  recording->reports[index] = report;
  recording->fault_steps[index] = encoder->step;
  *out_address = (void *)(uintptr_t)(address + index * sizeof *recording->faults);
  return GRAFT_OK;
}
