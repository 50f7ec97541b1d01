// graft — the command line. Each sub-command has a file of its own; this one finds it.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tools/graft/tool.h"

static const tool_command *const commands[] = {
    &tool_generate, &tool_quantize, &tool_tokenize, &tool_inspect, &tool_plan, &tool_devices, &tool_ops, &tool_bench,
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_overview(FILE *out) {
  fprintf(out,
          "graft %s: draws pictures from text, on your own hardware.\n\nUsage: graft [--plugin FILE]... COMMAND "
          "[OPTIONS]\n\n",
          graft_version());
  for (size_t i = 0; i < N_COMMANDS; ++i) fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
  fprintf(out,
          "\nA first picture:    graft generate -p \"a red apple on a blue background\"\n"
          "Options of one:     graft generate --help\n"
          "With a plug-in:     graft --plugin FILE.so COMMAND\n"
          "Version:            graft --version\n");
}

// Edit distance of two short words, for "did you mean".
static size_t distance(const char *a, const char *b) {
  size_t row[32];
  size_t n = strlen(b);
  if (n >= 32 || strlen(a) >= 32) return 32;
  for (size_t j = 0; j <= n; ++j) row[j] = j;
  for (size_t i = 1; a[i - 1] != '\0'; ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= n; ++j) {
      size_t best = diagonal + (a[i - 1] != b[j - 1]);
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row[n];
}

static int unknown_command(const char *word) {
  const tool_command *nearest = NULL;
  size_t best = 3;
  for (size_t i = 0; i < N_COMMANDS; ++i) {
    size_t d = distance(word, commands[i]->name);
    if (d < best) {
      best = d;
      nearest = commands[i];
    }
  }
  fprintf(stderr, "graft: there is no command '%s'.", word);
  if (nearest != NULL) fprintf(stderr, " Did you mean 'graft %s'?", nearest->name);
  fprintf(stderr, "\nTry: graft --help\n");
  return TOOL_USAGE;
}

int main(int argc, char **argv) {
  tool_reserve_streams();
  // A closed pipe and a file that grows over its limit are errors of the write that meets them.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  tool_catch_lost_pages();
  int n_taken = tool_take_plugins(argc - 1, argv + 1);
  if (n_taken < 0) return TOOL_USAGE;
  argc -= n_taken;
  argv += n_taken;
  if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
    print_overview(stdout);
    return tool_finish_output(TOOL_OK);
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("graft %s\n", graft_version());
    return tool_finish_output(TOOL_OK);
  }
  for (size_t i = 0; i < N_COMMANDS; ++i)
    if (strcmp(argv[1], commands[i]->name) == 0) return commands[i]->run(commands[i], argc - 1, argv + 1);
  return unknown_command(argv[1]);
}
