#include "tools/graft/weight_type.h"

int tool_weight_type(const tool_command *self, const char *text, graft_weight_type *out_type) {
  *out_type = GRAFT_WEIGHT_RECOMMENDED;
  if (text == NULL || graft_weight_type_parse(text, out_type)) return TOOL_PARSED;
  return tool_usage(self, "--type takes int8_convrot, int8, bf16, f16 or f32; got '%s'", text);
}
