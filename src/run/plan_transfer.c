// Moves a value between devices, or over storage that its kernel did not write itself. The host does it, through memory
// of its own where neither side is the host's.
#include <string.h>

#include "src/graph/effects.h"
#include "src/plan/plan_internal.h"

// One end of a transfer.
typedef struct transfer_end {
  const graft_tensor_desc *desc;
  char *address;
  const graft_plan_device *device;
  bool is_host, is_dense;
} transfer_end;

// What two layouts of one shape both have in one piece.
typedef struct run_walk {
  graft_tensor_desc outer;
  size_t run_bytes;
} run_walk;

static run_walk walk_of(const graft_tensor_desc *a, const graft_tensor_desc *b) {
  int32_t dense = a->rank;
  while (dense > 0 && graft_tensor_desc_is_dense_from(a, dense - 1) && graft_tensor_desc_is_dense_from(b, dense - 1)) {
    --dense;
  }
  graft_tensor_desc run = {.dtype = a->dtype, .rank = a->rank - dense};
  for (int32_t d = dense; d < a->rank; ++d) {
    run.shape[d - dense] = a->shape[d];
    run.strides[d - dense] = a->strides[d];
  }
  run_walk walk = {.outer = *a, .run_bytes = graft_tensor_desc_bytes(&run)};
  walk.outer.rank = dense;
  return walk;
}

static int64_t offset_of(const graft_tensor_desc *desc, int32_t rank, const int64_t *index) {
  int64_t offset = 0;
  for (int32_t d = 0; d < rank; ++d) offset += index[d] * desc->strides[d];
  return offset;
}

static transfer_end end_of(const graft_plan *plan, const graft_tensor *tensor) {
  uint32_t device = graft_plan_root(tensor)->device;
  transfer_end end = {.desc = &tensor->desc,
                      .address = graft_plan_address(plan, tensor),
                      .device = &plan->devices[device],
                      .is_host = graft_plan_is_host(plan, device),
                      .is_dense = graft_tensor_desc_is_contiguous(&tensor->desc)};
  return end;
}

static bool overlaps(const graft_planned_step *step) {
  const graft_extent from = graft_tensor_extent(step->node->inputs[0]);
  const graft_extent to = graft_tensor_extent(step->node->outputs[0]);
  return graft_extents_overlap(&from, &to);
}

// Whether the bytes can go straight from one end to the other.
static bool is_direct(const transfer_end *from, const transfer_end *to, bool is_overlapping) {
  if (is_overlapping) return false;
  return from->is_host || (to->is_host && from->is_dense && to->is_dense);
}

size_t graft_plan_transfer_staging(const graft_plan *plan, const graft_planned_step *step) {
  const transfer_end from = end_of(plan, step->node->inputs[0]), to = end_of(plan, step->node->outputs[0]);
  if (is_direct(&from, &to, overlaps(step))) return 0;
  const graft_tensor_desc *desc = from.desc;
  return (size_t)(graft_tensor_desc_elements(desc) / desc->dtype->block_elements) * desc->dtype->block_bytes;
}

static graft_status read_piece(const transfer_end *from, void *target, const void *source, size_t bytes,
                               graft_error *error) {
  if (!from->is_host) {
    return from->device->backend->download(graft_device_state(from->device->device), target, source, bytes, error);
  }
  memcpy(target, source, bytes);
  return GRAFT_OK;
}

static graft_status write_piece(const transfer_end *to, void *target, const void *source, size_t bytes,
                                graft_error *error) {
  if (!to->is_host) {
    return to->device->backend->upload(graft_device_state(to->device->device), target, source, bytes, error);
  }
  memcpy(target, source, bytes);
  return GRAFT_OK;
}

// Copies run by run. |writes|: |to| is where the device is; else |from| is.
static graft_status copy_runs(const transfer_end *from, const transfer_end *to, bool writes, graft_error *error) {
  const run_walk walk = walk_of(from->desc, to->desc);
  int64_t index[GRAFT_MAX_RANK] = {0};
  do {
    char *source = from->address + offset_of(from->desc, walk.outer.rank, index);
    char *target = to->address + offset_of(to->desc, walk.outer.rank, index);
    GRAFT_TRY(writes ? write_piece(to, target, source, walk.run_bytes, error)
                     : read_piece(from, target, source, walk.run_bytes, error));
  } while (graft_index_next(&walk.outer, index));
  return GRAFT_OK;
}

graft_status graft_plan_transfer(const graft_plan *plan, const graft_planned_step *step, graft_error *error) {
  const transfer_end from = end_of(plan, step->node->inputs[0]), to = end_of(plan, step->node->outputs[0]);
  if (graft_tensor_desc_elements(from.desc) == 0) return GRAFT_OK;
  if (is_direct(&from, &to, overlaps(step))) return copy_runs(&from, &to, from.is_host, error);
  graft_tensor_desc dense;
  GRAFT_TRY(graft_tensor_desc_init(from.desc->dtype, from.desc->rank, from.desc->shape, error, &dense));
  const transfer_end middle = {.desc = &dense, .address = plan->staging, .is_host = true, .is_dense = true};
  GRAFT_TRY(copy_runs(&from, &middle, false, error));
  return copy_runs(&middle, &to, true, error);
}
