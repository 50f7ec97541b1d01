#include "backends/cuda/device.h"

graft_status graft_cuda_check(graft_cuda_device *device, CUresult result, const char *what, graft_error *error) {
  if (result == CUDA_SUCCESS) return GRAFT_OK;
  graft_status status = graft_cuda_driver_fail(&device->driver, result, what, error);
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED: atomic_store(&device->is_lost, true); break;
    default: break;
  }
  if (atomic_load(&device->is_lost)) graft_error_note(error, "the device is lost; close and reopen the context");
  return status;
}

graft_status graft_cuda_enter(graft_cuda_device *device, graft_error *error) {
  if (atomic_load(&device->is_lost)) {
    return GRAFT_FAIL(error, GRAFT_E_DEVICE, "the GPU failed earlier and is lost; close and reopen the context");
  }
  return graft_cuda_check(device, device->driver.cuCtxPushCurrent(device->context), "taking the GPU's context", error);
}

void graft_cuda_leave(graft_cuda_device *device) {
  CUcontext context = NULL;
  (void)device->driver.cuCtxPopCurrent(&context);
}

graft_status graft_cuda_begin_turn(graft_cuda_device *device, graft_error *error) {
  if (pthread_mutex_lock(&device->turn) != 0) {
    return GRAFT_FAIL(error, GRAFT_E_BUSY, "this thread is inside a run of the same device");
  }
  graft_status status = graft_cuda_enter(device, error);
  if (status != GRAFT_OK) pthread_mutex_unlock(&device->turn);
  return status;
}

void graft_cuda_end_turn(graft_cuda_device *device) {
  graft_cuda_leave(device);
  pthread_mutex_unlock(&device->turn);
}

bool graft_cuda_hold_runs(graft_cuda_device *device) {
  return pthread_mutex_lock(&device->turn) == 0;
}

void graft_cuda_resume_runs(graft_cuda_device *device, bool is_held) {
  if (is_held) pthread_mutex_unlock(&device->turn);
}

bool graft_cuda_is_captured(graft_cuda_device *device) {
  CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = device->driver.cuStreamIsCapturing(device->stream, &state);
  return result == CUDA_SUCCESS && state == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

graft_status graft_cuda_refuse_captured(graft_cuda_device *device, const char *what, graft_error *error) {
  if (!graft_cuda_is_captured(device)) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                    "%s while the device's stream is captured into a graph; do it before or after the capture", what);
}

graft_status graft_cuda_wait(graft_cuda_device *device, graft_error *error) {
  return graft_cuda_check(device, device->driver.cuStreamSynchronize(device->stream), "waiting for the GPU", error);
}
