// Command lines: a table says what a command takes; parsing, checking and --help follow from it.
#include <ctype.h>
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

static bool holds_word(const char *list, size_t n, const char *separators, const char *word, size_t word_bytes) {
  for (const char *at = list, *end = list + n; at < end;) {
    size_t bytes = strcspn(at, separators);
    if (bytes > (size_t)(end - at)) bytes = (size_t)(end - at);
    if (bytes == word_bytes && bytes > 0 && memcmp(at, word, bytes) == 0) return true;
    at += bytes + 1;
  }
  return false;
}

// Whether |word| is one of the actions that arguments such as "list|test|bench [OPTIONS]" begin with.
static bool is_action(const tool_command *self, const char *word, size_t n) {
  const size_t all = strcspn(self->arguments, " ");
  return memchr(self->arguments, '|', all) != NULL && holds_word(self->arguments, all, "| ", word, n);
}

// How many bytes of an option's help name the actions that read it, ": " included; 0: all do.
static size_t readers_of(const tool_command *self, const tool_option *option) {
  const char *end = strstr(option->help, ": ");
  if (end == NULL) return 0;
  for (const char *word = option->help; word < end;) {
    const size_t n = strcspn(word, ",:");
    if (!is_action(self, word, n)) return 0;
    word += n + strspn(word + n, ", ");
  }
  return (size_t)(end - option->help) + 2;
}

static bool is_read_by(const tool_command *self, const tool_option *option, const char *action) {
  const size_t n = readers_of(self, option);
  return n == 0 || holds_word(option->help, n - 2, ", ", action, strlen(action));
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

// The options of one action, without saying of each that it is for that one.
static void print_action_options(const tool_command *self, const tool_option *options, size_t n_options,
                                 const char *action) {
  for (size_t i = 0; i < n_options; ++i) {
    if (!is_read_by(self, &options[i], action)) continue;
    char help[512];
    tool_option option = options[i];
    snprintf(help, sizeof help, "%s", option.help + readers_of(self, &option));
    help[0] = (char)toupper((unsigned char)help[0]);
    option.help = help;
    print_option(&option);
  }
}

// |action|: the one that help is asked of; NULL: of all.
static void print_help(const tool_command *self, const tool_option *options, size_t n_options, const char *action) {
  const char *arguments = action != NULL ? strchr(self->arguments, ' ') : self->arguments;
  printf("%s\n\nUsage: graft %s %s%s\n\nOptions:\n", self->summary, self->name, action != NULL ? action : "",
         arguments != NULL ? arguments : "");
  if (action != NULL) print_action_options(self, options, n_options, action);
  for (size_t i = 0; i < n_options && action == NULL; ++i) print_option(&options[i]);
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

// Refuses what was given and |action| would leave unread.
static int check_readers(const tool_command *self, const tool_option *options, size_t n_options, const bool *is_given,
                         const char *action) {
  if (!is_action(self, action, strlen(action))) return TOOL_PARSED;
  for (size_t i = 0; i < n_options; ++i) {
    if (is_given[i] && !is_read_by(self, &options[i], action))
      return tool_usage(self, "%s has no use for --%s", action, options[i].name);
  }
  return TOOL_PARSED;
}

int tool_parse(const tool_command *self, int argc, char **argv, const tool_option *options, size_t n_options,
               const char **out_positional, size_t max_positional, size_t *out_n_positional) {
  struct option longs[MAX_OPTIONS + 2];
  char shorts[2 * MAX_OPTIONS + 4];
  if (n_options > MAX_OPTIONS) return tool_usage(self, "too many options in its table");
  bool is_given[MAX_OPTIONS] = {false};
  const char *action = argc > 1 && is_action(self, argv[1], strlen(argv[1])) ? argv[1] : NULL;
  describe(options, n_options, longs, shorts);
  optind = 1;
  opterr = 0;
  int code;
  while ((code = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
    const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";
    if (code == 'h') {
      print_help(self, options, n_options, action);
      return tool_finish_output(TOOL_OK);
    }
    if (code == ':') return tool_usage(self, "%s needs a value", word);
    if (code == '?') return refuse_option(self, word);
    const tool_option *option = find_option(options, n_options, code);
    int stored = store(self, option, optarg);
    if (stored != TOOL_PARSED) return stored;
    is_given[option - options] = true;
  }
  size_t n_positional = (size_t)(argc - optind);
  if (n_positional > max_positional)
    return tool_usage(self, "unexpected argument '%s' (quote a text that has spaces)",
                      argv[optind + (int)max_positional]);
  for (size_t i = 0; i < n_positional; ++i) out_positional[i] = argv[optind + (int)i];
  if (out_n_positional != NULL) *out_n_positional = n_positional;
  return n_positional > 0 ? check_readers(self, options, n_options, is_given, out_positional[0]) : TOOL_PARSED;
}
