// program.h — runs the graft program as a user does and says what came of it.
#ifndef GRAFT_TESTS_CLI_PROGRAM_H
#define GRAFT_TESTS_CLI_PROGRAM_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdbool.h>
#include <sys/types.h>

#include "temp_folder.h"

// How to run it. Zero-initialise and set what differs.
typedef struct program_call {
  const char *path;              // NULL: the program of this build
  const char *folder;            // to run in; NULL: where the test runs
  const char *output;            // file for standard output; NULL: kept in the result
  int (*prepare)(void);          // runs in the new process before the program; not 0 gives up
  const char *const *arguments;  // without the program's name, ends with NULL
} program_call;

// A program that was started.
typedef struct program {
  pid_t process;
  temp_folder streams;  // what it writes
  double started;
} program;

// How a program ended.
typedef struct program_result {
  int code;  // exit code, or minus the signal that ended it
  char *output, *errors;
  double seconds;
} program_result;

program program_start(const program_call *call);
// What it has written to standard error so far; the caller frees it.
char *program_errors(const program *running);
program_result program_finish(program *running);
void program_result_release(program_result *result);

program_result program_run(const program_call *call);

// Runs the program of this build in |folder|: GRAFT(folder, "inspect", path).
#define GRAFT(folder_, ...) \
  program_run(&(program_call){.folder = (folder_), .arguments = (const char *const[]){__VA_ARGS__, NULL}})

// Ends the test unless the program ended with |code|; shows what it said. A sanitizer's report is a failure of its own.
void assert_code(const program_result *result, int code);

// The three things that most tests ask for, each releasing the result: success; refusal with |code|, a sentence that
// holds |piece| and nothing on standard output; success with an output that holds |piece|.
void assert_done(program_result result);
void assert_refused(program_result result, int code, const char *piece);
void assert_prints(program_result result, const char *piece);

void assert_holds(const char *text, const char *piece);

// Seconds on a clock that only runs forward.
double test_now(void);
void test_sleep(double seconds);

#endif
