#include "graft/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graft/versioned.h"
#include "src/run/context_internal.h"
#include "src/run/registry.h"

enum { NAME_BYTES = 80, LIST_BYTES = 320 };

struct graft_device {
  graft_device *next;
  graft_context *context;
  const graft_backend_def *backend;
  uint32_t index;
  void *state;
  struct graft_constant_cache *constants;
  graft_queries *queries;
  char name[NAME_BYTES];
};

// Splits "cuda:1" into its parts; without a number it is 0. False when the text is no such name.
static bool parse_name(const char *text, char *backend, uint32_t *out_index) {
  size_t n = strcspn(text, ":");
  if (n == 0 || n >= NAME_BYTES) return false;
  memcpy(backend, text, n);
  backend[n] = '\0';
  *out_index = 0;
  if (text[n] == '\0') return true;
  const char *digits = text + n + 1;
  size_t n_digits = strspn(digits, "0123456789");
  if (n_digits == 0 || n_digits > 6 || digits[n_digits] != '\0') return false;
  *out_index = (uint32_t)strtoul(digits, NULL, 10);
  return true;
}

// Writes "cpu:0, cuda:0, cuda:1" into |text|, cut where it does not fit.
static const char *list_devices(const graft_context *context, char *text, size_t text_bytes) {
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t b = 0; b < graft_context_n_backends(context); ++b) {
    const graft_backend_def *backend = graft_context_backend(context, b);
    graft_reason why = {{0}};
    uint32_t n = backend->count(&context->backend_config, &why);
    for (uint32_t i = 0; i < n && used < text_bytes; ++i) {
      int written =
          snprintf(text + used, text_bytes - used, "%s%s:%u", used == 0 ? "" : ", ", backend->name, (unsigned)i);
      used += (size_t)written;
    }
  }
  return text[0] == '\0' ? "none" : text;
}

static graft_status not_found(graft_context *context, const char *name, const char *why) {
  char list[LIST_BYTES];
  return GRAFT_FAIL(&context->error, GRAFT_E_NOT_FOUND, "there is no device \"%s\"%s%s; devices here: %s", name,
                    why[0] == '\0' ? "" : ": ", why, list_devices(context, list, sizeof list));
}

static graft_status make_queries(graft_error *error, graft_queries **out_queries) {
  graft_queries *queries = calloc(1, sizeof *queries);
  if (queries == NULL || pthread_mutex_init(&queries->mutex, NULL) != 0) {
    free(queries);
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a device");
  }
  *out_queries = queries;
  return GRAFT_OK;
}

static void free_device(graft_device *device) {
  if (device->queries != NULL) pthread_mutex_destroy(&device->queries->mutex);
  free(device->queries);
  free(device);
}

static graft_status open_device(graft_context *context, const graft_backend_def *backend, uint32_t index,
                                graft_device **out_device) {
  graft_device *device = calloc(1, sizeof *device);
  if (device == NULL) return GRAFT_FAIL(&context->error, GRAFT_E_NO_MEMORY, "no memory for a device");
  device->context = context;
  device->backend = backend;
  device->index = index;
  snprintf(device->name, sizeof device->name, "%s:%u", backend->name, (unsigned)index);
  context->error = (graft_error){0};
  graft_status status = make_queries(&context->error, &device->queries);
  if (status == GRAFT_OK) status = backend->open(&context->backend_config, index, &context->error, &device->state);
  if (status != GRAFT_OK) {
    if (context->error.status == GRAFT_OK) GRAFT_FAIL(&context->error, status, "the backend gives no reason");
    graft_error_note(&context->error, "opening device %s", device->name);
    free_device(device);
    return status;
  }
  device->next = context->devices;
  context->devices = device;
  *out_device = device;
  return GRAFT_OK;
}

graft_status graft_device_open(graft_context *context, const char *name, graft_device **out_device) {
  char backend_name[NAME_BYTES];
  uint32_t index;
  if (name == NULL || !parse_name(name, backend_name, &index))
    return not_found(context, name == NULL ? "" : name, "a name reads backend or backend:number");
  const graft_backend_def *backend = graft_registry_find_backend(context, backend_name);
  if (backend == NULL) return not_found(context, name, "no such backend is registered");
  for (graft_device *device = context->devices; device != NULL; device = device->next) {
    if (device->backend != backend || device->index != index) continue;
    *out_device = device;
    return GRAFT_OK;
  }
  graft_reason why = {{0}};
  if (index >= backend->count(&context->backend_config, &why)) return not_found(context, name, why.text);
  return open_device(context, backend, index, out_device);
}

void graft_device_close_all(graft_context *context) {
  while (context->devices != NULL) {
    graft_device *device = context->devices;
    context->devices = device->next;
    device->backend->close(device->state);
    free_device(device);
  }
}

void graft_device_describe(const graft_device *device, graft_device_info *out_info) {
  graft_device_info info = {.struct_size = sizeof info};
  device->backend->describe(device->state, &info);
  graft_versioned_fill(out_info, &info, sizeof info);
}

const char *graft_device_name(const graft_device *device) {
  return device->name;
}

const graft_backend_def *graft_device_backend(const graft_device *device) {
  return device->backend;
}

const void *graft_device_service(const graft_device *device, const char *name) {
  if (device->backend->service == NULL || name == NULL) return NULL;
  return device->backend->service(device->state, name);
}

void *graft_device_state(const graft_device *device) {
  return device->state;
}

graft_queries *graft_device_queries(const graft_device *device) {
  return device->queries;
}

const graft_device *graft_device_next(const graft_device *device) {
  return device->next;
}

graft_context *graft_device_context(const graft_device *device) {
  return device->context;
}

struct graft_constant_cache **graft_device_constants(graft_device *device) {
  return &device->constants;
}
