// Backend "private": CPU devices whose memory is their own. Every allocation is a mapping that nobody can touch while
// the device neither runs nor copies, so that an access through the wrong device ends the process where it happens.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/cpu/device.h"
#include "backends/words.h"
#include "graft/context.h"
#include "graft/extension.h"

enum { N_DEVICES = 2 };

typedef struct block {
  struct block *next;
  char *memory;
  size_t bytes;  // of the mapping, between two pages that are always closed
} block;

// Begins with a CPU device, so that recordings, kernels and services of that backend find what they know.
typedef struct private_device {
  graft_cpu_device cpu;
  const graft_context *context;
  char name[16];
  char *lacks;           // operators with + behind each, or NULL
  uint64_t memory;       // bytes that may be allocated; 0: what the host has
  pthread_mutex_t lock;  // guards the rest
  uint32_t n_users;      // runs and copies that look at the memory now
  block *blocks;
  size_t page;
} private_device;

static uint32_t count(const graft_backend_config *config, graft_reason *why) {
  (void)config;
  (void)why;
  return N_DEVICES;
}

// ---- configuration: "private:0 lacks=a.b.v1+c memory=65536; private lacks=d" ----

// What stands behind |key|, or NULL where |word| begins otherwise or ends with it.
static const char *value_of(const char *word, size_t length, const char *key) {
  const size_t n = strlen(key);
  return length > n && strncmp(word, key, n) == 0 ? word + n : NULL;
}

static bool read_memory(const char *digits, const char *end, uint64_t *out_bytes) {
  uint64_t bytes = 0;
  for (; digits < end && *digits >= '0' && *digits <= '9' && bytes < UINT64_MAX / 100; ++digits) {
    bytes = bytes * 10 + (uint64_t)(*digits - '0');
  }
  *out_bytes = bytes;
  return digits == end && bytes > 0;
}

// Whether |text| is |op|, or the part of it between vendor and version: "norm" of "acme.norm.v1".
static bool is_name_of(const char *text, size_t length, const char *op) {
  if (strlen(op) == length && memcmp(text, op, length) == 0) return true;
  const char *noun = strchr(op, '.'), *version = strrchr(op, '.');
  return noun != NULL && (size_t)(version - noun) == length + 1 && memcmp(text, noun + 1, length) == 0;
}

static bool is_registered(const graft_context *context, const char *text, size_t length) {
  if (context == NULL) return true;
  for (uint32_t i = 0; i < graft_context_n_ops(context); ++i) {
    if (is_name_of(text, length, graft_context_op(context, i)->name)) return true;
  }
  return false;
}

// Adds what stands from |names| to |end| to what the device lacks.
static graft_status read_lacks(private_device *device, const char *names, const char *end, graft_error *error) {
  for (const char *at = names; at <= end;) {
    const char *plus = memchr(at, '+', (size_t)(end - at)), *stop = plus != NULL ? plus : end;
    if (!is_registered(device->context, at, (size_t)(stop - at))) {
      return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND,
                        "%s cannot lack \"%.*s\": no operator is called so; see graft ops list", device->name,
                        stop - at < 60 ? (int)(stop - at) : 60, at);
    }
    at = stop + 1;
  }
  const size_t n_before = device->lacks != NULL ? strlen(device->lacks) : 0, n = (size_t)(end - names);
  char *lacks = realloc(device->lacks, n_before + n + 2);
  if (lacks == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a device");
  memcpy(lacks + n_before, names, n);
  memcpy(lacks + n_before + n, "+", 2);
  device->lacks = lacks;
  return GRAFT_OK;
}

static graft_status read_word(void *user, const char *word, size_t length, graft_error *error) {
  private_device *device = user;
  const char *end = word + length, *memory = value_of(word, length, "memory="),
             *lacks = value_of(word, length, "lacks=");
  if (memory != NULL && read_memory(memory, end, &device->memory)) return GRAFT_OK;
  if (lacks != NULL) return read_lacks(device, lacks, end, error);
  return GRAFT_FAIL(error, GRAFT_E_INVALID,
                    "%s does not understand \"%.*s\"; it takes lacks=OPERATOR+OPERATOR and memory=BYTES", device->name,
                    length < 60 ? (int)length : 60, word);
}

static bool accepts(void *state, const graft_node_info *node, graft_reason *why) {
  const private_device *device = state;
  for (const char *at = device->lacks; at != NULL && *at != '\0';) {
    const size_t n = strcspn(at, "+");
    if (is_name_of(at, n, node->op->name)) return graft_refuse(why, "%s was told to lack it", device->name);
    at += n + 1;
  }
  return true;
}

// ---- opening and closing ----

static graft_status copy(void *state, void *target, const void *source, size_t bytes, graft_error *error);

static graft_status open_device(const graft_backend_config *config, uint32_t index, graft_error *error,
                                void **out_state) {
  private_device *device = calloc(1, sizeof *device);
  if (device == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a device");
  snprintf(device->name, sizeof device->name, "private:%u", (unsigned)index);
  device->context = config->context;
  device->page = (size_t)sysconf(_SC_PAGESIZE);
  pthread_mutex_init(&device->lock, NULL);
  graft_status status = graft_words_read(config->devices, device->name, read_word, device, error);
  if (status == GRAFT_OK) status = graft_cpu_device_init(config, error, &device->cpu);
  if (status != GRAFT_OK) {
    pthread_mutex_destroy(&device->lock);
    free(device->lacks);
    free(device);
    return status;
  }
  device->cpu.streams.copy = copy;
  *out_state = device;
  return GRAFT_OK;
}

static void close_device(void *state) {
  private_device *device = state;
  if (device == NULL) return;
  graft_cpu_device_release(&device->cpu);
  pthread_mutex_destroy(&device->lock);
  free(device->lacks);
  free(device);
}

static void describe(void *state, graft_device_info *out_info) {
  const private_device *device = state;
  graft_cpu_device_describe(state, out_info);
  out_info->flags &= ~(uint32_t)(GRAFT_DEVICE_HOST_MEMORY | GRAFT_DEVICE_HOST_POINTERS | GRAFT_DEVICE_MAPPING);
  if (device->memory > 0) {
    const uint64_t used = out_info->allocated_bytes;
    out_info->memory_bytes = out_info->max_buffer_bytes = device->memory;
    out_info->free_bytes = used < device->memory ? device->memory - used : 0;
  }
  snprintf(out_info->name, sizeof out_info->name, "private memory on %.70s", device->cpu.name);
}

// ---- memory ----

static graft_status protect(const private_device *device, int protection, graft_error *error) {
  for (const block *b = device->blocks; b != NULL; b = b->next) {
    if (mprotect(b->memory, b->bytes, protection) == 0) continue;
    return GRAFT_FAIL(error, GRAFT_E_DEVICE, "the system refuses to protect %zu bytes of %s", b->bytes, device->name);
  }
  return GRAFT_OK;
}

static graft_status begin_use(private_device *device, graft_error *error) {
  graft_status status = GRAFT_OK;
  pthread_mutex_lock(&device->lock);
  if (device->n_users == 0) status = protect(device, PROT_READ | PROT_WRITE, error);
  if (status == GRAFT_OK) ++device->n_users;
  pthread_mutex_unlock(&device->lock);
  return status;
}

static graft_status end_use(private_device *device, graft_error *error) {
  graft_status status = GRAFT_OK;
  pthread_mutex_lock(&device->lock);
  if (--device->n_users == 0) status = protect(device, PROT_NONE, error);
  pthread_mutex_unlock(&device->lock);
  return status;
}

static bool has_room(const private_device *device, size_t bytes) {
  const uint64_t used = atomic_load(&device->cpu.allocated_bytes);
  return device->memory == 0 || (used < device->memory && bytes <= device->memory - used);
}

static graft_status allocate(void *state, size_t bytes, graft_error *error, void **out_memory) {
  private_device *device = state;
  block *added = malloc(sizeof *added);
  if (added == NULL || !has_room(device, bytes) || bytes > PTRDIFF_MAX - 3 * device->page) goto no_memory;
  added->bytes = (bytes + device->page - 1) / device->page * device->page;
  char *mapping = mmap(NULL, added->bytes + 2 * device->page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) goto no_memory;
  added->memory = mapping + device->page;
  pthread_mutex_lock(&device->lock);
  bool is_open = device->n_users == 0 || mprotect(added->memory, added->bytes, PROT_READ | PROT_WRITE) == 0;
  if (is_open) {
    added->next = device->blocks;
    device->blocks = added;
  }
  pthread_mutex_unlock(&device->lock);
  if (!is_open) {
    munmap(mapping, added->bytes + 2 * device->page);
    goto no_memory;
  }
  graft_cpu_count_allocation(&device->cpu, bytes);
  *out_memory = added->memory;
  return GRAFT_OK;
no_memory:
  free(added);
  return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for %zu bytes on %s", bytes, device->name);
}

static void release(void *state, void *memory, size_t bytes) {
  private_device *device = state;
  if (memory == NULL) return;
  pthread_mutex_lock(&device->lock);
  block **link = &device->blocks;
  while ((*link)->memory != memory) link = &(*link)->next;
  block *removed = *link;
  *link = removed->next;
  pthread_mutex_unlock(&device->lock);
  munmap(removed->memory - device->page, removed->bytes + 2 * device->page);
  free(removed);
  atomic_fetch_sub(&device->cpu.allocated_bytes, bytes);
}

static graft_status copy(void *state, void *target, const void *source, size_t bytes, graft_error *error) {
  GRAFT_TRY(begin_use(state, error));
  memcpy(target, source, bytes);
  return end_use(state, error);
}

// ---- running ----

static graft_status run(graft_recording *recording, uint32_t first, uint32_t end, const graft_run_control *control,
                        graft_error *error) {
  private_device *device = (private_device *)graft_cpu_recording_device(recording);
  GRAFT_TRY(begin_use(device, error));
  graft_status status = graft_cpu_record_run(recording, first, end, control, error);
  graft_status ended = end_use(device, status == GRAFT_OK ? error : NULL);
  return status == GRAFT_OK ? ended : status;
}

static const graft_backend_def backends[] = {{
    .struct_size = sizeof backends[0],
    .name = "private",
    .count = count,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .allocate = allocate,
    .release = release,
    .upload = copy,
    .download = copy,
    .record_begin = graft_cpu_record_begin,
    .step_begin = graft_cpu_step_begin,
    .record_end = graft_cpu_record_end,
    .record_destroy = graft_cpu_record_destroy,
    .run = run,
    .parallel = graft_cpu_parallel,
    .kernels_of = "cpu",
    .accepts = accepts,
    .service = graft_cpu_service,
    GRAFT_CPU_STREAM_FUNCTIONS,
}};

const graft_extension graft_extension_private_backend = {
    .struct_size = sizeof graft_extension_private_backend,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.private_backend",
    .vendor = "graft",
    .backends = backends,
    .n_backends = 1,
};
