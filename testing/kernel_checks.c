#include "testing/kernel_checks.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing/node.h"
#include "testing/oracle.h"

// Two fillings that are far apart as numbers: one is NaN in every float type, the other large and finite.
enum { POISON = 0xff, OTHER_POISON = 0x7e };

// Outputs of the first run, which later runs must repeat byte by byte.
typedef struct outputs {
  void *values[GRAFT_MAX_OUTPUTS];
} outputs;

static void free_outputs(outputs *kept) {
  for (uint32_t i = 0; i < GRAFT_MAX_OUTPUTS; ++i) free(kept->values[i]);
}

static graft_testing_setup plain_setup(const graft_testing_session *session) {
  return (graft_testing_setup){.kernel = session->tally->kernel,
                               .device = session->devices[0],
                               .constants = session->example->constants,
                               .in_place = -1};
}

// Makes the node; NULL when the setup does not apply, is refused (counted) or fails (reported).
static graft_testing_node *make_node(graft_testing_session *session, const graft_testing_setup *setup) {
  graft_error error = {0};
  graft_reason reason = {0};
  graft_testing_outcome outcome = GRAFT_TESTING_READY;
  graft_testing_node *node = NULL;
  graft_status status = graft_testing_node_create(session->example, setup, &error, &reason, &outcome, &node);
  if (status != GRAFT_OK) {
    graft_testing_fail(session, "%s: %s", graft_status_name(status), error.message);
  } else if (outcome == GRAFT_TESTING_REFUSED) {
    graft_testing_refuse(session, &reason);
  }
  return node;
}

static bool run_node(graft_testing_session *session, graft_testing_node *node, unsigned char poison) {
  graft_error error = {0};
  graft_status status = graft_testing_node_run(node, poison, NULL, &error);
  if (status != GRAFT_OK) graft_testing_fail(session, "%s: %s", graft_status_name(status), error.message);
  return status == GRAFT_OK;
}

static bool judge_node(graft_testing_session *session, const graft_testing_node *node) {
  const void *values[GRAFT_MAX_OUTPUTS] = {NULL};
  for (uint32_t i = 0; i < session->example->op->n_outputs; ++i) values[i] = graft_testing_node_output(node, i);
  return graft_testing_judge(session, values);
}

static bool keep_outputs(graft_testing_session *session, const graft_testing_node *node, outputs *kept) {
  for (uint32_t i = 0; i < session->example->op->n_outputs; ++i) {
    size_t bytes = graft_tensor_desc_bytes(&session->example->outputs[i]);
    free(kept->values[i]);
    kept->values[i] = malloc(bytes + 1);
    if (kept->values[i] == NULL) {
      graft_testing_fail(session, "no memory to keep %zu bytes of output", bytes);
      return false;
    }
    memcpy(kept->values[i], graft_testing_node_output(node, i), bytes);
  }
  return true;
}

// Reports where the node's outputs are not the bytes kept; |cause| says what was changed between the two runs.
static bool expect_same(graft_testing_session *session, const graft_testing_node *node, const outputs *kept,
                        const char *cause) {
  for (uint32_t i = 0; i < session->example->op->n_outputs; ++i) {
    const graft_tensor_desc *desc = &session->example->outputs[i];
    const char *got = graft_testing_node_output(node, i), *want = kept->values[i];
    size_t bytes = graft_tensor_desc_bytes(desc), at = 0;
    if (bytes == 0 || memcmp(got, want, bytes) == 0) continue;
    while (got[at] == want[at]) ++at;
    char place[128];
    int64_t element = (int64_t)(at / desc->dtype->block_bytes) * desc->dtype->block_elements;
    graft_testing_fail(session, "output %u %s changes with %s", i,
                       graft_testing_coordinates(desc, element, place, sizeof place), cause);
    return false;
  }
  return true;
}

// Makes a node for |setup|, runs it and judges it; then again over other garbage. Keeps the outputs in |kept| when
// given.
static bool try_setup(graft_testing_session *session, const graft_testing_setup *setup, outputs *kept) {
  outputs own = {{NULL}};
  outputs *first = kept != NULL ? kept : &own;
  graft_testing_node *node = make_node(session, setup);
  bool is_right = node != NULL && run_node(session, node, POISON) && judge_node(session, node) &&
                  keep_outputs(session, node, first) && run_node(session, node, OTHER_POISON) &&
                  expect_same(session, node, first, "what outputs, workspace and unused memory held before");
  graft_testing_node_destroy(node);
  free_outputs(&own);
  return is_right;
}

typedef struct abort_counter {
  atomic_long n_calls;
  long stop_at;
} abort_counter;

static bool should_abort(void *user) {
  abort_counter *counter = user;
  return atomic_fetch_add(&counter->n_calls, 1) + 1 >= counter->stop_at;
}

// Cancels at the |stop_at|-th question; returns how often the question was asked.
static long cancel_at(graft_testing_session *session, graft_testing_node *node, long stop_at) {
  abort_counter counter = {.stop_at = stop_at};
  graft_run_control control = {.struct_size = sizeof control, .abort = should_abort, .abort_user = &counter};
  graft_error error = {0};
  graft_status status = graft_testing_node_run(node, OTHER_POISON, &control, &error);
  long n_calls = atomic_load(&counter.n_calls);
  if (status == GRAFT_E_CANCELLED && n_calls >= stop_at) return n_calls;
  bool is_missed = status == GRAFT_OK && (stop_at > 1 || n_calls == 0);
  if (!is_missed) {
    graft_testing_fail(session, "abort at question %ld of %ld gives '%s' %s", stop_at, n_calls,
                       graft_status_name(status), error.message);
  }
  return n_calls;
}

static bool check_cancelling(graft_testing_session *session, graft_testing_node *node, const outputs *kept) {
  const long never = 1L << 40;
  graft_testing_vary(session, "cancelled");
  long n_calls = cancel_at(session, node, never);
  const long stops[] = {1, n_calls / 2, n_calls};
  for (int i = 0; i < 3; ++i) {
    if (stops[i] < 1 || (i > 0 && stops[i] == stops[i - 1])) continue;
    cancel_at(session, node, stops[i]);
    if (!run_node(session, node, POISON) || !expect_same(session, node, kept, "a cancelled run before it"))
      return false;
  }
  return true;
}

static void check_repeatable(graft_testing_session *session, const outputs *kept) {
  static const char *const causes[GRAFT_TESTING_N_DEVICES] = {"being prepared again", "1 thread instead of 2",
                                                              "5 threads instead of 2"};
  for (int d = 0; d < GRAFT_TESTING_N_DEVICES; ++d) {
    graft_testing_setup setup = plain_setup(session);
    setup.device = session->devices[d];
    graft_testing_vary(session, "%s", causes[d]);
    graft_testing_node *node = make_node(session, &setup);
    bool is_right = node != NULL && run_node(session, node, POISON) && expect_same(session, node, kept, causes[d]);
    if (is_right && d == 0) check_cancelling(session, node, kept);
    graft_testing_node_destroy(node);
  }
}

static void check_layout_of_one(graft_testing_session *session, uint32_t input) {
  for (int layout = GRAFT_LAYOUT_CONTIGUOUS + 1; layout < GRAFT_LAYOUT_REPEATED; ++layout) {
    graft_testing_setup setup = plain_setup(session);
    setup.layouts[input] = layout;
    setup.constants &= ~(1u << input);
    graft_testing_vary(session, "input %u %s", input, graft_testing_layout_name(layout));
    try_setup(session, &setup, NULL);
  }
}

static void check_layout_of_all(graft_testing_session *session) {
  const graft_testing_example *example = session->example;
  for (int layout = GRAFT_LAYOUT_CONTIGUOUS + 1; layout < GRAFT_LAYOUT_REPEATED; ++layout) {
    graft_testing_setup setup = plain_setup(session);
    setup.constants = 0;
    uint32_t n_changed = 0;
    for (uint32_t i = 0; i < example->n_inputs; ++i) {
      graft_tensor_desc desc;
      size_t offset = 0;
      if ((example->present >> i & 1u) == 0) continue;
      if (!graft_testing_layout_apply(layout, -1, &example->inputs[i], &desc, &offset)) continue;
      setup.layouts[i] = layout;
      ++n_changed;
    }
    graft_testing_vary(session, "all inputs %s", graft_testing_layout_name(layout));
    if (n_changed > 1) try_setup(session, &setup, NULL);
  }
}

static void check_repeated(graft_testing_session *session) {
  const graft_testing_example *example = session->example;
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    if (example->form.repeated[i] < 0 || (example->present >> i & 1u) == 0) continue;
    graft_testing_setup setup = plain_setup(session);
    setup.layouts[i] = GRAFT_LAYOUT_REPEATED;
    setup.constants &= ~(1u << i);
    graft_testing_vary(session, "input %u with stride 0", i);
    try_setup(session, &setup, NULL);
  }
}

static void check_constants(graft_testing_session *session) {
  const graft_testing_example *example = session->example;
  const uint32_t masks[] = {0, example->present & ~1u, example->present};
  for (size_t i = 0; i < sizeof masks / sizeof masks[0]; ++i) {
    if (masks[i] == example->constants || (i == 2 && masks[2] == masks[1])) continue;
    graft_testing_setup setup = plain_setup(session);
    setup.constants = masks[i];
    graft_testing_vary(session, "constants 0x%x", masks[i]);
    try_setup(session, &setup, NULL);
  }
}

static void check_in_place(graft_testing_session *session, const outputs *kept) {
  const graft_testing_example *example = session->example;
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    bool may_be = (session->tally->kernel->in_place_inputs & example->present & ~example->constants) >> i & 1u;
    if (!may_be || !graft_tensor_desc_same_layout(&example->inputs[i], &example->outputs[0])) continue;
    graft_testing_setup setup = plain_setup(session);
    setup.in_place = (int32_t)i;
    graft_testing_vary(session, "in place of input %u", i);
    graft_testing_node *node = make_node(session, &setup);
    if (node != NULL && run_node(session, node, POISON) && judge_node(session, node)) {
      expect_same(session, node, kept, "working in place");
    }
    graft_testing_node_destroy(node);
  }
}

static bool is_shared_form(const graft_testing_example *example) {
  return example->form.shared[0] != example->form.shared[1];
}

// Inputs that a planner may make where output 0 wants them.
static uint32_t find_placeable(const graft_testing_session *session) {
  const graft_testing_example *example = session->example;
  const bool is_allowed = (session->tally->kernel->traits & GRAFT_KERNEL_PLACED_INPUTS) != 0;
  const graft_tensor_desc *inputs[GRAFT_CASE_MAX_INPUTS] = {NULL};
  const size_t room = graft_tensor_desc_bytes(&example->outputs[0]);
  uint32_t placeable = 0;
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    if (example->present >> i & 1u) inputs[i] = &example->inputs[i];
  }
  for (uint32_t i = 0; i < example->n_inputs && is_allowed && example->op->part != NULL; ++i) {
    int64_t place = 0;
    const bool is_other = is_shared_form(example) && i == example->form.shared[1];  // a value has one place
    const size_t bytes = inputs[i] != NULL ? graft_tensor_desc_bytes(inputs[i]) : 0;
    if (bytes == 0 || bytes > room || is_other) continue;
    if (example->op->part(example->attrs, inputs, example->n_inputs, &example->outputs[0], i, &place) && place >= 0 &&
        place % GRAFT_DEVICE_ALIGNMENT == 0 && (size_t)place <= room - bytes) {
      placeable |= 1u << i;
    }
  }
  return placeable;
}

// One after the other, and all at once.
static void check_placed(graft_testing_session *session, const outputs *kept) {
  const uint32_t placeable = find_placeable(session);
  for (uint32_t i = 0; i <= session->example->n_inputs && placeable != 0; ++i) {
    graft_testing_setup setup = plain_setup(session);
    setup.placed = i < session->example->n_inputs ? placeable & 1u << i : placeable;
    setup.constants &= ~setup.placed;
    if (setup.placed == 0) continue;
    graft_testing_vary(session, "inputs 0x%x in their places", setup.placed);
    graft_testing_node *node = make_node(session, &setup);
    if (node != NULL && run_node(session, node, POISON)) expect_same(session, node, kept, "finding inputs in place");
    graft_testing_node_destroy(node);
  }
}

static bool is_repeated_form(const graft_testing_example *example) {
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    if (example->form.repeated[i] >= 0) return true;
  }
  return false;
}

void graft_testing_check_kernel(graft_testing_session *session, graft_testing_depth depth) {
  const graft_testing_example *example = session->example;
  if (is_repeated_form(example)) {
    check_repeated(session);
    return;
  }
  outputs kept = {{NULL}};
  graft_testing_setup setup = plain_setup(session);
  graft_testing_vary(session, "as declared");
  bool is_right = try_setup(session, &setup, &kept);
  if (is_right && depth >= GRAFT_TESTING_REPEATABLE) check_repeatable(session, &kept);
  if (is_right && depth >= GRAFT_TESTING_LAYOUTS) check_placed(session, &kept);
  if (is_right && depth >= GRAFT_TESTING_LAYOUTS && !is_shared_form(example)) {
    check_in_place(session, &kept);
    check_constants(session);
  }
  if (depth >= GRAFT_TESTING_LAYOUTS && !is_shared_form(example)) {
    for (uint32_t i = 0; i < example->n_inputs; ++i) {
      if (example->present >> i & 1u) check_layout_of_one(session, i);
    }
    check_layout_of_all(session);
  }
  if (is_right && depth >= GRAFT_TESTING_PLANNED) graft_testing_check_plans(session, kept.values);
  free_outputs(&kept);
}
