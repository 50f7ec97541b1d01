// Constants that come to a device while it runs the segment before: in a stream of their own, in parts, from where they
// lie or through pinned memory. The host fills one part while the other is on its way.
#include <stdlib.h>
#include <string.h>

#include "src/plan/plan_internal.h"

enum { N_PARTS = 2 };
static const size_t most_part_bytes = (size_t)8 << 20;
// From where it lies. Two such parts may be on their way when a run is cancelled.
static const size_t most_mapped_bytes = (size_t)32 << 20;

typedef struct graft_prefetch {
  graft_plan *plan;
  const graft_plan_device *device;
  graft_stream *stream;
  graft_event *is_free[N_PARTS];  // the part's last copy is over
  graft_event *is_there;          // all that was sent has arrived
  char *staging;                  // of N_PARTS parts
  size_t part_bytes;
  uint32_t part;                      // whose turn it is
  const graft_plan_segment *segment;  // whose constants come; NULL: nothing does
  uint32_t next;                      // of the plan's residents
  const void *source;                 // of that one, packed where it must be
  size_t n_sent;                      // bytes of it
  graft_status status;
  graft_error error;
} graft_prefetch;

static void *state_of(const graft_prefetch *p) {
  return graft_device_state(p->device->device);
}

static size_t part_bytes_of(const graft_plan *plan, uint32_t index) {
  size_t largest = 0;
  for (uint32_t i = 0; i < plan->residents.n; ++i) {
    const graft_plan_resident *resident = plan->residents.items[i];
    const size_t bytes = resident->entry.key.bytes;
    if (resident->device == index && bytes > largest) largest = bytes;
  }
  return largest < most_part_bytes ? largest : most_part_bytes;
}

// Where one cannot be registered that is not too large, the system has a reason that holds for others, too.
static void map_residents(const graft_prefetch *p, uint32_t index) {
  bool is_mapping = true;
  for (uint32_t i = 0; i < p->plan->residents.n && is_mapping; ++i) {
    graft_plan_resident *resident = p->plan->residents.items[i];
    const graft_constant_key *key = &resident->entry.key;
    if (resident->device != index || resident->step != NULL) continue;
    graft_status status = graft_plan_map(p->device, key->source, key->bytes, &resident->mapped);
    is_mapping = status == GRAFT_OK || status == GRAFT_E_NO_MEMORY;
  }
}

static graft_status open(graft_prefetch *p, graft_error *error) {
  const graft_backend_def *backend = p->device->backend;
  GRAFT_TRY(backend->stream_create(state_of(p), error, &p->stream));
  GRAFT_TRY(backend->event_create(state_of(p), error, &p->is_there));
  for (int i = 0; i < N_PARTS; ++i) GRAFT_TRY(backend->event_create(state_of(p), error, &p->is_free[i]));
  void *memory = NULL;
  GRAFT_TRY(backend->allocate_host(state_of(p), N_PARTS * p->part_bytes, error, &memory));
  p->staging = memory;
  return GRAFT_OK;
}

graft_status graft_prefetch_open(graft_plan *plan, uint32_t index) {
  graft_plan_device *device = &plan->devices[index];
  // Also where they come late: then nothing runs beside.
  const bool is_possible = !graft_plan_is_host(plan, index) && device->backend->run_beside != NULL;
  const size_t part_bytes = is_possible ? part_bytes_of(plan, index) : 0;
  if (part_bytes == 0) return GRAFT_OK;
  graft_prefetch *p = calloc(1, sizeof *p);
  if (p == NULL) return graft_plan_no_memory(plan);
  *p = (graft_prefetch){.plan = plan, .device = device, .part_bytes = part_bytes};
  device->prefetch = p;
  GRAFT_TRY(open(p, plan->error));
  map_residents(p, index);
  return GRAFT_OK;
}

// SC8: that events are over does not say that nobody looks at the staging memory any more.
void graft_prefetch_close(graft_plan *plan, uint32_t index) {
  graft_prefetch *p = plan->devices[index].prefetch;
  if (p == NULL) return;
  const graft_backend_def *backend = p->device->backend;
  graft_error ignored;
  (void)backend->synchronize(state_of(p), &ignored);
  for (uint32_t i = 0; i < plan->residents.n; ++i) {
    graft_plan_resident *resident = plan->residents.items[i];
    if (resident->device == index) graft_plan_unmap(p->device, resident->entry.key.source, &resident->mapped);
  }
  if (p->staging != NULL) backend->release_host(state_of(p), p->staging, N_PARTS * p->part_bytes);
  for (int i = 0; i < N_PARTS; ++i) {
    if (p->is_free[i] != NULL) backend->event_destroy(p->is_free[i]);
  }
  if (p->is_there != NULL) backend->event_destroy(p->is_there);
  if (p->stream != NULL) backend->stream_destroy(p->stream);
  free(p);
  plan->devices[index].prefetch = NULL;
}

const graft_plan_segment *graft_prefetch_next(const graft_plan *plan, const graft_plan_segment *segment) {
  const graft_plan_device *device = &plan->devices[segment->device];
  if (segment->is_transfer || device->prefetch == NULL || !device->is_prefetching) return NULL;
  for (const graft_plan_segment *next = segment + 1; next < plan->segments + plan->n_segments; ++next) {
    if (next->is_transfer || next->device != segment->device) continue;
    return next->first_resident < next->end_resident ? next : NULL;
  }
  return NULL;
}

void graft_prefetch_begin(graft_plan *plan, const graft_plan_segment *segment) {
  graft_prefetch *p = plan->devices[segment->device].prefetch;
  p->segment = segment;
  p->next = segment->first_resident;
  p->n_sent = 0;
  p->status = GRAFT_OK;
}

// The next bytes of |resident| that go in one piece, and whether the device takes them from where they lie.
static size_t next_part(const graft_prefetch *p, const graft_plan_resident *resident, bool *out_is_mapped) {
  const graft_plan_mapped *mapped = &resident->mapped;
  const size_t left = resident->entry.key.bytes - p->n_sent, behind = mapped->offset + mapped->bytes;
  size_t most = p->part_bytes, end = left;
  *out_is_mapped = mapped->bytes > 0 && p->n_sent >= mapped->offset && p->n_sent < behind;
  if (*out_is_mapped) {
    most = most_mapped_bytes;
    end = behind - p->n_sent;
  } else if (mapped->bytes > 0 && p->n_sent < mapped->offset) {
    end = mapped->offset - p->n_sent;
  }
  return end < most ? end : most;
}

static graft_status send_part(graft_prefetch *p) {
  const graft_backend_def *backend = p->device->backend;
  const graft_plan_resident *resident = p->plan->residents.items[p->next];
  if (p->n_sent == 0) GRAFT_TRY(graft_plan_stage_constant(p->plan, resident, &p->source));
  bool is_mapped = false;
  const size_t bytes = next_part(p, resident, &is_mapped);
  const char *source = (const char *)p->source + p->n_sent;
  GRAFT_TRY(backend->event_wait(p->is_free[p->part], &p->error));
  if (!is_mapped) source = memcpy(p->staging + p->part * p->part_bytes, source, bytes);
  GRAFT_TRY(
      backend->upload_async(p->stream, (char *)resident->entry.memory.address + p->n_sent, source, bytes, &p->error));
  GRAFT_TRY(backend->event_record(p->stream, p->is_free[p->part], &p->error));
  p->part = (p->part + 1) % N_PARTS;
  p->n_sent += bytes;
  if (p->n_sent < resident->entry.key.bytes) return GRAFT_OK;
  // Pages that are registered stay where they are.
  if (resident->mapped.bytes == 0) graft_plan_discard(&graft_plan_root(resident->tensor)->constant);
  p->n_sent = 0;
  return ++p->next < p->segment->end_resident ? GRAFT_OK : backend->event_record(p->stream, p->is_there, &p->error);
}

bool graft_prefetch_work(void *prefetch) {
  graft_prefetch *p = prefetch;
  if (p->segment == NULL || p->status != GRAFT_OK || p->next == p->segment->end_resident) return false;
  p->error = (graft_error){0};
  p->status = send_part(p);
  return p->status == GRAFT_OK && p->next < p->segment->end_resident;
}

graft_status graft_prefetch_await(graft_plan *plan, const graft_plan_segment *segment, const graft_run_control *control,
                                  graft_error *error) {
  graft_prefetch *p = plan->devices[segment->device].prefetch;
  if (p->segment != segment) graft_prefetch_begin(plan, segment);
  while (graft_prefetch_work(p)) GRAFT_TRY(graft_plan_check_abort(control, error));
  graft_status status = p->status;
  if (status != GRAFT_OK) {
    *error = p->error;
    if (error->status == GRAFT_OK)
      (void)GRAFT_FAIL(error, status, "constants cannot be brought to %s", graft_device_name(p->device->device));
    return status;
  }
  p->segment = NULL;
  return p->device->backend->event_wait(p->is_there, error);
}

void graft_prefetch_stop(graft_plan *plan) {
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    graft_prefetch *p = plan->devices[d].prefetch;
    graft_error ignored;
    if (p == NULL) continue;
    (void)p->device->backend->synchronize(state_of(p), &ignored);
    p->segment = NULL;
  }
}

size_t graft_prefetch_bytes(const graft_plan *plan) {
  size_t bytes = 0;
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    if (plan->devices[d].prefetch != NULL) bytes += N_PARTS * plan->devices[d].prefetch->part_bytes;
  }
  return bytes;
}
