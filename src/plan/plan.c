// Making and destroying plans: the passes in order.
#include <stdlib.h>
#include <string.h>

#include "src/base/array.h"
#include "src/base/versioned.h"
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

static graft_status check_options(const graft_graph *graph, const graft_plan_options *options, graft_error *error) {
  const uint32_t known = GRAFT_PLAN_MEASURE_ONLY | GRAFT_PLAN_NO_IN_PLACE | GRAFT_PLAN_NO_REUSE |
                         GRAFT_PLAN_NO_PACKING | GRAFT_PLAN_REFERENCE | GRAFT_PLAN_KEEP_NODES | GRAFT_PLAN_VERIFY;
  if (options->flags & ~known) {
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "plan flags 0x%x are unknown", (unsigned)(options->flags & ~known));
  }
  if (options->device == NULL) return GRAFT_FAIL(error, GRAFT_E_INVALID, "a plan needs a device");
  if (graft_device_context(options->device) != graft_graph_context(graph)) {
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the device was opened in another context than the graph's");
  }
  const char *forced = options->force_kernel;
  if (forced != NULL && graft_context_find_kernel(graft_graph_context(graph), forced) == NULL) {
    return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "no kernel is called \"%s\"", forced);
  }
  return GRAFT_OK;
}

static graft_status begin_plan(const graft_graph *graph, const graft_plan_options *options, graft_plan *plan) {
  plan->context = graft_graph_context(graph);
  plan->error = graft_context_error_slot(plan->context);
  plan->device = options->device;
  plan->backend = graft_device_backend(options->device);
  graft_device_describe(options->device, &plan->device_info);
  plan->flags = options->flags;
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
  graft_memory_report *report = &plan->report;
  report->peak_bytes = report->arena_bytes + report->constant_bytes + report->packed_bytes;
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
      graft_plan_expand,         graft_plan_drop_dead_steps, graft_plan_fuse,    graft_plan_prepare,
      graft_plan_find_lifetimes, graft_plan_find_constants,  graft_plan_lay_out,
  };
  for (size_t i = 0; i < sizeof passes / sizeof passes[0]; ++i) {
    GRAFT_TRY(passes[i](plan));
    if (is_verifying(plan)) GRAFT_TRY(graft_plan_verify(plan));
  }
  GRAFT_TRY(finish_report(plan));
  if (plan->flags & GRAFT_PLAN_MEASURE_ONLY) return GRAFT_OK;
  GRAFT_TRY(graft_plan_fill_constants(plan));
  return graft_plan_record(plan);
}

graft_status graft_plan_create(const graft_graph *graph, const graft_plan_options *options, graft_plan **out_plan) {
  graft_error *error = graft_context_error_slot(graft_graph_context(graph));
  if (graft_graph_status(graph) != GRAFT_OK) {
    *error = *graft_graph_error(graph);
    return error->status;
  }
  graft_plan_options copy;
  GRAFT_TRY(graft_versioned_copy(&copy, sizeof copy, options, "a graft_plan_options", error));
  GRAFT_TRY(check_options(graph, &copy, error));
  graft_plan *plan = calloc(1, sizeof *plan);
  if (plan == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a plan");
  graft_status status = begin_plan(graph, &copy, plan);
  if (status == GRAFT_OK) status = graft_plan_copy_graph(plan, graph);
  if (status == GRAFT_OK) status = run_passes(plan);
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

static void release_constant(graft_plan *plan, graft_constant_entry *entry) {
  if (entry == NULL) return;
  if (entry->last_user == plan) entry->last_user = NULL;
  graft_constant_cache_release(plan->device, entry);
}

void graft_plan_destroy(graft_plan *plan) {
  if (plan == NULL) return;
  if (plan->recording != NULL) plan->backend->record_destroy(plan->recording);
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    graft_planned_step *step = graft_plan_step_at(plan, s);
    graft_plan_unprepare_step(step);
    for (uint32_t i = 0; i < GRAFT_MAX_PACKED; ++i) release_constant(plan, step->packed[i]);
  }
  for (uint32_t i = 0; i < plan->n_constants; ++i) release_constant(plan, plan->constants[i].copy);
  graft_memory_block_release(plan->device, &plan->memory);
  graft_tuner_close(plan->tuner);
  free(plan->tensors.items);
  free(plan->nodes.items);
  free(plan->steps.items);
  free(plan->fused_groups.items);
  graft_graph_destroy(plan->scratch);
  graft_arena_release(&plan->arena);
  free(plan);
}
