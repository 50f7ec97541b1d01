// Structs of code of another age than the library's: what is frozen stays, what may grow is read and written by the
// size that its maker set.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graft/cpu.h"
#include "graft/cuda.h"
#include "graft/diffusion.h"
#include "graft/graft.h"
#include "ops/unary/unary.h"

// ---- frozen ----

// On machines with 64-bit pointers, of which x86-64 and arm64 lay structs out alike.
#define FROZEN(type, bytes) _Static_assert(sizeof(void *) != 8 || sizeof(type) == (bytes), #type " has another size")
FROZEN(graft_attr_def, 48);
FROZEN(graft_beside, 16);
FROZEN(graft_case_input, 112);
FROZEN(graft_cpu_task, 32);
FROZEN(graft_cpu_worker, 16);
FROZEN(graft_cuda_fault, 24);
FROZEN(graft_cuda_tensor_map, 128);
FROZEN(graft_error, 1416);
FROZEN(graft_op_case, 712);
FROZEN(graft_packed_input, 64);
FROZEN(graft_pipeline_part, 48);
FROZEN(graft_reason, 120);
FROZEN(graft_tensor_desc, 144);
FROZEN(graft_transfer_end, 16);
FROZEN(graft_view, 152);
FROZEN(graft_writer, 16);

// ---- a plan to ask about ----

enum { N = 6, CANARY = 0x5a, OLDER_BYTES = 16, LATER_BYTES = 16 };

typedef struct fixture {
  graft_context *context;
  graft_device *device;
  graft_graph *graph;
  graft_tensor *x, *y;
  graft_plan *plan;
} fixture;

static int set_up(void **state) {
  static fixture f;
  f = (fixture){0};
  graft_tensor_desc desc;
  assert_int_equal(graft_context_create(NULL, NULL, &f.context), GRAFT_OK);
  assert_int_equal(graft_device_open(f.context, "cpu", &f.device), GRAFT_OK);
  assert_int_equal(graft_graph_create(f.context, &f.graph), GRAFT_OK);
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 1, (int64_t[]){N}, NULL, &desc), GRAFT_OK);
  f.x = graft_graph_input(f.graph, "x", &desc);
  f.y = graft_scale(f.graph, f.x, 2, 0);
  graft_graph_output(f.graph, f.y, "y");
  const graft_plan_options options = {.struct_size = sizeof options, .device = f.device};
  assert_int_equal(graft_plan_create(f.graph, &options, &f.plan), GRAFT_OK);
  const float values[N] = {1, 2, 3, 4, 5, 6};
  assert_int_equal(graft_plan_write(f.plan, 0, values, sizeof values), GRAFT_OK);
  *state = &f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  graft_plan_destroy(f->plan);
  graft_graph_destroy(f->graph);
  graft_context_destroy(f->context);
  return 0;
}

// ---- what graft fills ----

static void fill_device_info(const fixture *f, void *out) {
  graft_device_describe(f->device, out);
}
static void fill_memory(const fixture *f, void *out) {
  graft_plan_memory(f->plan, out);
}
static void fill_device_memory(const fixture *f, void *out) {
  graft_plan_device_memory(f->plan, 0, out);
}
static void fill_no_device_memory(const fixture *f, void *out) {
  graft_plan_device_memory(f->plan, 9, out);
}
static void fill_stage(const fixture *f, void *out) {
  graft_plan_stage(f->plan, 0, out);
}
static void fill_no_stage(const fixture *f, void *out) {
  graft_plan_stage(f->plan, 9, out);
}
static void fill_step(const fixture *f, void *out) {
  graft_plan_step(f->plan, 0, out);
}
static void fill_no_step(const fixture *f, void *out) {
  graft_plan_step(f->plan, 9, out);
}
static void fill_fusion_rule(const fixture *f, void *out) {
  graft_plan_fusion_rule(f->plan, 0, out);
}
static void fill_no_fusion_group(const fixture *f, void *out) {
  graft_plan_fusion_group(f->plan, 9, out);
}
static void fill_node(const fixture *f, void *out) {
  assert_true(graft_graph_node(f->graph, 0, out));
}
static void fill_no_node(const fixture *f, void *out) {
  assert_false(graft_graph_node(f->graph, 9, out));
}

typedef struct filled {
  const char *name;
  uint32_t bytes;  // of the struct today
  void (*fill)(const fixture *f, void *out);
} filled;

static const filled all_filled[] = {
    {"graft_device_info", sizeof(graft_device_info), fill_device_info},
    {"graft_memory_report", sizeof(graft_memory_report), fill_memory},
    {"graft_memory_report of a device", sizeof(graft_memory_report), fill_device_memory},
    {"graft_memory_report of no device", sizeof(graft_memory_report), fill_no_device_memory},
    {"graft_stage_info", sizeof(graft_stage_info), fill_stage},
    {"graft_stage_info of no stage", sizeof(graft_stage_info), fill_no_stage},
    {"graft_step_info", sizeof(graft_step_info), fill_step},
    {"graft_step_info of no step", sizeof(graft_step_info), fill_no_step},
    {"graft_fusion_count", sizeof(graft_fusion_count), fill_fusion_rule},
    {"graft_fusion_group", sizeof(graft_fusion_group), fill_no_fusion_group},
    {"graft_node_view", sizeof(graft_node_view), fill_node},
    {"graft_node_view of no node", sizeof(graft_node_view), fill_no_node},
};

// What a caller with a struct of |bytes| bytes finds; behind it nothing may have changed.
static unsigned char *fill(const fixture *f, const filled *what, uint32_t bytes) {
  const size_t room = what->bytes + 2 * (size_t)LATER_BYTES;
  unsigned char *memory = malloc(room);
  assert_non_null(memory);
  memset(memory, CANARY, room);
  memcpy(memory, &bytes, sizeof bytes);
  what->fill(f, memory);
  if (memcmp(memory, &bytes, sizeof bytes) != 0) fail_msg("%s: struct_size did not stay %u", what->name, bytes);
  for (size_t i = bytes; i < room; ++i)
    if (memory[i] != CANARY) fail_msg("%s: byte %zu behind a caller's %u was written", what->name, i, bytes);
  return memory;
}

static void OP8_what_graft_fills_keeps_to_the_callers_size(void **state) {
  const fixture *f = *state;
  for (size_t i = 0; i < sizeof all_filled / sizeof all_filled[0]; ++i) {
    const filled *what = &all_filled[i];
    unsigned char *today = fill(f, what, what->bytes), *older = fill(f, what, OLDER_BYTES);
    unsigned char *newer = fill(f, what, what->bytes + LATER_BYTES);
    // A pointer or a size that does not change; between it and struct_size may lie padding.
    assert_memory_equal(older + OLDER_BYTES / 2, today + OLDER_BYTES / 2, OLDER_BYTES / 2);
    assert_memory_equal(newer + OLDER_BYTES / 2, today + OLDER_BYTES / 2, OLDER_BYTES / 2);
    for (size_t b = what->bytes; b < what->bytes + (size_t)LATER_BYTES; ++b) assert_int_equal(newer[b], 0);
    free(today);
    free(older);
    free(newer);
  }
}

// ---- what graft reads ----

static bool never(void *user) {
  ++*(int *)user;
  return false;
}

static void OP8_older_callers_watch_a_run(void **state) {
  fixture *f = *state;
  int n_asked = 0;
  graft_run_control control;
  memset(&control, CANARY, sizeof control);  // what an older caller does not have, behind its struct
  control.struct_size = offsetof(graft_run_control, on_step);
  control.abort = never;
  control.abort_user = &n_asked;
  assert_int_equal(graft_plan_run(f->plan, &control), GRAFT_OK);
  assert_true(n_asked > 0);
  control = (graft_run_control){.abort = never, .abort_user = &n_asked};
  assert_int_equal(graft_plan_run(f->plan, &control), GRAFT_E_INVALID);
  assert_non_null(strstr(graft_context_error(f->context)->message, "struct_size of a graft_run_control is 0"));
}

// A caller whose structs have a member more than this library's.
typedef struct later_binding {
  graft_binding now;
  uint64_t later;
} later_binding;

typedef struct later_pin {
  graft_pin now;
  uint64_t later;
} later_pin;

static void OP8_elements_of_newer_arrays_are_found(void **state) {
  fixture *f = *state;
  float in[N] = {1, 2, 3, 4, 5, 6}, out[N] = {0};
  later_binding bindings[] = {
      {.now = {.struct_size = sizeof bindings[0], .tensor = f->x, .data = in, .bytes = sizeof in}},
      {.now = {.struct_size = sizeof bindings[0], .tensor = f->y, .data = out, .bytes = sizeof out}}};
  const graft_execution execution = {
      .struct_size = sizeof execution, .device = f->device, .bindings = &bindings[0].now, .n_bindings = 2};
  assert_int_equal(graft_graph_execute(f->graph, &execution), GRAFT_OK);
  for (int i = 0; i < N; ++i) assert_true(out[i] == 2 * in[i]);
  bindings[1].later = 1;  // a wish that this library does not know is not ignored
  assert_int_equal(graft_graph_execute(f->graph, &execution), GRAFT_E_UNSUPPORTED);
  bindings[0].now.struct_size = 0;
  assert_int_equal(graft_graph_execute(f->graph, &execution), GRAFT_E_INVALID);
  const later_pin pins[] = {{.now = {.struct_size = sizeof pins[0], .tensor = f->x, .device = f->device}},
                            {.now = {.struct_size = sizeof pins[0], .tensor = f->y, .device = f->device}}};
  const graft_plan_options options = {
      .struct_size = sizeof options, .device = f->device, .pins = &pins[0].now, .n_pins = 2};
  graft_plan *plan = NULL;
  assert_int_equal(graft_plan_create(f->graph, &options, &plan), GRAFT_OK);
  graft_plan_destroy(plan);
}

static void OP8_older_callers_ask_about_a_node(void **state) {
  fixture *f = *state;
  graft_node_view view = {.struct_size = sizeof view};
  assert_true(graft_graph_node(f->graph, 0, &view));
  const graft_tensor_desc *descs[] = {graft_tensor_describe(f->x), graft_tensor_describe(f->y)};
  graft_node_info node;
  memset(&node, CANARY, sizeof node);
  node.struct_size = offsetof(graft_node_info, constant_inputs);
  node.op = view.op;
  node.attrs = view.attrs;
  node.n_inputs = node.n_outputs = 1;
  node.inputs = descs;
  node.outputs = descs + 1;
  graft_reason why = {{0}};
  if (!graft_device_supports(f->device, &node, false, &why)) fail_msg("%s", why.text);
  node.struct_size = 0;
  assert_false(graft_device_supports(f->device, &node, false, &why));
  assert_non_null(strstr(why.text, "struct_size of a graft_node_info is 0"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(OP8_what_graft_fills_keeps_to_the_callers_size, set_up, tear_down),
      cmocka_unit_test_setup_teardown(OP8_older_callers_watch_a_run, set_up, tear_down),
      cmocka_unit_test_setup_teardown(OP8_elements_of_newer_arrays_are_found, set_up, tear_down),
      cmocka_unit_test_setup_teardown(OP8_older_callers_ask_about_a_node, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("versions", tests, NULL, NULL);
}
