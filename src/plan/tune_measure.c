// Times kernels on scratch data: as a plan of one step each, run in turns, so that whatever else the machine does
// strikes all of them alike.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/plan/constant_cache.h"
#include "src/plan/tune.h"

enum { N_ROUNDS = 5, CHUNK = 256 };

// One value of the node: on the device, and for constants the bytes to pack on the host.
typedef struct scratch {
  graft_memory_block memory;
  void *host;
  size_t bytes;
} scratch;

typedef struct trial {
  const graft_kernel_def *kernel;
  graft_prepared prepared;
  bool is_prepared;
  graft_memory_block workspace, packed[GRAFT_MAX_PACKED];
  graft_recording *recording;
} trial;

typedef struct measurement {
  const graft_node_info *node;
  const graft_backend_def *backend;
  void *state;
  scratch inputs[GRAFT_MAX_INPUTS], outputs[GRAFT_MAX_OUTPUTS];
  graft_error error;  // of candidates, and told to nobody: one that fails is not chosen
} measurement;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Floating-point values between -1 and 1; in integers, which may be indices, zeros.
static void fill(graft_dtype dtype, void *bytes, size_t n_bytes) {
  float values[CHUNK];
  memset(bytes, 0, n_bytes);
  if (!dtype->is_float || dtype->block_elements > CHUNK) return;
  size_t n_blocks = CHUNK / dtype->block_elements, n = n_blocks * dtype->block_elements;
  uint32_t bits = 1;
  for (size_t at = 0; at + n_blocks * dtype->block_bytes <= n_bytes; at += n_blocks * dtype->block_bytes) {
    for (size_t i = 0; i < n; ++i) {
      bits = bits * 1664525u + 1013904223u;
      values[i] = (float)(bits >> 8) * 0x1p-23f - 1;
    }
    dtype->from_f32(values, (char *)bytes + at, n);
  }
}

static bool make_scratch(measurement *m, const graft_tensor_desc *desc, bool is_filled, scratch *value) {
  value->bytes = graft_tensor_desc_bytes(desc);
  size_t alignment = GRAFT_DEVICE_ALIGNMENT;
  if (graft_memory_block_allocate(m->node->device, value->bytes, alignment, &m->error, &value->memory) != GRAFT_OK)
    return false;
  if (!is_filled || value->bytes == 0) return true;
  size_t rounded = (value->bytes + alignment - 1) / alignment * alignment;
  value->host = aligned_alloc(alignment, rounded);
  if (value->host == NULL) return false;
  fill(desc->dtype, value->host, value->bytes);
  return m->backend->upload(m->state, value->memory.address, value->host, value->bytes, &m->error) == GRAFT_OK;
}

static bool make_values(measurement *m) {
  const graft_node_info *node = m->node;
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (node->inputs[i] != NULL && !make_scratch(m, node->inputs[i], true, &m->inputs[i])) return false;
  }
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    if (!make_scratch(m, node->outputs[i], false, &m->outputs[i])) return false;
  }
  return true;
}

static void free_values(measurement *m) {
  for (uint32_t i = 0; i < m->node->n_inputs; ++i) {
    graft_memory_block_release(m->node->device, &m->inputs[i].memory);
    free(m->inputs[i].host);
  }
  for (uint32_t i = 0; i < m->node->n_outputs; ++i) graft_memory_block_release(m->node->device, &m->outputs[i].memory);
}

static bool pack(measurement *m, trial *t, uint32_t index) {
  const graft_packed_input *packed = &t->prepared.packed[index];
  graft_memory_block *block = &t->packed[index];
  if (t->kernel->pack == NULL || packed->input >= m->node->n_inputs || m->inputs[packed->input].host == NULL ||
      packed->alignment > 4096 || packed->alignment == 0)
    return false;
  if (graft_memory_block_allocate(m->node->device, packed->bytes, packed->alignment, &m->error, block) != GRAFT_OK)
    return false;
  size_t alignment = packed->alignment < 64 ? 64 : packed->alignment;
  void *host = aligned_alloc(alignment, (packed->bytes + alignment - 1) / alignment * alignment);
  bool is_packed = host != NULL && t->kernel->pack(m->node, t->prepared.state, packed->input,
                                                   m->inputs[packed->input].host, host) == GRAFT_OK;
  if (is_packed) is_packed = m->backend->upload(m->state, block->address, host, packed->bytes, &m->error) == GRAFT_OK;
  free(host);
  return is_packed;
}

static bool encode(measurement *m, trial *t) {
  void *inputs[GRAFT_MAX_INPUTS] = {NULL}, *outputs[GRAFT_MAX_OUTPUTS];
  for (uint32_t i = 0; i < m->node->n_inputs; ++i) inputs[i] = m->inputs[i].memory.address;
  for (uint32_t i = 0; i < m->node->n_outputs; ++i) outputs[i] = m->outputs[i].memory.address;
  for (uint32_t i = 0; i < t->prepared.n_packed; ++i) inputs[t->prepared.packed[i].input] = t->packed[i].address;
  const graft_encode_args args = {.struct_size = sizeof args,
                                  .node = m->node,
                                  .state = t->prepared.state,
                                  .inputs = inputs,
                                  .outputs = outputs,
                                  .workspace = t->workspace.address,
                                  .error = &m->error};
  if (m->backend->record_begin(m->state, 1, &m->error, &t->recording) != GRAFT_OK) return false;
  return t->kernel->encode(m->backend->step_begin(t->recording, 0), &args) == GRAFT_OK &&
         m->backend->record_end(t->recording, &m->error) == GRAFT_OK;
}

static bool begin_trial(measurement *m, trial *t) {
  if (t->kernel->prepare != NULL) {
    if (t->kernel->prepare(m->node, &m->error, &t->prepared) != GRAFT_OK) return false;
    t->is_prepared = true;
  }
  size_t alignment = t->prepared.workspace_alignment > 64 ? t->prepared.workspace_alignment : 64;
  if (t->prepared.n_packed > GRAFT_MAX_PACKED || alignment > 4096) return false;
  if (t->prepared.workspace_bytes > 0 && graft_memory_block_allocate(m->node->device, t->prepared.workspace_bytes,
                                                                     alignment, &m->error, &t->workspace) != GRAFT_OK)
    return false;
  for (uint32_t i = 0; i < t->prepared.n_packed; ++i) {
    if (!pack(m, t, i)) return false;
  }
  // The first run warms caches and makes what is made lazily.
  return encode(m, t) && m->backend->run(t->recording, 0, 1, NULL, &m->error) == GRAFT_OK;
}

static void end_trial(const measurement *m, trial *t) {
  if (t->recording != NULL) m->backend->record_destroy(t->recording);
  if (t->is_prepared && t->kernel->destroy != NULL) t->kernel->destroy(t->prepared.state);
  graft_memory_block_release(m->node->device, &t->workspace);
  for (uint32_t i = 0; i < GRAFT_MAX_PACKED; ++i) graft_memory_block_release(m->node->device, &t->packed[i]);
}

static double time_run(measurement *m, const trial *t) {
  double begun = now();
  graft_status status = m->backend->run(t->recording, 0, 1, NULL, &m->error);
  return status == GRAFT_OK ? now() - begun : HUGE_VAL;
}

void graft_tune_measure(const graft_node_info *node, const graft_kernel_def *const *kernels, uint32_t n_kernels,
                        double *out_seconds) {
  measurement m = {
      .node = node, .backend = graft_device_backend(node->device), .state = graft_device_state(node->device)};
  trial trials[GRAFT_TUNE_MAX_KERNELS] = {{0}};
  bool is_ready = make_values(&m);
  for (uint32_t i = 0; i < n_kernels; ++i) {
    trials[i].kernel = kernels[i];
    trials[i].prepared.struct_size = sizeof trials[i].prepared;
    out_seconds[i] = is_ready && begin_trial(&m, &trials[i]) ? time_run(&m, &trials[i]) : HUGE_VAL;
  }
  for (int round = 1; round < N_ROUNDS; ++round) {
    for (uint32_t i = 0; i < n_kernels; ++i) {
      if (isfinite(out_seconds[i])) out_seconds[i] = fmin(out_seconds[i], time_run(&m, &trials[i]));
    }
  }
  for (uint32_t i = 0; i < n_kernels; ++i) end_trial(&m, &trials[i]);
  free_values(&m);
}
