// The conformance harness must find what is broken, say so in words that lead there, and leave right kernels alone.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "broken_kernels.h"
#include "testing/conformance.h"
#include "testing/guarded_cpu.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZES_ADDRESSES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZES_ADDRESSES 1
#endif
#endif

typedef struct text {
  char bytes[65536];
  size_t size;
} text;

static graft_status append(void *user, const char *bytes, size_t size) {
  text *out = user;
  if (size >= sizeof out->bytes - out->size) return GRAFT_E_IO;
  memcpy(out->bytes + out->size, bytes, size);
  out->size += size;
  out->bytes[out->size] = 0;
  return GRAFT_OK;
}

static const graft_extension *cpu_extension(void) {
  uint32_t n = 0;
  const graft_extension *const *all = graft_builtin_extensions(&n);
  for (uint32_t i = 0; i < n; ++i) {
    if (graft_testing_brings_cpu(all[i])) return all[i];
  }
  return NULL;
}

static graft_conformance_report test_kernel(const char *kernel, text *out) {
  const graft_extension *extensions[] = {cpu_extension(), &broken_extension};
  graft_conformance_options options = {.struct_size = sizeof options,
                                       .extensions = extensions,
                                       .n_extensions = 2,
                                       .op = "broken.*",
                                       .kernel = kernel,
                                       .seed = 7,
                                       .is_quick = true,
                                       .writer = {.write = append, .user = out}};
  graft_conformance_report report;
  graft_error error = {0};
  *out = (text){.size = 0};
  assert_non_null(extensions[0]);
  if (graft_conformance_run(&options, &error, &report) != GRAFT_OK) fail_msg("%s", error.message);
  return report;
}

static void right_kernel_passes(void **state) {
  static text out;
  (void)state;
  graft_conformance_report report = test_kernel("double_f32_right", &out);
  if (report.n_failures != 0) fail_msg("%s", out.bytes);
  assert_int_equal(report.n_kernels, 1);
  assert_true(report.n_runs > 20);
  assert_true(report.n_refused > 0);
  assert_non_null(strstr(out.bytes, "input is not contiguous"));
}

typedef struct expectation {
  const char *kernel;
  const char *words;  // in the report
} expectation;

static void broken_kernel_is_found(void **state) {
  static text out;
  const expectation *expected = *state;
  graft_conformance_report report = test_kernel(expected->kernel, &out);
  if (report.n_failures == 0 || strstr(out.bytes, expected->words) == NULL) {
    fail_msg("'%s' not in: %s", expected->words, out.bytes);
  }
  assert_int_equal(report.n_failed_kernels, 1);
  assert_non_null(strstr(out.bytes, expected->kernel));
}

static void kernel_for_other_hardware_is_skipped(void **state) {
  static text out;
  (void)state;
  graft_conformance_report report = test_kernel("double_f32_too_modern", &out);
  assert_int_equal(report.n_failures, 0);
  assert_int_equal(report.n_kernels, 0);
  assert_int_equal(report.n_skipped_kernels, 1);
  assert_non_null(strstr(out.bytes, "skip double_f32_too_modern"));
}

static void expect_nothing_to_test(const char *op, const char *case_name) {
  const graft_extension *extensions[] = {cpu_extension(), &broken_extension};
  graft_conformance_options options = {
      .struct_size = sizeof options, .extensions = extensions, .n_extensions = 2, .op = op, .case_name = case_name};
  graft_conformance_report report;
  graft_error error = {0};
  assert_int_equal(graft_conformance_run(&options, &error, &report), GRAFT_E_NOT_FOUND);
  assert_non_null(strstr(error.message, case_name != NULL ? case_name : op));
}

static void unknown_name_is_refused(void **state) {
  (void)state;
  expect_nothing_to_test("no.such.op", NULL);
  expect_nothing_to_test("*", "no_such_case");
}

static void same_seed_gives_same_report(void **state) {
  static text first, second;
  (void)state;
  test_kernel("double_f32_wrong", &first);
  test_kernel("double_f32_wrong", &second);
  assert_string_equal(first.bytes, second.bytes);
  assert_non_null(strstr(first.bytes, "seed 7"));
}

#define BROKEN(kernel_name, text_expected)                                     \
  {                                                                            \
    "finds " kernel_name, broken_kernel_is_found, NULL, NULL, &(expectation) { \
      .kernel = kernel_name, .words = text_expected                            \
    }                                                                          \
  }

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(right_kernel_passes),
    BROKEN("double_f32_wrong", "output 0 [1, 13]: got"),
    BROKEN("double_f32_past_end", "memory beside output 0 of 600 bytes was written at byte 600"),
    BROKEN("double_f32_before_start", "memory beside output 0 of 600 bytes was written at byte -4"),
    BROKEN("double_f32_into_input", "the read-only input 0 of 600 bytes was written at byte 596"),
    BROKEN("double_f32_reads_output", "changes with what outputs, workspace and unused memory held before"),
    BROKEN("double_f32_reads_workspace", "changes with what outputs, workspace and unused memory held before"),
    BROKEN("double_f32_by_threads", "changes with 5 threads instead of 2"),
    BROKEN("double_f32_forgets_end", "got NaN"),
#if !defined(SANITIZES_ADDRESSES)  // there the sanitizer itself ends the program at a read outside the input
    BROKEN("double_f32_any_layout", "input 0 transposed"),
    BROKEN("double_f32_from_margin", "changes with what outputs, workspace and unused memory held before"),
#endif
    BROKEN("double_f32_sulks", "changes with a cancelled run before it"),
    BROKEN("double_f32_not_in_place", "in place of input 0"),
    BROKEN("join_f32_clears_first", "inputs 0x1 in their places"),
    BROKEN("double_f32_packs_partly", "depends on what was there before"),
    BROKEN("double_f32_prepare_fails", "prepare gives up"),
    BROKEN("double_f32_idle", "no case exercises it"),
    cmocka_unit_test(kernel_for_other_hardware_is_skipped),
    cmocka_unit_test(unknown_name_is_refused),
    cmocka_unit_test(same_seed_gives_same_report),
  };
  return cmocka_run_group_tests_name("conformance harness", tests, NULL, NULL);
}
