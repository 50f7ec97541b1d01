// tune.h — measured selection: kernels that can run a node are timed on scratch data, and what was found is kept in a
// file. Not installed.
#ifndef GRAFT_SRC_PLAN_TUNE_H
#define GRAFT_SRC_PLAN_TUNE_H

#include "graft/context.h"

enum { GRAFT_TUNE_MAX_KERNELS = 16 };  // what comes later in order of choice is not timed

// One measurement, as the file keeps it.
typedef struct graft_tune_entry {
  char *key;  // what was measured: device, operator, attributes, descriptions, kernels
  char *kernel;
  double seconds;
} graft_tune_entry;

typedef struct graft_tuner {
  graft_context *context;
  char *path;        // "": nothing is kept
  bool may_measure;  // else only what the file has counts
  graft_tune_entry *entries;
  uint32_t n_entries, capacity;
  bool is_changed;
} graft_tuner;

typedef enum graft_tune_act { GRAFT_TUNE_READING, GRAFT_TUNE_WRITING } graft_tune_act;
// Warns, unless that was the last thing said about |act|.
void graft_tune_warn(const graft_tuner *tuner, graft_tune_act act, const char *format, ...) GRAFT_PRINTF(3, 4);

// Reads the file at |path|. One that is not there is empty, and so, with a warning in the log, is one that cannot be
// read or is damaged. Errors: GRAFT_E_NO_MEMORY.
graft_status graft_tuner_open(graft_context *context, const char *path, bool may_measure, graft_error *error,
                              graft_tuner **out_tuner);
// Writes what is new, whole or not at all; a failure is a warning. Frees everything.
void graft_tuner_close(graft_tuner *tuner);

// Tells which of |kernels| (two at least, in order of choice; each can run |node|) was the fastest, and its time.
// false: nothing is known, and nothing could be measured.
bool graft_tuner_choose(graft_tuner *tuner, const graft_node_info *node, const graft_kernel_def *const *kernels,
                        uint32_t n_kernels, uint32_t *out_index, double *out_seconds);

// tune_cache.c: the file. Every plan reads and perhaps writes it; what it has to say about either is not said twice.
void graft_tune_read(graft_tuner *tuner);
graft_status graft_tune_write(graft_tuner *tuner, graft_error *error);
// The entry for |key|, or NULL.
const graft_tune_entry *graft_tune_find(const graft_tuner *tuner, const char *key);
// Adds a copy; false when memory ends.
bool graft_tune_add(graft_tuner *tuner, const char *key, const char *kernel, double seconds);
void graft_tune_forget(graft_tuner *tuner);

// tune_measure.c: the least time of each of |kernels| on |node|; HUGE_VAL where a kernel failed.
void graft_tune_measure(const graft_node_info *node, const graft_kernel_def *const *kernels, uint32_t n_kernels,
                        double *out_seconds);

#endif
