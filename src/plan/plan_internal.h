// plan_internal.h — a plan while it is made, and the passes that make it, in their order. Not installed.
#ifndef GRAFT_SRC_PLAN_PLAN_INTERNAL_H
#define GRAFT_SRC_PLAN_PLAN_INTERNAL_H

#include <pthread.h>

#include "graft/plan.h"
#include "src/graph/graph_internal.h"
#include "src/plan/constant_cache.h"

enum {
  GRAFT_PLAN_VERIFY = 1 << 30,  // internal flag: check every pass, as builds without NDEBUG always do
  GRAFT_PLAN_NONE = -1,         // no storage, no constant
  GRAFT_PLAN_MAX_DEVICES = 16,
};

// A stretch of the arena that one value or several values in turn occupy (in-place results take over their input's).
// Time 0 is before the first step, step s runs at time s + 1, and n_steps + 1 is after the last.
typedef struct graft_plan_storage {
  size_t bytes, alignment;
  uint32_t first, last;  // times from the first write to the last read
  size_t offset;         // in the arena of its device
  uint32_t device;
} graft_plan_storage;

// A constant that steps use. Its bytes are read by kernels where they lie, or from |copy|, or only when packing.
typedef struct graft_plan_constant {
  const graft_tensor *tensor;
  size_t bytes;
  uint32_t device;
  bool is_read;                // by a kernel that takes it as it is
  bool is_brought;             // to the arena, while the plan runs
  bool is_output;              // of the graph: read from the host
  uint32_t last_segment;       // with a memory budget: the last one that reads the source where it lies
  graft_constant_entry *copy;  // where kernels cannot read the source: other memory, or a misaligned address
  _Atomic uint32_t n_pending;  // copies that still need the source
} graft_plan_constant;

// Where a value lies; index is the tensor's id. Views are resolved to the value that they view.
typedef struct graft_plan_value {
  int32_t storage;   // or GRAFT_PLAN_NONE
  int32_t constant;  // or GRAFT_PLAN_NONE
  uint32_t last;     // time of the last read, of it and of its views
  int32_t whole;     // id of the value of which this is made as a part, or GRAFT_PLAN_NONE
  size_t offset;     // in the whole
} graft_plan_value;

// The pages of a constant that are registered with its device; bytes 0: none.
typedef struct graft_plan_mapped {
  size_t offset, bytes;  // from the constant's first byte
} graft_plan_mapped;

typedef struct graft_planned_step {
  graft_node *node;
  const graft_kernel_def *kernel;
  graft_node_info info;
  const char *rejections;
  graft_prepared prepared;
  bool is_prepared;  // |prepared| is the plan's to destroy
  graft_constant_entry *packed[GRAFT_MAX_PACKED];
  int32_t in_place_input;          // or GRAFT_PLAN_NONE
  uint32_t placed_inputs;          // bit i: input i was made as a part of output 0
  int32_t workspace;               // storage, or GRAFT_PLAN_NONE
  const graft_fusion_def *fusion;  // the rule that made it; NULL: a node of the graph
  uint32_t n_fused;                // steps that it stands for; 0: itself
} graft_planned_step;

// With a budget: a constant that is brought to its device, packed or as it is, when a segment begins that needs
// it, and lies in the arena until the last such segment is over.
typedef struct graft_plan_resident {
  graft_constant_entry entry;      // of the plan's own; nobody shares it
  const graft_planned_step *step;  // whose kernel packs; NULL: a plain copy
  const graft_tensor *tensor;      // what is packed or copied
  uint32_t input, device;
  uint32_t index;        // among the plan's residents, as they were made
  uint32_t first, last;  // segments
  uint32_t begin;        // the segment beside which it is brought; |first|: before that begins
  int32_t storage;       // or GRAFT_PLAN_NONE
  graft_plan_mapped mapped;
  graft_status status;  // of bringing it, in the current run
} graft_plan_resident;

// One of the devices that a plan may use, and what it has there.
typedef struct graft_plan_device {
  graft_device *device;
  const graft_backend_def *backend;
  graft_device_info info;
  uint32_t n_steps;     // of the recording
  size_t budget;        // of values and what is brought; 0: nothing is brought
  size_t kept_bytes;    // of constants that must be allocated for the plan
  size_t weight_limit;  // of constants that may be kept on it
  bool is_closed;       // takes only what no other device can run
  bool is_prefetching;  // constants are brought while the segment before runs
  struct graft_prefetch *prefetch;
  graft_recording *recording;
  graft_memory_block memory;  // of the arena
  graft_memory_report report;
} graft_plan_device;

// Steps that one device runs in one go, or transfers that the host makes.
typedef struct graft_plan_segment {
  uint32_t device;
  bool is_transfer;
  uint32_t first, end;                    // steps of the plan
  uint32_t first_local;                   // the number of |first| in the device's recording
  uint32_t first_resident, end_resident;  // that are brought before it runs
} graft_plan_segment;

typedef struct graft_plan_list {
  void **items;
  uint32_t n, capacity;
} graft_plan_list;

typedef struct graft_plan_output {
  graft_tensor *tensor;
  const char *name;
} graft_plan_output;

struct graft_plan {
  graft_context *context;
  graft_error *error;                // the context's
  graft_device *device;              // the first one …
  const graft_backend_def *backend;  // … and its backend
  graft_plan_device *devices;        // in order of priority
  uint32_t n_devices;
  uint32_t flags;
  size_t memory_budget;  // 0: none
  const char *force_kernel;
  const char *fusion;         // which rules are off, as in graft_plan_options
  struct graft_tuner *tuner;  // while kernels are chosen; NULL: by their order alone

  graft_arena arena;        // metadata
  graft_graph *scratch;     // where decompositions are built; keeps the registry in use
  graft_plan_list tensors;  // of graft_tensor; the index is its id in the plan
  graft_tensor **inputs;    // all of the graph's, also those that nothing reads
  bool *is_written;
  uint32_t n_inputs, n_unwritten;
  uint32_t n_slots;               // further storages of every input, for values of coming runs
  int32_t *slots;                 // n_slots for each input: storages
  uint32_t *first_slot, *n_full;  // by input: the next value in turn, and how many wait
  pthread_mutex_t inputs_lock;    // guards what is_written, n_unwritten, first_slot and n_full say
  graft_plan_output *outputs;
  uint32_t n_outputs;

  graft_plan_list nodes;  // what the caller's graph needs, in order; empty after expansion
  graft_plan_list steps;  // of graft_planned_step
  struct graft_fusion_rule *fusion_rules;
  uint32_t n_fusion_rules;
  graft_plan_list fused_groups;  // of graft_fused_group
  graft_plan_value *values;
  graft_plan_storage *storages;
  uint32_t n_storages;
  graft_plan_constant *constants;
  uint32_t n_constants;
  bool is_apart;   // no value is made as a part of another
  bool has_parts;  // some are
  bool is_copied;  // steps reach all that they read
  bool is_laid_out;
  graft_plan_segment *segments;
  uint32_t n_segments;
  graft_plan_list residents;   // of graft_plan_resident; by first segment once the plan is cut
  graft_memory_report report;  // of all devices together
  void *staging;               // host memory through which transfers go; NULL: none needs it
  size_t staging_bytes;
  bool is_recorded, has_result;
};

// How much of each device a plan may take; lowered until it fits.
typedef struct graft_plan_limits {
  size_t weights[GRAFT_PLAN_MAX_DEVICES];
  bool is_closed[GRAFT_PLAN_MAX_DEVICES];
  bool is_apart;  // no value is made as a part of another, which may need memory earlier
} graft_plan_limits;

// Appends to a list; fails with a sentence in the plan's error.
graft_status graft_plan_append(graft_plan *plan, graft_plan_list *list, void *item);
// Gives |tensor| its id in the plan.
graft_status graft_plan_add_tensor(graft_plan *plan, graft_tensor *tensor);
graft_status graft_plan_no_memory(graft_plan *plan);

static inline graft_planned_step *graft_plan_step_at(const graft_plan *plan, uint32_t index) {
  return plan->steps.items[index];
}
// The value whose bytes |tensor| shows. From expansion on a view's |view_of| is never itself a view.
static inline const graft_tensor *graft_plan_root(const graft_tensor *tensor) {
  return tensor->view_of != NULL ? tensor->view_of : tensor;
}

// The device that runs |step|, or of which |tensor| is.
static inline graft_plan_device *graft_plan_device_at(const graft_plan *plan, uint32_t index) {
  return &plan->devices[index];
}
static inline bool graft_plan_is_host(const graft_plan *plan, uint32_t device) {
  return (plan->devices[device].info.flags & GRAFT_DEVICE_HOST_MEMORY) != 0;
}
// Whether kernels on |device| can use addresses of |owner|.
static inline bool graft_plan_can_access(const graft_plan *plan, uint32_t device, uint32_t owner) {
  return device == owner || (graft_plan_is_host(plan, device) && graft_plan_is_host(plan, owner));
}

// What |entry| is of, where it is brought while the plan runs; else NULL.
static inline graft_plan_resident *graft_plan_resident_of(graft_constant_entry *entry) {
  return entry != NULL && entry->is_resident ? (graft_plan_resident *)(void *)entry : NULL;
}

// Tells the caller that the bytes of |source| are not looked at for now.
static inline void graft_plan_discard(const graft_constant *source) {
  if (source->discard != NULL && source->bytes > 0) source->discard(source->user, source->data, source->bytes);
}

// transfer.c: the plan's own operators. A transfer copies input 0 to output 0, which may be elsewhere and laid out
// differently; the host makes it between segments. An alias is a view that shows all of input 0.
extern const graft_op_def graft_plan_transfer_op, graft_plan_alias_op;
static inline bool graft_plan_is_transfer(const graft_planned_step *step) {
  return step->node->op == &graft_plan_transfer_op;
}
// A node without scope of |op| that makes |output| of |input|; NULL when memory ends.
graft_node *graft_plan_make_node(graft_plan *plan, const graft_op_def *op, graft_tensor *input, graft_tensor *output);
// A step that copies |source| to |target|, on whatever devices they are; NULL when memory ends.
graft_planned_step *graft_plan_make_transfer(graft_plan *plan, graft_tensor *source, graft_tensor *target);
// Bytes of host memory that the transfer |step| needs while it is made.
size_t graft_plan_transfer_staging(const graft_plan *plan, const graft_planned_step *step);
// plan_transfer.c: makes the transfer |step|, whose addresses are known.
graft_status graft_plan_transfer(const graft_plan *plan, const graft_planned_step *step, graft_error *error);
// A contiguous value on |device| that looks like |like|; NULL with the plan's error when memory ends.
graft_tensor *graft_plan_make_tensor(graft_plan *plan, const graft_tensor *like, uint32_t device);

// effects.c: whether |step| writes over storage that is not its own output's: it is not pure whatever its operator
// says.
static inline bool graft_plan_writes_over(const graft_planned_step *step) {
  return step->node->outputs[0]->view_of != NULL;
}
// Whether |later| must stay behind |earlier|: one reads what the other makes, or writes over what the other uses. A
// fused group reads its inputs where its last step is, so every step in between must not conflict with any member.
bool graft_plan_steps_conflict(const graft_planned_step *earlier, const graft_planned_step *later);

// The passes. Each reads what those before it left and reports failures in plan->error.

// copy.c: the part of |graph| that its outputs and opaque effects need, as the plan's own nodes and tensors.
graft_status graft_plan_copy_graph(graft_plan *plan, const graft_graph *graph, const graft_plan_options *options);
// dead.c: marks |tensor| and all that it shows in |needed|, by tensor id.
void graft_plan_need(const graft_tensor *tensor, bool *needed);
// dead.c: marks, in |live| (n_nodes entries, in order), nodes that |needed| (by tensor id) or an opaque effect asks
// for, and in |needed| all that they read.
void graft_plan_mark_live(graft_node *const *nodes, uint32_t n_nodes, bool *needed, bool *live);
// dead.c: drops steps that expansion made in vain.
graft_status graft_plan_drop_dead_steps(graft_plan *plan);
// place.c: on which device every node runs, and why. Nothing to do for one device. A node that none can run but as its
// decomposition is replaced by that.
graft_status graft_plan_place(graft_plan *plan);
// split.c: places what follows once a device has all the weights that it may keep. |masks|: bit d of a node's: device d
// can run it. Nodes that it says nothing of are left as they are.
graft_status graft_plan_split(graft_plan *plan, const uint32_t *masks);
// fit.c: bytes of device |index| that a plan may take.
size_t graft_plan_capacity(const graft_plan *plan, uint32_t index);
// fit.c: whether |plan|, which came to |status|, asks more of a device than it has, and might not with the limits that
// were lowered: it should be made anew.
bool graft_plan_tighten(const graft_plan *plan, graft_status status, graft_plan_limits *limits);
// expand.c: builds the decomposition of |node| in the plan's scratch graph, behind the nodes that it has.
graft_status graft_plan_decompose(graft_plan *plan, const graft_node *node, graft_tensor **out_results);
// expand.c: whether |result|, which a decomposition gave, is what output |index| of |node| must be.
graft_status graft_plan_check_result(graft_plan *plan, const graft_node *node, uint32_t index,
                                     const graft_tensor *result);
// expand.c: gives the tensors that the scratch graph has from |first| on to the plan.
graft_status graft_plan_adopt_tensors(graft_plan *plan, uint32_t first);
// copies.c: a transfer before every step that reads what another device has …
graft_status graft_plan_insert_copies(graft_plan *plan);
// … and without those that give what is there already.
graft_status graft_plan_elide_copies(graft_plan *plan);
// segment.c: cuts the steps into segments. A new one also begins where a step's constants go beyond limits[device]
// (NULL: no limits).
graft_status graft_plan_cut_steps(graft_plan *plan, const size_t *limits);
// budget.c: the same, and with a memory budget so that every segment stays within it, which may lay the arena out anew.
graft_status graft_plan_cut(graft_plan *plan);
// budget.c: the plan's own entry for what |wanted| describes, made where there is none.
graft_status graft_plan_acquire_resident(graft_plan *plan, const graft_plan_resident *wanted,
                                         graft_constant_entry **out_entry);
// constants.c: bytes of constants that |segment| reads where they lie.
size_t graft_plan_segment_constants(const graft_plan *plan, const graft_plan_segment *segment);
// constants.c: the constant that input |input| of |step| reads, or NULL; *out_entry is its packed form or copy, or NULL
// where it is read where it lies.
graft_plan_constant *graft_plan_constant_use(const graft_plan *plan, const graft_planned_step *step, uint32_t input,
                                             graft_constant_entry **out_entry);
// lifetime.c: one more storage; order does not matter. Errors: GRAFT_E_NO_MEMORY.
graft_status graft_plan_add_storage(graft_plan *plan, const graft_plan_storage *storage, int32_t *out_index);
// run/plan_run.c: keeps |error| as the context's last one where |status| is a failure, and returns |status|.
graft_status graft_plan_report_error(const graft_plan *plan, graft_status status, const graft_error *error);
graft_status graft_plan_check_runnable(const graft_plan *plan, graft_error *error);
// Whether |bytes| is the size of |tensor|, which is called |name| and is a |what|.
graft_status graft_plan_check_size(const graft_tensor *tensor, const char *what, const char *name, size_t bytes,
                                   graft_error *error);
// run/plan_inputs.c: moves the values that wait for this run to where steps read them.
graft_status graft_plan_take_inputs(graft_plan *plan, graft_error *error);
// run/plan_fill.c: brings what |segment| needs, and gives back what nobody needs any more behind it. No allocation.
graft_status graft_plan_bring(graft_plan *plan, const graft_plan_segment *segment, const graft_run_control *control,
                              graft_error *error);
// run/plan_fill.c: where the bytes of |resident| are, packed into the plan's staging memory where its kernel wants
// that.
graft_status graft_plan_stage_constant(const graft_plan *plan, const graft_plan_resident *resident,
                                       const void **out_bytes);
// run/plan_run.c: GRAFT_E_CANCELLED where |control| says so.
graft_status graft_plan_check_abort(const graft_run_control *control, graft_error *error);
void graft_plan_give_back(const graft_plan *plan, uint32_t segment);
// run/plan_prefetch.c: what device |index| needs so that constants come while it runs; nothing where it does not. They
// begin beside the segment before, and have arrived when |await| returns. All but |open| and |close| allocate nothing.
graft_status graft_prefetch_open(graft_plan *plan, uint32_t index);
void graft_prefetch_close(graft_plan *plan, uint32_t index);
// Host memory that |plan| would take for it.
size_t graft_prefetch_bytes(const graft_plan *plan);
// Begins to bring what |segment| needs. After that a little is done with every call, until it is false.
void graft_prefetch_begin(graft_plan *plan, const graft_plan_segment *segment);
bool graft_prefetch_work(void *prefetch);
graft_status graft_prefetch_await(graft_plan *plan, const graft_plan_segment *segment, const graft_run_control *control,
                                  graft_error *error);
// After a run that failed: waits until nothing is on its way.
void graft_prefetch_stop(graft_plan *plan);
// The segment whose constants come while |segment| runs, or NULL.
const graft_plan_segment *graft_prefetch_next(const graft_plan *plan, const graft_plan_segment *segment);
// expand.c: nodes become steps with a kernel each; a node that only a reference could run is replaced by its
// decomposition. Views disappear into the values that they view.
graft_status graft_plan_expand(graft_plan *plan);
// select.c: chooses the kernel of |step| (node and info are filled). *out_expand: the decomposition is the way instead.
graft_status graft_plan_select(graft_plan *plan, graft_planned_step *step, bool *out_expand);
// select.c: the same for a fused step: only a kernel of its operator that wants it; else step->kernel is NULL and |why|
// says why.
graft_status graft_plan_select_fused(graft_plan *plan, graft_planned_step *step, graft_reason *why);
// expand.c: a step for |node| without a kernel; NULL when memory ends.
graft_planned_step *graft_plan_make_step(graft_plan *plan, graft_node *node);
// expand.c: whether the chosen kernel itself may write to |written|, part of existing storage: it is promised results
// that are contiguous and aligned. Notes the input that it then works in place on.
bool graft_plan_can_write(const graft_plan *plan, graft_planned_step *step, const graft_tensor *written);
// fuse.c: groups of steps that a rule and a kernel want as one become one.
graft_status graft_plan_fuse(graft_plan *plan);
// fuse_report.c: rules with their counts, then what nearly became a group.
graft_status graft_plan_print_fusions(const graft_plan *plan, graft_writer writer);
// prepare.c: state, workspace and packed layouts of every step.
graft_status graft_plan_prepare(graft_plan *plan);
graft_status graft_plan_prepare_step(graft_plan *plan, graft_planned_step *step);
void graft_plan_unprepare_step(graft_planned_step *step);
// constants.c: which constants are read as they are, copied or packed. Touches no data.
graft_status graft_plan_find_constants(graft_plan *plan);
// lifetime.c: storages of results, inputs and workspaces, with the times between which they must stay.
graft_status graft_plan_find_lifetimes(graft_plan *plan);
// in_place.c: the input whose storage output 0 of step |index| may take over, or GRAFT_PLAN_NONE. Storages of all that
// the step reads are known.
int32_t graft_plan_in_place_input(const graft_plan *plan, uint32_t index);
// lifetime.c: the same once more, from what is said of parts.
graft_status graft_plan_find_storages(graft_plan *plan);
// parts.c: which values are made where steps that join them want them. Lifetimes were found without, and are found anew
// where there are any.
graft_status graft_plan_place_parts(graft_plan *plan);
// The value whose storage has the bytes of |root|, which begin at |*out_offset|: |root| itself where it is no part.
const graft_tensor *graft_plan_whole(const graft_plan *plan, const graft_tensor *root, size_t *out_offset);
// layout.c: offsets in the arena.
graft_status graft_plan_lay_out(graft_plan *plan);
// verify.c: recomputes from the steps alone what may not overlap, and looks.
graft_status graft_plan_verify(const graft_plan *plan);
// mapped.c: registers what |device| can copy from |source| by itself, which is nothing where that is not worth it.
// GRAFT_E_NO_MEMORY where it is too large, which others may not be; after any other failure they need not be tried.
graft_status graft_plan_map(const graft_plan_device *device, const void *source, size_t bytes,
                            graft_plan_mapped *out_mapped);
// When copies from it are over.
void graft_plan_unmap(const graft_plan_device *device, const void *source, graft_plan_mapped *mapped);
// constant_fill.c: makes the copies and packed forms that no other plan has made yet.
graft_status graft_plan_fill_constants(graft_plan *plan);
// record.c: counts what the arena of device |index| asks of it.
graft_status graft_plan_measure_arena(graft_plan *plan, uint32_t index);
// record.c: memory, addresses, and the encode calls.
graft_status graft_plan_record(graft_plan *plan);
// record.c: address of |tensor| on the device; of a constant that no kernel reads as it is: on the host.
void *graft_plan_address(const graft_plan *plan, const graft_tensor *tensor);

#endif
