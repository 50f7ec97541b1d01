#include "tools/graft/weight_type.h"

#include <string.h>

int tool_weight_type(const tool_command *self, const char *text, graft_weight_type *out_type) {
  static const char *const names[] = {[GRAFT_WEIGHT_INT8_CONVROT] = "int8_convrot",
                                      [GRAFT_WEIGHT_INT8] = "int8",
                                      [GRAFT_WEIGHT_BF16] = "bf16",
                                      [GRAFT_WEIGHT_F32] = "f32"};
  *out_type = GRAFT_WEIGHT_AS_STORED;
  if (text == NULL) return TOOL_PARSED;
  for (size_t i = 1; i < sizeof names / sizeof names[0]; ++i) {
    if (strcmp(text, names[i]) != 0) continue;
    *out_type = (graft_weight_type)i;
    return TOOL_PARSED;
  }
  return tool_usage(self, "--type takes int8_convrot, int8, bf16 or f32; got '%s'", text);
}
