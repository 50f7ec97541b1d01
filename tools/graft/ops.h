// ops.h — the actions of `graft ops`, each with a file of its own.
#ifndef GRAFT_TOOLS_GRAFT_OPS_H
#define GRAFT_TOOLS_GRAFT_OPS_H

#include "tools/graft/tool.h"

// What the command line asks for. Patterns are a shell's; NULL takes everything.
typedef struct tool_ops_wishes {
  const char *op, *kernel, *case_name, *device, *dtype_name;
  graft_dtype dtype;  // bench: of all floats; NULL: as the case says
  int64_t n_threads;
  uint64_t seed;
  bool is_quick, as_json, as_html;
} tool_ops_wishes;

// ops_test.c: holds kernels to their references; returns the exit code.
int tool_ops_test(const graft_context *context, const tool_ops_wishes *wishes);
// ops_bench.c: times kernels at the shapes of real models; returns the exit code.
int tool_ops_bench(graft_context *context, const tool_ops_wishes *wishes);

// Whether |pattern| (NULL: anything) takes |name|.
bool tool_ops_matches(const char *pattern, const char *name);

#endif
