// What a plug-in's own test looks like: a program that loads it as any program does, and looks at plans and results.
// That kernels agree with their references is for `graft ops test`.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <graft/graft.h>
#include <graft/ops.h>

enum { ROWS = 4, WIDTH = 64, N = ROWS * WIDTH };

static int n_failures;

static void check(bool is_right, const char *what) {
  printf("%s %s\n", is_right ? "ok  " : "FAIL", what);
  n_failures += !is_right;
}

typedef struct test {
  graft_context *context;
  graft_device *device;
  float x[N], y[N], result[N];
} test;

// Plans |graph|, whose inputs are x and (where there are two) y, runs it and reads its one output.
static graft_plan *run(test *t, const graft_graph *graph) {
  graft_plan *plan = NULL;
  const graft_plan_options options = {.struct_size = sizeof options, .device = t->device};
  graft_status status = graft_plan_create(graph, &options, &plan);
  if (status == GRAFT_OK) status = graft_plan_write(plan, 0, t->x, sizeof t->x);
  if (status == GRAFT_OK && graft_graph_n_inputs(graph) > 1) status = graft_plan_write(plan, 1, t->y, sizeof t->y);
  if (status == GRAFT_OK) status = graft_plan_run(plan, NULL);
  if (status == GRAFT_OK) status = graft_plan_read(plan, 0, t->result, sizeof t->result);
  if (status == GRAFT_OK) return plan;
  fprintf(stderr, "%s\n", graft_context_error(t->context)->message);
  graft_plan_destroy(plan);
  return NULL;
}

static bool has_step(const graft_plan *plan, const char *op, const char *fusion) {
  for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) {
    graft_step_info info = {.struct_size = sizeof info};
    graft_plan_step(plan, i, &info);
    bool is_fused = info.fusion != NULL && fusion != NULL && strcmp(info.fusion, fusion) == 0;
    if (strcmp(info.op->name, op) == 0 && is_fused == (fusion != NULL)) return true;
  }
  return false;
}

static graft_tensor *input(graft_graph *graph, const char *name) {
  graft_tensor_desc desc;
  if (graft_tensor_desc_init(GRAFT_F32, 2, (int64_t[]){ROWS, WIDTH}, NULL, &desc) != GRAFT_OK) return NULL;
  return graft_graph_input(graph, name, &desc);
}

static double hardswish(double x) {
  return x * fmin(fmax(x + 3, 0), 6) / 6;
}

static void test_fusion(test *t) {
  graft_graph *graph = NULL;
  if (graft_graph_create(t->context, &graph) != GRAFT_OK) return;
  graft_tensor *x = input(graph, "x"), *y = input(graph, "y"), *h = NULL;
  graft_graph_apply(graph, "acme.hardswish.v1", NULL, 0, &x, 1, &h);
  graft_graph_output(graph, graft_mul(graph, y, h), "product");
  graft_plan *plan = run(t, graph);
  double worst = 0;
  for (int i = 0; i < N; ++i) worst = fmax(worst, fabs(t->result[i] - hardswish(t->x[i]) * t->y[i]));
  check(plan != NULL && worst < 1e-5, "hardswish(x) * y is right");
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(t->device, &info);
  // Without a kernel that wants the group, nothing is fused.
  bool has_kernel = graft_context_find_kernel(t->context, "acme_hardswish_mul_f32__avx2") != NULL;
  check(plan != NULL && (!has_kernel || has_step(plan, "acme.hardswish_mul.v1", "acme_hardswish_mul")),
        "hardswish(x) * y is one step");
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
}

static void test_blocks(test *t) {
  graft_graph *graph = NULL;
  graft_dtype q8 = graft_context_find_dtype(t->context, "acme.q8");
  check(q8 != NULL, "the dtype acme.q8 is registered");
  if (q8 == NULL || graft_graph_create(t->context, &graph) != GRAFT_OK) return;
  graft_tensor *narrow = graft_cast(graph, input(graph, "x"), q8);
  check(graft_tensor_describe(narrow)->dtype == q8, "a graph carries the dtype");
  graft_graph_output(graph, graft_cast(graph, narrow, GRAFT_F32), "wide again");
  graft_plan *plan = run(t, graph);
  double worst = 0;
  for (int i = 0; i < N; ++i) worst = fmax(worst, fabs((double)t->result[i] - t->x[i]));
  check(plan != NULL && worst <= 4.0 / 254 * 1.001, "blocks keep values to half a step of the scale");
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
}

int main(int argc, char **argv) {
  static test t;
  graft_error error = {0};
  const graft_context_options options = {.struct_size = sizeof options};
  for (int i = 0; i < N; ++i) t.x[i] = (float)(i % 81) / 10 - 4, t.y[i] = (float)(i % 7) - 3;
  if (argc != 2 || graft_context_create(&options, &error, &t.context) != GRAFT_OK) {
    fprintf(stderr, "usage: test_acme PLUGIN\n%s\n", error.message);
    return 2;
  }
  graft_status status = graft_plugin_load(t.context, argv[1], NULL);
  if (status == GRAFT_OK) status = graft_device_open(t.context, "cpu", &t.device);
  if (status != GRAFT_OK) {
    fprintf(stderr, "%s\n", graft_context_error(t.context)->message);
    graft_context_destroy(t.context);
    return 2;
  }
  test_fusion(&t);
  test_blocks(&t);
  graft_context_destroy(t.context);
  return n_failures > 0;
}
