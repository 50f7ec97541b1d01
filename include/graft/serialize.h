// serialize.h — graphs as text that can be read back: the same plan and the same bytes of results come out of it. What
// may stand in it is in docs/graph-format.md:
//
//   graft-graph 1
//   %0 f32[1, 288, 384] = input "x"
//   %1 bf16[384] = constant "norm.weight"
//   %2 f32[1, 288, 384] = graft.rms_norm.v1(%0, %1) {eps=1e-05} "layers.0"
//   output "y" = %2
//   end
//
// Operators stand under their versioned names and attributes under the names of their schema, so a graph means the same
// to every version of graft that has these operators, and is refused by one that has not. Constants are names: where
// their bytes are is for the reader to say.
#ifndef GRAFT_SERIALIZE_H
#define GRAFT_SERIALIZE_H

#include "graft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GRAFT_GRAPH_FORMAT_VERSION = 1 };

// Writes |graph|. Errors: the graph's own first failure, what |writer| reports. Thread-safe.
GRAFT_API GRAFT_NODISCARD graft_status graft_graph_save(const graft_graph *graph, graft_writer writer);

// Who knows the bytes of constants. Zero-initialise and set struct_size.
typedef struct graft_graph_source {
  uint32_t struct_size;
  // Says where constant |name| of |desc| lies (graph.h: graft_constant; zero but for its struct_size beforehand). A
  // failure is the loading's; its sentence names the constant. NULL: a graph with constants is refused.
  graft_status (*find_constant)(void *user, const char *name, const graft_tensor_desc *desc, graft_error *error,
                                graft_constant *out_constant);
  void *user;
} graft_graph_source;

// Makes the graph that |text| (|bytes| long, not terminated) describes, of operators and dtypes registered in
// |context|. |source| may be NULL. The text may be anything: what is no graph is refused with the number of the line.
// Errors, reported in the context: GRAFT_E_FORMAT (no such text, or one that is cut or contradicts itself or what
// inference says), GRAFT_E_UNSUPPORTED (a newer format), GRAFT_E_NOT_FOUND (an operator, attribute, choice or dtype
// that is not known here), what building a graph and find_constant report.
GRAFT_API GRAFT_NODISCARD graft_status graft_graph_load(graft_context *context, const char *text, size_t bytes,
                                                        const graft_graph_source *source, graft_graph **out_graph);

#ifdef __cplusplus
}
#endif

#endif
