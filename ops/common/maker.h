// maker.h — for fusion rules that look at the graph themselves.
#ifndef GRAFT_OPS_COMMON_MAKER_H
#define GRAFT_OPS_COMMON_MAKER_H

#include <string.h>

#include "graft/fusion.h"

// Whether |op| made |value|. Writes the node that made it to |out_node|, within `propose`.
static inline bool graft_maker_is(graft_tensor *value, const char *op, graft_fusion_node *out_node) {
  out_node->struct_size = sizeof *out_node;
  return graft_fusion_maker(value, out_node) && strcmp(out_node->op->name, op) == 0;
}

#endif
