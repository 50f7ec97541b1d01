#include "testing/conformance.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "testing/kernel_checks.h"
#include "testing/op_checks.h"
#include "testing/random_case.h"
#include "testing/session.h"

// Costs (graft_testing_example_cost) up to which an example is tried to a depth. Beyond the last it is left out.
typedef struct limits {
  double planned, layouts, once;
} limits;

static const limits quick_limits = {.planned = 3e5, .layouts = 3e5, .once = 2e7};
static const limits wide_limits = {.planned = 1e7, .layouts = 1e7, .once = 1e9};

// One operator and the kernels that may run it.
typedef struct subject {
  graft_testing_session *session;
  const graft_op_def *op;
  graft_testing_tally own;  // of the reference itself
  graft_testing_tally *tallies;
  uint32_t n_tallies;
} subject;

static bool matches(const char *pattern, const char *name) {
  return pattern == NULL || fnmatch(pattern, name, 0) == 0;
}

static bool is_for(const graft_kernel_def *kernel, const graft_backend_def *backend, const graft_op_def *op) {
  bool runs_it = strcmp(kernel->backend, backend->name) == 0 ||
                 (backend->kernels_of != NULL && strcmp(kernel->backend, backend->kernels_of) == 0);
  return runs_it && (kernel->op == NULL || strcmp(kernel->op, op->name) == 0);
}

static graft_status find_kernels(subject *tested, graft_error *error) {
  graft_testing_session *session = tested->session;
  graft_context *context = session->contexts[0];
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(session->devices[0], &info);
  const graft_backend_def *backend = graft_device_backend(session->devices[0]);
  uint32_t n = graft_context_n_kernels(context);
  tested->tallies = calloc(n + 1u, sizeof *tested->tallies);
  if (tested->tallies == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for %u tallies", n);
  for (uint32_t i = 0; i < n; ++i) {
    const graft_kernel_def *kernel = graft_context_kernel(context, i);
    if (!is_for(kernel, backend, tested->op) || !matches(session->options.kernel, kernel->name)) continue;
    graft_testing_tally *tally = &tested->tallies[tested->n_tallies++];
    tally->kernel = kernel;
    tally->is_skipped = (kernel->required_features & ~info.features) != 0;
  }
  return GRAFT_OK;
}

static limits limits_of(const graft_testing_session *session) {
  return session->options.is_quick ? quick_limits : wide_limits;
}

// Quick runs vary layouts for the declared dtypes and one narrower set; the planner for the declared ones.
static graft_testing_depth depth_of(const graft_testing_session *session, const graft_testing_example *example) {
  limits most = limits_of(session);
  double cost = graft_testing_example_cost(example);
  const char *form = example->form.name;
  bool is_declared = strcmp(form, "declared") == 0 || example->form.shared[0] != example->form.shared[1];
  bool is_varied = is_declared || !session->options.is_quick || strcmp(form, "floats bf16") == 0;
  if (is_declared && cost <= most.planned) return GRAFT_TESTING_PLANNED;
  if (is_varied && cost <= most.layouts)
    return session->options.is_quick ? GRAFT_TESTING_LAYOUTS : GRAFT_TESTING_PLANNED;
  return is_declared ? GRAFT_TESTING_REPEATABLE : GRAFT_TESTING_ONCE;
}

static void test_example(subject *tested, graft_testing_example *example, bool is_required) {
  graft_testing_session *session = tested->session;
  session->example = example;
  session->tally = &tested->own;
  if (!graft_testing_check_op(session, example, is_required)) return;
  graft_testing_depth depth = depth_of(session, example);
  for (uint32_t k = 0; k < tested->n_tallies; ++k) {
    session->tally = &tested->tallies[k];
    if (!session->tally->is_skipped) graft_testing_check_kernel(session, depth);
  }
}

// Makes the example and tests it; false when the operator does not accept the form.
static bool test_form(subject *tested, const graft_op_case *sample, const graft_testing_form *form) {
  graft_testing_session *session = tested->session;
  graft_testing_example *example = NULL;
  graft_error error = {0};
  graft_status status = graft_testing_example_create(tested->op, sample, form, session->options.seed, &error, &example);
  if (status != GRAFT_OK) return false;
  if (graft_testing_example_cost(example) <= limits_of(session).once) test_example(tested, example, true);
  session->example = NULL;
  graft_testing_example_destroy(example);
  return true;
}

static void test_case(subject *tested, const graft_op_case *sample) {
  graft_testing_session *session = tested->session;
  graft_testing_form forms[GRAFT_TESTING_MAX_FORMS];
  uint32_t n = graft_testing_forms(tested->op, sample, forms);
  for (uint32_t i = 0; i < n; ++i) {
    if (!matches(session->options.form, forms[i].name)) continue;
    if (test_form(tested, sample, &forms[i]) || i > 0) continue;
    ++session->report.n_failures;
    ++tested->own.n_failures;
    graft_testing_print(session, "FAIL %s case '%s': inference refuses the case as declared\n", tested->op->name,
                        sample->name);
  }
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool is_tested(const graft_testing_session *session, const graft_op_case *sample) {
  return (sample->flags & GRAFT_CASE_BENCH) == 0 && matches(session->options.case_name, sample->name);
}

// One case of the operator with other sizes, in one form, through all its kernels.
static void test_random_case(subject *tested, uint64_t round) {
  graft_testing_session *session = tested->session;
  graft_testing_random_case drawn;
  if (!graft_testing_random_case_draw(tested->op, session->options.seed, round, &drawn)) return;
  graft_testing_form forms[GRAFT_TESTING_MAX_FORMS];
  uint32_t n = graft_testing_forms(tested->op, &drawn.sample, forms);
  graft_testing_example *example = NULL;
  const graft_testing_form *form = &forms[drawn.choice % n];
  if (!is_tested(session, drawn.source) || !matches(session->options.form, form->name)) return;
  if (graft_testing_example_create(tested->op, &drawn.sample, form, session->options.seed, NULL, &example) !=
      GRAFT_OK) {
    return;
  }
  if (graft_testing_example_cost(example) <= quick_limits.planned) test_example(tested, example, false);
  session->example = NULL;
  graft_testing_example_destroy(example);
}

static void test_random_cases(subject *tested, double seconds) {
  double end = seconds_now() + seconds;
  for (uint64_t round = 0; tested->op->n_cases > 0 && seconds_now() < end; ++round) test_random_case(tested, round);
}

static void print_reasons(graft_testing_session *session, const graft_testing_tally *tally) {
  for (uint32_t i = 0; i < tally->n_reasons; ++i) {
    graft_testing_print(session, "       refuses: %.63s\n", tally->reasons[i].text);
  }
}

static void report_kernel(graft_testing_session *session, const graft_testing_tally *tally) {
  graft_conformance_report *report = &session->report;
  const char *name = tally->kernel->name;
  if (tally->is_skipped) {
    ++report->n_skipped_kernels;
    graft_testing_print(session, "skip %-45s the device lacks 0x%llx\n", name,
                        (unsigned long long)tally->kernel->required_features);
    return;
  }
  ++report->n_kernels;
  bool is_narrowed = session->options.case_name != NULL || session->options.form != NULL;
  bool is_idle = tally->n_runs == 0 && tally->n_failures == 0 && !is_narrowed && session->options.random_seconds <= 0 &&
                 tally->kernel->op != NULL;
  if (is_idle) ++report->n_failures;
  if (is_idle || tally->n_failures > 0) ++report->n_failed_kernels;
  graft_testing_print(session, "%s %-45s %8llu run%s %6.2f of bound\n",
                      is_idle || tally->n_failures > 0 ? "FAIL" : "ok  ", name, (unsigned long long)tally->n_runs,
                      tally->n_runs == 1 ? " " : "s", tally->worst);
  print_reasons(session, tally);
  if (tally->n_failures > 0)
    graft_testing_print(session, "       %llu failure%s\n", (unsigned long long)tally->n_failures,
                        tally->n_failures == 1 ? "" : "s");
  if (is_idle) graft_testing_print(session, "       no case exercises it\n");
}

static graft_status test_op(graft_testing_session *session, const graft_op_def *op, double seconds,
                            graft_error *error) {
  subject tested = {.session = session, .op = op};
  GRAFT_TRY(find_kernels(&tested, error));
  if (tested.n_tallies > 0 || session->options.kernel == NULL) {
    ++session->report.n_ops;
    for (uint32_t i = 0; i < op->n_cases && seconds <= 0; ++i) {
      if (is_tested(session, &op->cases[i])) test_case(&tested, &op->cases[i]);
    }
    if (seconds > 0) test_random_cases(&tested, seconds);
    graft_testing_print(session, "%s %-45s %8llu references\n", tested.own.n_failures > 0 ? "FAIL" : "op  ", op->name,
                        (unsigned long long)tested.own.n_runs);
    for (uint32_t k = 0; k < tested.n_tallies; ++k) report_kernel(session, &tested.tallies[k]);
  }
  free(tested.tallies);
  return GRAFT_OK;
}

// Without a pattern an operator that has no case is looked at, too: what no case exercises is a failure.
static bool has_case(const graft_testing_session *session, const graft_op_def *op) {
  for (uint32_t i = 0; i < op->n_cases; ++i) {
    if (is_tested(session, &op->cases[i])) return true;
  }
  return session->options.case_name == NULL;
}

// Views have nothing to run; the helpers test others.
static bool is_subject(const graft_testing_session *session, const graft_op_def *op) {
  bool is_computed = (op->traits & GRAFT_OP_VIEW) == 0 && (op->reference != NULL || op->decompose != NULL);
  return is_computed && strncmp(op->name, "testing.", 8) != 0 && matches(session->options.op, op->name) &&
         has_case(session, op);
}

static graft_status test_ops(graft_testing_session *session, graft_error *error) {
  graft_context *context = session->contexts[0];
  uint32_t n_selected = 0, n = graft_context_n_ops(context);
  for (uint32_t i = 0; i < n; ++i) n_selected += is_subject(session, graft_context_op(context, i));
  for (uint32_t i = 0; i < n; ++i) {
    const graft_op_def *op = graft_context_op(context, i);
    double seconds = session->options.random_seconds / (n_selected > 0 ? n_selected : 1);
    if (is_subject(session, op)) GRAFT_TRY(test_op(session, op, seconds, error));
  }
  if (session->report.n_ops > 0) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND,
                    "nothing to test: no operator matches '%s' with a kernel matching '%s' and a case matching '%s'",
                    session->options.op != NULL ? session->options.op : "*",
                    session->options.kernel != NULL ? session->options.kernel : "*",
                    session->options.case_name != NULL ? session->options.case_name : "*");
}

graft_status graft_conformance_run(const graft_conformance_options *options, graft_error *error,
                                   graft_conformance_report *out_report) {
  graft_testing_session session;
  GRAFT_TRY(graft_testing_session_open(options, error, &session));
  graft_status status = test_ops(&session, error);
  if (status == GRAFT_OK) *out_report = session.report;
  graft_testing_session_close(&session);
  return status;
}
