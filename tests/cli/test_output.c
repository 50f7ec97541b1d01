// Standard output and error: JSON where a program reads it, and readers that go away or have no room.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "files.h"
#include "tiny_model.h"

static temp_folder model;

static int set_up(void **state) {
  (void)state;
  model = temp_folder_create();
  tiny_model_write(&model, NULL);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  temp_folder_remove(&model);
  return 0;
}

static json_t *parse_output(program_result result) {
  assert_code(&result, 0);
  json_t *value = parse_json(result.output);
  program_result_release(&result);
  return value;
}

static void ops_are_listed_with_kernels(void **state) {
  (void)state;
  json_t *ops = parse_output(GRAFT(NULL, "ops", "list", "--json")), *op;
  size_t i, n_kernels = 0;
  bool has_linear = false;
  json_array_foreach(ops, i, op) {
    const char *name = json_string_value(json_object_get(op, "op"));
    assert_non_null(name);
    has_linear = has_linear || strstr(name, "linear") != NULL;
    n_kernels += json_array_size(json_object_get(op, "kernels"));
  }
  assert_true(has_linear);
  assert_true(n_kernels > json_array_size(ops));
  json_decref(ops);
  assert_prints(GRAFT(NULL, "ops", "list"), "linear");
}

static void devices_have_memory(void **state) {
  (void)state;
  json_t *devices = parse_output(GRAFT(NULL, "devices", "--json", "--threads", "3"));
  const json_t *cpu = json_array_get(devices, 0);
  assert_string_equal(json_string_value(json_object_get(cpu, "device")), "cpu:0");
  assert_holds(json_string_value(json_object_get(cpu, "name")), "3 threads");
  assert_true(json_integer_value(json_object_get(cpu, "memory_bytes")) > 0);
  json_decref(devices);
  assert_prints(GRAFT(NULL, "devices"), "cpu:0");
}

static void model_is_described(void **state) {
  (void)state;
  json_t *info = parse_output(GRAFT(NULL, "inspect", model.path, "--json"));
  assert_string_equal(json_string_value(json_object_get(info, "family")), "Z-Image");
  assert_int_equal(json_array_size(json_object_get(info, "parts")), 5);
  assert_true(json_integer_value(json_object_get(info, "peak_bytes")) > 0);
  assert_true(json_integer_value(json_object_get(info, "parameters")) > 0);
  json_decref(info);
  assert_prints(GRAFT(NULL, "inspect", model.path), "memory ");
}

static void plan_shows_steps_and_memory(void **state) {
  (void)state;
  json_t *stages = parse_output(GRAFT(NULL, "plan", "-m", model.path, "--json")), *stage;
  size_t i;
  assert_int_equal(json_array_size(stages), 3);
  json_array_foreach(stages, i, stage) {
    const json_t *first = json_array_get(json_object_get(stage, "steps"), 0);
    for (const char *const *key = (const char *const[]){"node", "op", "device", "kernel", "rejected", NULL}; *key;
         ++key)
      assert_true(json_is_string(json_object_get(first, *key)));
    assert_true(json_integer_value(json_object_get(json_object_get(stage, "memory"), "peak_bytes")) > 0);
  }
  json_decref(stages);
  stages = parse_output(GRAFT(NULL, "plan", model.path, "--format", "json", "--stage", "decoder", "--size", "8x8"));
  assert_int_equal(json_array_size(stages), 1);
  json_decref(stages);
  assert_prints(GRAFT(NULL, "plan", model.path), "Why not other kernels");
  assert_prints(GRAFT(NULL, "plan", model.path, "--format", "dot", "--stage", "transformer"), "digraph");
  program_result brief = GRAFT(NULL, "plan", model.path, "--brief", "--tokens", "7", "--threads", "1");
  assert_code(&brief, 0);
  assert_null(strstr(brief.output, "Why not"));
  program_result_release(&brief);
  assert_refused(GRAFT(NULL, "plan", model.path, "--size", "7x8"), 1, "nearest legal size");
}

static void names_that_are_no_text_still_give_json(void **state) {
  (void)state;
  const char header[] = "      {}";
  char bytes[8 + sizeof header] = {8};
  memcpy(bytes + 8, header, sizeof header);
  const temp_path path = temp_folder_write(&model, "odd-\xFF.safetensors", bytes, 16);
  json_t *info = parse_output(GRAFT(NULL, "inspect", path.text, "--json"));
  assert_holds(json_string_value(json_object_get(info, "path")), "odd-?.safetensors");
  json_decref(info);
}

// Commands that write to standard output, one line or many.
static const char *const *const writers[] = {
    (const char *const[]){"--help", NULL},
    (const char *const[]){"--version", NULL},
    (const char *const[]){"generate", "--help", NULL},
    (const char *const[]){"tokenize", "-m", GRAFT_SHIPPED_MODEL, "a", NULL},
    (const char *const[]){"ops", "list", NULL},
    (const char *const[]){"ops", "list", "--json", NULL},
    (const char *const[]){"devices", NULL},
    (const char *const[]){"inspect", GRAFT_SHIPPED_MODEL, NULL},
    (const char *const[]){"inspect", GRAFT_SHIPPED_MODEL, "--json", NULL},
    (const char *const[]){"plan", GRAFT_SHIPPED_MODEL, NULL},
    (const char *const[]){"plan", GRAFT_SHIPPED_MODEL, "--json", NULL},
    (const char *const[]){"plan", GRAFT_SHIPPED_MODEL, "--format", "dot", NULL},
};
enum { N_WRITERS = sizeof writers / sizeof writers[0] };

static void full_disk_is_told(void **state) {
  (void)state;
  for (size_t i = 0; i < N_WRITERS; ++i)
    assert_refused(program_run(&(program_call){.output = "/dev/full", .arguments = writers[i]}), 1,
                   "writing to standard output failed: No space left");
}

static int close_output(void) {
  return close(STDOUT_FILENO);
}

static void closed_output_is_told(void **state) {
  (void)state;
  for (size_t i = 0; i < N_WRITERS; ++i)
    assert_refused(program_run(&(program_call){.prepare = close_output, .arguments = writers[i]}), 1,
                   "writing to standard output failed");
}

// Standard output becomes a pipe that nobody reads any more.
static int break_output(void) {
  int ends[2];
  if (pipe(ends) != 0 || close(ends[0]) != 0) return 1;
  return dup2(ends[1], STDOUT_FILENO) != STDOUT_FILENO;
}

static void reader_that_leaves_ends_the_program_quietly(void **state) {
  (void)state;
  for (size_t i = 0; i < N_WRITERS; ++i) {
    program_result result = program_run(&(program_call){.prepare = break_output, .arguments = writers[i]});
    assert_code(&result, 1);
    assert_string_equal(result.errors, "");
    program_result_release(&result);
  }
}

static int close_all(void) {
  return close(STDIN_FILENO) != 0 || close(STDOUT_FILENO) != 0 || close(STDERR_FILENO) != 0;
}

// Without care the picture's file would become standard error, and messages part of the picture.
static void closed_streams_do_not_spoil_the_picture(void **state) {
  (void)state;
  const char *const arguments[] = {"generate", "-m", model.path, "-p", "x", "--batch", "2", "-o", "a.png", NULL};
  assert_done(program_run(&(program_call){.folder = model.path, .arguments = arguments}));
  picture right = picture_read(temp_folder_join(&model, "a-1.png").text);
  assert_done(program_run(&(program_call){.folder = model.path, .prepare = close_all, .arguments = arguments}));
  picture closed = picture_read(temp_folder_join(&model, "a-1.png").text);
  assert_same_picture(&right, &closed);
  free(right.bytes);
  free(closed.bytes);
}

static int terminal, screen;  // both ends of a pseudo-terminal

static int show_errors_on_screen(void) {
  return dup2(screen, STDERR_FILENO) != STDERR_FILENO;
}

static void open_terminal(unsigned short n_columns) {
  const struct winsize size = {.ws_row = 20, .ws_col = n_columns};
  terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (terminal < 0) skip();  // a machine without pseudo-terminals
  assert_true(grantpt(terminal) == 0 && unlockpt(terminal) == 0);
  screen = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  assert_true(screen >= 0);
  assert_int_equal(ioctl(screen, TIOCSWINSZ, &size), 0);
}

// A line that wraps cannot be drawn over: each redrawn one would stay on the screen.
static void progress_fits_the_terminal(void **state) {
  static const unsigned short widths[] = {20, 40, 80, 200};
  static const char redraw[] = "\r\033[K";
  const char *const arguments[] = {"generate", "-m", model.path, "-p", "x", "--steps", "3", "-o", "a.png", NULL};
  (void)state;
  for (size_t i = 0; i < sizeof widths / sizeof widths[0]; ++i) {
    char text[8192] = "";
    open_terminal(widths[i]);
    assert_done(
        program_run(&(program_call){.folder = model.path, .prepare = show_errors_on_screen, .arguments = arguments}));
    assert_true(read(terminal, text, sizeof text - 1) > 0);
    assert_holds(text, "drawing");
    for (const char *line = strstr(text, redraw); line != NULL; line = strstr(line, redraw)) {
      line += strlen(redraw);
      const size_t n = strcspn(line, "\r\n");
      assert_in_range(n, 1, widths[i] - 1);
      // What is shown is whole.
      if (memchr(line, '.', n) != NULL) assert_memory_equal(line + n - 6, "s left", 6);
    }
    close(terminal);
    close(screen);
  }
}

// What ends the program at once ends the line of progress first.
static void last_words_begin_a_line(void **state) {
  (void)state;
  static char text[1 << 18];
  size_t n = 0;
  const temp_path vae = temp_folder_join(&model, "vae/diffusion_pytorch_model.safetensors");
  const char *const arguments[] = {"generate", "-m", model.path, "-p", "x", "--steps", "1000", "-o", "a.png", NULL};
  open_terminal(80);
  program running =
      program_start(&(program_call){.folder = model.path, .prepare = show_errors_on_screen, .arguments = arguments});
  bool is_cut = false;
  for (int i = 0; i < 4000 && strstr(text, "cut short") == NULL && n < sizeof text - 1; ++i) {
    const ssize_t got = read(terminal, text + n, sizeof text - 1 - n);
    if (got > 0) n += (size_t)got;
    if (!is_cut && strstr(text, "drawing") != NULL) is_cut = truncate(vae.text, 0) == 0;
    test_sleep(0.002);
  }
  program_result result = program_finish(&running);
  assert_code(&result, 1);
  assert_holds(text, "\r\ngraft: a file was cut short");
  program_result_release(&result);
  close(terminal);
  close(screen);
}

static void columns_of_a_plan_stand_below_each_other(void **state) {
  (void)state;
  program_result result = GRAFT(NULL, "plan", "--stage", "decoder", "--brief");
  assert_code(&result, 0);
  const char *line = strstr(result.output, "step kernel");
  assert_non_null(line);
  const size_t column = (size_t)(strstr(line, " output") - line);
  int n_steps = 0;
  for (line = strchr(line, '\n') + 1; *line != '\n'; line = strchr(line, '\n') + 1, ++n_steps) {
    if (strncmp(line + column, " f32[", 5) != 0) fail_msg("out of line: %.120s", line);
  }
  assert_true(n_steps > 10);
  program_result_release(&result);
}

int main(void) {
#define OUTPUT_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      OUTPUT_TEST(ops_are_listed_with_kernels),
      OUTPUT_TEST(devices_have_memory),
      OUTPUT_TEST(model_is_described),
      OUTPUT_TEST(last_words_begin_a_line),
      OUTPUT_TEST(columns_of_a_plan_stand_below_each_other),
      OUTPUT_TEST(plan_shows_steps_and_memory),
      OUTPUT_TEST(names_that_are_no_text_still_give_json),
      OUTPUT_TEST(full_disk_is_told),
      OUTPUT_TEST(closed_output_is_told),
      OUTPUT_TEST(reader_that_leaves_ends_the_program_quietly),
      OUTPUT_TEST(closed_streams_do_not_spoil_the_picture),
      OUTPUT_TEST(progress_fits_the_terminal),
  };
  return cmocka_run_group_tests_name("cli.output", tests, NULL, NULL);
}
