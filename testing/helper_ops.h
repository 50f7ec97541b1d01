// helper_ops.h — two operators that tests put around the one they look at. Both enter like any other extension.
#ifndef GRAFT_TESTING_HELPER_OPS_H
#define GRAFT_TESTING_HELPER_OPS_H

#include "graft/graft.h"

// "testing.identity.v1": the input's values in fresh storage, computed by its reference, so that the next node's input
// is an intermediate whose storage the planner may reuse.
graft_tensor *graft_testing_identity(graft_graph *graph, graft_tensor *x);

// "testing.strided_view.v1": input 0 (one dimension, a storage) seen as |desc| says, from |offset| bytes on.
graft_tensor *graft_testing_strided_view(graft_graph *graph, graft_tensor *storage, const graft_tensor_desc *desc,
                                         size_t offset);

// The extension that holds both. Static storage.
const graft_extension *graft_testing_helper_ops(void);

#endif
