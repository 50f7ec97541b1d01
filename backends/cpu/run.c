#include "backends/cpu/run.h"

#include <stdarg.h>
#include <stdio.h>

void graft_cpu_run_init(graft_cpu_run *run, const graft_run_control *control) {
  atomic_init(&run->is_stopped, false);
  run->control = control;
  run->status = GRAFT_OK;
  // Default mutexes need no resources on the systems we build for, so this cannot fail.
  pthread_mutex_init(&run->lock, NULL);
}

void graft_cpu_run_release(graft_cpu_run *run) {
  pthread_mutex_destroy(&run->lock);
}

static void stop(graft_cpu_run *run, graft_status status, const char *message) {
  pthread_mutex_lock(&run->lock);
  if (run->status == GRAFT_OK) {
    run->status = status;
    run->failure = (graft_error){0};
    (void)GRAFT_FAIL(&run->failure, status, "%s", message);
  }
  pthread_mutex_unlock(&run->lock);
  atomic_store_explicit(&run->is_stopped, true, memory_order_release);
}

bool graft_cpu_run_should_stop(graft_cpu_run *run) {
  if (atomic_load_explicit(&run->is_stopped, memory_order_relaxed)) return true;
  const graft_run_control *control = run->control;
  if (control == NULL || control->abort == NULL || !control->abort(control->abort_user)) return false;
  stop(run, GRAFT_E_CANCELLED, "the run was cancelled");
  return true;
}

graft_status graft_cpu_run_result(graft_cpu_run *run, graft_error *error) {
  if (run->status != GRAFT_OK && error != NULL) *error = run->failure;
  return run->status;
}

bool graft_cpu_should_abort(const graft_cpu_worker *worker) {
  return graft_cpu_run_should_stop(worker->run);
}

void graft_cpu_fail(const graft_cpu_worker *worker, graft_status status, const char *format, ...) {
  char message[sizeof((graft_error *)0)->message];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  stop(worker->run, status == GRAFT_OK ? GRAFT_E_INVALID : status, message);
}
