// context.h — a context owns the registry, the open devices, the configuration and the last error. One thread at a time
// registers, opens and builds with a context; several contexts are independent.
//
//   graft_context_options options = {.struct_size = sizeof options};
//   graft_context *context;
//   if (graft_context_create(&options, &error, &context) != GRAFT_OK) …
#ifndef GRAFT_CONTEXT_H
#define GRAFT_CONTEXT_H

#include "graft/extension.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum graft_log_level { GRAFT_LOG_ERROR, GRAFT_LOG_WARNING, GRAFT_LOG_INFO, GRAFT_LOG_DEBUG } graft_log_level;

// Receives one line without a newline. May be called from any thread, one call at a time.
typedef void (*graft_log_fn)(void *user, graft_log_level level, const char *line);

// Zero-initialise, set struct_size and what differs from the defaults.
typedef struct graft_context_options {
  uint32_t struct_size;
  int32_t n_threads;       // at most 1024; 0: GRAFT_THREADS from the environment, else one per core of this process
  const char *cpu_target;  // NULL: GRAFT_CPU from the environment, else the best: "baseline", "avx2", "avx512"
  bool without_builtins;   // begin with an empty registry
  bool ignore_environment;
  graft_log_level log_level;  // messages above it are dropped; 0: GRAFT_LOG from the environment, else errors only
  graft_log_fn log;           // NULL: standard error
  void *log_user;
  const char *fusion;   // of plans that do not say (graft_plan_options.fusion); copied. NULL: GRAFT_FUSION, else "on"
  const char *tuning;   // of plans that do not say (graft_plan_options.tuning); copied. NULL: GRAFT_TUNING, else off
  const char *devices;  // what single devices are told (graft_backend_config.devices); copied. NULL: nothing
} graft_context_options;

// Makes a context; the environment is read here and never again. |options| and |error| may be NULL.
// Errors: GRAFT_E_INVALID (a value out of range, also in the environment), GRAFT_E_NO_MEMORY.
GRAFT_API GRAFT_NODISCARD graft_status graft_context_create(const graft_context_options *options, graft_error *error,
                                                            graft_context **out_context);

// Closes devices and frees everything. Graphs and plans made with the context must be gone; where one is not, that is
// logged and the context is kept.
GRAFT_API void graft_context_destroy(graft_context *context);

// Registers all of |extension| or, on failure, nothing of it.
// Errors: GRAFT_E_EXISTS (a name is taken; the live definition is untouched), GRAFT_E_INVALID (a table breaks the rules
// of its header; the sentence says which), GRAFT_E_UNSUPPORTED (built for a newer interface), GRAFT_E_NO_MEMORY.
GRAFT_API GRAFT_NODISCARD graft_status graft_context_register(graft_context *context, const graft_extension *extension);

// Removes an extension. GRAFT_E_BUSY while a graph or a plan of this context is alive, or a device of a backend that
// the extension brings is open; GRAFT_E_NOT_FOUND when it is not registered.
GRAFT_API GRAFT_NODISCARD graft_status graft_context_unregister(graft_context *context,
                                                                const graft_extension *extension);

// Details of the last failure in this context. Functions that take a context, graph, plan or device of it report here.
GRAFT_API const graft_error *graft_context_error(const graft_context *context);
// The record itself, for code built on top of graft that reports its own failures the same way.
GRAFT_API graft_error *graft_context_error_slot(graft_context *context);

// Gives one line, cut at 1023 bytes, to the log. Thread-safe.
GRAFT_API void graft_context_log(graft_context *context, graft_log_level level, const char *format, ...)
    GRAFT_PRINTF(3, 4);

// Registry, in order of name; extensions in order of registration, as they were given; kernels by operator, then in
// order of choice (priority, application before native, registration). Lookups return NULL where nothing has that name.
// Borrowed.
GRAFT_API uint32_t graft_context_n_extensions(const graft_context *context);
GRAFT_API const graft_extension *graft_context_extension(const graft_context *context, uint32_t index);
GRAFT_API uint32_t graft_context_n_ops(const graft_context *context);
GRAFT_API const graft_op_def *graft_context_op(const graft_context *context, uint32_t index);
GRAFT_API const graft_op_def *graft_context_find_op(const graft_context *context, const char *name);
GRAFT_API uint32_t graft_context_n_kernels(const graft_context *context);
GRAFT_API const graft_kernel_def *graft_context_kernel(const graft_context *context, uint32_t index);
GRAFT_API const graft_kernel_def *graft_context_find_kernel(const graft_context *context, const char *name);
// The extension that brought |kernel|, and whether its vendor provides the kernel's backend ("native"); NULL and false
// where it is not registered.
GRAFT_API const graft_extension *graft_context_kernel_origin(const graft_context *context,
                                                             const graft_kernel_def *kernel);
GRAFT_API bool graft_context_kernel_is_native(const graft_context *context, const graft_kernel_def *kernel);
// The dtype named |name|, built in (upper case is accepted) or registered.
GRAFT_API graft_dtype graft_context_find_dtype(const graft_context *context, const char *name);
GRAFT_API uint32_t graft_context_n_fusions(const graft_context *context);
GRAFT_API const graft_fusion_def *graft_context_fusion(const graft_context *context, uint32_t index);
GRAFT_API uint32_t graft_context_n_backends(const graft_context *context);
GRAFT_API const graft_backend_def *graft_context_backend(const graft_context *context, uint32_t index);
GRAFT_API const graft_backend_config *graft_context_backend_config(const graft_context *context);

#ifdef __cplusplus
}
#endif

#endif
