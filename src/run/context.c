#include "graft/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graft/versioned.h"
#include "src/base/config.h"
#include "src/base/text.h"
#include "src/run/context_internal.h"

static const char *const level_names[] = {"error", "warning", "info", "debug"};

static void log_to_stderr(void *user, graft_log_level level, const char *line) {
  (void)user;
  fprintf(stderr, "graft: %s: %s\n", level_names[level], line);
}

static graft_status read_options(const graft_context_options *given, graft_context_options *options,
                                 graft_error *error) {
  *options = (graft_context_options){0};
  if (given == NULL) return GRAFT_OK;
  GRAFT_TRY(graft_versioned_copy(options, sizeof *options, given, "graft_context_options", error));
  if (options->n_threads < 0 || options->n_threads > GRAFT_MAX_THREADS)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "n_threads is %d; it must be 0 (one per core) to %d",
                      (int)options->n_threads, GRAFT_MAX_THREADS);
  if ((unsigned)options->log_level > GRAFT_LOG_DEBUG)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "log_level is %d; it must be 0 to %d", (int)options->log_level,
                      GRAFT_LOG_DEBUG);
  if (options->cpu_target == NULL) return GRAFT_OK;
  const char *target = graft_config_find_cpu_target(options->cpu_target);
  if (target == NULL)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "cpu_target is \"%s\"; it must be baseline, avx2 or avx512",
                      options->cpu_target);
  options->cpu_target = target;
  return GRAFT_OK;
}

// What the caller says goes before the environment.
static graft_status merge_environment(graft_context_options *options, graft_error *error) {
  graft_config config;
  if (options->ignore_environment) return GRAFT_OK;
  GRAFT_TRY(graft_config_read(error, &config));
  if (options->n_threads == 0) options->n_threads = config.n_threads;
  if (options->cpu_target == NULL) options->cpu_target = config.cpu_target;
  if (options->log_level == GRAFT_LOG_ERROR && config.log_level != GRAFT_CONFIG_UNSET)
    options->log_level = (graft_log_level)config.log_level;
  if (options->fusion == NULL) options->fusion = config.fusion;
  if (options->tuning == NULL) options->tuning = config.tuning;
  return GRAFT_OK;
}

static graft_status keep_text(const char *text, char **out_copy, graft_error *error) {
  if (text == NULL) return GRAFT_OK;
  *out_copy = strdup(text);
  return *out_copy != NULL ? GRAFT_OK : GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a context");
}

graft_status graft_context_create(const graft_context_options *options, graft_error *error,
                                  graft_context **out_context) {
  graft_context_options merged;
  GRAFT_TRY(read_options(options, &merged, error));
  GRAFT_TRY(merge_environment(&merged, error));
  graft_context *context = calloc(1, sizeof *context);
  if (context == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a context");
  if (pthread_mutex_init(&context->log_mutex, NULL) != 0) {
    free(context);
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "the system has no more mutexes");
  }
  context->backend_config = (graft_backend_config){.struct_size = sizeof context->backend_config,
                                                   .n_threads = merged.n_threads,
                                                   .cpu_target = merged.cpu_target,
                                                   .context = context};
  context->log_level = merged.log_level;
  context->log = merged.log == NULL ? log_to_stderr : merged.log;
  context->log_user = merged.log_user;
  graft_status status = keep_text(merged.fusion, &context->fusion, error);
  if (status == GRAFT_OK) status = keep_text(merged.tuning, &context->tuning, error);
  if (status == GRAFT_OK) status = keep_text(merged.devices, &context->device_words, error);
  context->backend_config.devices = context->device_words;
  if (status == GRAFT_OK && !merged.without_builtins) {
    uint32_t n;
    const graft_extension *const *builtins = graft_builtin_extensions(&n);
    status = graft_registry_add(&context->registry, builtins, n, error);
  }
  if (status == GRAFT_OK) {
    *out_context = context;
  } else {
    graft_context_destroy(context);
  }
  return status;
}

void graft_context_destroy(graft_context *context) {
  if (context == NULL) return;
  unsigned n_users = atomic_load(&context->n_users);
  if (n_users > 0) {
    // Graphs and plans point into the context; keeping it is the only safe answer to a caller's mistake.
    graft_context_log(context, GRAFT_LOG_ERROR, "a context is destroyed while graphs and plans use it (%u); it is kept",
                      n_users);
    return;
  }
  graft_device_close_all(context);
  graft_registry_release(&context->registry);
  graft_plugin_close_all(context);
  free(context->fusion);
  free(context->tuning);
  free(context->device_words);
  pthread_mutex_destroy(&context->log_mutex);
  free(context);
}

graft_status graft_context_register(graft_context *context, const graft_extension *extension) {
  return graft_registry_add(&context->registry, &extension, 1, &context->error);
}

// A device holds nothing of an extension but its backend: constants in a kernel's layout go with the last plan.
static const graft_device *find_device_of(const graft_context *context, const graft_extension *extension) {
  for (const graft_device *device = context->devices; device != NULL; device = graft_device_next(device)) {
    const graft_backend_def *backend = graft_device_backend(device);
    const graft_named *named = graft_index_find(&context->registry.index, GRAFT_NAME_BACKEND, backend->name);
    if (named != NULL && strcmp(named->extension->name, extension->name) == 0) return device;
  }
  return NULL;
}

graft_status graft_context_remove(graft_context *context, const graft_extension *const *extensions, uint32_t n) {
  unsigned n_users = atomic_load(&context->n_users);
  if (n_users > 0)
    return GRAFT_FAIL(&context->error, GRAFT_E_BUSY,
                      "graphs and plans of this context are alive (%u); destroy them before unregistering", n_users);
  for (uint32_t i = 0; i < n; ++i) {
    const graft_device *device =
        graft_registry_has(&context->registry, extensions[i]) ? find_device_of(context, extensions[i]) : NULL;
    if (device != NULL)
      return GRAFT_FAIL(&context->error, GRAFT_E_BUSY, "device %s is open; the extension that brings it must stay",
                        graft_device_name(device));
  }
  return graft_registry_remove(&context->registry, extensions, n, &context->error);
}

graft_status graft_context_unregister(graft_context *context, const graft_extension *extension) {
  return graft_context_remove(context, &extension, 1);
}

const graft_error *graft_context_error(const graft_context *context) {
  return &context->error;
}

graft_error *graft_context_error_slot(graft_context *context) {
  return &context->error;
}

const graft_backend_config *graft_context_backend_config(const graft_context *context) {
  return &context->backend_config;
}

void graft_context_log(graft_context *context, graft_log_level level, const char *format, ...) {
  if (level > context->log_level) return;
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  graft_text_format(line, sizeof line, format, arguments);
  va_end(arguments);
  pthread_mutex_lock(&context->log_mutex);
  context->log(context->log_user, level, line);
  pthread_mutex_unlock(&context->log_mutex);
}

void graft_context_retain_user(graft_context *context) {
  atomic_fetch_add(&context->n_users, 1);
}

void graft_context_release_user(graft_context *context) {
  atomic_fetch_sub(&context->n_users, 1);
}
