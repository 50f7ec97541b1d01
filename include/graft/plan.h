// plan.h — a graph compiled for a device: kernels chosen, memory laid out, work recorded. Plan once, run many times.
//
//   graft_plan_options options = {.struct_size = sizeof options, .device = device};
//   graft_plan_create(graph, &options, &plan);
//   graft_plan_write(plan, x, data, bytes);
//   graft_plan_run(plan, NULL);
//   graft_plan_read(plan, y, data, bytes);
#ifndef GRAFT_PLAN_H
#define GRAFT_PLAN_H

#include "graft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_plan graft_plan;

typedef enum graft_plan_flags {
  GRAFT_PLAN_MEASURE_ONLY = 1u << 0,  // choose and lay out, but allocate, pack and record nothing: for reports
  GRAFT_PLAN_NO_IN_PLACE = 1u << 1,   // every result gets storage of its own
  GRAFT_PLAN_NO_REUSE = 1u << 2,      // nothing shares memory: the naive layout that tests compare with
  GRAFT_PLAN_NO_PACKING = 1u << 3,    // kernels that would pack a constant are not chosen
  GRAFT_PLAN_REFERENCE = 1u << 4,     // only references run
  GRAFT_PLAN_KEEP_NODES = 1u << 5,    // no fusion: for those who look at single nodes, and for several pipeline copies
} graft_plan_flags;

// Where the caller wants something: the node that makes |tensor| runs on |device|, an input or constant is kept there.
typedef struct graft_pin {
  uint32_t struct_size;
  const graft_tensor *tensor;
  graft_device *device;  // one of the plan's
} graft_pin;

// Zero-initialise, set struct_size, device or devices, and what differs from the defaults.
typedef struct graft_plan_options {
  uint32_t struct_size;
  uint32_t flags;  // graft_plan_flags
  graft_device *device;
  // Chooses among the kernels that support a node: the one so named is taken first wherever it can run. NULL: none.
  // GRAFT_E_NOT_FOUND when no kernel has that name.
  const char *force_kernel;
  // "on"; "off": no fusion; or rules to leave out, as in "-swiglu,-gated_residual". NULL: as the context says.
  // GRAFT_E_INVALID or GRAFT_E_NOT_FOUND for anything else.
  const char *fusion;
  // Measured selection: where several kernels want a node, they are timed on scratch data and the fastest is taken, so
  // that plans may differ from run to run and machine to machine. A path: times are kept there, by device, operator,
  // dtypes, shapes and kernels, and are not measured again; a file that is damaged or cannot be written is a warning in
  // the log. "": measured, not kept. "off" or NULL with no default in the context: not measured. A plan that is only
  // measured for memory times nothing, but uses what the file has.
  const char *tuning;
  // Several devices in order of priority, at most 16, instead of |device|, which is NULL then or the first of them.
  // Nodes are placed as docs/scheduling.md says, and what lies between devices is copied. Where the memory that is free
  // on one does not hold its values and weights, what does not fit goes to those behind it.
  graft_device *const *devices;
  uint32_t n_devices;
  const graft_pin *pins;
  uint32_t n_pins;
  // Bytes that the plan may need on each device at any time, values and constants together; 0: no limit. Where all
  // constants do not fit, the run is cut into segments, and each brings the constants that it needs, packs them, and
  // gives them back. Results are the same bytes. GRAFT_E_NO_MEMORY with a sentence where even single steps do not fit.
  size_t memory_budget;
  // Storage of every input, 1 to 8 times; 0: once. With n copies graft_plan_write may be called by another thread while
  // the plan runs, and up to n - 1 values of an input wait: each run takes the next one of every input that has one.
  // Writing beyond that is GRAFT_E_BUSY. Several copies keep single nodes (GRAFT_PLAN_KEEP_NODES).
  uint32_t n_input_copies;
} graft_plan_options;

// Compiles |graph|, which is only read and may be destroyed afterwards; its constants must stay. Tensors of the graph
// (inputs and outputs) name the plan's values for write and read as long as the graph lives.
// Errors: the graph's own first failure; GRAFT_E_UNSUPPORTED when no kernel, reference or decomposition can run a node,
// with each reason; GRAFT_E_NO_MEMORY; what prepare, pack and encode report.
GRAFT_API GRAFT_NODISCARD graft_status graft_plan_create(const graft_graph *graph, const graft_plan_options *options,
                                                         graft_plan **out_plan);
GRAFT_API void graft_plan_destroy(graft_plan *plan);

// Copies a value into graph input |index| (graft_graph_input_at) or out of graph output |index|. |bytes| is exactly the
// size of the contiguous tensor. Inputs keep their value over runs. An output is valid after a completed run.
// Errors: GRAFT_E_INVALID (index, size, a plan that was only measured, no completed run), GRAFT_E_DEVICE, and when
// reading GRAFT_E_NO_MEMORY.
GRAFT_API GRAFT_NODISCARD graft_status graft_plan_write(graft_plan *plan, uint32_t input, const void *source,
                                                        size_t bytes);
GRAFT_API GRAFT_NODISCARD graft_status graft_plan_read(graft_plan *plan, uint32_t output, void *target, size_t bytes);

// The same by name. GRAFT_E_NOT_FOUND when the graph had no such input or output.
GRAFT_API GRAFT_NODISCARD graft_status graft_plan_find_input(const graft_plan *plan, const char *name,
                                                             uint32_t *out_index);
GRAFT_API GRAFT_NODISCARD graft_status graft_plan_find_output(const graft_plan *plan, const char *name,
                                                              uint32_t *out_index);

// Runs every step and waits. |control| may be NULL. Allocates nothing. Plans of one context may be run by several
// threads at a time, and take turns where they share a device; each plan is used by one thread at a time.
// Errors: GRAFT_E_CANCELLED (the plan can be run again), GRAFT_E_INVALID (an input that is needed was never written, a
// plan that was only measured), GRAFT_E_BUSY (called from within a run of the same device), GRAFT_E_DEVICE, what
// kernels and references report.
GRAFT_API GRAFT_NODISCARD graft_status graft_plan_run(graft_plan *plan, const graft_run_control *control);

// Host memory of a value in a direct execution: the contiguous tensor, of exactly its size. Read for values from
// outside of the range, written for those that it makes; both for a value from outside that the range writes over.
typedef struct graft_binding {
  uint32_t struct_size;
  const graft_tensor *tensor;
  void *data;
  size_t bytes;
} graft_binding;

// Zero-initialise, set struct_size, device and what differs from the defaults.
typedef struct graft_execution {
  uint32_t struct_size;
  uint32_t flags;  // graft_plan_flags
  graft_device *device;
  uint32_t first, n_nodes;  // a range of the graph's nodes; n_nodes 0: from |first| to the end
  const graft_binding *bindings;
  uint32_t n_bindings;
  const graft_run_control *control;  // may be NULL
} graft_execution;

// Runs nodes of |graph| once, without a plan of the caller's, and waits. Values from outside that the range uses are
// bound: graph inputs, results of earlier nodes, or the storage that a view of them shows. What nodes behind the range
// use, and outputs of the graph, is kept whole as in a plan of the whole graph, bound or not.
// Errors: as graft_plan_create, graft_plan_write, graft_plan_run and graft_plan_read; GRAFT_E_INVALID (a range or a
// binding that does not exist, a value that is not bound).
GRAFT_API GRAFT_NODISCARD graft_status graft_graph_execute(const graft_graph *graph, const graft_execution *execution);

// Bytes, as they are (or for a measured plan, would be) allocated on the device.
typedef struct graft_memory_report {
  uint32_t struct_size;
  size_t arena_bytes;      // inputs, outputs, intermediates and workspace together, after sharing
  size_t naive_bytes;      // the same without any sharing
  size_t workspace_bytes;  // largest workspace of a step; part of the arena
  size_t constant_bytes;   // constants that are used where they lie, or uploaded
  size_t packed_bytes;     // packed copies; their sources are not counted as constants
  size_t peak_bytes;       // arena + constants + packed
  size_t allocated_bytes;  // asked of the device: the arena, and constants that are packed or uploaded, also where
                           // other plans share them
} graft_memory_report;

// All devices together; the sum of their peaks is no less than what is used at any time. With a memory budget the arena
// has the constants that are brought, and constant_bytes is the most that one segment reads where it lies.
GRAFT_API void graft_plan_memory(const graft_plan *plan, graft_memory_report *out_report);
// One of the plan's devices (graft_plan_used_device). Zeros out of range.
GRAFT_API void graft_plan_device_memory(const graft_plan *plan, uint32_t index, graft_memory_report *out_report);

// Host memory that the plan holds beside that: what copies between devices, and constants that are brought, go through.
// 0 for a plan that was only measured.
GRAFT_API size_t graft_plan_host_bytes(const graft_plan *plan);

// A stretch of steps that one device runs in one go, or transfers between devices.
typedef struct graft_stage_info {
  uint32_t struct_size;
  const char *device;  // "cpu:0"; of transfers: where the first one goes
  bool is_transfer;
  uint32_t first_step, n_steps;
  size_t live_bytes;      // the most of the device's arena that is in use at one of its steps
  size_t constant_bytes;  // read where they lie, or uploaded or packed for all runs
  size_t brought_bytes;   // constants that are brought before it begins (memory_budget); part of live_bytes
  size_t moved_bytes;     // by transfers
} graft_stage_info;

GRAFT_API uint32_t graft_plan_n_stages(const graft_plan *plan);
GRAFT_API void graft_plan_stage(const graft_plan *plan, uint32_t index, graft_stage_info *out_info);

// One step of a plan. Strings and pointers are borrowed from the plan.
struct graft_step_info {
  uint32_t struct_size;
  const graft_op_def *op;
  const void *attrs;
  const graft_kernel_def *kernel;
  const char *label;   // the node's name in the graph
  const char *device;  // "cpu:0"
  uint32_t n_inputs, n_outputs;
  const graft_tensor_desc *const *inputs;
  const graft_tensor_desc *const *outputs;
  double flops;  // floating-point operations
  double bytes;  // read and written once each
  size_t workspace_bytes, packed_bytes;
  bool is_in_place;
  const char *rejections;  // one line per kernel asked before the chosen one: "name: reason"; "" when there is none
  const char *fusion;      // the rule that made the step out of n_fused others; NULL: a node of the graph
  uint32_t n_fused;
  const char *placement;   // why it runs on its device: a few words; "" where there was no choice
  uint32_t placed_inputs;  // bit i: input i was made in its place in output 0 (graft_op_def.part); not counted in bytes
};

GRAFT_API uint32_t graft_plan_n_steps(const graft_plan *plan);
GRAFT_API void graft_plan_step(const graft_plan *plan, uint32_t index, graft_step_info *out_info);

// Writes, for each of the step's n_inputs inputs, the number of the step that made the bytes which it reads; -1: an
// input of the graph, a constant, or left out.
GRAFT_API void graft_plan_step_sources(const graft_plan *plan, uint32_t index, int32_t *out_steps);

// The devices that the plan may use, in order of priority; NULL out of range. Borrowed.
GRAFT_API uint32_t graft_plan_n_devices(const graft_plan *plan);
GRAFT_API const graft_device *graft_plan_used_device(const graft_plan *plan, uint32_t index);

// Bytes in the arena of device |device| that hold something while step |step| runs: inputs, outputs, intermediates that
// are still needed, and workspace.
GRAFT_API size_t graft_plan_live_bytes(const graft_plan *plan, uint32_t device, uint32_t step);

// A fusion rule and what became of it in this plan. Strings are borrowed from the rule.
typedef struct graft_fusion_count {
  uint32_t struct_size;
  const char *rule, *op;
  uint32_t n_groups;       // replaced
  uint32_t n_near_misses;  // that have the operators and edges, but were not replaced
  bool is_off;
} graft_fusion_count;

GRAFT_API uint32_t graft_plan_n_fusion_rules(const graft_plan *plan);
GRAFT_API void graft_plan_fusion_rule(const graft_plan *plan, uint32_t index, graft_fusion_count *out_count);

// A group that was replaced, or nearly. Strings are borrowed from the plan.
typedef struct graft_fusion_group {
  uint32_t struct_size;
  const char *rule;
  const char *label;     // of the group's last node; "" where the rule itself has a fault
  uint32_t n_nodes;      // views not counted
  const char *obstacle;  // the condition that failed; NULL: replaced
} graft_fusion_group;

GRAFT_API uint32_t graft_plan_n_fusion_groups(const graft_plan *plan);
GRAFT_API void graft_plan_fusion_group(const graft_plan *plan, uint32_t index, graft_fusion_group *out_group);

// A table for people: one line per step, then the memory report. 80 columns where names allow.
GRAFT_API GRAFT_NODISCARD graft_status graft_plan_print(const graft_plan *plan, graft_writer writer);

#ifdef __cplusplus
}
#endif

#endif
