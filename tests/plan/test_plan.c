// Planning, running, reading and writing: one behaviour per test.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "plan_mock.h"

typedef struct fixture {
  graft_context *context;
  graft_device *device;
  graft_graph *graph;
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->context = plan_mock_context(2);
  f->device = plan_mock_device(f->context, "cpu");
  assert_int_equal(graft_graph_create(f->context, &f->graph), GRAFT_OK);
  plan_mock_reset();
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  graft_graph_destroy(f->graph);
  assert_int_equal(plan_mock_n_states(), 0);
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(f->device, &info);
  assert_int_equal(info.allocated_bytes, 0);
  graft_context_destroy(f->context);
  free(f);
  return 0;
}

static graft_tensor *scale(fixture *f, graft_tensor *x, double factor) {
  return plan_apply1(f->graph, "plan.scale.v1", (plan_attrs){.factor = factor}, x);
}

static graft_tensor *slice(fixture *f, graft_tensor *x, int64_t first, int64_t n) {
  return plan_apply1(f->graph, "plan.slice.v1", (plan_attrs){.first = first, .n = n}, x);
}

static graft_tensor *add(fixture *f, graft_tensor *a, graft_tensor *b) {
  return plan_apply2(f->graph, "plan.add.v1", a, b);
}

static void write_floats(graft_plan *plan, uint32_t input, const float *values, size_t n) {
  assert_int_equal(graft_plan_write(plan, input, values, n * sizeof *values), GRAFT_OK);
}

static void expect_floats(graft_plan *plan, uint32_t output, const float *expected, size_t n) {
  float got[64];
  assert_int_equal(graft_plan_read(plan, output, got, n * sizeof *got), GRAFT_OK);
  for (size_t i = 0; i < n; ++i) {
    if (got[i] != expected[i]) fail_msg("element %zu is %g, not %g", i, (double)got[i], (double)expected[i]);
  }
}

static size_t arena_of(const graft_plan *plan) {
  graft_memory_report report = {.struct_size = sizeof report};
  graft_plan_memory(plan, &report);
  return report.arena_bytes;
}

static bool is_in_place(const graft_plan *plan, uint32_t step) {
  graft_step_info info = {.struct_size = sizeof info};
  graft_plan_step(plan, step, &info);
  return info.is_in_place;
}

static void P26_one_op_on_a_view(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 4, 2);
  graft_graph_output(f->graph, scale(f, slice(f, slice(f, x, 1, 3), 1, 2), 2), "y");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  write_floats(plan, 0, (const float[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  expect_floats(plan, 0, (const float[]){9, 11, 13, 15}, 4);
  graft_plan_destroy(plan);
}

static size_t peak_for_rows(fixture *f, int64_t rows) {
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(f->context, &graph), GRAFT_OK);
  graft_tensor *x = plan_input(graph, "x", rows, 3);
  graft_tensor *y = plan_mix(graph, x, x, plan_apply2(graph, "plan.add.v1", x, x));
  graft_graph_output(graph, plan_apply2(graph, "plan.add.v1", y, y), "y");
  graft_plan *plan = plan_make(graph, f->device, 0);
  graft_memory_report report = {.struct_size = sizeof report};
  graft_plan_memory(plan, &report);
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
  return report.peak_bytes;
}

static void P26_small_large_small_returns_to_the_first_peak(void **state) {
  fixture *f = *state;
  size_t first = peak_for_rows(f, 8), large = peak_for_rows(f, 4096), last = peak_for_rows(f, 8);
  assert_true(large > 100 * first);
  assert_int_equal(first, last);
}

static void P26_add_of_x_with_itself_in_place(void **state) {
  fixture *f = *state;
  graft_tensor *h = scale(f, plan_input(f->graph, "x", 2, 1), 1);
  graft_graph_output(f->graph, add(f, h, h), "y");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  assert_true(is_in_place(plan, 1));
  assert_int_equal(arena_of(plan), 2 * 64);
  write_floats(plan, 0, (const float[]){1, 2}, 2);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  expect_floats(plan, 0, (const float[]){4, 6}, 2);
  graft_plan_destroy(plan);
}

static void P26_output_takes_over_the_second_operand(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 2, 1);
  graft_graph_output(f->graph, add(f, x, scale(f, x, 3)), "y");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  assert_false(is_in_place(plan, 0));  // x is an input and keeps its value
  assert_true(is_in_place(plan, 1));
  write_floats(plan, 0, (const float[]){1, 2}, 2);
  for (int run = 0; run < 2; ++run) {
    assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
    expect_floats(plan, 0, (const float[]){5, 9}, 2);
  }
  graft_plan_destroy(plan);
}

static void P26_a_views_parent_has_no_other_reader(void **state) {
  fixture *f = *state;
  graft_tensor *h = scale(f, plan_input(f->graph, "x", 4, 1), 1);
  // The view covers half of h: neither half may be overwritten by a result of another size.
  graft_graph_output(f->graph, scale(f, scale(f, slice(f, h, 2, 2), 1), 1), "y");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  assert_false(is_in_place(plan, 1));
  assert_true(is_in_place(plan, 2));
  write_floats(plan, 0, (const float[]){1, 2, 3, 4}, 4);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  expect_floats(plan, 0, (const float[]){6, 7}, 2);
  graft_plan_destroy(plan);
}

static void KS5_unsafe_in_place_is_declined(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 2, 2);
  graft_tensor *read_later = scale(f, x, 1), *transposed = scale(f, x, 2), *output = scale(f, x, 3);
  graft_graph_output(f->graph, scale(f, read_later, 1), "a");  // read_later is needed below
  graft_graph_output(f->graph,
                     add(f, transposed, plan_apply1(f->graph, "plan.transpose.v1", (plan_attrs){0}, transposed)),
                     "b");  // the other operand reads the same bytes in another order
  graft_graph_output(f->graph, output, "c");
  graft_graph_output(f->graph, scale(f, output, 1), "d");  // its operand is an output
  graft_graph_output(f->graph, scale(f, read_later, 2), "e");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  assert_int_equal(graft_plan_n_steps(plan), 7);
  for (uint32_t s = 0; s < 6; ++s) assert_false(is_in_place(plan, s));
  assert_true(is_in_place(plan, 6));  // the last reader of read_later
  write_floats(plan, 0, (const float[]){1, 2, 3, 4}, 4);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  expect_floats(plan, 0, (const float[]){3, 4, 5, 6}, 4);
  expect_floats(plan, 1, (const float[]){6, 12, 12, 18}, 4);
  expect_floats(plan, 2, (const float[]){4, 7, 10, 13}, 4);
  expect_floats(plan, 3, (const float[]){5, 8, 11, 14}, 4);
  expect_floats(plan, 4, (const float[]){5, 7, 9, 11}, 4);
  graft_plan_destroy(plan);
}

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void P26_ten_thousand_nodes_in_a_chain(void **state) {
  fixture *f = *state;
  enum { N = 10000 };
  graft_tensor *x = plan_input(f->graph, "x", 4, 1);
  for (int i = 0; i < N; ++i)
    x = i % 3 == 2 ? slice(f, x, 0, 4) : plan_apply1(f->graph, "plan.copy.v1", (plan_attrs){0}, x);
  graft_graph_output(f->graph, x, "y");
  const graft_plan_options options = {.struct_size = sizeof options, .device = f->device};
  graft_plan *plan = NULL;
  double begin = milliseconds();
  assert_int_equal(graft_plan_create(f->graph, &options, &plan), GRAFT_OK);
  printf("%d nodes planned in %.2f ms\n", N, milliseconds() - begin);
  assert_int_equal(arena_of(plan), 3 * 64);  // the input, and two results that take turns
  write_floats(plan, 0, (const float[]){1, 2, 3, 4}, 4);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  expect_floats(plan, 0, (const float[]){1, 2, 3, 4}, 4);
  graft_plan_destroy(plan);
}

static void a_thousand_nodes_are_planned_quickly(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 16, 4), *recent[8] = {x, x, x, x, x, x, x, x};
  for (int i = 0; i < 1000; ++i) {
    graft_tensor *y = i % 4 == 0 ? plan_mix(f->graph, recent[i % 8], recent[(i + 3) % 8], NULL)
                                 : add(f, recent[i % 8], recent[(i + 5) % 8]);
    recent[i % 8] = y;
  }
  for (int i = 0; i < 8; ++i) {
    char name[16];
    snprintf(name, sizeof name, "y%d", i);
    graft_graph_output(f->graph, recent[i], name);
  }
  double best = 1e9;
  for (int run = 0; run < 5; ++run) {
    const graft_plan_options options = {.struct_size = sizeof options, .device = f->device};
    graft_plan *plan = NULL;
    double begin = milliseconds();
    assert_int_equal(graft_plan_create(f->graph, &options, &plan), GRAFT_OK);
    double time = milliseconds() - begin;
    if (time < best) best = time;
    graft_plan_destroy(plan);
  }
  printf("1000 nodes planned in %.2f ms\n", best);
  assert_true(best < 2000);  // only what is not linear shows; sanitizers are slow
}

static void P26_empty_tensors_and_empty_graphs(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 0, 3);
  graft_graph_output(f->graph, add(f, scale(f, x, 1), x), "y");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  write_floats(plan, 0, NULL, 0);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  expect_floats(plan, 0, NULL, 0);
  graft_plan_destroy(plan);
  graft_graph *nothing = NULL;
  assert_int_equal(graft_graph_create(f->context, &nothing), GRAFT_OK);
  plan = plan_make(nothing, f->device, 0);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  graft_plan_destroy(plan);
  graft_graph_destroy(nothing);
}

static void inputs_constants_and_views_can_be_outputs(void **state) {
  fixture *f = *state;
  static const float weights[] = {1, 2, 3, 4, 5, 6};
  graft_tensor *x = plan_input(f->graph, "x", 2, 3), *w = plan_constant(f->graph, "w", 2, 3, weights);
  graft_graph_output(f->graph, x, "x");
  graft_graph_output(f->graph, w, "w");
  graft_graph_output(f->graph, plan_apply1(f->graph, "plan.transpose.v1", (plan_attrs){0}, x), "xt");
  graft_graph_output(f->graph, plan_apply1(f->graph, "plan.transpose.v1", (plan_attrs){0}, w), "wt");
  graft_graph_output(f->graph, slice(f, w, 1, 1), "tail");
  graft_graph_output(f->graph, x, "again");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  write_floats(plan, 0, (const float[]){1, 2, 3, 4, 5, 6}, 6);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  expect_floats(plan, 0, weights, 6);
  expect_floats(plan, 1, weights, 6);
  expect_floats(plan, 2, (const float[]){1, 4, 2, 5, 3, 6}, 6);
  expect_floats(plan, 3, (const float[]){1, 4, 2, 5, 3, 6}, 6);
  expect_floats(plan, 4, (const float[]){4, 5, 6}, 3);
  expect_floats(plan, 5, weights, 6);
  graft_plan_destroy(plan);
}

static void reads_and_writes_are_checked(void **state) {
  fixture *f = *state;
  float data[8] = {0};
  graft_graph_output(f->graph, scale(f, plan_input(f->graph, "x", 2, 2), 1), "y");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  assert_int_equal(graft_plan_write(plan, 1, data, 16), GRAFT_E_INVALID);
  assert_int_equal(graft_plan_write(plan, 0, data, 15), GRAFT_E_INVALID);
  assert_non_null(strstr(graft_context_error(f->context)->message, "\"x\""));
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_E_INVALID);
  assert_non_null(strstr(graft_context_error(f->context)->message, "never written"));
  assert_int_equal(graft_plan_write(plan, 0, data, 16), GRAFT_OK);
  assert_int_equal(graft_plan_read(plan, 0, data, 16), GRAFT_E_INVALID);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  assert_int_equal(graft_plan_read(plan, 0, data, 16), GRAFT_OK);
  assert_int_equal(graft_plan_read(plan, 1, data, 16), GRAFT_E_INVALID);
  assert_int_equal(graft_plan_read(plan, 0, data, 17), GRAFT_E_INVALID);
  uint32_t index = 9;
  assert_int_equal(graft_plan_find_input(plan, "x", &index), GRAFT_OK);
  assert_int_equal(index, 0);
  assert_int_equal(graft_plan_find_output(plan, "x", &index), GRAFT_E_NOT_FOUND);
  graft_plan_destroy(plan);
}

static void wrong_options_are_refused(void **state) {
  fixture *f = *state;
  graft_plan *plan = NULL;
  graft_plan_options options = {.device = f->device};
  assert_int_equal(graft_plan_create(f->graph, &options, &plan), GRAFT_E_INVALID);  // no struct_size
  options = (graft_plan_options){.struct_size = sizeof options};
  assert_int_equal(graft_plan_create(f->graph, &options, &plan), GRAFT_E_INVALID);
  options.device = f->device;
  options.flags = 1u << 20;
  assert_int_equal(graft_plan_create(f->graph, &options, &plan), GRAFT_E_INVALID);
  options.flags = 0;
  options.force_kernel = "nobody";
  assert_int_equal(graft_plan_create(f->graph, &options, &plan), GRAFT_E_NOT_FOUND);
  graft_context *other = plan_mock_context(1);
  options = (graft_plan_options){.struct_size = sizeof options, .device = plan_mock_device(other, "cpu")};
  assert_int_equal(graft_plan_create(f->graph, &options, &plan), GRAFT_E_INVALID);
  graft_context_destroy(other);
  assert_null(plan);
}

static void a_failed_graph_gives_its_own_reason(void **state) {
  fixture *f = *state;
  graft_graph_output(f->graph, add(f, plan_input(f->graph, "x", 2, 2), plan_input(f->graph, "z", 3, 2)), "y");
  const graft_plan_options options = {.struct_size = sizeof options, .device = f->device};
  graft_plan *plan = NULL;
  assert_int_equal(graft_plan_create(f->graph, &options, &plan), GRAFT_E_SHAPE);
  assert_non_null(strstr(graft_context_error(f->context)->message, "shapes differ"));
}

static void dead_nodes_are_dropped_and_opaque_effects_kept(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 2, 1), *unread = plan_input(f->graph, "unread", 100, 100);
  (void)scale(f, scale(f, x, 1), 1);
  (void)plan_apply1(f->graph, "plan.opaque.v1", (plan_attrs){0}, scale(f, x, 5));
  graft_graph_output(f->graph, scale(f, x, 2), "y");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  assert_int_equal(graft_plan_n_steps(plan), 3);
  assert_true(arena_of(plan) < 1000);  // nothing for what nobody reads
  static float values[10000];
  write_floats(plan, 0, values, 2);
  write_floats(plan, 1, values, 10000);
  (void)unread;
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  assert_int_equal(plan_mock_n_opaque_runs(), 2);
  graft_plan_destroy(plan);
}

static void SC1_the_plan_outlives_the_graph_and_leaves_it_alone(void **state) {
  fixture *f = *state;
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(f->context, &graph), GRAFT_OK);
  graft_tensor *x = plan_input(graph, "x", 2, 1);
  graft_graph_output(graph, plan_apply1(graph, "plan.nested.v1", (plan_attrs){.factor = 2}, x), "y");
  graft_plan *plan = plan_make(graph, f->device, 0), *second = plan_make(graph, f->device, 0);
  assert_int_equal(graft_graph_n_nodes(graph), 1);
  assert_int_equal(graft_graph_verify(graph, NULL), GRAFT_OK);
  graft_graph_destroy(graph);
  assert_int_equal(graft_context_unregister(f->context, &plan_extension), GRAFT_E_BUSY);
  write_floats(plan, 0, (const float[]){1, 2}, 2);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  expect_floats(plan, 0, (const float[]){6, 10}, 2);
  graft_plan_destroy(plan);
  graft_plan_destroy(second);
}

static void SC4_the_report_matches_what_is_allocated(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 32, 8);
  graft_graph_output(f->graph, plan_mix(f->graph, scale(f, x, 1), x, scale(f, x, 2)), "y");
  graft_plan *measured = plan_make(f->graph, f->device, GRAFT_PLAN_MEASURE_ONLY);
  graft_memory_report report = {.struct_size = sizeof report}, again = {.struct_size = sizeof again};
  graft_plan_memory(measured, &report);
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(f->device, &info);
  assert_int_equal(info.allocated_bytes, 0);
  assert_int_equal(report.workspace_bytes, 1024);
  assert_int_equal(report.peak_bytes, report.arena_bytes);
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  graft_plan_memory(plan, &again);
  assert_memory_equal(&report, &again, sizeof report);
  graft_device_describe(f->device, &info);
  // The workspace asks for more alignment than the device gives: at most that is lost.
  assert_in_range(info.allocated_bytes, report.peak_bytes, report.peak_bytes + 192);
  float value;
  assert_int_equal(graft_plan_run(measured, NULL), GRAFT_E_INVALID);
  assert_int_equal(graft_plan_write(measured, 0, &value, 1024), GRAFT_E_INVALID);
  assert_int_equal(graft_plan_read(measured, 0, &value, 1024), GRAFT_E_INVALID);
  graft_plan_destroy(plan);
  graft_plan_destroy(measured);
}

static void KS4_workspace_is_shared_by_steps(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 32, 8), *y = x;
  for (int i = 0; i < 10; ++i) y = plan_mix(f->graph, y, x, NULL);
  graft_graph_output(f->graph, y, "y");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  graft_memory_report report = {.struct_size = sizeof report};
  graft_plan_memory(plan, &report);
  assert_int_equal(report.workspace_bytes, 1024);
  assert_int_equal(report.arena_bytes, 4 * 1024);  // x, two results, one workspace
  assert_int_equal(report.naive_bytes, 21 * 1024);
  graft_plan_destroy(plan);
}

static graft_status append_text(void *user, const char *text, size_t size) {
  char *all = user;
  size_t length = strlen(all);
  if (length + size + 1 > 4096) return GRAFT_E_IO;
  memcpy(all + length, text, size);
  all[length + size] = 0;
  return GRAFT_OK;
}

static graft_status refuse_text(void *user, const char *text, size_t size) {
  (void)user;
  (void)text;
  (void)size;
  return GRAFT_E_IO;
}

static void KS6_plans_print_in_eighty_columns(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 32, 8);
  graft_graph_output(f->graph, scale(f, plan_mix(f->graph, x, x, NULL), 1), "y");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  char text[4096] = "";
  assert_int_equal(graft_plan_print(plan, (graft_writer){.write = append_text, .user = text}), GRAFT_OK);
  assert_non_null(strstr(text, "mix_f32__mock"));
  assert_non_null(strstr(text, "f32[32, 8]"));
  assert_non_null(strstr(text, " = scale"));
  assert_non_null(strstr(text, "peak"));
  for (const char *line = text; *line != 0; line += strcspn(line, "\n") + 1) {
    if (strcspn(line, "\n") > 80) fail_msg("too wide: %.*s", (int)strcspn(line, "\n"), line);
  }
  assert_int_equal(graft_plan_print(plan, (graft_writer){.write = refuse_text}), GRAFT_E_IO);
  graft_plan_destroy(plan);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(P26_one_op_on_a_view),
      TEST(P26_small_large_small_returns_to_the_first_peak),
      TEST(P26_add_of_x_with_itself_in_place),
      TEST(P26_output_takes_over_the_second_operand),
      TEST(P26_a_views_parent_has_no_other_reader),
      TEST(KS5_unsafe_in_place_is_declined),
      TEST(P26_ten_thousand_nodes_in_a_chain),
      TEST(a_thousand_nodes_are_planned_quickly),
      TEST(P26_empty_tensors_and_empty_graphs),
      TEST(inputs_constants_and_views_can_be_outputs),
      TEST(reads_and_writes_are_checked),
      TEST(wrong_options_are_refused),
      TEST(a_failed_graph_gives_its_own_reason),
      TEST(dead_nodes_are_dropped_and_opaque_effects_kept),
      TEST(SC1_the_plan_outlives_the_graph_and_leaves_it_alone),
      TEST(SC4_the_report_matches_what_is_allocated),
      TEST(KS4_workspace_is_shared_by_steps),
      TEST(KS6_plans_print_in_eighty_columns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
