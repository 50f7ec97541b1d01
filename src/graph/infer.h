// infer.h — running an operator's inference and not believing it. Not installed.
#ifndef GRAFT_SRC_GRAPH_INFER_H
#define GRAFT_SRC_GRAPH_INFER_H

#include "graft/op.h"

// An application of an operator: what goes in and what inference makes of it.
typedef struct graft_inference {
  const graft_op_def *op;
  const void *attrs;
  uint32_t n_inputs;
  const graft_tensor_desc *inputs[GRAFT_MAX_INPUTS];  // NULL entry: omitted
  graft_tensor_desc outputs[GRAFT_MAX_OUTPUTS];       // results
  int64_t view_offset;                                // result
} graft_inference;

// Fills the results and checks them: valid descriptions, contiguous unless the operator is a view, views inside the
// storage that input 0 covers. Errors: what inference reports; GRAFT_E_INVALID when inference itself is wrong.
graft_status graft_infer_checked(graft_inference *inference, graft_error *error);

#endif
