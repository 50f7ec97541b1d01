#include "testing/session.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "testing/guarded_cpu.h"
#include "testing/helper_ops.h"
#include "testing/oracle.h"

static const graft_extension *const *extensions_of(const graft_conformance_options *options, uint32_t *out_count) {
  if (options->extensions == NULL) return graft_builtin_extensions(out_count);
  *out_count = options->n_extensions;
  return options->extensions;
}

static graft_status register_all(graft_testing_session *session, graft_context *context, bool is_guarded) {
  uint32_t n = 0;
  const graft_extension *const *extensions = extensions_of(&session->options, &n);
  for (uint32_t i = 0; i < n; ++i) {
    const graft_extension *extension = extensions[i];
    if (is_guarded && graft_testing_brings_cpu(extension)) {
      session->guarded_extension = *extension;
      session->guarded_backend = graft_testing_guarded_cpu();
      session->guarded_extension.backends = &session->guarded_backend;
      extension = &session->guarded_extension;
    }
    GRAFT_TRY(graft_context_register(context, extension));
  }
  return graft_context_register(context, graft_testing_helper_ops());
}

static graft_status open_context(graft_testing_session *session, int32_t n_threads, bool is_guarded, graft_error *error,
                                 graft_context **out_context, graft_device **out_device) {
  graft_context_options options = {.struct_size = sizeof options,
                                   .n_threads = n_threads,
                                   .cpu_target = session->options.cpu_target,
                                   .without_builtins = true};
  GRAFT_TRY(graft_context_create(&options, error, out_context));
  graft_status status = register_all(session, *out_context, is_guarded);
  const char *device = session->options.device != NULL ? session->options.device : "cpu";
  if (status == GRAFT_OK) status = graft_device_open(*out_context, device, out_device);
  if (status != GRAFT_OK && error != NULL) *error = *graft_context_error(*out_context);
  return status;
}

graft_status graft_testing_session_open(const graft_conformance_options *options, graft_error *error,
                                        graft_testing_session *out_session) {
  static const int32_t n_threads[GRAFT_TESTING_N_DEVICES] = {2, 1, 5};
  graft_testing_session *session = out_session;
  *session = (graft_testing_session){.options = *options};
  graft_status status = GRAFT_OK;
  for (int i = 0; i < GRAFT_TESTING_N_DEVICES && status == GRAFT_OK; ++i) {
    status = open_context(session, n_threads[i], false, error, &session->contexts[i], &session->devices[i]);
  }
  if (status == GRAFT_OK) status = graft_device_open(session->contexts[0], "cpu", &session->oracle);
  if (status == GRAFT_OK) {
    status = open_context(session, 2, true, error, &session->guarded_context, &session->guarded_device);
  }
  if (status != GRAFT_OK) graft_testing_session_close(session);
  return status;
}

void graft_testing_session_close(graft_testing_session *session) {
  for (int i = 0; i < GRAFT_TESTING_N_DEVICES; ++i) {
    if (session->contexts[i] != NULL) graft_context_destroy(session->contexts[i]);
    session->contexts[i] = NULL;
  }
  if (session->guarded_context != NULL) graft_context_destroy(session->guarded_context);
  session->guarded_context = NULL;
}

static void print_list(graft_testing_session *session, const char *format, va_list arguments) GRAFT_PRINTF(2, 0);

static void print_list(graft_testing_session *session, const char *format, va_list arguments) {
  char text[1024];
  if (session->options.writer.write == NULL) return;
  int size = vsnprintf(text, sizeof text, format, arguments);
  if (size < 0) return;
  size_t written = (size_t)size < sizeof text ? (size_t)size : sizeof text - 1;
  // A report that cannot be written changes no verdict.
  (void)!session->options.writer.write(session->options.writer.user, text, written);
}

void graft_testing_print(graft_testing_session *session, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_list(session, format, arguments);
  va_end(arguments);
}

void graft_testing_vary(graft_testing_session *session, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(session->variation, sizeof session->variation, format, arguments);
  va_end(arguments);
}

static void print_shapes(graft_testing_session *session) {
  char text[128];
  for (uint32_t i = 0; i < session->example->n_inputs; ++i) {
    bool is_given = (session->example->present >> i & 1u) != 0;
    graft_testing_print(session, " %s",
                        is_given ? graft_tensor_desc_format(&session->example->inputs[i], text, sizeof text) : "none");
  }
}

void graft_testing_fail(graft_testing_session *session, const char *format, ...) {
  ++session->report.n_failures;
  if (++session->tally->n_failures > GRAFT_TESTING_MAX_PRINTED) return;
  const graft_testing_example *example = session->example;
  const graft_kernel_def *kernel = session->tally->kernel;
  graft_testing_print(session, "FAIL %s %s case '%s' form '%s' seed %llu, %s:", example->op->name,
                      kernel != NULL ? kernel->name : "reference", example->sample->name, example->form.name,
                      (unsigned long long)session->options.seed, session->variation);
  print_shapes(session);
  graft_testing_print(session, ": ");
  va_list arguments;
  va_start(arguments, format);
  print_list(session, format, arguments);
  va_end(arguments);
  graft_testing_print(session, "\n");
}

void graft_testing_refuse(graft_testing_session *session, const graft_reason *reason) {
  graft_testing_tally *tally = session->tally;
  ++tally->n_refused;
  ++session->report.n_refused;
  for (uint32_t i = 0; i < tally->n_reasons; ++i) {
    if (strcmp(tally->reasons[i].text, reason->text) == 0) return;
  }
  if (tally->n_reasons < GRAFT_TESTING_MAX_REASONS) tally->reasons[tally->n_reasons++] = *reason;
}

// The sign of a NaN says nothing.
static const char *format_number(double value, char text[32]) {
  if (isnan(value)) return "NaN";
  snprintf(text, 32, "%.9g", value);
  return text;
}

bool graft_testing_judge(graft_testing_session *session, const void *const *outputs) {
  const graft_testing_example *example = session->example;
  bool is_right = true;
  ++session->tally->n_runs;
  ++session->report.n_runs;
  for (uint32_t i = 0; i < example->op->n_outputs; ++i) {
    graft_testing_difference found = graft_testing_compare(example, i, example->outputs[i].dtype, outputs[i]);
    if (isfinite(found.worst)) {
      session->tally->worst = fmax(session->tally->worst, found.worst);
      session->report.worst = fmax(session->report.worst, found.worst);
    }
    if (!found.is_wrong) continue;
    char place[128];
    graft_testing_coordinates(&example->outputs[i], found.element, place, sizeof place);
    char got[32], want[32];
    graft_testing_fail(session, "output %u %s: got %s, want %s; worst %.3g of the bound", i, place,
                       format_number(found.got, got), format_number(found.want, want), found.worst);
    is_right = false;
  }
  return is_right;
}
