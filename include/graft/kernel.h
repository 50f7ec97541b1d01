// kernel.h — an implementation of one operator on one backend. Its life: decide, prepare, (pack,) encode, destroy.
//
//   supports → preferred → prepare → pack → encode → destroy
//
// Callbacks before encode see metadata only, never addresses, and may run on any thread, several at a time for
// different nodes. Nothing is decided, allocated or looked up while a plan runs.
#ifndef GRAFT_KERNEL_H
#define GRAFT_KERNEL_H

#include "graft/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_device graft_device;

// How a backend takes work while a plan is recorded; what can be encoded is in the backend's own header (cpu.h).
typedef struct graft_encoder graft_encoder;

// A node as kernels see it. Borrowed for the call.
typedef struct graft_node_info {
  uint32_t struct_size;
  const graft_op_def *op;
  const void *attrs;
  uint32_t n_inputs, n_outputs;
  const graft_tensor_desc *const *inputs;  // NULL entry: omitted optional input
  const graft_tensor_desc *const *outputs;
  uint32_t constant_inputs;  // bit i: input i is a constant, and may be packed
  const graft_device *device;
} graft_node_info;

// Why a kernel refuses a node, in a few words: "rows are not contiguous". Frozen.
typedef struct graft_reason {
  char text[120];
} graft_reason;

// Writes the reason and returns false, so that `supports` ends in `return graft_refuse(why, …)`. |why| may be NULL.
GRAFT_API bool graft_refuse(graft_reason *why, const char *format, ...) GRAFT_PRINTF(2, 3);

enum { GRAFT_MAX_PACKED = 4 };

// A constant input that the kernel wants in a layout of its own. The packed copy is made once, shared by all plans
// whose kernels name the same layout of the same constant on the same device, and replaces the source in encode.
// Frozen.
typedef struct graft_packed_input {
  uint32_t input;
  size_t bytes;
  size_t alignment;  // a power of two, at most 4096
  char layout[40];   // equal text promises equal packed bytes for equal source and description
} graft_packed_input;

// What prepare reports. Zero beforehand.
typedef struct graft_prepared {
  uint32_t struct_size;
  void *state;  // the kernel's own; given to pack, encode and destroy
  size_t workspace_bytes;
  size_t workspace_alignment;  // 0: 64
  uint32_t n_packed;
  graft_packed_input packed[GRAFT_MAX_PACKED];
} graft_prepared;

// Today's addresses on the device, valid for the life of the recording, as are |node| and what it points at. Results
// and workspace begin at multiples of 64 bytes, constants and views at least where their dtype may lie; none is NULL
// unless said otherwise, also where a tensor is empty.
typedef struct graft_encode_args {
  uint32_t struct_size;
  const graft_node_info *node;
  void *state;
  void *const *inputs;  // the packed copy where one was asked for; NULL for omitted inputs
  void *const *outputs;
  void *workspace;  // contents never persist between runs; NULL when 0 bytes were asked for
  graft_error *error;
} graft_encode_args;

typedef enum graft_kernel_traits {
  // Output 0 may have any strides and begin wherever its dtype may lie, as destinations of graft_graph_apply_into do.
  // Without this, such results are computed apart and copied.
  GRAFT_KERNEL_ANY_OUTPUT = 1u << 0,
  // Inputs may lie in output 0 already: at the very place that the operator's |part| names, where the kernel leaves
  // them alone, or, when they are parts twice, at another, from which it copies them.
  GRAFT_KERNEL_PLACED_INPUTS = 1u << 1,
} graft_kernel_traits;

// A kernel. Constant, with static storage; must outlive every plan that uses it.
typedef struct graft_kernel_def {
  uint32_t struct_size;
  int32_t priority;            // higher is asked first; ties: application before native, then registration
  const char *name;            // "<op>_<dtypes>_<variant>__<target>", unique; the symbol, log, bench and filter name
  const char *op;              // full name of the operator, or NULL: any operator (a backend's catch-all)
  const char *backend;         // "cpu"
  uint64_t required_features;  // bits the device must have (cpu.h: graft_cpu_feature); else refused with a reason

  // Whether this kernel is right for the node: dtypes, layouts, limits. NULL: always.
  bool (*supports)(const graft_node_info *node, graft_reason *why);

  // Policy: whether it should be used although the device could run the node natively without it. NULL: yes.
  bool (*preferred)(const graft_node_info *node, graft_reason *why);

  // Inputs whose storage output 0 may take over when both have the same layout and nothing else needs the input: the
  // kernel then gives the same result although the addresses are equal.
  uint32_t in_place_inputs;

  // Makes optional state and reports needs. Reads no tensor contents. NULL: no state, no workspace.
  graft_status (*prepare)(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared);

  // Writes the packed form of constant |input| (an index into node->inputs) on the host; several inputs and nodes may
  // be packed at a time. |source| is aligned for its dtype and has the strides of the node's description. On failure
  // the plan fails.
  graft_status (*pack)(const graft_node_info *node, void *state, uint32_t input, const void *source, void *packed);

  // Adds the node's work to |encoder|. May be called again for another recording; allocates nothing of its own.
  graft_status (*encode)(graft_encoder *encoder, const graft_encode_args *args);

  // Frees what prepare made. NULL when it made nothing.
  void (*destroy)(void *state);

  uint32_t traits;  // graft_kernel_traits
} graft_kernel_def;

#ifdef __cplusplus
}
#endif

#endif
