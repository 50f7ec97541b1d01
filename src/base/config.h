// config.h — the process environment, read in one place.
#ifndef GRAFT_SRC_BASE_CONFIG_H
#define GRAFT_SRC_BASE_CONFIG_H

#include "graft/status.h"

enum { GRAFT_MAX_THREADS = 1024, GRAFT_CONFIG_UNSET = -1 };

typedef struct graft_config {
  int32_t n_threads;       // GRAFT_THREADS, 1 … GRAFT_MAX_THREADS; 0 when unset
  const char *cpu_target;  // GRAFT_CPU; static storage, or NULL when unset
  int32_t log_level;       // GRAFT_LOG: 0 error, 1 warning, 2 info, 3 debug; GRAFT_CONFIG_UNSET
  const char *fusion;      // GRAFT_FUSION; the environment's own, or NULL when unset
  const char *tuning;      // GRAFT_TUNING; the same
} graft_config;

// Errors: GRAFT_E_INVALID with the variable, its value and what it may be. An empty variable counts as unset.
graft_status graft_config_read(graft_error *error, graft_config *out_config);

// The static name of the CPU target called |name|, or NULL.
const char *graft_config_find_cpu_target(const char *name);

#endif
