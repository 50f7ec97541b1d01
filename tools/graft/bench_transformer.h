// bench_transformer.h — `graft bench transformer`.
#ifndef GRAFT_TOOLS_GRAFT_BENCH_TRANSFORMER_H
#define GRAFT_TOOLS_GRAFT_BENCH_TRANSFORMER_H

#include "graft/diffusion.h"
#include "tools/graft/tool.h"

typedef struct tool_bench_transformer_wishes {
  const char *model;       // whose configuration is used; NULL: the one of 6 billion parameters
  const char *devices;     // as --device takes them; NULL: the CPU
  graft_weight_type type;  // of the weights: a type that is computed with, not one that depends on files
  const char *type_name;
  int64_t width, height, n_tokens, n_runs;  // pixels, tokens of the prompt
  bool as_json;
} tool_bench_transformer_wishes;

// Times evaluations of a Z-Image transformer with random weights; returns the exit code.
int tool_bench_transformer(graft_context *context, const tool_bench_transformer_wishes *wishes);

#endif
