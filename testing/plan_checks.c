// The same kernel as the planner uses it: chosen by name, with storage shared and not, in place, on strided views, with
// the arena full of garbage and its ends guarded.
#include <stdlib.h>
#include <string.h>

#include "testing/example_graph.h"
#include "testing/kernel_checks.h"
#include "testing/layout.h"

// What a planned run must give.
typedef enum demand {
  SAME_BYTES,    // the kernel runs and repeats what it gave by itself
  RIGHT_VALUES,  // whatever kernel runs, within the bound
} demand;

typedef struct attempt {
  graft_testing_graph_setup graph;
  uint32_t flags;  // graft_plan_flags
  demand demand;
} attempt;

// The line about the kernel in the steps' lists of refusals; NULL when it was never asked.
static const char *find_refusal(const graft_plan *plan, const graft_kernel_def *kernel) {
  for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) {
    graft_step_info info = {.struct_size = sizeof info};
    graft_plan_step(plan, i, &info);
    const char *line = info.rejections != NULL ? strstr(info.rejections, kernel->name) : NULL;
    if (line != NULL) return line;
  }
  return NULL;
}

static bool check_choice(graft_testing_session *session, const graft_plan *plan, demand demanded) {
  const graft_kernel_def *kernel = session->tally->kernel;
  if (graft_testing_find_step(plan, session->example->op, kernel) >= 0) return true;
  // Where every kernel refuses, a decomposition takes the node's place: checked for itself (op_checks.h), and it rounds
  // in between.
  const graft_op_def *op = session->example->op;
  if (demanded == RIGHT_VALUES && op->decompose != NULL && graft_testing_find_step(plan, op, NULL) < 0) return false;
  const char *refusal = find_refusal(plan, kernel);
  if (refusal == NULL) {
    graft_testing_fail(session, "the planner neither runs the forced kernel nor says why");
  } else if (demanded == SAME_BYTES) {
    graft_testing_fail(session, "the kernel supports the node by itself but not in a plan: %.100s", refusal);
  }
  return refusal != NULL && demanded == RIGHT_VALUES;
}

static void compare_bytes(graft_testing_session *session, const void *const *got, void *const *wanted) {
  for (uint32_t i = 0; i < session->example->op->n_outputs; ++i) {
    const graft_tensor_desc *desc = &session->example->outputs[i];
    size_t bytes = graft_tensor_desc_bytes(desc), at = 0;
    if (bytes == 0 || memcmp(got[i], wanted[i], bytes) == 0) continue;
    while (((const char *)got[i])[at] == ((const char *)wanted[i])[at]) ++at;
    graft_testing_fail(session, "output %u differs at byte %zu from what the kernel gives by itself", i, at);
  }
}

static graft_status run_and_read(graft_testing_session *session, graft_plan *plan, const graft_testing_graph *graph,
                                 void **outputs) {
  GRAFT_TRY(graft_testing_graph_write(graph, plan));
  // Twice, because the first run leaves the arena in another state than the second finds it in.
  GRAFT_TRY(graft_plan_run(plan, NULL));
  GRAFT_TRY(graft_plan_run(plan, NULL));
  for (uint32_t i = 0; i < session->example->op->n_outputs; ++i) {
    size_t bytes = graft_tensor_desc_bytes(&session->example->outputs[i]);
    outputs[i] = malloc(bytes + 1);
    if (outputs[i] == NULL) return GRAFT_E_NO_MEMORY;
    GRAFT_TRY(graft_plan_read(plan, i, outputs[i], bytes));
  }
  return GRAFT_OK;
}

static void run_plan(graft_testing_session *session, const attempt *tried, const graft_testing_graph *graph,
                     void *const *wanted) {
  graft_plan_options options = {.struct_size = sizeof options,
                                .flags = tried->flags | GRAFT_PLAN_KEEP_NODES,
                                .device = session->guarded_device,
                                .force_kernel = session->tally->kernel->name};
  graft_plan *plan = NULL;
  void *outputs[GRAFT_MAX_OUTPUTS] = {NULL};
  graft_status status = graft_plan_create(graph->graph, &options, &plan);
  if (status == GRAFT_OK && check_choice(session, plan, tried->demand)) {
    status = run_and_read(session, plan, graph, outputs);
    const void *got[GRAFT_MAX_OUTPUTS];
    memcpy(got, outputs, sizeof got);
    if (status == GRAFT_OK && graft_testing_judge(session, got) && tried->demand == SAME_BYTES) {
      compare_bytes(session, got, wanted);
    }
  }
  if (status == GRAFT_E_UNSUPPORTED && plan == NULL && tried->demand == RIGHT_VALUES) {
    // Devices that cannot run references have no way around a kernel that wants its inputs laid out as declared.
    graft_testing_refuse(session, &(graft_reason){.text = "the device has nothing else for a node that it refuses"});
  } else if (status != GRAFT_OK) {
    graft_testing_fail(session, "%s: %s", graft_status_name(status),
                       graft_context_error(session->guarded_context)->message);
  }
  graft_plan_destroy(plan);
  for (uint32_t i = 0; i < GRAFT_MAX_OUTPUTS; ++i) free(outputs[i]);
}

static void try_plan(graft_testing_session *session, const attempt *tried, void *const *wanted) {
  graft_testing_graph graph = {0};
  graft_status status = graft_testing_graph_create(&tried->graph, &graph);
  if (status == GRAFT_OK) {
    run_plan(session, tried, &graph, wanted);
  } else if (tried->demand == SAME_BYTES) {
    graft_testing_fail(session, "the graph cannot be built: %s",
                       graft_context_error(session->guarded_context)->message);
  }
  graft_testing_graph_destroy(&graph);
}

static void check_views(graft_testing_session *session, void *const *wanted) {
  static const graft_testing_layout layouts[] = {GRAFT_LAYOUT_TRANSPOSED, GRAFT_LAYOUT_PADDED_ROWS,
                                                 GRAFT_LAYOUT_SECOND_ROWS, GRAFT_LAYOUT_OFFSET, GRAFT_LAYOUT_ODD_ONES};
  for (uint32_t i = 0; i < session->example->n_inputs; ++i) {
    if ((session->example->present >> i & 1u) == 0) continue;
    for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; ++k) {
      attempt tried = {.graph = {.context = session->guarded_context,
                                 .example = session->example,
                                 .strided_input = i,
                                 .layout = layouts[k]},
                       .demand = RIGHT_VALUES};
      graft_testing_vary(session, "planned, input %u a view: %s", i, graft_testing_layout_name(layouts[k]));
      try_plan(session, &tried, wanted);
    }
  }
}

void graft_testing_check_plans(graft_testing_session *session, void *const *wanted) {
  static const struct {
    const char *name;
    uint32_t flags;
    bool has_intermediates;
    demand demand;
  } ways[] = {
      {"planned", 0, false, SAME_BYTES},
      {"planned without reuse", GRAFT_PLAN_NO_REUSE, false, SAME_BYTES},
      {"planned without packing", GRAFT_PLAN_NO_PACKING, false, RIGHT_VALUES},
      {"planned after other steps", 0, true, SAME_BYTES},
      {"planned after other steps, nothing in place", GRAFT_PLAN_NO_IN_PLACE, true, SAME_BYTES},
      {"planned after other steps, nothing shared", GRAFT_PLAN_NO_REUSE | GRAFT_PLAN_NO_IN_PLACE, true, SAME_BYTES},
  };
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(session->guarded_device, &info);
  const bool has_helpers = (info.flags & GRAFT_DEVICE_HOST_MEMORY) != 0;  // which have no kernels elsewhere
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; ++i) {
    if (ways[i].has_intermediates && !has_helpers) continue;
    attempt tried = {.graph = {.context = session->guarded_context,
                               .example = session->example,
                               .has_intermediates = ways[i].has_intermediates},
                     .flags = ways[i].flags,
                     .demand = ways[i].demand};
    graft_testing_vary(session, "%s", ways[i].name);
    try_plan(session, &tried, wanted);
  }
  if (session->example->form.shared[0] == session->example->form.shared[1]) check_views(session, wanted);
}
