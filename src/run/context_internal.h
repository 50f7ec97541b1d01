// context_internal.h — the context as the rest of src sees it. Not installed.
#ifndef GRAFT_SRC_RUN_CONTEXT_INTERNAL_H
#define GRAFT_SRC_RUN_CONTEXT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "graft/context.h"
#include "src/run/query.h"
#include "src/run/registry_internal.h"

struct graft_context {
  graft_registry registry;
  graft_device *devices;         // open ones, newest first
  struct graft_plugin *plugins;  // in order of loading
  atomic_uint n_users;           // graphs and plans alive
  graft_backend_config backend_config;
  char *fusion;                 // NULL: everything is on
  char *tuning;                 // NULL: off
  uint64_t tuning_warnings[2];  // checksums of the last about reading and about writing the file of times; 0: none
  char *device_words;           // backend_config.devices
  graft_log_level log_level;
  graft_log_fn log;
  void *log_user;
  pthread_mutex_t log_mutex;
  graft_error error;
};

// Counts a graph or a plan that uses what is registered: while any is alive nothing can be unregistered. Thread-safe.
void graft_context_retain_user(graft_context *context);
void graft_context_release_user(graft_context *context);

// Where the planner keeps the constants that it packed or uploaded for |device|; NULL at first, and NULL again when the
// last plan that uses them is gone.
struct graft_constant_cache **graft_device_constants(graft_device *device);

// The callbacks that are running for |device|; they change while it does not. Thread-safe.
graft_queries *graft_device_queries(const graft_device *device);

// The context that a device was opened in. Thread-safe.
graft_context *graft_device_context(const graft_device *device);

// Unregisters all of |extensions| or none. Errors: as graft_context_unregister.
graft_status graft_context_remove(graft_context *context, const graft_extension *const *extensions, uint32_t n);

// Lets go of the files of all plug-ins, once nothing of theirs is registered any more.
void graft_plugin_close_all(graft_context *context);

// The device opened before |device| in the same context, or NULL.
const graft_device *graft_device_next(const graft_device *device);

// Closes every device of |context|.
void graft_device_close_all(graft_context *context);

#endif
