// Command lines: a table says what a command takes; parsing, checking and --help follow from it.
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/graft/tool.h"

// Codes of long options begin where letters end.
enum { MAX_OPTIONS = 32, FIRST_CODE = 1000, HELP_COLUMN = 28, HELP_WIDTH = 80 };

int tool_usage(const tool_command *self, const char *format, ...) {
  fprintf(stderr, "graft %s: ", self->name);
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, "\nTry: graft %s --help\n", self->name);
  return TOOL_USAGE;
}

// Prints |text| from HELP_COLUMN on, wrapped to the terminal's 80 columns.
static void print_wrapped(const char *text, int column) {
  while (*text != '\0') {
    size_t room = (size_t)(HELP_WIDTH - HELP_COLUMN), n = strlen(text);
    if (n > room) {
      n = room;
      while (n > 0 && text[n] != ' ') --n;
      if (n == 0) n = room;
    }
    printf("%*s%.*s\n", column < HELP_COLUMN ? HELP_COLUMN - column : 0, "", (int)n, text);
    text += n;
    while (*text == ' ') ++text;
    column = 0;
  }
}

static void print_option(const tool_option *option) {
  char left[64];
  int n = option->letter != 0 ? snprintf(left, sizeof left, "  -%c, --%s", option->letter, option->name)
                              : snprintf(left, sizeof left, "      --%s", option->name);
  if (option->argument != NULL) n += snprintf(left + n, sizeof left - (size_t)n, " %s", option->argument);
  printf("%s", left);
  if (n >= HELP_COLUMN - 1) {
    printf("\n");
    n = 0;
  }
  print_wrapped(option->help, n);
}

static void print_help(const tool_command *self, const tool_option *options, size_t n_options) {
  printf("%s\n\nUsage: graft %s %s\n\nOptions:\n", self->summary, self->name, self->arguments);
  for (size_t i = 0; i < n_options; ++i) print_option(&options[i]);
  print_option(&(tool_option){.name = "help", .letter = 'h', .help = "Show this and exit."});
}

static bool parse_int(const char *text, const tool_option *option, int64_t *out) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || (double)value < option->low || (double)value > option->high)
    return false;
  *out = value;
  return true;
}

static bool parse_seed(const char *text, uint64_t *out) {
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || strchr(text, '-') != NULL) return false;
  *out = value;
  return true;
}

static bool parse_real(const char *text, const tool_option *option, double *out) {
  char *end;
  errno = 0;
  double value = strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(value) || value < option->low || value > option->high) return false;
  *out = value;
  return true;
}

static bool parse_size(const char *text, const tool_option *option, int64_t *out) {
  char width[24];
  const char *x = strchr(text, 'x');
  if (x == NULL || (size_t)(x - text) >= sizeof width) return false;
  memcpy(width, text, (size_t)(x - text));
  width[x - text] = '\0';
  return parse_int(width, option, &out[0]) && parse_int(x + 1, option, &out[1]);
}

static bool add_text(tool_text_list *list, const char *text) {
  if (list->n == list->capacity) return false;
  list->items[list->n++] = text;
  return true;
}

static int store(const tool_command *self, const tool_option *option, const char *text) {
  bool is_ok = true;
  switch (option->kind) {
    case TOOL_FLAG: *(bool *)option->value = true; break;
    case TOOL_TEXT: *(const char **)option->value = text; break;
    case TOOL_TEXTS: is_ok = add_text(option->value, text); break;
    case TOOL_INT: is_ok = parse_int(text, option, option->value); break;
    case TOOL_SEED: is_ok = parse_seed(text, option->value); break;
    case TOOL_REAL: is_ok = parse_real(text, option, option->value); break;
    case TOOL_SIZE: is_ok = parse_size(text, option, option->value); break;
  }
  if (option->is_given != NULL) *option->is_given = true;
  if (is_ok) return TOOL_PARSED;
  switch (option->kind) {
    case TOOL_TEXTS: return tool_usage(self, "--%s is given too often", option->name);
    case TOOL_SIZE:
      return tool_usage(self, "--%s takes WIDTHxHEIGHT in pixels, for example 256x256; got '%s'", option->name, text);
    case TOOL_REAL:
      return tool_usage(self, "--%s takes a number from %g to %g; got '%s'", option->name, option->low, option->high,
                        text);
    case TOOL_SEED:
      return tool_usage(self, "--%s takes a whole number from 0 to 18446744073709551615; got '%s'", option->name, text);
    default:
      if (option->high == TOOL_NO_LIMIT)
        return tool_usage(self, "--%s takes a whole number from %.0f up; got '%s'", option->name, option->low, text);
      return tool_usage(self, "--%s takes a whole number from %.0f to %.0f; got '%s'", option->name, option->low,
                        option->high, text);
  }
}

// Fills getopt's tables: |longs| has n_options + 2 entries, |shorts| at least 2·n_options + 4 characters.
static void describe(const tool_option *options, size_t n_options, struct option *longs, char *shorts) {
  size_t n = 0;
  shorts[n++] = ':';
  shorts[n++] = 'h';
  for (size_t i = 0; i < n_options; ++i) {
    int takes = options[i].kind == TOOL_FLAG ? no_argument : required_argument;
    longs[i] = (struct option){options[i].name, takes, NULL, (int)(FIRST_CODE + i)};
    if (options[i].letter == 0) continue;
    shorts[n++] = options[i].letter;
    if (takes == required_argument) shorts[n++] = ':';
  }
  shorts[n] = '\0';
  longs[n_options] = (struct option){"help", no_argument, NULL, 'h'};
  longs[n_options + 1] = (struct option){0};
}

static const tool_option *find_option(const tool_option *options, size_t n_options, int code) {
  if (code >= FIRST_CODE && (size_t)(code - FIRST_CODE) < n_options) return &options[code - FIRST_CODE];
  for (size_t i = 0; i < n_options; ++i)
    if (options[i].letter != 0 && options[i].letter == code) return &options[i];
  return NULL;
}

// After getopt's '?': a letter may stand inside a word of several, and a long name may have a value too many.
static int refuse_option(const tool_command *self, const char *word) {
  if (optopt == 0) return tool_usage(self, "unknown option %s", word);
  if (optopt == 'h' || optopt >= FIRST_CODE) return tool_usage(self, "%s: this option takes no value", word);
  return tool_usage(self, "unknown option -%c", optopt);
}

int tool_parse(const tool_command *self, int argc, char **argv, const tool_option *options, size_t n_options,
               const char **out_positional, size_t max_positional, size_t *out_n_positional) {
  struct option longs[MAX_OPTIONS + 2];
  char shorts[2 * MAX_OPTIONS + 4];
  if (n_options > MAX_OPTIONS) return tool_usage(self, "too many options in its table");
  describe(options, n_options, longs, shorts);
  optind = 1;
  opterr = 0;
  int code;
  while ((code = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
    const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";
    if (code == 'h') {
      print_help(self, options, n_options);
      return tool_finish_output(TOOL_OK);
    }
    if (code == ':') return tool_usage(self, "%s needs a value", word);
    if (code == '?') return refuse_option(self, word);
    int stored = store(self, find_option(options, n_options, code), optarg);
    if (stored != TOOL_PARSED) return stored;
  }
  size_t n_positional = (size_t)(argc - optind);
  if (n_positional > max_positional)
    return tool_usage(self, "unexpected argument '%s' (quote a text that has spaces)",
                      argv[optind + (int)max_positional]);
  for (size_t i = 0; i < n_positional; ++i) out_positional[i] = argv[optind + (int)i];
  if (out_n_positional != NULL) *out_n_positional = n_positional;
  return TOOL_PARSED;
}
