#include "src/base/config.h"

#include <stdlib.h>
#include <string.h>

static const char *const cpu_targets[] = {"baseline", "avx2", "avx512"};
static const char *const log_levels[] = {"error", "warning", "info", "debug"};

#define COUNT(array) ((int32_t)(sizeof(array) / sizeof((array)[0])))

static int32_t find(const char *const *names, int32_t n, const char *name) {
  for (int32_t i = 0; i < n; ++i) {
    if (strcmp(names[i], name) == 0) return i;
  }
  return GRAFT_CONFIG_UNSET;
}

const char *graft_config_find_cpu_target(const char *name) {
  int32_t i = find(cpu_targets, COUNT(cpu_targets), name);
  return i < 0 ? NULL : cpu_targets[i];
}

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value != NULL && value[0] != '\0' ? value : NULL;
}

// strtol would take signs and blanks as well.
static bool parse_threads(const char *text, int32_t *out_n) {
  int32_t n = 0;
  for (const char *c = text; *c != '\0'; ++c) {
    if (*c < '0' || *c > '9') return false;
    n = n * 10 + (*c - '0');
    if (n > GRAFT_MAX_THREADS) return false;
  }
  *out_n = n;
  return n > 0;
}

graft_status graft_config_read(graft_error *error, graft_config *out_config) {
  graft_config config = {.log_level = GRAFT_CONFIG_UNSET};
  const char *threads = variable("GRAFT_THREADS");
  if (threads != NULL && !parse_threads(threads, &config.n_threads))
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the environment variable GRAFT_THREADS is \"%s\"; it must be 1 to %d",
                      threads, GRAFT_MAX_THREADS);
  const char *target = variable("GRAFT_CPU");
  if (target != NULL) config.cpu_target = graft_config_find_cpu_target(target);
  if (target != NULL && config.cpu_target == NULL)
    return GRAFT_FAIL(error, GRAFT_E_INVALID,
                      "the environment variable GRAFT_CPU is \"%s\"; it must be baseline, avx2 or avx512", target);
  const char *level = variable("GRAFT_LOG");
  if (level != NULL) config.log_level = find(log_levels, COUNT(log_levels), level);
  if (level != NULL && config.log_level == GRAFT_CONFIG_UNSET)
    return GRAFT_FAIL(error, GRAFT_E_INVALID,
                      "the environment variable GRAFT_LOG is \"%s\"; it must be error, warning, info or debug", level);
  config.fusion = variable("GRAFT_FUSION");
  config.tuning = variable("GRAFT_TUNING");
  *out_config = config;
  return GRAFT_OK;
}
