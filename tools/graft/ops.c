// graft ops list — every operator with its kernels in order of choice.
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tools/graft/tool.h"

static bool is_kernel_of(const graft_kernel_def *kernel, const graft_op_def *op) {
  return kernel->op == NULL || strcmp(kernel->op, op->name) == 0;
}

static void print_op(const graft_context *context, const graft_op_def *op) {
  printf("%s\n", op->name);
  if (op->traits & GRAFT_OP_VIEW) printf("    a view: no work\n");
  for (uint32_t k = 0; k < graft_context_n_kernels(context); ++k) {
    const graft_kernel_def *kernel = graft_context_kernel(context, k);
    if (is_kernel_of(kernel, op) && !(op->traits & GRAFT_OP_VIEW))
      printf("    %-6s %s\n", kernel->backend, kernel->name);
  }
}

static json_t *describe_op(const graft_context *context, const graft_op_def *op) {
  json_t *kernels = json_array();
  for (uint32_t k = 0; k < graft_context_n_kernels(context); ++k) {
    const graft_kernel_def *kernel = graft_context_kernel(context, k);
    if (is_kernel_of(kernel, op) && !(op->traits & GRAFT_OP_VIEW))
      json_array_append_new(kernels, json_pack("{s:s, s:s, s:i}", "name", kernel->name, "backend", kernel->backend,
                                               "priority", kernel->priority));
  }
  return json_pack("{s:s, s:b, s:b, s:o}", "op", op->name, "is_view", (op->traits & GRAFT_OP_VIEW) != 0,
                   "has_reference", op->reference != NULL, "kernels", kernels);
}

static int list(const graft_context *context, bool as_json) {
  json_t *array = as_json ? json_array() : NULL;
  for (uint32_t i = 0; i < graft_context_n_ops(context); ++i) {
    if (as_json) json_array_append_new(array, describe_op(context, graft_context_op(context, i)));
    else print_op(context, graft_context_op(context, i));
  }
  return as_json ? tool_print_json(array) : tool_finish_output(TOOL_OK);
}

static int run(const tool_command *self, int argc, char **argv) {
  bool as_json = false;
  const tool_option options[] = {{"json", 0, TOOL_FLAG, NULL, "Print JSON for programs.", &as_json, 0, 0, NULL}};
  const char *action = NULL;
  size_t n_actions = 0;
  int parsed = tool_parse(self, argc, argv, options, sizeof options / sizeof options[0], &action, 1, &n_actions);
  if (parsed != TOOL_PARSED) return parsed;
  if (n_actions == 0 || strcmp(action, "list") != 0) return tool_usage(self, "say what to do: graft ops list");
  graft_context *context = tool_open_context(0);
  if (context == NULL) return TOOL_FAILED;
  int code = list(context, as_json);
  graft_context_destroy(context);
  return code;
}

const tool_command tool_ops = {"ops", "Lists operators and their kernels.", "list [--json]", run};
