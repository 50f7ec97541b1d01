// kernel_checks.h — the checks of one kernel on one example.
#ifndef GRAFT_TESTING_KERNEL_CHECKS_H
#define GRAFT_TESTING_KERNEL_CHECKS_H

#include "testing/session.h"

// How much is tried with an example; each level includes the ones before.
typedef enum graft_testing_depth {
  GRAFT_TESTING_ONCE,        // right, the same again over other garbage, guards intact
  GRAFT_TESTING_REPEATABLE,  // also cancelled, prepared anew, and with other numbers of threads
  GRAFT_TESTING_LAYOUTS,     // also every layout of every input, constants or not, in place
  GRAFT_TESTING_PLANNED,     // also through the planner, with and without its optimisations
} graft_testing_depth;

// Runs |session->tally->kernel| on |session->example| (solved); failures and refusals are counted in the session.
void graft_testing_check_kernel(graft_testing_session *session, graft_testing_depth depth);

// The planner's part of it. |wanted| are the outputs that the kernel gave by itself.
void graft_testing_check_plans(graft_testing_session *session, void *const *wanted);

#endif
