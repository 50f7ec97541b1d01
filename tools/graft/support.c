// Output, errors, interruption and finding the shipped model: what every sub-command needs.
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graft/cpu.h"
#include "tools/graft/device_list.h"
#include "tools/graft/tool.h"

static volatile sig_atomic_t interrupt_count, is_line_open;

void tool_leave_line_open(bool is_open) {
  is_line_open = is_open;
}

// For handlers of signals, after which the program ends.
static void say(const char *text, size_t bytes) {
  ssize_t written = is_line_open ? write(STDERR_FILENO, "\n", 1) : 0;
  if (bytes > 0) written = write(STDERR_FILENO, text, bytes);
  (void)written;
}

static void on_interrupt(int signal_number) {
  if (interrupt_count != 0) {
    say("", 0);
    _exit(128 + signal_number);
  }
  interrupt_count = 1;
}

void tool_catch_interrupt(void) {
  struct sigaction action = {.sa_handler = on_interrupt};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

bool tool_is_interrupted(void *unused) {
  (void)unused;
  return interrupt_count != 0;
}

static atomic_flag page_is_lost = ATOMIC_FLAG_INIT;

static void on_lost_page(int signal_number) {
  (void)signal_number;
  // Several threads may meet the same file; the first one speaks and ends the program.
  while (atomic_flag_test_and_set(&page_is_lost)) (void)pause();
  static const char text[] =
      "graft: a file was cut short while it was in use, or its disk failed; run again once it is whole\n";
  say(text, sizeof text - 1);
  _exit(TOOL_FAILED);
}

void tool_catch_lost_pages(void) {
  struct sigaction action = {.sa_handler = on_lost_page};
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, NULL);
}

int tool_report(const graft_error *error) {
  if (error->status == GRAFT_E_CANCELLED && interrupt_count != 0) {
    fprintf(stderr, "graft: interrupted; nothing was written\n");
    return TOOL_INTERRUPTED;
  }
  fprintf(stderr, "graft: %s\n", error->message[0] != '\0' ? error->message : graft_status_name(error->status));
  for (int32_t i = 0; i < error->n_notes; ++i) fprintf(stderr, "  %s\n", error->notes[i]);
  return TOOL_FAILED;
}

// Set once, before any command runs.
static const char *plugins[TOOL_MAX_PLUGINS];
static int n_plugins;

int tool_take_plugins(int argc, char **argv) {
  static const char name[] = "--plugin", joined[] = "--plugin=";
  int at = 0;
  while (at < argc) {
    bool is_joined = strncmp(argv[at], joined, sizeof joined - 1) == 0;
    if (!is_joined && strcmp(argv[at], name) != 0) break;
    if (!is_joined && at + 1 == argc) {
      fprintf(stderr, "graft: --plugin needs the path of a shared object\nTry: graft --help\n");
      return -1;
    }
    if (n_plugins == TOOL_MAX_PLUGINS) {
      fprintf(stderr, "graft: at most %d plug-ins at a time\n", TOOL_MAX_PLUGINS);
      return -1;
    }
    plugins[n_plugins++] = is_joined ? argv[at] + sizeof joined - 1 : argv[at + 1];
    at += is_joined ? 1 : 2;
  }
  return at;
}

graft_context *tool_open_context(int64_t n_threads) {
  return tool_open_planning_context(&(tool_planning){.n_threads = n_threads});
}

// A misspelt operator is no error, as another plug-in may bring it; once all are loaded, it is worth a word.
static void tell_what_never_runs(const graft_context *context) {
  for (uint32_t i = 0; i < graft_context_n_kernels(context); ++i) {
    const graft_kernel_def *kernel = graft_context_kernel(context, i);
    if (kernel->op == NULL || graft_context_find_op(context, kernel->op) != NULL) continue;
    fprintf(stderr, "graft: there is no operator %s, for which kernel %s is: it never runs\n", kernel->op,
            kernel->name);
  }
  for (uint32_t i = 0; i < graft_context_n_fusions(context); ++i) {
    const graft_fusion_def *fusion = graft_context_fusion(context, i);
    if (graft_context_find_op(context, fusion->op) != NULL) continue;
    fprintf(stderr, "graft: there is no operator %s, which fusion rule %s makes: it never applies\n", fusion->op,
            fusion->name);
  }
}

static graft_status register_all(graft_context *context) {
  GRAFT_TRY(graft_context_register(context, &graft_extension_private_backend));
  for (int i = 0; i < n_plugins; ++i) GRAFT_TRY(graft_plugin_load(context, plugins[i], NULL));
  return GRAFT_OK;
}

graft_context *tool_open_planning_context(const tool_planning *planning) {
  graft_error error = {0};
  graft_context *context = NULL;
  char *words = planning->devices != NULL ? tool_device_list_words(planning->devices) : NULL;
  graft_context_options options = {.struct_size = sizeof options,
                                   .n_threads = (int32_t)planning->n_threads,
                                   .fusion = planning->fusion,
                                   .devices = words};
  graft_status status = planning->devices != NULL && words == NULL
                            ? GRAFT_FAIL(&error, GRAFT_E_NO_MEMORY, "no memory for the names of devices")
                            : graft_context_create(&options, &error, &context);
  free(words);
  if (status == GRAFT_OK) {
    status = register_all(context);
    if (status == GRAFT_OK) {
      if (n_plugins > 0) tell_what_never_runs(context);
      return context;
    }
    error = *graft_context_error(context);
  }
  tool_report(&error);
  graft_context_destroy(context);
  return NULL;
}

void tool_reserve_streams(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd) return;
}

bool tool_find_model(const char *given, char path[TOOL_PATH_BYTES]) {
  if (given != NULL) {
    int n = snprintf(path, TOOL_PATH_BYTES, "%s", given);
    if (n >= 0 && n < TOOL_PATH_BYTES) return true;
    fprintf(stderr, "graft: the model's path is too long\n");
    return false;
  }
  // Where installing puts it, then the link that a build folder has.
  static const char *const places[] = {GRAFT_INSTALLED_MODELS, "models"};
  char program[TOOL_PATH_BYTES - 256];
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  if (n > 0) {
    program[n] = '\0';
    char *slash = strrchr(program, '/');
    if (slash != NULL) *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; ++i) {
      int length = snprintf(path, TOOL_PATH_BYTES, "%s/%s/emoji-zimage", program, places[i]);
      if (length > 0 && length < TOOL_PATH_BYTES && access(path, R_OK) == 0) return true;
    }
  }
  fprintf(stderr, "graft: the model that ships with graft was not found beside the program; name one with -m FOLDER\n");
  return false;
}

static graft_status write_stdout(void *user, const char *text, size_t size) {
  (void)user;
  return fwrite(text, 1, size, stdout) == size ? GRAFT_OK : GRAFT_E_IO;
}

graft_writer tool_stdout_writer(void) {
  return (graft_writer){.write = write_stdout};
}

int tool_finish_output(int code) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return code;
  if (errno != EPIPE) fprintf(stderr, "graft: writing to standard output failed: %s\n", strerror(errno));
  return code == TOOL_OK ? TOOL_FAILED : code;
}

int tool_print_json(json_t *value) {
  if (value == NULL) {
    fprintf(stderr, "graft: no memory for the JSON output\n");
    return TOOL_FAILED;
  }
  // Whether it could be written is seen when the output is finished.
  (void)json_dumpf(value, stdout, JSON_INDENT(2));
  putchar('\n');
  json_decref(value);
  return tool_finish_output(TOOL_OK);
}

json_t *tool_json_text(const char *text) {
  json_t *value = json_string(text);
  char *copy = value == NULL ? strdup(text) : NULL;
  if (copy == NULL) return value;
  for (char *c = copy; *c != '\0'; ++c)
    if ((unsigned char)*c >= 0x80) *c = '?';
  value = json_string(copy);
  free(copy);
  return value;
}

const char *tool_format_bytes(double bytes, char text[32]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return text;
}
