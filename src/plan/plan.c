// Making and destroying plans: the passes in order.
#include <stdlib.h>
#include <string.h>

#include "src/base/array.h"
#include "src/base/versioned.h"
#include "src/graph/builder.h"
#include "src/plan/plan_internal.h"
#include "src/plan/tune.h"
#include "src/run/context_internal.h"

graft_status graft_plan_no_memory(graft_plan *plan) {
  return GRAFT_FAIL(plan->error, GRAFT_E_NO_MEMORY, "no memory to plan the graph");
}

graft_status graft_plan_append(graft_plan *plan, graft_plan_list *list, void *item) {
  void **items = graft_array_reserve(list->items, list->n, 1, &list->capacity, sizeof *items);
  if (items == NULL) return graft_plan_no_memory(plan);
  list->items = items;
  list->items[list->n++] = item;
  return GRAFT_OK;
}

graft_status graft_plan_add_tensor(graft_plan *plan, graft_tensor *tensor) {
  tensor->id = plan->tensors.n;
  return graft_plan_append(plan, &plan->tensors, tensor);
}

static graft_status check_device(const graft_graph *graph, const graft_device *device, graft_error *error) {
  if (device == NULL) return GRAFT_FAIL(error, GRAFT_E_INVALID, "a plan needs a device");
  if (graft_device_context(device) == graft_graph_context(graph)) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_INVALID, "the device was opened in another context than the graph's");
}

static graft_status check_devices(const graft_graph *graph, const graft_plan_options *options, graft_error *error) {
  if (options->n_devices == 0) return check_device(graph, options->device, error);
  if (options->devices == NULL || options->n_devices > GRAFT_PLAN_MAX_DEVICES) {
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "a plan takes 1 to %d devices, not %u", GRAFT_PLAN_MAX_DEVICES,
                      (unsigned)options->n_devices);
  }
  for (uint32_t i = 0; i < options->n_devices; ++i) {
    GRAFT_TRY(check_device(graph, options->devices[i], error));
    for (uint32_t j = 0; j < i; ++j) {
      if (options->devices[j] != options->devices[i]) continue;
      return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s is listed twice", graft_device_name(options->devices[i]));
    }
  }
  if (options->device == NULL || options->device == options->devices[0]) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_INVALID, "device is not the first of devices; leave it NULL");
}

static graft_status check_pins(const graft_graph *graph, const graft_plan_options *options, graft_error *error) {
  for (uint32_t i = 0; i < options->n_pins; ++i) {
    const graft_pin *pin = &options->pins[i];
    GRAFT_TRY(graft_graph_check_tensor(graph, pin->tensor, "a pinned tensor", error));
    bool is_listed = options->n_devices == 0 && pin->device == options->device;
    for (uint32_t d = 0; d < options->n_devices; ++d) is_listed = is_listed || options->devices[d] == pin->device;
    if (is_listed) continue;
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s is pinned to a device that the plan does not have",
                      pin->tensor->name);
  }
  return GRAFT_OK;
}

static graft_status check_options(const graft_graph *graph, const graft_plan_options *options, graft_error *error) {
  const uint32_t known = GRAFT_PLAN_MEASURE_ONLY | GRAFT_PLAN_NO_IN_PLACE | GRAFT_PLAN_NO_REUSE |
                         GRAFT_PLAN_NO_PACKING | GRAFT_PLAN_REFERENCE | GRAFT_PLAN_KEEP_NODES | GRAFT_PLAN_VERIFY;
  if (options->flags & ~known) {
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "plan flags 0x%x are unknown", (unsigned)(options->flags & ~known));
  }
  GRAFT_TRY(check_devices(graph, options, error));
  GRAFT_TRY(check_pins(graph, options, error));
  if (options->n_input_copies > 8) {
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "n_input_copies is %u; it must be 0 to 8",
                      (unsigned)options->n_input_copies);
  }
  const char *forced = options->force_kernel;
  if (forced != NULL && graft_context_find_kernel(graft_graph_context(graph), forced) == NULL) {
    return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "no kernel is called \"%s\"", forced);
  }
  return GRAFT_OK;
}

static graft_status take_devices(graft_plan *plan, const graft_plan_options *options, const graft_plan_limits *limits) {
  plan->n_devices = options->n_devices > 0 ? options->n_devices : 1;
  plan->devices = graft_arena_alloc_array(&plan->arena, plan->n_devices, sizeof *plan->devices);
  if (plan->devices == NULL) {
    plan->n_devices = 0;
    return graft_plan_no_memory(plan);
  }
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    graft_plan_device *device = &plan->devices[d];
    device->device = options->n_devices > 0 ? options->devices[d] : options->device;
    device->backend = graft_device_backend(device->device);
    device->info.struct_size = sizeof device->info;
    graft_device_describe(device->device, &device->info);
    device->weight_limit = limits->weights[d];
    device->is_closed = limits->is_closed[d];
  }
  plan->device = plan->devices[0].device;
  plan->backend = plan->devices[0].backend;
  return GRAFT_OK;
}

static graft_status begin_plan(const graft_graph *graph, const graft_plan_options *options,
                               const graft_plan_limits *limits, graft_plan *plan) {
  plan->context = graft_graph_context(graph);
  plan->error = graft_context_error_slot(plan->context);
  GRAFT_TRY(take_devices(plan, options, limits));
  plan->flags = options->flags;
  plan->memory_budget = options->memory_budget;
  plan->is_apart = limits->is_apart;
  plan->n_slots = options->n_input_copies > 1 ? options->n_input_copies - 1 : 0;
  // FU5: observers and several pipeline copies want single nodes.
  if (plan->n_slots > 0) plan->flags |= GRAFT_PLAN_KEEP_NODES;
  plan->force_kernel = options->force_kernel;
  plan->fusion = options->fusion != NULL ? options->fusion : plan->context->fusion;
  const char *tuning = options->tuning != NULL ? options->tuning : plan->context->tuning;
  if (tuning != NULL && strcmp(tuning, "off") != 0) {
    bool may_measure = !(plan->flags & GRAFT_PLAN_MEASURE_ONLY);
    GRAFT_TRY(graft_tuner_open(plan->context, tuning, may_measure, plan->error, &plan->tuner));
  }
  return graft_graph_create(plan->context, &plan->scratch);
}

static graft_status finish_report(graft_plan *plan) {
  graft_memory_report *all = &plan->report;
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    graft_memory_report *report = &plan->devices[d].report;
    GRAFT_TRY(graft_plan_measure_arena(plan, d));
    report->peak_bytes = report->arena_bytes + report->constant_bytes + report->packed_bytes;
    all->arena_bytes += report->arena_bytes;
    all->naive_bytes += report->naive_bytes;
    if (report->workspace_bytes > all->workspace_bytes) all->workspace_bytes = report->workspace_bytes;
    all->constant_bytes += report->constant_bytes;
    all->packed_bytes += report->packed_bytes;
    all->peak_bytes += report->peak_bytes;
    all->allocated_bytes += report->allocated_bytes;
  }
  return GRAFT_OK;
}

static bool is_verifying(const graft_plan *plan) {
#if defined(NDEBUG) && !defined(GRAFT_VERIFY)
  return (plan->flags & GRAFT_PLAN_VERIFY) != 0;
#else
  (void)plan;
  return true;
#endif
}

static graft_status run_passes(graft_plan *plan) {
  graft_status (*const passes[])(graft_plan *) = {
      graft_plan_place,
      graft_plan_expand,
      graft_plan_drop_dead_steps,
      graft_plan_insert_copies,
      graft_plan_elide_copies,
      graft_plan_fuse,
      graft_plan_prepare,
      graft_plan_find_lifetimes,
      graft_plan_find_constants,
      graft_plan_lay_out,
      graft_plan_cut,
  };
  for (size_t i = 0; i < sizeof passes / sizeof passes[0]; ++i) {
    GRAFT_TRY(passes[i](plan));
    if (is_verifying(plan)) GRAFT_TRY(graft_plan_verify(plan));
  }
  return finish_report(plan);
}

// Makes a plan up to where memory would be allocated. *out_plan is the caller's also after a failure, or NULL.
static graft_status design(const graft_graph *graph, const graft_plan_options *options, const graft_plan_limits *limits,
                           graft_plan **out_plan) {
  graft_plan *plan = calloc(1, sizeof *plan);
  *out_plan = plan;
  graft_error *error = graft_context_error_slot(graft_graph_context(graph));
  if (plan == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a plan");
  // A default mutex needs no resources on the systems we build for, so this cannot fail.
  pthread_mutex_init(&plan->inputs_lock, NULL);
  GRAFT_TRY(begin_plan(graph, options, limits, plan));
  GRAFT_TRY(graft_plan_copy_graph(plan, graph, options));
  return run_passes(plan);
}

// The same, with less on devices whose memory it does not fit until it does.
static graft_status design_to_fit(const graft_graph *graph, const graft_plan_options *options, bool is_apart,
                                  graft_plan **out_plan) {
  graft_plan_limits limits = {.is_closed = {false}, .is_apart = is_apart};
  for (uint32_t d = 0; d < GRAFT_PLAN_MAX_DEVICES; ++d) limits.weights[d] = SIZE_MAX;
  graft_status status = design(graph, options, &limits, out_plan);
  while (*out_plan != NULL) {
    const bool is_too_early = status == GRAFT_E_NO_MEMORY && (*out_plan)->has_parts;
    if (!is_too_early && !graft_plan_tighten(*out_plan, status, &limits)) break;
    limits.is_apart = limits.is_apart || is_too_early;
    *(*out_plan)->error = (graft_error){0};
    graft_plan_destroy(*out_plan);
    status = design(graph, options, &limits, out_plan);
  }
  return status;
}

// A plan with its memory, but for one that is only measured.
static graft_status design_and_allocate(const graft_graph *graph, const graft_plan_options *options, bool is_apart,
                                        graft_plan **out_plan) {
  GRAFT_TRY(design_to_fit(graph, options, is_apart, out_plan));
  if ((options->flags & GRAFT_PLAN_MEASURE_ONLY) != 0) return GRAFT_OK;
  GRAFT_TRY(graft_plan_fill_constants(*out_plan));
  return graft_plan_record(*out_plan);
}

static graft_status make_plan(const graft_graph *graph, const graft_plan_options *options, graft_plan **out_plan) {
  graft_error *error = graft_context_error_slot(graft_graph_context(graph));
  GRAFT_TRY(check_options(graph, options, error));
  graft_plan *plan = NULL;
  graft_status status = design_and_allocate(graph, options, false, &plan);
  if (status == GRAFT_E_NO_MEMORY && plan != NULL && plan->has_parts) {
    *error = (graft_error){0};
    graft_plan_destroy(plan);
    status = design_and_allocate(graph, options, true, &plan);
  }
  const bool is_alone = plan != NULL && plan->n_devices == 1 && plan->memory_budget == 0;
  if (status == GRAFT_E_NO_MEMORY && is_alone && !graft_plan_is_host(plan, 0))
    graft_error_note(error, "less is needed within a memory budget, or with another device behind %s",
                     graft_device_name(plan->device));
  if (status != GRAFT_OK) {
    graft_plan_destroy(plan);
    return status;
  }
  plan->force_kernel = plan->fusion = NULL;  // the caller's strings
  graft_tuner_close(plan->tuner);
  plan->tuner = NULL;
  *out_plan = plan;
  return GRAFT_OK;
}

graft_status graft_plan_create(const graft_graph *graph, const graft_plan_options *options, graft_plan **out_plan) {
  graft_error *error = graft_context_error_slot(graft_graph_context(graph));
  if (graft_graph_status(graph) != GRAFT_OK) {
    *error = *graft_graph_error(graph);
    return error->status;
  }
  graft_plan_options copy;
  void *pins = NULL;
  GRAFT_TRY(graft_versioned_copy(&copy, sizeof copy, options, "a graft_plan_options", error));
  if (copy.n_pins > 0 && copy.pins == NULL) return GRAFT_FAIL(error, GRAFT_E_INVALID, "pins is NULL");
  GRAFT_TRY(graft_versioned_array(copy.pins, copy.n_pins, sizeof *copy.pins, "a graft_pin", error, &pins));
  copy.pins = pins;
  graft_status status = make_plan(graph, &copy, out_plan);
  free(pins);
  return status;
}

static void release_constant(graft_plan *plan, uint32_t device, graft_constant_entry *entry) {
  if (entry == NULL || entry->is_resident) return;
  if (entry->last_user == plan) entry->last_user = NULL;
  graft_constant_cache_release(plan->devices[device].device, entry);
}

void graft_plan_destroy(graft_plan *plan) {
  if (plan == NULL) return;
  // SC8: what was begun on a device may still look at memory of the plan.
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    const graft_plan_device *device = &plan->devices[d];
    graft_error ignored;
    if (plan->is_recorded && device->backend->synchronize != NULL) {
      (void)device->backend->synchronize(graft_device_state(device->device), &ignored);
    }
  }
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    graft_prefetch_close(plan, d);
    if (plan->devices[d].recording != NULL) plan->devices[d].backend->record_destroy(plan->devices[d].recording);
  }
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    graft_planned_step *step = graft_plan_step_at(plan, s);
    graft_plan_unprepare_step(step);
    for (uint32_t i = 0; i < GRAFT_MAX_PACKED; ++i) release_constant(plan, step->node->device, step->packed[i]);
  }
  for (uint32_t i = 0; i < plan->n_constants; ++i) {
    release_constant(plan, plan->constants[i].device, plan->constants[i].copy);
  }
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    graft_memory_block_release(plan->devices[d].device, &plan->devices[d].memory);
  }
  pthread_mutex_destroy(&plan->inputs_lock);
  free(plan->staging);
  free(plan->residents.items);
  graft_tuner_close(plan->tuner);
  free(plan->tensors.items);
  free(plan->nodes.items);
  free(plan->steps.items);
  free(plan->fused_groups.items);
  graft_graph_destroy(plan->scratch);
  graft_arena_release(&plan->arena);
  free(plan);
}
