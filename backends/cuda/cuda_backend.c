// The CUDA backend's table: devices "cuda:0", "cuda:1", …, one for each card, or several where tests ask for virtual
// ones.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/device.h"
#include "backends/cuda/replay.h"
#include "backends/cuda/stream.h"
#include "graft/extension.h"

extern const graft_extension graft_extension_cuda_backend;

static const char *devices_of(const graft_backend_config *config) {
  const size_t end = offsetof(graft_backend_config, devices) + sizeof config->devices;
  return config->struct_size >= end ? config->devices : NULL;
}

static graft_context *context_of(const graft_backend_config *config) {
  const size_t end = offsetof(graft_backend_config, context) + sizeof config->context;
  return config->struct_size >= end ? config->context : NULL;
}

// Reads the options and opens the driver that they name.
static bool open_driver(const graft_backend_config *config, graft_reason *why, graft_cuda_options *options,
                        graft_cuda_driver *driver) {
  if (!graft_cuda_options_read(devices_of(config), why, options)) return false;
  return graft_cuda_driver_open(options->library[0] != '\0' ? options->library : NULL, why, driver);
}

static uint32_t count(const graft_backend_config *config, graft_reason *why) {
  graft_cuda_options options;
  graft_cuda_driver driver;
  if (!open_driver(config, why, &options, &driver)) return 0;
  int n = 0;
  const CUresult result = driver.cuDeviceGetCount(&n);
  if (result != CUDA_SUCCESS || n <= 0) (void)graft_refuse(why, "the CUDA driver finds no GPU");
  graft_cuda_driver_close(&driver);
  return result == CUDA_SUCCESS && n > 0 ? (uint32_t)n * options.n_virtual : 0;
}

static int attribute(const graft_cuda_device *device, CUdevice_attribute which) {
  int value = 0;
  (void)device->driver.cuDeviceGetAttribute(&value, which, device->card);
  return value;
}

static void fill_info(graft_cuda_device *device, uint32_t index) {
  char card[64] = "NVIDIA GPU";
  (void)device->driver.cuDeviceGetName(card, (int)sizeof card, device->card);
  card[sizeof card - 1] = '\0';
  device->info = (graft_cuda_info){
      .struct_size = sizeof device->info,
      .ordinal = (int32_t)(index / device->options.n_virtual),
      .compute_major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
      .compute_minor = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
      .n_multiprocessors = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
      .warp_size = attribute(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE),
      .max_threads_per_block = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
      .shared_bytes_per_block = (size_t)attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
      .l2_bytes = (size_t)attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
      .context = device->context,
      .stream = device->stream,
  };
  const int version = device->driver.version;
  snprintf(device->name, sizeof device->name, "%s (sm_%d%d, CUDA %d.%d)", card, device->info.compute_major,
           device->info.compute_minor, version / 1000, version % 1000 / 10);
}

static graft_status make_stream(graft_cuda_device *device, uint32_t index, graft_error *error) {
  GRAFT_TRY(graft_cuda_check(device, device->driver.cuStreamCreate(&device->stream, CU_STREAM_NON_BLOCKING),
                             "making a CUDA stream", error));
  for (int i = 0; i < 2; ++i) {
    GRAFT_TRY(graft_cuda_check(device, device->driver.cuEventCreate(&device->progress[i], CU_EVENT_DISABLE_TIMING),
                               "making a CUDA event", error));
  }
  fill_info(device, index);
  return graft_cuda_staging_create(device, error);
}

// Turing is the oldest that device code is compiled for.
static graft_status check_card(const graft_cuda_device *device, graft_error *error) {
  const int major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  const int minor = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  if (10 * major + minor >= 75) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_DEVICE,
                    "the card has compute capability %d.%d; graft needs 7.5 (Turing) or newer. Use another device",
                    major, minor);
}

static graft_status open_context(graft_cuda_device *device, uint32_t index, graft_error *error) {
  const graft_cuda_driver *driver = &device->driver;
  const int ordinal = (int)(index / device->options.n_virtual);
  GRAFT_TRY(graft_cuda_check(device, driver->cuDeviceGet(&device->card, ordinal), "finding the GPU", error));
  GRAFT_TRY(check_card(device, error));
  CUcontext context = NULL;
  GRAFT_TRY(graft_cuda_check(device, driver->cuDevicePrimaryCtxRetain(&context, device->card),
                             "making the GPU's context", error));
  device->context = context;
  GRAFT_TRY(graft_cuda_enter(device, error));
  graft_status status = make_stream(device, index, error);
  graft_cuda_leave(device);
  return status;
}

// Nothing that fails here can be helped: a lost device is closed like any other.
static void close_device(void *state) {
  graft_cuda_device *device = state;
  if (device == NULL) return;
  const graft_cuda_driver *driver = &device->driver;
  graft_cuda_blas_join(device);
  if (device->context != NULL && driver->cuCtxPushCurrent(device->context) == CUDA_SUCCESS) {
    if (device->stream != NULL) (void)driver->cuStreamSynchronize(device->stream);
    graft_cuda_retired_clear(device);
    graft_cuda_blas_close(device);
    graft_cuda_modules_unload(device);
    graft_cuda_staging_destroy(device);
    graft_cuda_ranges_clear(device);
    for (int i = 0; i < 2; ++i) {
      if (device->progress[i] != NULL) (void)driver->cuEventDestroy(device->progress[i]);
    }
    if (device->stream != NULL) (void)driver->cuStreamDestroy(device->stream);
    graft_cuda_leave(device);
  }
  if (device->context != NULL) (void)driver->cuDevicePrimaryCtxRelease(device->card);
  pthread_mutex_destroy(&device->turn);
  pthread_mutex_destroy(&device->loading);
  pthread_mutex_destroy(&device->pinning);
  pthread_mutex_destroy(&device->copying);
  graft_cuda_driver_close(&device->driver);
  free(device);
}

static graft_status open_device(const graft_backend_config *config, uint32_t index, graft_error *error,
                                void **out_state) {
  graft_cuda_device *device = calloc(1, sizeof *device);
  if (device == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a device");
  graft_reason why = {{0}};
  device->log = context_of(config);
  if (!open_driver(config, &why, &device->options, &device->driver)) {
    free(device);
    return GRAFT_FAIL(error, GRAFT_E_DEVICE, "%s", why.text);
  }
  // A thread that asks twice is told so instead of waiting for itself.
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&device->turn, &attributes);
  pthread_mutexattr_destroy(&attributes);
  pthread_mutex_init(&device->loading, NULL);
  pthread_mutex_init(&device->pinning, NULL);
  pthread_mutex_init(&device->copying, NULL);
  graft_cuda_blas_prefetch(device);
  graft_status status = open_context(device, index, error);
  if (status != GRAFT_OK) {
    close_device(device);
    return status;
  }
  *out_state = device;
  return GRAFT_OK;
}

static uint32_t capabilities(const graft_cuda_device *device) {
  uint32_t flags = GRAFT_DEVICE_EVENTS;
  if (attribute(device, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT) > 0) flags |= GRAFT_DEVICE_ASYNC;
  if (attribute(device, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) > 0) flags |= GRAFT_DEVICE_HOST_POINTERS;
  if (attribute(device, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY) > 0) flags |= GRAFT_DEVICE_MAPPING;
  return flags;
}

static void describe(void *state, graft_device_info *out_info) {
  graft_cuda_device *device = state;
  *out_info = (graft_device_info){.struct_size = sizeof *out_info,
                                  .flags = capabilities(device),
                                  .alignment = GRAFT_CUDA_ALIGNMENT,
                                  .features = (uint64_t)(device->info.compute_major * 10 + device->info.compute_minor),
                                  .allocated_bytes = atomic_load(&device->allocated_bytes),
                                  .peak_bytes = atomic_load(&device->peak_bytes)};
  snprintf(out_info->name, sizeof out_info->name, "%s", device->name);
  size_t free_bytes = 0, total_bytes = 0;
  if (graft_cuda_enter(device, NULL) != GRAFT_OK) return;
  if (device->driver.cuMemGetInfo(&free_bytes, &total_bytes) == CUDA_SUCCESS) {
    // Virtual devices share the card evenly, so that nobody counts on the same bytes twice.
    out_info->memory_bytes = total_bytes / device->options.n_virtual;
    out_info->free_bytes = free_bytes / device->options.n_virtual;
    out_info->max_buffer_bytes = out_info->memory_bytes;
  }
  graft_cuda_leave(device);
}

graft_cuda_device *graft_cuda_device_of(const graft_device *device) {
  return graft_device_backend(device)->open == open_device ? graft_device_state(device) : NULL;
}

const graft_cuda_info *graft_cuda_describe(const graft_device *device) {
  const graft_cuda_context_service *service = graft_device_service(device, GRAFT_CUDA_CONTEXT_SERVICE);
  return service != NULL ? service->describe(device) : NULL;
}

graft_status graft_cuda_find_ordinal(graft_context *context, uint32_t index, int32_t *out_ordinal) {
  const graft_backend_config *config = graft_context_backend_config(context);
  graft_error *error = graft_context_error_slot(context);
  graft_cuda_options options;
  graft_reason why = {{0}};
  if (index >= count(config, &why) || !graft_cuda_options_read(devices_of(config), &why, &options)) {
    return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "there is no device cuda:%u%s%s", (unsigned)index,
                      why.text[0] != '\0' ? ": " : "", why.text);
  }
  *out_ordinal = (int32_t)(index / options.n_virtual);
  return GRAFT_OK;
}

static const graft_backend_def backends[] = {{
    .struct_size = sizeof backends[0],
    .name = "cuda",
    .count = count,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .allocate = graft_cuda_allocate,
    .release = graft_cuda_release,
    .upload = graft_cuda_upload,
    .download = graft_cuda_download,
    .record_begin = graft_cuda_record_begin,
    .step_begin = graft_cuda_step_begin,
    .record_end = graft_cuda_record_end,
    .record_destroy = graft_cuda_record_destroy,
    .run = graft_cuda_record_run,
    .service = graft_cuda_service,
    .synchronize = graft_cuda_synchronize,
    GRAFT_CUDA_STREAM_FUNCTIONS,
    .allocate_host = graft_cuda_allocate_host,
    .release_host = graft_cuda_release_host,
    .run_beside = graft_cuda_run_beside,
    .register_host = graft_cuda_register_host,
    .unregister_host = graft_cuda_unregister_host,
}};

const graft_extension graft_extension_cuda_backend = {
    .struct_size = sizeof graft_extension_cuda_backend,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.cuda_backend",
    .vendor = "graft",
    .backends = backends,
    .n_backends = 1,
};
