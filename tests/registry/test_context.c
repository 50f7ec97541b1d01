// Options, environment, log and devices of a context.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "mock.h"

static int clear_environment(void **state) {
  (void)state;
  unsetenv("GRAFT_THREADS");
  unsetenv("GRAFT_CPU");
  unsetenv("GRAFT_LOG");
  return 0;
}

static void refuse(graft_context_options options, const char *part) {
  graft_error error = {0};
  graft_context *context = NULL;
  assert_int_equal(graft_context_create(&options, &error, &context), GRAFT_E_INVALID);
  if (strstr(error.message, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.message, part);
  assert_null(context);
}

static graft_context *create(graft_context_options options) {
  graft_error error = {0};
  graft_context *context = NULL;
  options.struct_size = sizeof options;
  if (graft_context_create(&options, &error, &context) != GRAFT_OK) fail_msg("%s", error.message);
  return context;
}

static void options_are_checked(void **state) {
  (void)state;
  refuse((graft_context_options){.n_threads = 1}, "struct_size");
  refuse((graft_context_options){.struct_size = sizeof(graft_context_options), .n_threads = -1}, "n_threads is -1");
  refuse((graft_context_options){.struct_size = sizeof(graft_context_options), .n_threads = 1025}, "1024");
  refuse((graft_context_options){.struct_size = sizeof(graft_context_options), .cpu_target = "avx9"}, "avx9");
  refuse((graft_context_options){.struct_size = sizeof(graft_context_options), .log_level = (graft_log_level)4},
         "log_level");
}

static void a_context_needs_no_options(void **state) {
  (void)state;
  graft_context *context;
  assert_int_equal(graft_context_create(NULL, NULL, &context), GRAFT_OK);
  assert_int_equal(graft_context_backend_config(context)->n_threads, 0);
  assert_null(graft_context_backend_config(context)->cpu_target);
  graft_context_destroy(context);
  graft_context_destroy(NULL);
}

static void environment_is_read_and_options_go_before_it(void **state) {
  (void)state;
  setenv("GRAFT_THREADS", "7", 1);
  setenv("GRAFT_CPU", "avx2", 1);
  graft_context *context = create((graft_context_options){0});
  assert_int_equal(graft_context_backend_config(context)->n_threads, 7);
  assert_string_equal(graft_context_backend_config(context)->cpu_target, "avx2");
  graft_context_destroy(context);
  context = create((graft_context_options){.n_threads = 3, .cpu_target = "baseline"});
  assert_int_equal(graft_context_backend_config(context)->n_threads, 3);
  assert_string_equal(graft_context_backend_config(context)->cpu_target, "baseline");
  graft_context_destroy(context);
  context = create((graft_context_options){.ignore_environment = true});
  assert_int_equal(graft_context_backend_config(context)->n_threads, 0);
  graft_context_destroy(context);
  setenv("GRAFT_THREADS", "", 1);
  context = create((graft_context_options){0});
  assert_int_equal(graft_context_backend_config(context)->n_threads, 0);
  graft_context_destroy(context);
}

static void wrong_environment_is_refused_with_its_name(void **state) {
  (void)state;
  const char *const wrong[][2] = {
      {"GRAFT_THREADS", "0"},           {"GRAFT_THREADS", "-2"},   {"GRAFT_THREADS", "4x"}, {"GRAFT_THREADS", " 4"},
      {"GRAFT_THREADS", "99999999999"}, {"GRAFT_THREADS", "1025"}, {"GRAFT_CPU", "AVX2"},   {"GRAFT_LOG", "loud"}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    setenv(wrong[i][0], wrong[i][1], 1);
    refuse((graft_context_options){.struct_size = sizeof(graft_context_options)}, wrong[i][0]);
    refuse((graft_context_options){.struct_size = sizeof(graft_context_options)}, wrong[i][1]);
    clear_environment(NULL);
  }
}

typedef struct sink {
  int n;
  graft_log_level level;
  char line[1100];
} sink;

static void take_line(void *user, graft_log_level level, const char *line) {
  sink *to = user;
  ++to->n;
  to->level = level;
  strncpy(to->line, line, sizeof to->line - 1);
}

static void log_has_a_level_and_whole_lines(void **state) {
  (void)state;
  sink lines = {0};
  graft_context *context = create((graft_context_options){.log = take_line, .log_user = &lines});
  graft_context_log(context, GRAFT_LOG_WARNING, "quiet");
  assert_int_equal(lines.n, 0);
  graft_context_log(context, GRAFT_LOG_ERROR, "%s %d", "loud", 3);
  assert_int_equal(lines.n, 1);
  assert_string_equal(lines.line, "loud 3");
  graft_context_log(context, GRAFT_LOG_ERROR, "%02000d", 1);
  assert_int_equal(strlen(lines.line), 1023);
  graft_context_destroy(context);
  setenv("GRAFT_LOG", "debug", 1);
  context = create((graft_context_options){.log = take_line, .log_user = &lines});
  graft_context_log(context, GRAFT_LOG_DEBUG, "detail");
  assert_int_equal(lines.level, GRAFT_LOG_DEBUG);
  graft_context_destroy(context);
}

static void a_context_in_use_is_not_freed(void **state) {
  (void)state;
  sink lines = {0};
  graft_context *context = create((graft_context_options){.log = take_line, .log_user = &lines});
  graft_graph *graph;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  graft_context_destroy(context);
  assert_int_equal(lines.n, 1);
  graft_graph_destroy(graph);
  graft_context_destroy(context);
}

static void devices_open_once_and_close_with_the_context(void **state) {
  (void)state;
  graft_context *context = mock_context();
  graft_device *first, *again, *second;
  assert_int_equal(graft_device_open(context, "mock", &first), GRAFT_OK);
  assert_int_equal(graft_device_open(context, "mock:0", &again), GRAFT_OK);
  assert_int_equal(graft_device_open(context, "mock:1", &second), GRAFT_OK);
  assert_ptr_equal(first, again);
  assert_int_equal(mock_n_open(), 2);
  assert_string_equal(graft_device_name(first), "mock:0");
  assert_string_equal(graft_device_name(second), "mock:1");
  assert_ptr_equal(graft_device_backend(second), graft_context_backend(context, 0));
  assert_int_equal(*(int *)graft_device_state(second), 1);
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(second, &info);
  assert_int_equal(info.memory_bytes, 1001);
  graft_context_destroy(context);
  assert_int_equal(mock_n_open(), 0);
}

static void missing_devices_are_named(void **state) {
  (void)state;
  graft_context *context = mock_context();
  const char *const wrong[][2] = {{"cuda", "no such backend"},
                                  {"mock:2", "devices here: mock:0, mock:1"},
                                  {"mock_absent", "no driver is installed"},
                                  {"mock:", "backend:number"},
                                  {"", "backend:number"},
                                  {"mock:-1", "backend:number"},
                                  {"mock:0x", "backend:number"},
                                  {"mock:99999999999", "backend:number"}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    graft_device *device = NULL;
    assert_int_equal(graft_device_open(context, wrong[i][0], &device), GRAFT_E_NOT_FOUND);
    assert_null(device);
    const char *message = graft_context_error(context)->message;
    if (strstr(message, wrong[i][1]) == NULL) fail_msg("\"%s\" does not say \"%s\"", message, wrong[i][1]);
  }
  graft_device *device;
  assert_int_equal(graft_device_open(context, NULL, &device), GRAFT_E_NOT_FOUND);
  graft_context_destroy(context);
}

static void a_failing_device_is_reported(void **state) {
  (void)state;
  graft_context *context = create((graft_context_options){.n_threads = 13});
  assert_int_equal(graft_context_register(context, &mock_extension), GRAFT_OK);
  graft_device *device = NULL;
  assert_int_equal(graft_device_open(context, "mock", &device), GRAFT_E_DEVICE);
  assert_null(device);
  assert_string_equal(graft_context_error(context)->message, "the mock does not open");
  assert_string_equal(graft_context_error(context)->notes[0], "opening device mock:0");
  graft_context_destroy(context);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, clear_environment, clear_environment)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(options_are_checked),
      TEST(a_context_needs_no_options),
      TEST(environment_is_read_and_options_go_before_it),
      TEST(wrong_environment_is_refused_with_its_name),
      TEST(log_has_a_level_and_whole_lines),
      TEST(a_context_in_use_is_not_freed),
      TEST(devices_open_once_and_close_with_the_context),
      TEST(missing_devices_are_named),
      TEST(a_failing_device_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
