#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// The code that sanitizers end with, so that they are not taken for a refusal.
enum { SANITIZER_CODE = 99, MAX_ARGUMENTS = 40, NOT_STARTED = 126 };

double test_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void test_sleep(double seconds) {
  const struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
  nanosleep(&t, NULL);
}

static bool redirect(int stream, const char *path) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  return fd >= 0 && dup2(fd, stream) == stream && close(fd) == 0;
}

// In the new process: becomes the program, or ends.
static void become(const program_call *call, const temp_folder *streams) {
  const char *path = call->path != NULL ? call->path : GRAFT_PROGRAM;
  const char *arguments[MAX_ARGUMENTS + 2] = {path};
  size_t n = 0;
  while (call->arguments[n] != NULL && n < MAX_ARGUMENTS) {
    arguments[n + 1] = call->arguments[n];
    ++n;
  }
  const char *output = call->output != NULL ? call->output : temp_folder_join(streams, "output").text;
  const bool is_ready =
      redirect(STDOUT_FILENO, output) && redirect(STDERR_FILENO, temp_folder_join(streams, "errors").text) &&
      (call->folder == NULL || chdir(call->folder) == 0) && (call->prepare == NULL || call->prepare() == 0);
  if (is_ready) execv(path, (char *const *)(uintptr_t)arguments);
  _exit(NOT_STARTED);
}

program program_start(const program_call *call) {
  char code[64];
  snprintf(code, sizeof code, "exitcode=%d", SANITIZER_CODE);
  setenv("ASAN_OPTIONS", code, 1);
  setenv("UBSAN_OPTIONS", code, 1);
  setenv("TSAN_OPTIONS", code, 1);
  program running = {.streams = temp_folder_create(), .started = test_now()};
  temp_folder_write_text(&running.streams, "output", "");
  temp_folder_write_text(&running.streams, "errors", "");
  running.process = fork();
  assert_true(running.process >= 0);
  if (running.process == 0) become(call, &running.streams);
  return running;
}

char *program_errors(const program *running) {
  return temp_folder_read(temp_folder_join(&running->streams, "errors").text, NULL);
}

// "1 threads" is printed nowhere.
static void check_numbers(const char *text) {
  static const char *const nouns[] = {"byte",    "copie", "device", "failure", "kernel", "layer", "operator",
                                      "picture", "run",   "step",   "tensor",  "thread", "token", "use"};
  for (size_t i = 0; i < sizeof nouns / sizeof nouns[0]; ++i) {
    char wrong[32];
    snprintf(wrong, sizeof wrong, "1 %ss", nouns[i]);
    for (const char *at = strstr(text, wrong); at != NULL; at = strstr(at + 1, wrong)) {
      const char before = at > text ? at[-1] : ' ', behind = at[strlen(wrong)];
      const bool is_part = (before >= '0' && before <= '9') || before == '.' || before == '/';
      if (!is_part && !(behind >= 'a' && behind <= 'z')) fail_msg("\"%s\" is in: %s", wrong, text);
    }
  }
}

program_result program_finish(program *running) {
  int status = 0;
  while (waitpid(running->process, &status, 0) < 0) assert_int_equal(errno, EINTR);
  program_result result = {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
                           .output = temp_folder_read(temp_folder_join(&running->streams, "output").text, NULL),
                           .errors = program_errors(running),
                           .seconds = test_now() - running->started};
  temp_folder_remove(&running->streams);
  check_numbers(result.output);
  check_numbers(result.errors);
  return result;
}

void program_result_release(program_result *result) {
  free(result->output);
  free(result->errors);
  *result = (program_result){0};
}

program_result program_run(const program_call *call) {
  program running = program_start(call);
  return program_finish(&running);
}

void assert_holds(const char *text, const char *piece) {
  if (strstr(text, piece) == NULL) fail_msg("\"%s\" is not in: %s", piece, text);
}

void assert_code(const program_result *result, int code) {
  if (result->code != code) fail_msg("ended with %d, not %d:\n%s", result->code, code, result->errors);
}

void assert_done(program_result result) {
  assert_code(&result, 0);
  program_result_release(&result);
}

void assert_refused(program_result result, int code, const char *piece) {
  assert_code(&result, code);
  assert_int_equal(strncmp(result.errors, "graft", 5), 0);
  assert_holds(result.errors, piece);
  assert_string_equal(result.output, "");
  program_result_release(&result);
}

void assert_prints(program_result result, const char *piece) {
  assert_code(&result, 0);
  assert_holds(result.output, piece);
  program_result_release(&result);
}
