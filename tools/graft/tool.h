// tool.h — what the sub-commands of `graft` share: the command table's entry, options, exit codes, output helpers.
#ifndef GRAFT_TOOLS_GRAFT_TOOL_H
#define GRAFT_TOOLS_GRAFT_TOOL_H

#include "graft/graft.h"

struct json_t;

enum { TOOL_PATH_BYTES = 4096 };

// Exit codes, documented in docs/command-line.md.
enum {
  TOOL_OK = 0,
  TOOL_FAILED = 1,         // the work could not be done; the sentence on standard error says why
  TOOL_USAGE = 2,          // the command line is wrong
  TOOL_INTERRUPTED = 130,  // Ctrl-C
};

typedef struct tool_command {
  const char *name;
  const char *summary;    // one line for `graft --help`
  const char *arguments;  // "[-m MODEL] TEXT"
  int (*run)(const struct tool_command *self, int argc, char **argv);
} tool_command;

typedef enum tool_option_kind {
  TOOL_FLAG,   // bool
  TOOL_TEXT,   // const char *
  TOOL_TEXTS,  // tool_text_list: may be given several times
  TOOL_INT,    // int64_t, low … high
  TOOL_SEED,   // uint64_t, any
  TOOL_REAL,   // double, low … high
  TOOL_SIZE,   // int64_t[2], WxH, each low … high
} tool_option_kind;

typedef struct tool_text_list {
  const char **items;
  size_t n, capacity;
} tool_text_list;

// One option of a command. |value| receives it; |is_given| may be NULL. Of a command with several actions, whose
// arguments begin like "list|test|bench", the help of an option begins with those that read it, as in "test, bench: of
// the values in the inputs": the others refuse it, and do not show it in their help.
typedef struct tool_option {
  const char *name;  // long name without dashes
  char letter;       // 0: none
  tool_option_kind kind;
  const char *argument;  // what help calls the value
  const char *help;
  void *value;
  double low, high;  // of TOOL_INT also TOOL_NO_LIMIT: what is too much is not for the command line to say
  bool *is_given;
} tool_option;

#define TOOL_NO_LIMIT 0x1p63

enum { TOOL_PARSED = -1 };

// Reads options and positional arguments (|out_positional| receives pointers into argv, at most |max_positional|).
// Returns TOOL_PARSED, or the exit code to end with: TOOL_OK after --help, TOOL_USAGE after a message.
int tool_parse(const tool_command *self, int argc, char **argv, const tool_option *options, size_t n_options,
               const char **out_positional, size_t max_positional, size_t *out_n_positional);

// Prints "graft: sentence" and its notes to standard error; returns the exit code that fits the status.
int tool_report(const graft_error *error);
// The same for a usage mistake: "graft NAME: sentence", a pointer to --help; returns TOOL_USAGE.
int tool_usage(const tool_command *self, const char *format, ...) GRAFT_PRINTF(2, 3);

enum { TOOL_MAX_PLUGINS = 16 };

// Takes "--plugin PATH" and "--plugin=PATH" from the front of a command line, for tool_open_context. Returns how many
// words they were, or -1 after a message. |argv| must stay.
int tool_take_plugins(int argc, char **argv);

// Makes a context with |n_threads| (0: default), the plug-ins of the command line and the devices "private", which are
// for finding mistakes; reports a failure itself and returns NULL.
graft_context *tool_open_context(int64_t n_threads);

// What a command that makes plans was told: 0 and NULL where an option was not given.
typedef struct tool_planning {
  int64_t n_threads;
  const char *fusion;
  const char *devices;  // --device
} tool_planning;

// The same for commands that make plans.
graft_context *tool_open_planning_context(const tool_planning *planning);

// The model folder to use: |given|, or the shipped model found from the program's own place. On failure returns false
// after a message.
bool tool_find_model(const char *given, char path[TOOL_PATH_BYTES]);

// Keeps files that are opened later from becoming standard input, output or error where those are closed: messages
// would end up in a picture. What is written to a closed one fails, as it should.
void tool_reserve_streams(void);

// Installs a Ctrl-C handler; tool_is_interrupted is safe from any thread. A second Ctrl-C ends the program at once.
void tool_catch_interrupt(void);
bool tool_is_interrupted(void *unused);

// Whether what stands on standard error is a line without an end: whoever ends the program at once ends it first.
void tool_leave_line_open(bool is_open);

// Ends the program with a sentence and TOOL_FAILED where it would die of a mapped file that another process cut short.
void tool_catch_lost_pages(void);

// A writer to standard output. A closed pipe or a full disk is GRAFT_E_IO.
graft_writer tool_stdout_writer(void);
// Flushes standard output; returns |code|, or TOOL_FAILED with a message when output was lost.
int tool_finish_output(int code);

// Prints |value| as JSON to standard output and releases it; returns the exit code. NULL, which is what jansson gives
// when memory runs out, is reported.
int tool_print_json(struct json_t *value);
// |text| as a JSON string. Names of files may be no UTF-8: bytes that JSON cannot hold become question marks then.
struct json_t *tool_json_text(const char *text);

// The end of a noun behind the number |n|.
static inline const char *tool_s(uint64_t n) {
  return n == 1 ? "" : "s";
}

// "12.3 MiB", "1.5 GiB" into |text|; returns it.
const char *tool_format_bytes(double bytes, char text[32]);

extern const tool_command tool_generate, tool_quantize, tool_tokenize, tool_inspect, tool_devices, tool_ops, tool_plan,
    tool_bench;

#endif
