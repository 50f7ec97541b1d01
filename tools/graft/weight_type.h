// weight_type.h — the option --type of commands that run a model.
#ifndef GRAFT_TOOLS_GRAFT_WEIGHT_TYPE_H
#define GRAFT_TOOLS_GRAFT_WEIGHT_TYPE_H

#include "graft/diffusion.h"
#include "tools/graft/tool.h"

#define TOOL_TYPE_HELP                                                                            \
  "How to compute the transformer: int8_convrot, int8, bf16, f16 or f32; converts while loading " \
  "(default: what the model's folder recommends, else as the file has it)."
#define TOOL_TRANSFORMER_HELP \
  "Use these weights instead of the model's transformer, for example one that `graft quantize` wrote."

// TOOL_PARSED, or TOOL_USAGE after a message. |text| may be NULL.
int tool_weight_type(const tool_command *self, const char *text, graft_weight_type *out_type);

#endif
