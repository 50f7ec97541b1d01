// builder.h — what the files that build a graph share. Not installed.
#ifndef GRAFT_SRC_GRAPH_BUILDER_H
#define GRAFT_SRC_GRAPH_BUILDER_H

#include "src/graph/graph_internal.h"

// Keeps |error| as the graph's failure unless there is one already, and reports it to the context. Returns NULL.
graft_tensor *graft_graph_record_failure(graft_graph *graph, const graft_error *error);

// Room for |extra| more tensors, or GRAFT_E_NO_MEMORY.
graft_status graft_graph_reserve_tensors(graft_graph *graph, uint32_t extra, graft_error *error);

// Whether |tensor| can be used in |graph|: not NULL, not the stand-in for an omitted input, made in the same graph.
// |role| names it in the message.
graft_status graft_graph_check_tensor(const graft_graph *graph, const graft_tensor *tensor, const char *role,
                                      graft_error *error);

#endif
