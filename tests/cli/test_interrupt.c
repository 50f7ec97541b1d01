// Ctrl-C at any moment: the program ends soon with code 130, leaves nothing, and the next run is right.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

enum { INTERRUPTED = 130, N_TRIES = 4 };
static const double limit_seconds = 0.2;

// Waits until the program says |sign| on standard error.
static void await(const program *running, const char *sign) {
  for (bool is_there = false; !is_there; test_sleep(0.002)) {
    char *errors = program_errors(running);
    is_there = strstr(errors, sign) != NULL;
    free(errors);
  }
}

// Starts a long generation and waits until it says |sign| on standard error, or for |seconds| when it is NULL.
static program start(const temp_folder *folder, const char *size, const char *sign, double seconds) {
  const char *const arguments[] = {"generate",
                                   "-p",
                                   "x",
                                   "--steps",
                                   sign == NULL ? "1000" : "1",
                                   "--size",
                                   size,
                                   "--batch",
                                   "2",
                                   "--guidance",
                                   "0",
                                   "--dump",
                                   "d.safetensors",
                                   "--profile",
                                   "p.json",
                                   NULL};
  program running = program_start(&(program_call){.folder = folder->path, .arguments = arguments});
  if (sign != NULL) await(&running, sign);
  test_sleep(seconds);
  return running;
}

static double interrupt(program *running, const temp_folder *folder) {
  const double asked = test_now();
  assert_int_equal(kill(running->process, SIGINT), 0);
  program_result result = program_finish(running);
  const double seconds = test_now() - asked;
  // A program that has not yet begun to listen is ended by the signal itself.
  if (result.code != -SIGINT) {
    assert_code(&result, INTERRUPTED);
    assert_holds(result.errors, "interrupted; nothing was written");
  }
  assert_int_equal(temp_folder_count(folder), 0);
  program_result_release(&result);
  return seconds;
}

// The best of some tries: other programs may hold the processor.
static void assert_stops_soon(const char *size, const char *sign, double seconds) {
  double best = 1e9;
  for (int i = 0; i < N_TRIES && best > limit_seconds; ++i) {
    const temp_folder folder = temp_folder_create();
    program running = start(&folder, size, sign, seconds);
    const double taken = interrupt(&running, &folder);
    best = taken < best ? taken : best;
    temp_folder_remove(&folder);
  }
  if (best > limit_seconds) fail_msg("stopping took %.3f s", best);
}

static void stops_while_starting(void **state) {
  (void)state;
  for (int i = 0; i <= 8; ++i) assert_stops_soon("256x256", NULL, 0.02 * i);
}

static void stops_while_drawing(void **state) {
  (void)state;
  assert_stops_soon("256x256", NULL, 0.5);
  assert_stops_soon("512x512", NULL, 1);
}

static void stops_while_decoding(void **state) {
  (void)state;
  assert_stops_soon("640x512", "drawing: 1/1", 0.05);
  assert_stops_soon("640x512", "drawing: 1/1", 0.4);
}

// Between two pictures of several the program says which there are and which there are not.
static void stops_between_pictures(void **state) {
  (void)state;
  const char *const arguments[] = {"generate",   "-p", "x",       "--steps", "1",  "--size", "256x256",
                                   "--guidance", "0",  "--batch", "8",       "-o", "a.png",  NULL};
  bool is_hit = false;
  for (int i = 0; i < 8 && !is_hit; ++i) {
    const temp_folder folder = temp_folder_create();
    program running = program_start(&(program_call){.folder = folder.path, .arguments = arguments});
    await(&running, "wrote a-1.png");
    assert_int_equal(kill(running.process, SIGINT), 0);
    program_result result = program_finish(&running);
    const size_t n = temp_folder_count(&folder);
    is_hit = n < 8;
    assert_code(&result, is_hit ? INTERRUPTED : 0);
    if (is_hit) {
      char said[128];
      snprintf(said, sizeof said, "graft: interrupted\ngraft: %zu of 8 pictures %s written: a-1.png", n,
               n == 1 ? "was" : "were");
      assert_holds(result.errors, said);
      snprintf(said, sizeof said, "; not a-%zu.png%s\n", n + 1, n < 7 ? " to a-8.png" : "");
      assert_holds(result.errors, said);
    }
    program_result_release(&result);
    temp_folder_remove(&folder);
  }
  assert_true(is_hit);
}

static void next_run_is_right(void **state) {
  (void)state;
  const temp_folder folder = temp_folder_create();
  assert_done(GRAFT(folder.path, "generate", "-q", "-p", "x", "--size", "64x64", "--steps", "2", "-o", "a.png"));
  picture before = picture_read(temp_folder_join(&folder, "a.png").text);
  const temp_folder empty = temp_folder_create();
  program running = start(&empty, "256x256", NULL, 0.5);
  (void)interrupt(&running, &empty);
  assert_done(GRAFT(folder.path, "generate", "-q", "-p", "x", "--size", "64x64", "--steps", "2", "-o", "a.png"));
  picture after = picture_read(temp_folder_join(&folder, "a.png").text);
  assert_same_picture(&before, &after);
  free(before.bytes);
  free(after.bytes);
  temp_folder_remove(&folder);
  temp_folder_remove(&empty);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stops_while_starting), cmocka_unit_test(stops_while_drawing),
      cmocka_unit_test(stops_while_decoding), cmocka_unit_test(stops_between_pictures),
      cmocka_unit_test(next_run_is_right),
  };
  return cmocka_run_group_tests_name("cli.interrupt", tests, NULL, NULL);
}
