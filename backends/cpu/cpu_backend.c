// The CPU backend's table: one device, "cpu:0", with a pool of threads.
#include <stdio.h>
#include <stdlib.h>

#include "backends/cpu/device.h"
#include "backends/cpu/features.h"
#include "backends/cpu/topology.h"
#include "backends/words.h"
#include "graft/extension.h"

extern const graft_extension graft_extension_cpu_backend;

enum { MAX_THREADS = 1024 };

static uint32_t count(const graft_backend_config *config, graft_reason *why) {
  (void)config;
  (void)why;
  return 1;
}

static graft_status init_turn(pthread_mutex_t *turn, graft_error *error) {
  // A thread that asks twice is told so instead of waiting for itself.
  pthread_mutexattr_t attributes;
  if (pthread_mutexattr_init(&attributes) != 0) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a lock");
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  int result = pthread_mutex_init(turn, &attributes);
  pthread_mutexattr_destroy(&attributes);
  return result == 0 ? GRAFT_OK : GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a lock");
}

static graft_status fill_info(const graft_backend_config *config, int32_t n_cores, graft_error *error,
                              graft_cpu_device *device) {
  graft_cpu_info *info = &device->info;
  info->struct_size = sizeof *info;
  GRAFT_TRY(graft_cpu_limit_features(graft_cpu_detect_features(), config->cpu_target, error, &info->features));
  const int32_t n_wanted = n_cores < MAX_THREADS ? n_cores : MAX_THREADS;
  info->n_threads = config->n_threads > 0 ? config->n_threads : n_wanted;
  if (config->n_threads < 0 || info->n_threads > MAX_THREADS) {
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "%d threads; choose 1 to %d, or 0 for one per core",
                      (int)config->n_threads, MAX_THREADS);
  }
  graft_cpu_find_caches(info);
  char brand[64];
  graft_cpu_brand(brand);
  snprintf(device->name, sizeof device->name, "%s (%d thread%s, %s)", brand, (int)info->n_threads,
           info->n_threads == 1 ? "" : "s", graft_cpu_target_label(info->features));
  return GRAFT_OK;
}

graft_status graft_cpu_device_init(const graft_backend_config *config, graft_error *error, graft_cpu_device *device) {
  GRAFT_TRY(init_turn(&device->turn, error));
  int32_t n_cores = graft_cpu_count_cores();
  graft_status status = fill_info(config, n_cores, error, device);
  if (status == GRAFT_OK) status = graft_cpu_pool_create(device->info.n_threads, n_cores, error, &device->pool);
  if (status != GRAFT_OK) {
    pthread_mutex_destroy(&device->turn);
    return status;
  }
  graft_cpu_streams_init(&device->streams, device);
  return GRAFT_OK;
}

void graft_cpu_device_release(graft_cpu_device *device) {
  graft_cpu_streams_release(&device->streams);
  graft_cpu_pool_destroy(device->pool);
  pthread_mutex_destroy(&device->turn);
}

static graft_status refuse_word(void *user, const char *word, size_t length, graft_error *error) {
  (void)user;
  return GRAFT_FAIL(error, GRAFT_E_INVALID, "cpu:0 takes no words; got \"%.*s\"", length < 60 ? (int)length : 60, word);
}

static graft_status open_device(const graft_backend_config *config, uint32_t index, graft_error *error,
                                void **out_state) {
  (void)index;
  GRAFT_TRY(graft_words_read(config->devices, "cpu:0", refuse_word, NULL, error));
  graft_cpu_device *device = calloc(1, sizeof *device);
  if (device == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a device");
  graft_status status = graft_cpu_device_init(config, error, device);
  if (status != GRAFT_OK) {
    free(device);
    return status;
  }
  *out_state = device;
  return GRAFT_OK;
}

static void close_device(void *state) {
  if (state == NULL) return;
  graft_cpu_device_release(state);
  free(state);
}

void graft_cpu_device_describe(void *state, graft_device_info *out_info) {
  graft_cpu_device *device = state;
  *out_info = (graft_device_info){
      .struct_size = sizeof *out_info,
      .flags = GRAFT_DEVICE_HOST_MEMORY | GRAFT_DEVICE_ASYNC | GRAFT_DEVICE_EVENTS | GRAFT_DEVICE_HOST_POINTERS |
               GRAFT_DEVICE_MAPPING,
      .features = device->info.features,
      .alignment = GRAFT_DEVICE_ALIGNMENT,
      .allocated_bytes = atomic_load(&device->allocated_bytes),
      .peak_bytes = atomic_load(&device->peak_bytes),
  };
  snprintf(out_info->name, sizeof out_info->name, "%s", device->name);
  graft_cpu_find_memory(&out_info->memory_bytes, &out_info->free_bytes);
}

bool graft_cpu_device_lock(graft_cpu_device *device) {
  // A worker would wait for the thread that waits for it.
  return !graft_cpu_pool_is_worker(device->pool) && pthread_mutex_lock(&device->turn) == 0;
}

void graft_cpu_device_unlock(graft_cpu_device *device) {
  pthread_mutex_unlock(&device->turn);
}

typedef struct host_work {
  void (*fn)(void *arg, int64_t i);
  void *arg;
} host_work;

static void run_host_work(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const host_work *work = args;
  work->fn(work->arg, item);
}

void graft_cpu_parallel(void *state, void (*fn)(void *arg, int64_t i), void *arg, int64_t n) {
  graft_cpu_device *device = state;
  if (!graft_cpu_device_lock(device)) {
    for (int64_t i = 0; i < n; ++i) fn(arg, i);
    return;
  }
  const host_work work = {.fn = fn, .arg = arg};
  const graft_cpu_task task = {.run = run_host_work, .args = &work, .args_bytes = sizeof work, .n_items = n};
  graft_cpu_run run;
  graft_cpu_run_init(&run, NULL);
  graft_cpu_pool_run(device->pool, &task, &run);
  graft_cpu_run_release(&run);
  graft_cpu_device_unlock(device);
}

static const graft_backend_def backends[] = {{
    .struct_size = sizeof backends[0],
    .name = "cpu",
    .count = count,
    .open = open_device,
    .close = close_device,
    .describe = graft_cpu_device_describe,
    .allocate = graft_cpu_allocate,
    .release = graft_cpu_release,
    .upload = graft_cpu_copy,
    .download = graft_cpu_copy,
    .record_begin = graft_cpu_record_begin,
    .step_begin = graft_cpu_step_begin,
    .record_end = graft_cpu_record_end,
    .record_destroy = graft_cpu_record_destroy,
    .run = graft_cpu_record_run,
    .parallel = graft_cpu_parallel,
    .service = graft_cpu_service,
    GRAFT_CPU_STREAM_FUNCTIONS,
}};

const graft_cpu_info *graft_cpu_describe(const graft_device *device) {
  const graft_cpu_info_service *service = graft_device_service(device, GRAFT_CPU_INFO_SERVICE);
  return service == NULL ? NULL : service->describe(device);
}

const graft_extension graft_extension_cpu_backend = {
    .struct_size = sizeof graft_extension_cpu_backend,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.cpu_backend",
    .vendor = "graft",
    .kernels = &graft_cpu_reference_kernel,
    .n_kernels = 1,
    .backends = backends,
    .n_backends = 1,
};
