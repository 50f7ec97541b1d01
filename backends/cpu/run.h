// run.h — one run of a recording: why it stops early. Shared by the threads of the pool.
#ifndef GRAFT_BACKENDS_CPU_RUN_H
#define GRAFT_BACKENDS_CPU_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "graft/cpu.h"

typedef struct graft_cpu_run {
  atomic_bool is_stopped;            // cancelled or failed: what is left of the work is skipped
  const graft_run_control *control;  // may be NULL
  pthread_mutex_t lock;              // guards the two below
  graft_status status;
  graft_error failure;  // the first one
} graft_cpu_run;

// A run that nothing has stopped. |control| may be NULL and must outlive the run.
void graft_cpu_run_init(graft_cpu_run *run, const graft_run_control *control);
void graft_cpu_run_release(graft_cpu_run *run);

// Whether to begin nothing more; asks the caller's abort function. Thread-safe.
bool graft_cpu_run_should_stop(graft_cpu_run *run);

// How the run went; the first failure is copied to |error| (may be NULL). Call when no thread works on it any more.
graft_status graft_cpu_run_result(graft_cpu_run *run, graft_error *error);

#endif
