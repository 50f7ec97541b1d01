// OP8: shared objects that are plug-ins, and files that are not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fail_alloc.h"
#include "graft/graft.h"
#include "temp_folder.h"

static int set_up(void **state) {
  const graft_context_options options = {.struct_size = sizeof options, .n_threads = 1, .ignore_environment = true};
  graft_context *context = NULL;
  if (graft_context_create(&options, NULL, &context) != GRAFT_OK) return 1;
  *state = context;
  return 0;
}

static int tear_down(void **state) {
  graft_context_destroy(*state);
  return 0;
}

static const char *sample(const char *variant) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/sample_%s.so", SAMPLE_FOLDER, variant);
  return path;
}

static void refuse(graft_context *context, const char *path, graft_status status, const char *part) {
  uint32_t n_ops = graft_context_n_ops(context), n_extensions = graft_context_n_extensions(context);
  const graft_plugin *plugin = NULL;
  assert_int_equal(graft_plugin_load(context, path, &plugin), status);
  const graft_error *error = graft_context_error(context);
  assert_int_equal(error->status, status);
  if (strstr(error->message, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", error->message, part);
  assert_null(plugin);
  assert_int_equal(graft_context_n_plugins(context), 0);
  assert_int_equal(graft_context_n_ops(context), n_ops);
  assert_int_equal(graft_context_n_extensions(context), n_extensions);
}

static graft_graph *double_graph(graft_context *context) {
  graft_graph *graph = NULL;
  graft_tensor_desc desc;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 1, (int64_t[]){3}, NULL, &desc), GRAFT_OK);
  graft_tensor *x = graft_graph_input(graph, "x", &desc), *y = NULL;
  graft_graph_apply(graph, "sample.double.v1", NULL, 0, &x, 1, &y);
  graft_graph_output(graph, y, "y");
  return graph;
}

static void run_double(graft_context *context, const char *kernel) {
  graft_device *device = NULL;
  graft_plan *plan = NULL;
  graft_graph *graph = double_graph(context);
  float x[] = {1, -2, 0.5f}, y[3];
  assert_int_equal(graft_device_open(context, "cpu", &device), GRAFT_OK);
  const graft_plan_options options = {.struct_size = sizeof options, .device = device};
  assert_int_equal(graft_plan_create(graph, &options, &plan), GRAFT_OK);
  graft_step_info info = {.struct_size = sizeof info};
  graft_plan_step(plan, 0, &info);
  assert_string_equal(info.kernel->name, kernel);
  assert_int_equal(graft_plan_write(plan, 0, x, sizeof x), GRAFT_OK);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  assert_int_equal(graft_plan_read(plan, 0, y, sizeof y), GRAFT_OK);
  for (int i = 0; i < 3; ++i) assert_float_equal(y[i], 2 * x[i], 0);
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
}

static void OP8_a_plug_in_brings_ops_and_kernels(void **state) {
  graft_context *context = *state;
  const graft_plugin *plugin = NULL;
  assert_null(graft_context_find_op(context, "sample.double.v1"));
  assert_int_equal(graft_plugin_load(context, sample("good"), &plugin), GRAFT_OK);
  assert_int_equal(graft_context_n_plugins(context), 1);
  assert_ptr_equal(graft_context_plugin(context, 0), plugin);
  assert_null(graft_context_plugin(context, 1));
  assert_string_equal(graft_plugin_path(plugin), sample("good"));
  assert_string_equal(graft_plugin_describe(plugin)->name, "sample");
  assert_string_equal(graft_plugin_describe(plugin)->version, "1.2");
  const graft_kernel_def *kernel = graft_context_find_kernel(context, "double_f32__portable");
  assert_string_equal(graft_context_kernel_origin(context, kernel)->name, "sample.ops");
  assert_false(graft_context_kernel_is_native(context, kernel));
  run_double(context, "double_f32__portable");
}

static void OP8_contexts_load_the_same_file(void **state) {
  graft_context *context = *state, *other = NULL;
  const graft_context_options options = {.struct_size = sizeof options, .n_threads = 1, .ignore_environment = true};
  assert_int_equal(graft_context_create(&options, NULL, &other), GRAFT_OK);
  assert_int_equal(graft_plugin_load(context, sample("good"), NULL), GRAFT_OK);
  assert_int_equal(graft_plugin_load(other, sample("good"), NULL), GRAFT_OK);
  graft_context_destroy(other);
  run_double(context, "double_f32__portable");
}

static void OP8_a_second_time_is_refused(void **state) {
  graft_context *context = *state;
  assert_int_equal(graft_plugin_load(context, sample("good"), NULL), GRAFT_OK);
  assert_int_equal(graft_plugin_load(context, sample("good"), NULL), GRAFT_E_EXISTS);
  assert_non_null(strstr(graft_context_error(context)->message, "exists already"));
  assert_int_equal(graft_context_n_plugins(context), 1);
  run_double(context, "double_f32__portable");
}

static void OP1_a_plug_in_in_use_stays(void **state) {
  graft_context *context = *state;
  const graft_plugin *plugin = NULL;
  assert_int_equal(graft_plugin_load(context, sample("good"), &plugin), GRAFT_OK);
  graft_graph *graph = double_graph(context);
  assert_int_equal(graft_plugin_unload(context, plugin), GRAFT_E_BUSY);
  assert_int_equal(graft_context_n_plugins(context), 1);
  graft_graph_destroy(graph);
  run_double(context, "double_f32__portable");  // leaves the device open
  assert_int_equal(graft_plugin_unload(context, plugin), GRAFT_OK);
  assert_int_equal(graft_context_n_plugins(context), 0);
  assert_null(graft_context_find_op(context, "sample.double.v1"));
  assert_int_equal(graft_plugin_unload(context, plugin), GRAFT_E_NOT_FOUND);
  assert_int_equal(graft_plugin_load(context, sample("good"), &plugin), GRAFT_OK);
  run_double(context, "double_f32__portable");
}

static void OP8_a_newer_interface_is_refused(void **state) {
  refuse(*state, sample("newer"), GRAFT_E_UNSUPPORTED, "update graft");
  refuse(*state, sample("older"), GRAFT_E_UNSUPPORTED, "members that this version");
}

static void OP8_a_missing_symbol_is_named(void **state) {
  refuse(*state, sample("symbol_missing"), GRAFT_E_FORMAT, "exports no function graft_extension_main");
  refuse(*state, sample("unresolved"), GRAFT_E_FORMAT, "sample_from_nowhere");
}

static void OP8_wrong_tables_register_nothing(void **state) {
  refuse(*state, sample("nothing"), GRAFT_E_INVALID, "returned NULL");
  refuse(*state, sample("empty"), GRAFT_E_INVALID, "no extension");
  refuse(*state, sample("null_extension"), GRAFT_E_INVALID, "extension 1 is NULL");
  refuse(*state, sample("twin"), GRAFT_E_EXISTS, "sample.double.v1");
  refuse(*state, sample("unsized"), GRAFT_E_INVALID, "struct_size");
  refuse(*state, sample("nameless"), GRAFT_E_INVALID, "no name");
}

// The beginning of this test program's own file, with one byte changed.
static temp_path write_changed(const temp_folder *folder, const char *name, size_t at, unsigned char byte) {
  size_t bytes = 0;
  char *file = temp_folder_read(sample("good"), &bytes);
  assert_true(bytes > 64);
  file[at] = (char)byte;
  temp_path path = temp_folder_write(folder, name, file, bytes);
  free(file);
  return path;
}

static void OP8_files_that_are_no_plug_in(void **state) {
  temp_folder folder = temp_folder_create();
  refuse(*state, NULL, GRAFT_E_NOT_FOUND, "needs a path");
  refuse(*state, "", GRAFT_E_NOT_FOUND, "needs a path");
  refuse(*state, temp_folder_join(&folder, "missing.so").text, GRAFT_E_NOT_FOUND, "there is no plug-in");
  refuse(*state, "libc.so.6", GRAFT_E_NOT_FOUND, "there is no plug-in");
  refuse(*state, folder.path, GRAFT_E_FORMAT, "no file");
  refuse(*state, temp_folder_write_text(&folder, "text.so", "# a script\n").text, GRAFT_E_FORMAT, "no shared object");
  refuse(*state, temp_folder_write_text(&folder, "empty.so", "").text, GRAFT_E_FORMAT, "no shared object");
  refuse(*state, write_changed(&folder, "machine.so", 18, 8).text, GRAFT_E_FORMAT, "another processor");
  refuse(*state, write_changed(&folder, "class.so", 4, sizeof(void *) == 8 ? 1 : 2).text, GRAFT_E_FORMAT,
         "another processor");
  refuse(*state, write_changed(&folder, "object.so", 16, 1).text, GRAFT_E_FORMAT, "-shared");
  temp_path pipe = temp_folder_join(&folder, "pipe.so");
  assert_int_equal(mkfifo(pipe.text, 0600), 0);
  refuse(*state, pipe.text, GRAFT_E_FORMAT, "no file");
  temp_folder_remove(&folder);
}

static void OP8_a_file_that_ends_early_is_refused(void **state) {
  temp_folder folder = temp_folder_create();
  size_t bytes = 0;
  char *file = temp_folder_read(sample("good"), &bytes);
  for (size_t n = 64; n < bytes / 4; n += bytes / 24) {  // symbols for debuggers lie behind what is loaded
    refuse(*state, temp_folder_write(&folder, "short.so", file, n).text, GRAFT_E_FORMAT, "is cut");
  }
  free(file);
  temp_folder_remove(&folder);
}

static void OP8_a_relative_path_is_taken_from_the_working_folder(void **state) {
  char before[1024];
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(SAMPLE_FOLDER), 0);
  graft_status status = graft_plugin_load(*state, "sample_good.so", NULL);
  assert_int_equal(chdir(before), 0);
  assert_int_equal(status, GRAFT_OK);
}

static void load_once(void *user) {
  graft_context *context = user;
  const graft_plugin *plugin = NULL;
  graft_status status = graft_plugin_load(context, sample("good"), &plugin);
  if (status == GRAFT_OK) status = graft_plugin_unload(context, plugin);
  if (status != GRAFT_OK) assert_int_equal(status, GRAFT_E_NO_MEMORY);
}

static void check_once(void *user, int64_t failed) {
  graft_context *context = user;
  (void)failed;
  // A failed unload leaves everything as it was.
  while (graft_context_n_plugins(context) > 0)
    assert_int_equal(graft_plugin_unload(context, graft_context_plugin(context, 0)), GRAFT_OK);
  assert_null(graft_context_find_op(context, "sample.double.v1"));
}

static void OP8_every_failing_allocation_is_a_status(void **state) {
  assert_true(fail_alloc_sweep(load_once, check_once, *state) > 3);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(OP8_a_plug_in_brings_ops_and_kernels),
      TEST(OP8_contexts_load_the_same_file),
      TEST(OP8_a_second_time_is_refused),
      TEST(OP1_a_plug_in_in_use_stays),
      TEST(OP8_a_newer_interface_is_refused),
      TEST(OP8_a_missing_symbol_is_named),
      TEST(OP8_wrong_tables_register_nothing),
      TEST(OP8_files_that_are_no_plug_in),
      TEST(OP8_a_file_that_ends_early_is_refused),
      TEST(OP8_a_relative_path_is_taken_from_the_working_folder),
      TEST(OP8_every_failing_allocation_is_a_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
