// op.h — defining an operator: its name, attributes, inference, oracle and cases. All data plus two or three pure
// functions; kernels are separate records that name the operator (kernel.h).
//
//   const graft_op_def ops[] = {{.struct_size = sizeof ops[0], .name = "acme.hardswish.v1", .min_inputs = 1,
//                                .max_inputs = 1, .n_outputs = 1, .traits = GRAFT_OP_PURE | GRAFT_OP_ELEMENTWISE,
//                                .infer = infer, .reference = reference, .cases = cases, .n_cases = 3}};
#ifndef GRAFT_OP_H
#define GRAFT_OP_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GRAFT_MAX_INPUTS = 32, GRAFT_MAX_OUTPUTS = 8, GRAFT_MAX_ATTRS_BYTES = 16384 };

// What passes may assume; they never look at names.
typedef enum graft_op_traits {
  GRAFT_OP_PURE = 1u << 0,           // outputs depend on inputs and attributes alone
  GRAFT_OP_VIEW = 1u << 1,           // output 0 is input 0's storage seen through another shape; no work
  GRAFT_OP_ELEMENTWISE = 1u << 2,    // element i of the output depends on (broadcast) element i of each input only
  GRAFT_OP_COPY = 1u << 3,           // output 0 holds input 0's values in another layout
  GRAFT_OP_CAST = 1u << 4,           // output 0 holds input 0's values in another dtype
  GRAFT_OP_COMMUTATIVE = 1u << 5,    // inputs 0 and 1 may be exchanged
  GRAFT_OP_OPAQUE_EFFECT = 1u << 6,  // does something graft cannot see: never moved, merged, fused or dropped
} graft_op_traits;

typedef enum graft_attr_type {
  GRAFT_ATTR_I64,    // int64_t
  GRAFT_ATTR_F64,    // double
  GRAFT_ATTR_BOOL,   // bool
  GRAFT_ATTR_DTYPE,  // graft_dtype or NULL; default_i64 is the graft_dtype_code of its default (0: NULL)
  GRAFT_ATTR_ENUM,   // int32_t, an index into |choices|
  GRAFT_ATTR_I64S,   // int64_t[max_count], of which the first int32_t at count_offset are used
} graft_attr_type;

// One member of an operator's attribute struct: makes it printable, checkable and serialisable. Frozen.
typedef struct graft_attr_def {
  const char *name;
  graft_attr_type type;
  uint32_t offset;
  double default_f64;
  int64_t default_i64;         // also of BOOL and ENUM, and of all max_count elements of I64S
  const char *const *choices;  // ENUM: names, NULL at the end
  uint32_t max_count;          // I64S
  uint32_t count_offset;       // I64S: where the int32_t number of used entries lies
} graft_attr_def;

// What inference reads and writes. |inputs[i]| is NULL for an omitted optional input.
typedef struct graft_infer_args {
  uint32_t struct_size;
  const void *attrs;
  uint32_t n_inputs, n_outputs;
  const graft_tensor_desc *const *inputs;
  graft_tensor_desc *outputs;  // to be filled; contiguous unless the operator is a view
  int64_t view_offset;         // views: bytes from the start of input 0, to be filled (0 beforehand)
  graft_error *error;
} graft_infer_args;

// What a reference reads and writes, on the host. Absent inputs have data NULL and rank 0.
typedef struct graft_reference_args {
  uint32_t struct_size;
  const void *attrs;
  uint32_t n_inputs, n_outputs;
  const graft_view *inputs;          // any strides, stride 0 included
  const graft_view *outputs;         // any strides; overlaps no input
  bool (*should_abort)(void *user);  // may be NULL; worth asking about once per millisecond of work
  void *abort_user;
  graft_error *error;
} graft_reference_args;

// How a test or benchmark fills an input.
typedef enum graft_fill {
  GRAFT_FILL_NORMAL = 0,  // mean 0, deviation 1
  GRAFT_FILL_UNIFORM,     // between low and high
  GRAFT_FILL_INTEGERS,    // integers, low ≤ v < high (indices, masks: 0 and 1)
  GRAFT_FILL_CONSTANT,    // low everywhere
} graft_fill;

// What an example gives to an input. Frozen.
typedef struct graft_case_input {
  graft_dtype dtype;  // NULL: this optional input is left out
  int32_t rank;
  int64_t shape[GRAFT_MAX_RANK];
  graft_fill fill;
  double low, high;
  bool is_constant;  // given as a constant, so that kernels may pack it
} graft_case_input;

enum {
  GRAFT_CASE_MAX_INPUTS = 6,
  GRAFT_CASE_BENCH = 1u << 0,  // a real model's shape: benchmarked, and not tested (too slow for the reference)
  GRAFT_CASE_EXACT = 1u << 1,  // moves data only: kernels must give the reference's bytes
};

// One example of an operator's use. From these and from variations of their dtypes, layouts and aliasing, conformance
// tests and benchmarks are made for every kernel. Frozen.
typedef struct graft_op_case {
  const char *name;
  const void *attrs;  // NULL: defaults
  uint32_t n_inputs;
  graft_case_input inputs[GRAFT_CASE_MAX_INPUTS];
  int64_t reduction;  // number of terms summed into one output element, for the tolerance; 0 or 1: none
  uint32_t flags;
} graft_op_case;

// An operator. Constant, with static storage; must outlive every graph and plan that uses it.
// Either |reference| or |decompose| is required, so that every operator has an oracle; views need neither.
struct graft_op_def {
  uint32_t struct_size;
  uint32_t traits;   // graft_op_traits
  const char *name;  // "vendor.name.vN", unique
  uint32_t min_inputs, max_inputs, n_outputs;
  uint32_t optional_inputs;  // bit i: input i may be left out
  const graft_attr_def *attrs;
  uint32_t n_attrs;
  uint32_t attrs_bytes;  // sizeof the attribute struct, which holds no pointers but dtypes; copied bytewise

  // Checks inputs and attributes and describes the outputs. Pure and thread-safe. A refusal is GRAFT_E_SHAPE or
  // GRAFT_E_INVALID with a sentence that names sizes.
  graft_status (*infer)(graft_infer_args *args);

  // Computes the outputs plainly, accumulating in double, for every dtype that inference accepts. Thread-safe.
  graft_status (*reference)(const graft_reference_args *args);

  // Builds the same values from simpler operators; failures stick to |graph|. Thread-safe.
  void (*decompose)(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                    graft_tensor **out_tensors);

  // Floating-point operations of one evaluation, for profiles; NULL: counted as one per output element. Thread-safe.
  double (*flops)(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                  const graft_tensor_desc *outputs);

  const graft_op_case *cases;
  uint32_t n_cases;

  // For operators that join inputs. Whether output 0, when contiguous, holds the bytes of input |input|, when that is,
  // in one piece, and at how many bytes from its start: the step that makes the input may then write there at once.
  // What two inputs get must not overlap. Takes effect with kernels that have GRAFT_KERNEL_PLACED_INPUTS. NULL: it does
  // not. Pure and thread-safe.
  bool (*part)(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
               const graft_tensor_desc *output, uint32_t input, int64_t *out_offset);
};

// The bound that every kernel is held to against its reference: |got - want| ≤ bound · max(|want|, r), where r is the
// root mean square of the wanted output. It is the unit roundoff of the output's dtype, plus float32 rounding of
// |reduction| terms accumulated in any order: u_out + 4·u_f32·(4 + sqrt(reduction)). Integers and bool: 0. An
// application's floating-point dtype counts as coarse as f8_e5m2. Thread-safe.
GRAFT_API double graft_op_tolerance(graft_dtype output, int64_t reduction);

// Fills |attrs| (op->attrs_bytes bytes) with the schema's defaults. Thread-safe.
GRAFT_API void graft_op_default_attrs(const graft_op_def *op, void *attrs);

// Inference for operators whose output 0 looks like input 0, broadcast against all other inputs as NumPy does; the
// dtype is input 0's. Useful as |infer| of element-wise operators. Thread-safe.
GRAFT_API graft_status graft_infer_elementwise(graft_infer_args *args);

// Address of the element at |index| (rank entries) of |view|. Thread-safe.
static inline void *graft_view_at(const graft_view *view, const int64_t *index) {
  char *address = (char *)view->data;
  for (int32_t d = 0; d < view->desc.rank; ++d) address += index[d] * view->desc.strides[d];
  return address;
}

// Steps |index| to the next element of a row-major walk over |desc|; false after the last one. Start with all zeros;
// a walk over an empty tensor must not begin. Thread-safe.
static inline bool graft_index_next(const graft_tensor_desc *desc, int64_t *index) {
  for (int32_t d = desc->rank - 1; d >= 0; --d) {
    if (++index[d] < desc->shape[d]) return true;
    index[d] = 0;
  }
  return false;
}

#ifdef __cplusplus
}
#endif

#endif
