// Makes the copies and packed forms of constants that no other plan of the device has made yet, and tells the owners of
// sources that nobody will read again.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "src/plan/plan_internal.h"

typedef struct fill_job {
  graft_constant_entry *entry;
  graft_plan_constant *constant;
  const graft_planned_step *step;  // whose kernel packs; NULL: a plain copy
  const graft_tensor *tensor;      // what is copied or packed
  uint32_t input;
  graft_status status;
} fill_job;

enum { N_MAPPED = 2 };

// A constant that the device takes from where it lies. While one is on its way, the next is registered.
typedef struct fill_mapped {
  fill_job *job;  // NULL: none
  graft_plan_mapped mapped;
  graft_event *has_arrived;
} fill_mapped;

typedef struct fill_pass {
  graft_plan *plan;
  const graft_plan_device *device;
  fill_job *jobs;
  uint32_t n_jobs;
  bool is_host;
  bool is_mapping;  // constants may be taken from where they lie
  graft_stream *stream;
  fill_mapped mapped[N_MAPPED];
  uint32_t turn;
} fill_pass;

static graft_plan_constant *constant_of(const graft_plan *plan, const graft_tensor *tensor) {
  return &plan->constants[plan->values[graft_plan_root(tensor)->id].constant];
}

// Whether nothing of |plan| reads the source once copies and packed forms are made.
static bool is_source_done(const graft_plan_constant *constant) {
  return !constant->is_output && !constant->is_brought && (!constant->is_read || constant->copy != NULL);
}

static void discard(const graft_plan_constant *constant) {
  if (is_source_done(constant)) graft_plan_discard(&constant->tensor->constant);
}

static void *allocate_staging(size_t bytes, size_t alignment) {
  if (alignment < GRAFT_DEVICE_ALIGNMENT) alignment = GRAFT_DEVICE_ALIGNMENT;
  if (bytes > SIZE_MAX - alignment) return NULL;
  return aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
}

// Packs into host memory |target|; a source that a kernel could not read where it lies is copied first.
static graft_status pack(const fill_job *job, const void *source, void *target) {
  graft_dtype dtype = job->tensor->desc.dtype;
  void *aligned = NULL;
  if ((uintptr_t)source % dtype->alignment != 0) {
    size_t bytes = graft_tensor_desc_bytes(&job->tensor->desc);
    aligned = allocate_staging(bytes, dtype->alignment);
    if (aligned == NULL) return GRAFT_E_NO_MEMORY;
    source = memcpy(aligned, source, bytes);
  }
  graft_status status =
      job->step->kernel->pack(&job->step->info, job->step->prepared.state, job->input, source, target);
  free(aligned);
  return status;
}

static graft_status fill_on_host(const fill_job *job, void *target) {
  const void *source = job->entry->key.source;
  if (job->step != NULL) return pack(job, source, target);
  memcpy(target, source, job->entry->key.bytes);
  return GRAFT_OK;
}

static graft_status upload(const fill_pass *pass, const fill_job *job) {
  const graft_plan *plan = pass->plan;
  const graft_constant_entry *entry = job->entry;
  const graft_backend_def *backend = pass->device->backend;
  void *state = graft_device_state(pass->device->device);
  if (job->step == NULL) {
    return backend->upload(state, entry->memory.address, entry->key.source, entry->key.bytes, plan->error);
  }
  void *staging = allocate_staging(entry->key.bytes, entry->key.alignment);
  if (staging == NULL) return GRAFT_E_NO_MEMORY;
  graft_status status = fill_on_host(job, staging);
  if (status == GRAFT_OK) {
    status = backend->upload(state, entry->memory.address, staging, entry->key.bytes, plan->error);
  }
  free(staging);
  return status;
}

static void finish_job(fill_job *job) {
  job->entry->is_filled = job->status == GRAFT_OK;
  if (job->status == GRAFT_OK && atomic_fetch_sub(&job->constant->n_pending, 1) == 1) discard(job->constant);
}

static void await_mapped(const fill_pass *pass, fill_mapped *m) {
  const graft_backend_def *backend = pass->device->backend;
  graft_error ignored;
  if (m->job == NULL) return;
  if (m->job->status == GRAFT_OK) m->job->status = backend->event_wait(m->has_arrived, pass->plan->error);
  // Whatever it says, nobody may look at the pages any more.
  if (m->job->status != GRAFT_OK) (void)backend->synchronize(graft_device_state(pass->device->device), &ignored);
  graft_plan_unmap(pass->device, m->job->entry->key.source, &m->mapped);
  finish_job(m->job);
  m->job = NULL;
}

static bool open_stream(fill_pass *pass) {
  const graft_backend_def *backend = pass->device->backend;
  void *state = graft_device_state(pass->device->device);
  graft_error ignored = {0};
  if (pass->stream != NULL) return true;
  bool is_open = backend->stream_create(state, &ignored, &pass->stream) == GRAFT_OK;
  for (int i = 0; i < N_MAPPED && is_open; ++i) {
    is_open = backend->event_create(state, &ignored, &pass->mapped[i].has_arrived) == GRAFT_OK;
  }
  return is_open;
}

static void close_stream(fill_pass *pass) {
  for (int i = 0; i < N_MAPPED; ++i) {
    await_mapped(pass, &pass->mapped[(pass->turn + (uint32_t)i) % N_MAPPED]);
  }
  for (int i = 0; i < N_MAPPED; ++i) {
    if (pass->mapped[i].has_arrived != NULL) pass->device->backend->event_destroy(pass->mapped[i].has_arrived);
  }
  if (pass->stream != NULL) pass->device->backend->stream_destroy(pass->stream);
}

// The registered pages in the stream, what lies before and behind them as usual.
static graft_status send_mapped(const fill_pass *pass, const fill_mapped *m) {
  const graft_backend_def *backend = pass->device->backend;
  const graft_constant_entry *entry = m->job->entry;
  void *state = graft_device_state(pass->device->device);
  graft_error *error = pass->plan->error;
  const char *source = entry->key.source;
  char *target = entry->memory.address;
  const size_t first = m->mapped.offset, behind = first + m->mapped.bytes, left = entry->key.bytes - behind;
  if (first > 0) GRAFT_TRY(backend->upload(state, target, source, first, error));
  if (left > 0) GRAFT_TRY(backend->upload(state, target + behind, source + behind, left, error));
  GRAFT_TRY(backend->upload_async(pass->stream, target + first, source + first, m->mapped.bytes, error));
  return backend->event_record(pass->stream, m->has_arrived, error);
}

// False where the job is still to be done, as usual.
static bool begin_mapped(fill_pass *pass, fill_job *job) {
  fill_mapped *m = &pass->mapped[pass->turn], *other = &pass->mapped[(pass->turn + 1) % N_MAPPED];
  const graft_constant_key *key = &job->entry->key;
  if (!pass->is_mapping || job->step != NULL) return false;
  await_mapped(pass, m);
  graft_status status = graft_plan_map(pass->device, key->source, key->bytes, &m->mapped);
  if (status != GRAFT_OK && other->job != NULL) {
    // The two may lie over each other, or be too much together.
    await_mapped(pass, other);
    status = graft_plan_map(pass->device, key->source, key->bytes, &m->mapped);
  }
  // What is too large says nothing of others.
  pass->is_mapping = status == GRAFT_OK || status == GRAFT_E_NO_MEMORY;
  if (m->mapped.bytes == 0) return false;
  if (!open_stream(pass)) {
    graft_plan_unmap(pass->device, key->source, &m->mapped);
    pass->is_mapping = false;
    return false;
  }
  m->job = job;
  job->status = send_mapped(pass, m);
  if (job->status != GRAFT_OK) await_mapped(pass, m);
  pass->turn = (pass->turn + 1) % N_MAPPED;
  return true;
}

static void run_job(void *arg, int64_t index) {
  fill_pass *pass = arg;
  fill_job *job = &pass->jobs[index];
  if (begin_mapped(pass, job)) return;
  job->status = pass->is_host ? fill_on_host(job, job->entry->memory.address) : upload(pass, job);
  finish_job(job);
}

static graft_status add_job(fill_pass *pass, fill_job job) {
  graft_constant_entry *entry = job.entry;
  // Filled by an earlier plan, asked for by another step of this one, or brought while the plan runs.
  if (entry->is_filled || entry->is_resident || entry->memory.allocation != NULL) return GRAFT_OK;
  graft_plan *plan = pass->plan;
  GRAFT_TRY(graft_memory_block_allocate(pass->device->device, entry->key.bytes, entry->key.alignment, plan->error,
                                        &entry->memory));
  atomic_fetch_add(&job.constant->n_pending, 1);
  pass->jobs[pass->n_jobs++] = job;
  return GRAFT_OK;
}

static graft_status add_jobs(fill_pass *pass) {
  graft_plan *plan = pass->plan;
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    const graft_planned_step *step = graft_plan_step_at(plan, s);
    if (&plan->devices[step->node->device] != pass->device) continue;
    for (uint32_t i = 0; i < step->prepared.n_packed; ++i) {
      uint32_t input = step->prepared.packed[i].input;
      const graft_tensor *tensor = step->node->inputs[input];
      GRAFT_TRY(add_job(pass, (fill_job){.entry = step->packed[i],
                                         .constant = constant_of(plan, tensor),
                                         .step = step,
                                         .tensor = tensor,
                                         .input = input}));
    }
  }
  for (uint32_t i = 0; i < plan->n_constants; ++i) {
    graft_plan_constant *constant = &plan->constants[i];
    if (constant->copy == NULL || &plan->devices[constant->device] != pass->device) continue;
    GRAFT_TRY(add_job(pass, (fill_job){.entry = constant->copy, .constant = constant, .tensor = constant->tensor}));
  }
  return GRAFT_OK;
}

static graft_status run_jobs(fill_pass *pass) {
  graft_plan *plan = pass->plan;
  *plan->error = (graft_error){0};
  if (pass->is_host && pass->device->backend->parallel != NULL) {
    pass->device->backend->parallel(graft_device_state(pass->device->device), run_job, pass, pass->n_jobs);
  } else {
    for (uint32_t i = 0; i < pass->n_jobs; ++i) run_job(pass, i);
    close_stream(pass);
  }
  for (uint32_t i = 0; i < pass->n_jobs; ++i) {
    const fill_job *job = &pass->jobs[i];
    if (job->status == GRAFT_OK) continue;
    if (plan->error->status == GRAFT_OK) {
      (void)GRAFT_FAIL(plan->error, job->status, "constant %s cannot be brought to %s: %s", job->tensor->name,
                       graft_device_name(pass->device->device), graft_status_name(job->status));
    }
    if (job->step != NULL) graft_error_note(plan->error, "kernel %s packs it", job->step->kernel->name);
    return job->status;
  }
  return GRAFT_OK;
}

static graft_status fill(fill_pass *pass) {
  graft_plan *plan = pass->plan;
  GRAFT_TRY(add_jobs(pass));
  for (uint32_t i = 0; i < plan->n_constants; ++i) {
    if (&plan->devices[plan->constants[i].device] != pass->device) continue;
    // Copies that other plans made: this plan never reads the source at all.
    if (atomic_load(&plan->constants[i].n_pending) == 0) discard(&plan->constants[i]);
  }
  return run_jobs(pass);
}

static graft_status fill_device(graft_plan *plan, uint32_t device, size_t n_jobs) {
  const bool is_host = graft_plan_is_host(plan, device);
  fill_pass pass = {.plan = plan, .device = &plan->devices[device], .is_host = is_host, .is_mapping = !is_host};
  pass.jobs = calloc(n_jobs + 1, sizeof *pass.jobs);
  if (pass.jobs == NULL) return graft_plan_no_memory(plan);
  graft_status status = fill(&pass);
  for (uint32_t i = 0; i < pass.n_jobs; ++i) {
    graft_constant_entry *entry = pass.jobs[i].entry;
    if (!entry->is_filled) graft_memory_block_release(pass.device->device, &entry->memory);
  }
  free(pass.jobs);
  return status;
}

graft_status graft_plan_fill_constants(graft_plan *plan) {
  if (plan->memory_budget > 0) return GRAFT_OK;  // brought while it runs
  size_t n = plan->n_constants;
  for (uint32_t s = 0; s < plan->steps.n; ++s) n += graft_plan_step_at(plan, s)->prepared.n_packed;
  for (uint32_t d = 0; d < plan->n_devices; ++d) GRAFT_TRY(fill_device(plan, d, n));
  return GRAFT_OK;
}
