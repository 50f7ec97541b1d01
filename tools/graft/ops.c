// graft ops — operators and their kernels: list, test against references, bench.
#include "tools/graft/ops.h"

#include <fnmatch.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

bool tool_ops_matches(const char *pattern, const char *name) {
  return pattern == NULL || fnmatch(pattern, name, 0) == 0;
}

static bool is_kernel_of(const graft_kernel_def *kernel, const graft_op_def *op) {
  return (kernel->op == NULL || strcmp(kernel->op, op->name) == 0) && !(op->traits & GRAFT_OP_VIEW);
}

static void print_op(const graft_context *context, const graft_op_def *op) {
  printf("%s\n", op->name);
  if (op->traits & GRAFT_OP_VIEW) printf("    a view: no work\n");
  for (uint32_t k = 0; k < graft_context_n_kernels(context); ++k) {
    const graft_kernel_def *kernel = graft_context_kernel(context, k);
    if (!is_kernel_of(kernel, op)) continue;
    const graft_extension *origin = graft_context_kernel_origin(context, kernel);
    bool is_native = graft_context_kernel_is_native(context, kernel);
    printf("    %-6s %s%s%s\n", kernel->backend, kernel->name, is_native ? "" : ", from ",
           is_native || origin == NULL ? "" : origin->name);
  }
}

static json_t *describe_kernel(const graft_context *context, const graft_kernel_def *kernel) {
  const graft_extension *origin = graft_context_kernel_origin(context, kernel);
  return json_pack("{s:s, s:s, s:i, s:s, s:b}", "name", kernel->name, "backend", kernel->backend, "priority",
                   kernel->priority, "extension", origin == NULL ? "" : origin->name, "is_native",
                   graft_context_kernel_is_native(context, kernel));
}

static json_t *describe_op(const graft_context *context, const graft_op_def *op) {
  json_t *kernels = json_array();
  for (uint32_t k = 0; k < graft_context_n_kernels(context); ++k) {
    const graft_kernel_def *kernel = graft_context_kernel(context, k);
    if (is_kernel_of(kernel, op)) json_array_append_new(kernels, describe_kernel(context, kernel));
  }
  return json_pack("{s:s, s:b, s:b, s:o}", "op", op->name, "is_view", (op->traits & GRAFT_OP_VIEW) != 0,
                   "has_reference", op->reference != NULL, "kernels", kernels);
}

static int list(const graft_context *context, const tool_ops_wishes *wishes) {
  json_t *array = wishes->as_json ? json_array() : NULL;
  uint32_t n_listed = 0;
  for (uint32_t i = 0; i < graft_context_n_ops(context); ++i) {
    const graft_op_def *op = graft_context_op(context, i);
    if (!tool_ops_matches(wishes->op, op->name)) continue;
    ++n_listed;
    if (wishes->as_json) json_array_append_new(array, describe_op(context, op));
    else print_op(context, op);
  }
  if (n_listed == 0) {
    json_decref(array);
    fprintf(stderr, "graft: no operator matches '%s'; see graft ops list\n", wishes->op == NULL ? "*" : wishes->op);
    return TOOL_FAILED;
  }
  return wishes->as_json ? tool_print_json(array) : tool_finish_output(TOOL_OK);
}

typedef enum action { LIST, TEST, BENCH, N_ACTIONS } action;
static const char *const action_names[N_ACTIONS] = {"list", "test", "bench"};

static int act(action what, const tool_ops_wishes *wishes) {
  graft_context *context = tool_open_planning_context(&(tool_planning){wishes->n_threads, NULL, wishes->device});
  if (context == NULL) return TOOL_FAILED;
  int code = TOOL_OK;
  if (what == LIST) code = list(context, wishes);
  if (what == TEST) code = tool_ops_test(context, wishes);
  if (what == BENCH) code = tool_ops_bench(context, wishes);
  graft_context_destroy(context);
  return code;
}

static int run(const tool_command *self, int argc, char **argv) {
  tool_ops_wishes w = {.seed = 1, .device = "cpu"};
  const tool_option options[] = {
      {"op", 0, TOOL_TEXT, "PATTERN", "Operators whose names match, for example 'graft.rms_norm*'.", &w.op, 0, 0, NULL},
      {"kernel", 0, TOOL_TEXT, "PATTERN", "test, bench: kernels whose names match.", &w.kernel, 0, 0, NULL},
      {"case", 0, TOOL_TEXT, "PATTERN", "test, bench: cases whose names match.", &w.case_name, 0, 0, NULL},
      {"device", 0, TOOL_TEXT, "NAME", "test, bench: the device (default: cpu).", &w.device, 0, 0, NULL},
      {"dtype", 0, TOOL_TEXT, "NAME", "bench: type of all floats (default: as the case says).", &w.dtype_name, 0, 0,
       NULL},
      {"seed", 0, TOOL_SEED, "N", "test, bench: of the values in the inputs (default: 1).", &w.seed, 0, 0, NULL},
      {"quick", 0, TOOL_FLAG, NULL, "test: leave out what is large and most combinations.", &w.is_quick, 0, 0, NULL},
      {"threads", 0, TOOL_INT, "N", "bench: CPU threads (default: all cores).", &w.n_threads, 1, 1024, NULL},
      {"json", 0, TOOL_FLAG, NULL, "list, bench: print JSON for programs.", &w.as_json, 0, 0, NULL},
      {"html", 0, TOOL_FLAG, NULL, "bench: print a page with roofline plots.", &w.as_html, 0, 0, NULL},
  };
  const char *word = NULL;
  size_t n_words = 0;
  int parsed = tool_parse(self, argc, argv, options, sizeof options / sizeof options[0], &word, 1, &n_words);
  if (parsed != TOOL_PARSED) return parsed;
  if (w.dtype_name != NULL) w.dtype = graft_dtype_find(w.dtype_name);
  if (w.dtype_name != NULL && (w.dtype == NULL || !w.dtype->is_float))
    return tool_usage(self, "--dtype takes f32, f16, bf16, f8_e4m3 or f8_e5m2");
  for (int i = 0; i < N_ACTIONS && n_words == 1; ++i)
    if (strcmp(word, action_names[i]) == 0) return act((action)i, &w);
  return tool_usage(self, "say what to do: graft ops list, graft ops test or graft ops bench");
}

const tool_command tool_ops = {"ops", "Lists, tests and times operators and their kernels.",
                               "list|test|bench [OPTIONS]", run};
