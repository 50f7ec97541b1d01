// What the program says about itself, and what it says to a wrong command line.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

enum { TERMINAL_WIDTH = 80 };

static const char *const commands[] = {"generate", "tokenize", "inspect", "plan", "devices", "ops", "bench"};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

// Characters, not bytes.
static size_t width_of(const char *line, size_t n) {
  size_t width = 0;
  for (size_t i = 0; i < n; ++i) width += ((unsigned char)line[i] & 0xC0) != 0x80;
  return width;
}

static void assert_fits_terminal(const char *text) {
  for (const char *line = text; *line != '\0';) {
    const size_t n = strcspn(line, "\n");
    if (width_of(line, n) > TERMINAL_WIDTH) fail_msg("wider than %d: %.*s", TERMINAL_WIDTH, (int)n, line);
    line += n + (line[n] == '\n');
  }
}

static void overview_names_every_command(void **state) {
  (void)state;
  const char *const words[] = {"--help", "-h", "help"};
  program_result bare = program_run(&(program_call){.arguments = (const char *const[]){NULL}});
  assert_code(&bare, 0);
  assert_fits_terminal(bare.output);
  for (size_t i = 0; i < N_COMMANDS; ++i) assert_holds(bare.output, commands[i]);
  assert_holds(bare.output, "graft generate -p");  // the next useful step
  for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i) {
    program_result asked = GRAFT(NULL, words[i]);
    assert_code(&asked, 0);
    assert_string_equal(asked.output, bare.output);
    program_result_release(&asked);
  }
  program_result_release(&bare);
}

// Every line that begins an option is followed by what it does, on the same line or on the next.
static void assert_options_described(const char *help) {
  const char *line = strstr(help, "Options:\n");
  assert_non_null(line);
  int n_options = 0;
  for (line += strlen("Options:\n"); *line != '\0';) {
    const size_t n = strcspn(line, "\n");
    if (strncmp(line, "  -", 3) == 0 || strncmp(line, "      --", 8) == 0) {
      ++n_options;
      const char *described = n > 28 ? line + 28 : line + n + 1 + 28;
      if (n <= 28) assert_int_equal(strncmp(line + n + 1, "                            ", 28), 0);
      assert_true(described[0] != ' ' && described[0] != '\0');
    }
    line += n + (line[n] == '\n');
  }
  assert_in_range(n_options, 2, 40);
}

static void every_command_describes_its_options(void **state) {
  (void)state;
  for (size_t i = 0; i < N_COMMANDS; ++i) {
    char usage[64];
    snprintf(usage, sizeof usage, "Usage: graft %s ", commands[i]);
    program_result help = GRAFT(NULL, commands[i], "--help"), brief = GRAFT(NULL, commands[i], "-h");
    assert_code(&help, 0);
    assert_string_equal(help.output, brief.output);
    assert_fits_terminal(help.output);
    assert_holds(help.output, usage);
    assert_options_described(help.output);
    program_result_release(&help);
    program_result_release(&brief);
  }
}

static void assert_lacks(const char *text, const char *piece) {
  if (strstr(text, piece) != NULL) fail_msg("\"%s\" is in: %s", piece, text);
}

// A command of several actions shows of each the options that it reads, and of none all.
static void actions_have_help_of_their_own(void **state) {
  (void)state;
  static const struct {
    const char *command, *action;
    const char *usage, *read[3], *idle[3];
  } helps[] = {
      {"bench", "generate", "Usage: graft bench generate [OPTIONS]", {"--steps", "--prompt", "--type"}, {"--tokens"}},
      {"bench", "transformer", "graft bench transformer ", {"--tokens", "--size", "--model"}, {"--steps", "--prompt"}},
      {"bench", "peak", "graft bench peak ", {"--device", "--threads", "--json"}, {"--model", "--type", "--fusion"}},
      {"ops", "list", "graft ops list ", {"--op", "--json"}, {"--quick", "--kernel", "--html"}},
      {"ops", "test", "graft ops test ", {"--quick", "--seed", "--kernel"}, {"--html", "--json", "--dtype"}},
      {"ops", "bench", "graft ops bench ", {"--html", "--dtype", "--json"}, {"--quick"}},
  };
  for (size_t i = 0; i < sizeof helps / sizeof helps[0]; ++i) {
    program_result all = GRAFT(NULL, helps[i].command, "--help");
    program_result help = GRAFT(NULL, helps[i].command, helps[i].action, "--help");
    assert_code(&help, 0);
    assert_fits_terminal(help.output);
    assert_options_described(help.output);
    assert_holds(help.output, helps[i].usage);
    for (int k = 0; k < 3 && helps[i].read[k] != NULL; ++k) assert_holds(help.output, helps[i].read[k]);
    for (int k = 0; k < 3 && helps[i].idle[k] != NULL; ++k) {
      assert_holds(all.output, helps[i].idle[k]);
      assert_lacks(help.output, helps[i].idle[k]);
    }
    // Which action reads an option is said only where there are several.
    assert_lacks(help.output, "  generate: ");
    assert_lacks(help.output, "test, bench: ");
    program_result_release(&all);
    program_result_release(&help);
  }
}

static void generate_documents_what_the_manual_promises(void **state) {
  (void)state;
  static const char *const options[] = {"-p, --prompt", "-n, --negative", "-m, --model", "--steps",      "--guidance",
                                        "--seed",       "--batch",        "--size",      "--threads",    "-o, --output",
                                        "--noise",      "--dump FILE",    "--profile",   "--dump-blocks"};
  program_result help = GRAFT(NULL, "generate", "--help");
  for (size_t i = 0; i < sizeof options / sizeof options[0]; ++i) assert_holds(help.output, options[i]);
  program_result_release(&help);
}

static void version_is_one_line(void **state) {
  (void)state;
  program_result version = GRAFT(NULL, "--version");
  assert_code(&version, 0);
  assert_int_equal(strncmp(version.output, "graft ", 6), 0);
  assert_int_equal(strcspn(version.output, "\n"), strlen(version.output) - 1);
  program_result_release(&version);
}

static void unknown_commands_are_refused_with_a_guess(void **state) {
  (void)state;
  assert_refused(GRAFT(NULL, "frobnicate"), 2, "no command 'frobnicate'");
  assert_refused(GRAFT(NULL, "genrate"), 2, "Did you mean 'graft generate'?");
  assert_refused(GRAFT(NULL, "--verison"), 2, "graft --help");
  assert_refused(GRAFT(NULL, ""), 2, "graft --help");
}

static void wrong_options_are_refused_by_name(void **state) {
  (void)state;
  for (size_t i = 0; i < N_COMMANDS; ++i) {
    char again[64];
    snprintf(again, sizeof again, "Try: graft %s --help", commands[i]);
    assert_refused(GRAFT(NULL, commands[i], "--sponge"), 2, "unknown option --sponge");
    assert_refused(GRAFT(NULL, commands[i], "-z"), 2, "unknown option -z");
    assert_refused(GRAFT(NULL, commands[i], "--help=3"), 2, "takes no value");
    assert_refused(GRAFT(NULL, commands[i], "a", "b", "c"), 2, again);
  }
  assert_refused(GRAFT(NULL, "generate", "-zq"), 2, "unknown option -z");
  assert_refused(GRAFT(NULL, "generate", "--quiet=yes"), 2, "takes no value");
  assert_refused(GRAFT(NULL, "generate", "-p"), 2, "-p needs a value");
  assert_refused(GRAFT(NULL, "generate", "-p", "x", "--steps"), 2, "--steps needs a value");
}

static void values_out_of_range_are_refused(void **state) {
  (void)state;
  static const char *const wrong[][3] = {
      {"--steps", "0", "from 1"},
      {"--steps", "many", "got 'many'"},
      {"--steps", "3.5", "got '3.5'"},
      {"--steps", "", "got ''"},
      {"--guidance", "nan", "got 'nan'"},
      {"--guidance", "inf", "got 'inf'"},
      {"--guidance", "x", "got 'x'"},
      {"--seed", "-1", "got '-1'"},
      {"--seed", "1e3", "got '1e3'"},
      {"--size", "256", "WIDTHxHEIGHT"},
      {"--size", "x256", "WIDTHxHEIGHT"},
      {"--size", "256x", "WIDTHxHEIGHT"},
      {"--size", "1x2x3", "WIDTHxHEIGHT"},
      {"--batch", "0", "from 1 to 1024"},
      {"--batch", "1025", "from 1 to 1024"},
      {"--threads", "0", "from 1 to 1024"},
      {"--threads", "-2", "got '-2'"},
      {"--seed", "18446744073709551616", "from 0"},
      {"--steps", "99999999999999999999", "a whole number from 1 up; got '99999999999999999999'"},
      {"-o", "picture.jpg", ".png"},
      {"-o", ".png", ".png"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i)
    assert_refused(GRAFT(NULL, "generate", "-p", "x", wrong[i][0], wrong[i][1]), 2, wrong[i][2]);
  assert_refused(GRAFT(NULL, "generate", "-p", "x", "--seed", "18446744073709551615", "--batch", "2"), 2,
                 "the last seed would be beyond 18446744073709551615");
  assert_refused(GRAFT(NULL, "generate"), 2, "say what to draw");
  assert_refused(GRAFT(NULL, "generate", "-p", "x", "--dump-blocks"), 2, "needs --dump");
  assert_refused(GRAFT(NULL, "generate", "-p", "x", "-o", "a.png", "--dump", "a.png"), 2, "names of their own");
  assert_refused(GRAFT(NULL, "plan", "--stage", "middle"), 2, "text_encoder, transformer or decoder");
  assert_refused(GRAFT(NULL, "plan", "--format", "xml"), 2, "text, json, dot or html");
  assert_refused(GRAFT(NULL, "plan", "--json", "--format", "html"), 2, "give one of them");
  assert_refused(GRAFT(NULL, "plan", "--html", "p.html", "--json"), 2, "give one of them");
  assert_refused(GRAFT(NULL, "plan", "--tokens", "0"), 2, "from 1");
  assert_refused(GRAFT(NULL, "bench", "speed"), 2, "graft bench peak");
  assert_refused(GRAFT(NULL, "bench"), 2, "graft bench peak");
  // Options of another subject are not left unread.
  assert_refused(GRAFT(NULL, "bench", "transformer", "--steps", "3"), 2, "transformer has no use for --steps");
  assert_refused(GRAFT(NULL, "bench", "transformer", "--transformer", "x"), 2, "has no use for --transformer");
  assert_refused(GRAFT(NULL, "bench", "transformer", "-p", "x"), 2, "has no use for --prompt");
  assert_refused(GRAFT(NULL, "bench", "generate", "--tokens", "9"), 2, "generate has no use for --tokens");
  static const char *const of_others[][2] = {{"--model", "x"},   {"--prompt", "x"}, {"--transformer", "x"},
                                             {"--type", "bf16"}, {"--steps", "1"},  {"--size", "8x8"},
                                             {"--tokens", "1"},  {"--runs", "1"},   {"--fusion", "off"}};
  for (size_t i = 0; i < sizeof of_others / sizeof of_others[0]; ++i) {
    program_result result = GRAFT(NULL, "bench", "peak", of_others[i][0], of_others[i][1]);
    assert_code(&result, 2);
    assert_holds(result.errors, "peak has no use for --");
    program_result_release(&result);
  }
  assert_refused(GRAFT(NULL, "ops", "list", "--quick"), 2, "list has no use for --quick");
  assert_refused(GRAFT(NULL, "ops", "test", "--html"), 2, "test has no use for --html");
  assert_refused(GRAFT(NULL, "ops", "--quick", "bench"), 2, "bench has no use for --quick");
  assert_refused(GRAFT(NULL, "ops"), 2, "graft ops list");
  assert_refused(GRAFT(NULL, "ops", "show"), 2, "graft ops list");
  assert_refused(GRAFT(NULL, "inspect"), 2, "name a file or a folder");
  assert_refused(GRAFT(NULL, "tokenize"), 2, "give the text");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(overview_names_every_command),
      cmocka_unit_test(every_command_describes_its_options),
      cmocka_unit_test(actions_have_help_of_their_own),
      cmocka_unit_test(generate_documents_what_the_manual_promises),
      cmocka_unit_test(version_is_one_line),
      cmocka_unit_test(unknown_commands_are_refused_with_a_guess),
      cmocka_unit_test(wrong_options_are_refused_by_name),
      cmocka_unit_test(values_out_of_range_are_refused),
  };
  return cmocka_run_group_tests_name("cli.help", tests, NULL, NULL);
}
