#include "testing/guarded_cpu.h"

#include <pthread.h>
#include <string.h>

enum { MARGIN = 4096, POISON = 0xff };

// Stands at the start of the margin before the data.
typedef struct block {
  struct block *next;
  size_t bytes;
} block;

// A backend table carries no pointer of its own, and the state must stay the inner backend's because kernels ask it for
// facts about the device: so the list of live allocations has no better place than here.
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;

static const graft_backend_def *inner(void) {
  uint32_t n = 0;
  const graft_extension *const *extensions = graft_builtin_extensions(&n);
  for (uint32_t i = 0; i < n; ++i) {
    if (graft_testing_brings_cpu(extensions[i])) return extensions[i]->backends;
  }
  return NULL;
}

bool graft_testing_brings_cpu(const graft_extension *extension) {
  return extension->n_backends == 1 && strcmp(extension->backends[0].name, "cpu") == 0;
}

static graft_status allocate(void *state, size_t bytes, graft_error *error, void **out_memory) {
  if (bytes > SIZE_MAX - 2 * MARGIN) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for %zu bytes", bytes);
  void *memory = NULL;
  GRAFT_TRY(inner()->allocate(state, bytes + 2 * MARGIN, error, &memory));
  memset(memory, POISON, bytes + 2 * MARGIN);
  block *added = memory;
  added->bytes = bytes;
  pthread_mutex_lock(&blocks_lock);
  added->next = blocks;
  blocks = added;
  pthread_mutex_unlock(&blocks_lock);
  *out_memory = (char *)memory + MARGIN;
  return GRAFT_OK;
}

static void release(void *state, void *memory, size_t bytes) {
  block *removed = (void *)((char *)memory - MARGIN);
  pthread_mutex_lock(&blocks_lock);
  block **link = &blocks;
  while (*link != NULL && *link != removed) link = &(*link)->next;
  if (*link != NULL) *link = removed->next;
  pthread_mutex_unlock(&blocks_lock);
  inner()->release(state, removed, bytes + 2 * MARGIN);
}

static bool is_damaged(const block *checked) {
  const unsigned char *start = (const void *)checked;
  const unsigned char *end = start + MARGIN + checked->bytes;
  for (size_t i = sizeof *checked; i < MARGIN; ++i) {
    if (start[i] != POISON) return true;
  }
  for (size_t i = 0; i < MARGIN; ++i) {
    if (end[i] != POISON) return true;
  }
  return false;
}

static graft_status check_margins(graft_error *error) {
  graft_status status = GRAFT_OK;
  pthread_mutex_lock(&blocks_lock);
  for (const block *b = blocks; b != NULL && status == GRAFT_OK; b = b->next) {
    if (!is_damaged(b)) continue;
    status = GRAFT_FAIL(error, GRAFT_E_DEVICE, "memory beside an allocation of %zu bytes was written", b->bytes);
  }
  pthread_mutex_unlock(&blocks_lock);
  return status;
}

static graft_status run(graft_recording *recording, uint32_t first, uint32_t end, const graft_run_control *control,
                        graft_error *error) {
  GRAFT_TRY(inner()->run(recording, first, end, control, error));
  return check_margins(error);
}

graft_backend_def graft_testing_guarded_cpu(void) {
  graft_backend_def backend = *inner();
  backend.allocate = allocate;
  backend.release = release;
  backend.run = run;
  return backend;
}
