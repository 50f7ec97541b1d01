// graph.h — building a graph of operators.
//
//   graft_tensor *h = graft_rms_norm(graph, x, weight, 1e-5);      // constructors live beside their operators in ops/
//   graft_tensor *y = graft_linear(graph, h, w, graft_graph_none());
//   graft_graph_output(graph, y, "y");
//   if (graft_graph_status(graph) != GRAFT_OK) …                   // the first failure; the context has its sentence
//
// Failures stick: a builder function that fails records the reason once and returns NULL, and every later builder call
// on that graph returns NULL without touching that first reason. A model is therefore written as plain expressions and
// checked once; making a plan of a failed graph fails with the same reason. A NULL tensor in a graph that has not
// failed is itself a failure.
//
// A graph belongs to one thread at a time. Everything in it lives until graft_graph_destroy.
#ifndef GRAFT_GRAPH_H
#define GRAFT_GRAPH_H

#include "graft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_context graft_context;
typedef struct graft_graph graft_graph;
typedef struct graft_op_def graft_op_def;

// A value in a graph: an input, a constant, or one output of a node. Owned by its graph.
typedef struct graft_tensor graft_tensor;

// Where the bytes of a constant (a weight) lie on the host. The bytes stay valid and unchanged until the last graph and
// plan that use them are gone. They are not read before a plan that computes with them is made.
typedef struct graft_constant {
  uint32_t struct_size;
  const void *data;  // any alignment
  size_t bytes;      // at least what the description covers
  // Called at most once per plan when the source is not needed any more because a kernel keeps its own packed copy, so
  // that mapped pages can be given back. The bytes must stay readable. May be NULL. May be called from any thread.
  void (*discard)(void *user, const void *data, size_t bytes);
  void *user;
} graft_constant;

// Makes an empty graph that uses the operators registered in |context|, which must outlive it.
// Errors: GRAFT_E_NO_MEMORY.
GRAFT_API GRAFT_NODISCARD graft_status graft_graph_create(graft_context *context, graft_graph **out_graph);
GRAFT_API void graft_graph_destroy(graft_graph *graph);
GRAFT_API graft_context *graft_graph_context(const graft_graph *graph);

// A value that the caller writes before a run (graft_plan_write). |name| is copied and unique among inputs.
// The description is contiguous. Returns NULL on failure (see above).
GRAFT_API graft_tensor *graft_graph_input(graft_graph *graph, const char *name, const graft_tensor_desc *desc);

// A value known now. |name| is copied. The description is contiguous.
GRAFT_API graft_tensor *graft_graph_constant(graft_graph *graph, const char *name, const graft_tensor_desc *desc,
                                             const graft_constant *constant);

// Applies the operator named |op| (for example "graft.rms_norm.v1"). |attrs| points at the operator's attribute struct
// (copied; NULL: the defaults of its schema) of |attrs_bytes| bytes. |inputs| has |n_inputs| entries; omitted optional
// inputs are graft_graph_none(). Writes the operator's outputs, in order, to |out_tensors| (NULL entries on failure;
// only the first where no operator has that name, so initialise more than one). Failures: unknown operator, wrong
// arity, attributes out of range, whatever the operator's inference refuses.
GRAFT_API void graft_graph_apply(graft_graph *graph, const char *op, const void *attrs, size_t attrs_bytes,
                                 graft_tensor *const *inputs, uint32_t n_inputs, graft_tensor **out_tensors);

// The same with more to say. Zero-initialise, set struct_size, op and what differs from the defaults.
typedef struct graft_application {
  uint32_t struct_size;
  uint32_t n_inputs;
  const char *op;
  const void *attrs;
  size_t attrs_bytes;
  graft_tensor *const *inputs;
  // Existing storage that output 0 is written over: a result, an input or a view of one, of the output's dtype and
  // shape, without repeated elements. One of the inputs: in place; another value: as a copy to it. NULL: storage of its
  // own.
  graft_tensor *into;
} graft_application;

// Applies an operator, writing output 0 over application->into. A tensor is a name for storage, and nodes happen in the
// order in which they are made: whoever was applied before reads what was there before, and whoever is applied later,
// to any tensor that shows these bytes, reads what was written. The edges that this takes are made here
// (graft_node_view), so that every pass sees them. The output is a new name for the destination. Inputs that are
// written over keep what was written, over runs: caches, states. An output of the graph shows what its storage holds
// when the run is over. Failures: as graft_graph_apply; a destination that is a constant, or that does not have the
// output's shape and dtype.
GRAFT_API void graft_graph_apply_into(graft_graph *graph, const graft_application *application,
                                      graft_tensor **out_tensors);

// The stand-in for an optional input that is left out. Not a failure, unlike NULL.
GRAFT_API graft_tensor *graft_graph_none(void);

// Marks |tensor| as a result under a unique |name| (copied): it is computed, kept to the end of a run and can be read
// by graft_plan_read. A tensor may be an output under several names, and inputs and constants may be outputs.
GRAFT_API void graft_graph_output(graft_graph *graph, graft_tensor *tensor, const char *name);

// Names made between push and pop are shown as "scope.name" in plans and profiles; joined names beyond
// 159 bytes are cut. |format| as printf.
GRAFT_API void graft_graph_scope_push(graft_graph *graph, const char *format, ...) GRAFT_PRINTF(2, 3);
GRAFT_API void graft_graph_scope_pop(graft_graph *graph);

// Records a failure found by a constructor before any operator is applied; the first one is kept. Returns NULL, so that
// a constructor ends in `return GRAFT_GRAPH_FAIL(graph, GRAFT_E_SHAPE, …)`.
GRAFT_API graft_tensor *graft_graph_fail(graft_graph *graph, graft_status status, const char *file, int line,
                                         const char *format, ...) GRAFT_PRINTF(5, 6);
#define GRAFT_GRAPH_FAIL(graph, status, ...) graft_graph_fail((graph), (status), __FILE__, __LINE__, __VA_ARGS__)

// GRAFT_OK, or the status of the first failure; its details are graft_graph_error.
GRAFT_API GRAFT_NODISCARD graft_status graft_graph_status(const graft_graph *graph);
GRAFT_API const graft_error *graft_graph_error(const graft_graph *graph);

// Borrowed. NULL, as failed builders return it, is described as an f32 scalar, so that constructors need not check
// first.
GRAFT_API const graft_tensor_desc *graft_tensor_describe(const graft_tensor *tensor);
// The name given to an input or constant; for a node's output "scope.op#node", and behind the first one
// ":output". Borrowed.
GRAFT_API const char *graft_tensor_name(const graft_tensor *tensor);

// Checks every rule of a well-formed graph: edges point backwards, descriptions equal what inference gives, views stay
// inside the storage they view, names are unique. For debug builds, tests and graphs that come from files.
GRAFT_API GRAFT_NODISCARD graft_status graft_graph_verify(const graft_graph *graph, graft_error *error);

// Receives text in pieces; |size| bytes, not terminated. A failure ends the printing and is returned. Frozen.
typedef struct graft_writer {
  graft_status (*write)(void *user, const char *text, size_t size);
  void *user;
} graft_writer;

// One line per input, constant and node in creation order, then the outputs: `%0 f32[1, 288, 384] = input "x"`,
// `%3 f32[1, 288, 384] = graft.rms_norm.v1(%0, %2) {eps=1e-05} layers.0`, `output "y" = %3`. An omitted input is
// `none`;
// `-> %1` behind the inputs: written over %1; `after %2`: comes behind the node that makes %2 though no input says so.
// Stable across runs.
GRAFT_API GRAFT_NODISCARD graft_status graft_graph_print(const graft_graph *graph, graft_writer writer);
// The same graph for Graphviz.
GRAFT_API GRAFT_NODISCARD graft_status graft_graph_print_dot(const graft_graph *graph, graft_writer writer);

// Counts and lookups. Indices run over creation order. Lookups return NULL where nothing has that name.
GRAFT_API uint32_t graft_graph_n_nodes(const graft_graph *graph);
GRAFT_API uint32_t graft_graph_n_inputs(const graft_graph *graph);
GRAFT_API uint32_t graft_graph_n_outputs(const graft_graph *graph);
GRAFT_API graft_tensor *graft_graph_input_at(const graft_graph *graph, uint32_t index);
GRAFT_API graft_tensor *graft_graph_output_at(const graft_graph *graph, uint32_t index, const char **out_name);
GRAFT_API graft_tensor *graft_graph_find_input(const graft_graph *graph, const char *name);
GRAFT_API graft_tensor *graft_graph_find_output(const graft_graph *graph, const char *name);

// A node as it is in its graph. Borrowed.
typedef struct graft_node_view {
  uint32_t struct_size;
  const graft_op_def *op;
  const void *attrs;
  uint32_t n_inputs, n_outputs;
  graft_tensor *const *inputs;  // NULL entry: omitted
  graft_tensor *const *outputs;
  graft_tensor *into;  // what output 0 is written over, or NULL
  uint32_t n_after;    // nodes that come first although no input says so (graft_graph_node_after)
  const char *label;
} graft_node_view;

// Writes node |index| to |out_view|; false, and zeros, out of range.
GRAFT_API bool graft_graph_node(const graft_graph *graph, uint32_t index, graft_node_view *out_view);
// The index of the i-th node that comes before node |index| because one of them writes over what the other uses.
// UINT32_MAX out of range.
GRAFT_API uint32_t graft_graph_node_after(const graft_graph *graph, uint32_t index, uint32_t i);

typedef enum graft_tensor_kind { GRAFT_TENSOR_INPUT, GRAFT_TENSOR_CONSTANT, GRAFT_TENSOR_RESULT } graft_tensor_kind;

// All values in order of creation, and the leaves (inputs and constants) among them; NULL out of range. More leaves are
// appended by graft_graph_input and graft_graph_constant at any time.
GRAFT_API uint32_t graft_graph_n_tensors(const graft_graph *graph);
GRAFT_API graft_tensor *graft_graph_tensor_at(const graft_graph *graph, uint32_t index);
GRAFT_API uint32_t graft_graph_n_leaves(const graft_graph *graph);
GRAFT_API graft_tensor *graft_graph_leaf_at(const graft_graph *graph, uint32_t index);

// What a value is; its index among its graph's values; how often inputs of nodes mention it; the index of the node that
// makes it, or UINT32_MAX; a constant's bytes, or NULL.
GRAFT_API graft_tensor_kind graft_tensor_kind_of(const graft_tensor *tensor);
GRAFT_API uint32_t graft_tensor_index(const graft_tensor *tensor);
GRAFT_API uint32_t graft_tensor_n_uses(const graft_tensor *tensor);
GRAFT_API uint32_t graft_tensor_maker(const graft_tensor *tensor);
GRAFT_API const graft_constant *graft_tensor_constant(const graft_tensor *tensor);

// Appends nodes |first| up to, not including, |end| of |source| to |target|, in their order. |map| has an entry for
// every value of |source| (graft_tensor_index): what stands for it in |target|, of the same layout, or NULL. Leaves
// that are used and not mapped are copied; results from outside the range must be mapped. On success |map| has all that
// was made. On failure |target| and |map| are as before; a failure does not stick to |target|. Errors: GRAFT_E_INVALID
// and GRAFT_E_SHAPE (a wrong map or range), GRAFT_E_EXISTS (an input's name is taken; map it), GRAFT_E_NO_MEMORY,
// |target|'s own failure.
GRAFT_API GRAFT_NODISCARD graft_status graft_graph_copy_nodes(graft_graph *target, const graft_graph *source,
                                                              uint32_t first, uint32_t end, graft_tensor **map);

#ifdef __cplusplus
}
#endif

#endif
