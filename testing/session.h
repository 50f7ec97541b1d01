// session.h — what one conformance run carries along: contexts, counts, and the place that a failure line names.
#ifndef GRAFT_TESTING_SESSION_H
#define GRAFT_TESTING_SESSION_H

#include "testing/conformance.h"
#include "testing/example.h"

enum { GRAFT_TESTING_N_DEVICES = 3, GRAFT_TESTING_MAX_REASONS = 3, GRAFT_TESTING_MAX_PRINTED = 8 };

// Counts of one kernel, or (kernel NULL) of an operator's own reference.
typedef struct graft_testing_tally {
  const graft_kernel_def *kernel;
  bool is_skipped;   // its features are missing
  bool is_selected;  // by the options
  uint64_t n_runs, n_refused, n_failures;
  double worst;
  graft_reason reasons[GRAFT_TESTING_MAX_REASONS];
  uint32_t n_reasons;
} graft_testing_tally;

typedef struct graft_testing_session {
  graft_conformance_options options;
  // The same registry on devices of 2, 1 and 5 threads, and once more on guarded memory.
  graft_context *contexts[GRAFT_TESTING_N_DEVICES];
  graft_device *devices[GRAFT_TESTING_N_DEVICES];
  graft_device *oracle;  // of the first context: the CPU, which has every reference
  graft_context *guarded_context;
  graft_device *guarded_device;
  graft_backend_def guarded_backend;
  graft_extension guarded_extension;
  graft_conformance_report report;
  // The place being tested.
  const graft_testing_example *example;
  graft_testing_tally *tally;
  char variation[96];
} graft_testing_session;

// Opens the contexts and devices. On failure nothing is left open.
GRAFT_NODISCARD graft_status graft_testing_session_open(const graft_conformance_options *options, graft_error *error,
                                                        graft_testing_session *out_session);
void graft_testing_session_close(graft_testing_session *session);

void graft_testing_print(graft_testing_session *session, const char *format, ...) GRAFT_PRINTF(2, 3);

// Names the variation that later failures belong to.
void graft_testing_vary(graft_testing_session *session, const char *format, ...) GRAFT_PRINTF(2, 3);

// Counts a failure at the present place and prints its line.
void graft_testing_fail(graft_testing_session *session, const char *format, ...) GRAFT_PRINTF(2, 3);

// Counts a refusal and keeps its reason if it is new.
void graft_testing_refuse(graft_testing_session *session, const graft_reason *reason);

// Compares every output of the present example with the oracle and counts the run.
// |outputs| are contiguous, of the dtypes that inference gave. Returns whether all are right.
bool graft_testing_judge(graft_testing_session *session, const void *const *outputs);

#endif
