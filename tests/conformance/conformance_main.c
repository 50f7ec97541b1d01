// The conformance tests as a program.
//
//   conformance [--folder NAME] [--op PATTERN] [--kernel PATTERN] [--case PATTERN] [--form PATTERN] [--seed N] [--wide]
//               [--random SECONDS] [--target NAME] [--device NAME]
//
// --folder takes the operators of the built-in extension graft.NAME. Exits with 0 when nothing failed, 1 when something
// did, 2 when testing was not possible.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing/conformance.h"

static graft_status write_stdout(void *user, const char *text, size_t size) {
  (void)user;
  return fwrite(text, 1, size, stdout) == size ? GRAFT_OK : GRAFT_E_IO;
}

static bool read_option(const char *name, const char *value, graft_conformance_options *options, const char **folder) {
  char *end = NULL;
  if (strcmp(name, "--folder") == 0) *folder = value;
  else if (strcmp(name, "--op") == 0) options->op = value;
  else if (strcmp(name, "--kernel") == 0) options->kernel = value;
  else if (strcmp(name, "--case") == 0) options->case_name = value;
  else if (strcmp(name, "--form") == 0) options->form = value;
  else if (strcmp(name, "--target") == 0) options->cpu_target = value;
  else if (strcmp(name, "--device") == 0) options->device = value;
  else if (strcmp(name, "--seed") == 0) options->seed = strtoull(value, &end, 10);
  else if (strcmp(name, "--random") == 0) options->random_seconds = strtod(value, &end);
  else return false;
  return end == NULL || (end != value && *end == 0);
}

static bool read_options(int argc, char **argv, graft_conformance_options *options, const char **folder) {
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--wide") == 0) {
      options->is_quick = false;
      continue;
    }
    if (i + 1 >= argc || !read_option(argv[i], argv[i + 1], options, folder)) {
      fprintf(stderr, "conformance: unknown option or bad value: %s\n", argv[i]);
      return false;
    }
    ++i;
  }
  return true;
}

static void add_report(graft_conformance_report *sum, const graft_conformance_report *part) {
  sum->n_ops += part->n_ops;
  sum->n_kernels += part->n_kernels;
  sum->n_skipped_kernels += part->n_skipped_kernels;
  sum->n_failed_kernels += part->n_failed_kernels;
  sum->n_runs += part->n_runs;
  sum->n_refused += part->n_refused;
  sum->n_failures += part->n_failures;
  if (part->worst > sum->worst) sum->worst = part->worst;
}

static graft_status run_one(const graft_conformance_options *options, graft_conformance_report *sum) {
  graft_error error = {0};
  graft_conformance_report report;
  graft_status status = graft_conformance_run(options, &error, &report);
  if (status == GRAFT_OK) {
    add_report(sum, &report);
  } else {
    fprintf(stderr, "conformance: %s\n", error.message);
  }
  return status;
}

// Views compute nothing, so a folder that holds nothing else passes.
static bool is_computed(const graft_op_def *op) {
  return op->reference != NULL || op->decompose != NULL;
}

static graft_status run_folder(const char *folder, graft_conformance_options *options, graft_conformance_report *sum) {
  char name[96];
  snprintf(name, sizeof name, "graft.%s", folder);
  uint32_t n = 0;
  const graft_extension *const *extensions = graft_builtin_extensions(&n);
  for (uint32_t i = 0; i < n; ++i) {
    if (strcmp(extensions[i]->name, name) != 0) continue;
    for (uint32_t k = 0; k < extensions[i]->n_ops; ++k) {
      const graft_op_def *op = &extensions[i]->ops[k];
      options->op = op->name;
      graft_status status = is_computed(op) ? run_one(options, sum) : GRAFT_OK;
      if (status != GRAFT_OK) return status;
    }
    return GRAFT_OK;
  }
  fprintf(stderr, "conformance: no built-in extension is called %s\n", name);
  return GRAFT_E_NOT_FOUND;
}

int main(int argc, char **argv) {
  graft_conformance_options options = {
      .struct_size = sizeof options, .is_quick = true, .seed = 1, .writer = {.write = write_stdout}};
  graft_conformance_report sum = {0};
  const char *folder = NULL;
  if (!read_options(argc, argv, &options, &folder)) return 2;
  graft_status status = folder != NULL ? run_folder(folder, &options, &sum) : run_one(&options, &sum);
  printf(
      "seed %llu: %u operators, %u kernels (%u more skipped), %llu runs, %llu refused, worst %.2f of the bound, "
      "%llu failures in %u kernels\n",
      (unsigned long long)options.seed, sum.n_ops, sum.n_kernels, sum.n_skipped_kernels, (unsigned long long)sum.n_runs,
      (unsigned long long)sum.n_refused, sum.worst, (unsigned long long)sum.n_failures, sum.n_failed_kernels);
  if (status != GRAFT_OK) return 2;
  return sum.n_failures > 0 ? 1 : 0;
}
