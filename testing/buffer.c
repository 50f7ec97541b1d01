#include "testing/buffer.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define GRAFT_TESTING_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GRAFT_TESTING_HAS_ASAN 1
#endif
#endif
#if defined(GRAFT_TESTING_HAS_ASAN)
#include <sanitizer/asan_interface.h>
#endif

enum { MIN_MARGIN = 256 };

static size_t whole_bytes(const graft_testing_buffer *buffer) {
  return buffer->bytes + 2 * buffer->margin;
}

graft_status graft_testing_buffer_create(graft_device *device, size_t bytes, size_t alignment, graft_error *error,
                                         graft_testing_buffer *out_buffer) {
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(device, &info);
  size_t margin = alignment > info.alignment ? alignment : info.alignment;
  if (margin < MIN_MARGIN) margin = MIN_MARGIN;
  graft_testing_buffer buffer = {.device = device, .bytes = bytes, .margin = margin};
  void *memory = NULL;
  const graft_backend_def *backend = graft_device_backend(device);
  size_t whole = whole_bytes(&buffer);
  GRAFT_TRY(backend->allocate(graft_device_state(device), whole + margin, error, &memory));
  buffer.memory = memory;
  buffer.content = malloc(whole);
  buffer.result = malloc(whole);
  if (buffer.content == NULL || buffer.result == NULL) {
    graft_testing_buffer_destroy(&buffer);
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a test buffer of %zu bytes", bytes);
  }
  *out_buffer = buffer;
  return GRAFT_OK;
}

// Where the margin before the data begins: the allocation's first address that is a multiple of the margin.
static char *aligned_memory(const graft_testing_buffer *buffer) {
  uintptr_t address = (uintptr_t)buffer->memory, mask = (uintptr_t)buffer->margin - 1;
  return buffer->memory + ((address + mask) / buffer->margin * buffer->margin - address);
}

void graft_testing_buffer_destroy(graft_testing_buffer *buffer) {
  if (buffer->memory != NULL) {
    graft_testing_buffer_forbid_margins(buffer, false);
    graft_device_backend(buffer->device)
        ->release(graft_device_state(buffer->device), buffer->memory, whole_bytes(buffer) + buffer->margin);
  }
  free(buffer->content);
  free(buffer->result);
  *buffer = (graft_testing_buffer){0};
}

char *graft_testing_buffer_address(const graft_testing_buffer *buffer) {
  return aligned_memory(buffer) + buffer->margin;
}

unsigned char *graft_testing_buffer_content(const graft_testing_buffer *buffer) {
  return buffer->content + buffer->margin;
}

const unsigned char *graft_testing_buffer_result(const graft_testing_buffer *buffer) {
  return buffer->result + buffer->margin;
}

void graft_testing_buffer_poison(graft_testing_buffer *buffer, unsigned char poison) {
  memset(buffer->content, poison, whole_bytes(buffer));
}

graft_status graft_testing_buffer_upload(graft_testing_buffer *buffer, graft_error *error) {
  return graft_device_backend(buffer->device)
      ->upload(graft_device_state(buffer->device), aligned_memory(buffer), buffer->content, whole_bytes(buffer), error);
}

graft_status graft_testing_buffer_download(graft_testing_buffer *buffer, graft_error *error) {
  return graft_device_backend(buffer->device)
      ->download(graft_device_state(buffer->device), buffer->result, aligned_memory(buffer), whole_bytes(buffer),
                 error);
}

static bool differs(const graft_testing_buffer *buffer, size_t first, size_t bytes, int64_t *out_offset) {
  if (memcmp(buffer->content + first, buffer->result + first, bytes) == 0) return false;
  size_t at = first;
  while (buffer->content[at] == buffer->result[at]) ++at;
  *out_offset = (int64_t)at - (int64_t)buffer->margin;
  return true;
}

bool graft_testing_buffer_damage(const graft_testing_buffer *buffer, bool in_margins_only, int64_t *out_offset) {
  if (!in_margins_only) return differs(buffer, 0, whole_bytes(buffer), out_offset);
  return differs(buffer, 0, buffer->margin, out_offset) ||
         differs(buffer, buffer->margin + buffer->bytes, buffer->margin, out_offset);
}

void graft_testing_buffer_forbid_margins(const graft_testing_buffer *buffer, bool is_forbidden) {
#if defined(GRAFT_TESTING_HAS_ASAN)
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(buffer->device, &info);
  if ((info.flags & GRAFT_DEVICE_HOST_MEMORY) == 0) return;
  char *start = aligned_memory(buffer);
  if (is_forbidden) {
    ASAN_POISON_MEMORY_REGION(start, buffer->margin);
    ASAN_POISON_MEMORY_REGION(start + buffer->margin + buffer->bytes, buffer->margin);
  } else {
    ASAN_UNPOISON_MEMORY_REGION(start, whole_bytes(buffer));
  }
#else
  (void)buffer;
  (void)is_forbidden;
#endif
}
