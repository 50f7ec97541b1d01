// The plug-in on a GPU: its kernels are chosen and fused, and replays give what ordinary runs give. With a second
// argument, a library that stands in for the driver and computes nothing, all but the numbers is looked at. Ends with
// 77 where there is no GPU.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <graft/cuda.h>
#include <graft/graft.h>
#include <graft/ops.h>

enum { ROWS = 37, WIDTH = 65, N = ROWS * WIDTH, N_RUNS = 4, SKIPPED = 77 };

static int n_failures;

static void check(bool is_right, const char *what) {
  printf("%s %s\n", is_right ? "ok  " : "FAIL", what);
  n_failures += !is_right;
}

static float x[N], y[N], result[N];

static double hardswish(double v) {
  return v * fmin(fmax(v + 3, 0), 6) / 6;
}

static double worst_difference(void) {
  double worst = 0;
  for (int i = 0; i < N; ++i) worst = fmax(worst, fabs(result[i] - hardswish(x[i]) * y[i]));
  return worst;
}

static graft_plan *plan_product(graft_context *context, graft_device *device) {
  graft_graph *graph = NULL;
  graft_plan *plan = NULL;
  graft_tensor_desc desc;
  if (graft_tensor_desc_init(GRAFT_F32, 2, (int64_t[]){ROWS, WIDTH}, NULL, &desc) != GRAFT_OK) return NULL;
  if (graft_graph_create(context, &graph) != GRAFT_OK) return NULL;
  graft_tensor *a = graft_graph_input(graph, "x", &desc), *b = graft_graph_input(graph, "y", &desc), *h = NULL;
  graft_graph_apply(graph, "acme.hardswish.v1", NULL, 0, &a, 1, &h);
  graft_graph_output(graph, graft_mul(graph, h, b), "product");
  const graft_plan_options options = {.struct_size = sizeof options, .device = device};
  if (graft_plan_create(graph, &options, &plan) != GRAFT_OK)
    fprintf(stderr, "%s\n", graft_context_error(context)->message);
  graft_graph_destroy(graph);
  return plan;
}

// Several runs: the first is an ordinary one, the second captures, the others replay.
static void run_all(graft_plan *plan, bool has_numbers) {
  for (int run = 0; run < N_RUNS; ++run) {
    for (int i = 0; i < N; ++i) x[i] = (float)((i + run) % 81) / 10 - 4, y[i] = (float)(i % 7) - 3;
    graft_status status = graft_plan_write(plan, 0, x, sizeof x);
    if (status == GRAFT_OK) status = graft_plan_write(plan, 1, y, sizeof y);
    if (status == GRAFT_OK) status = graft_plan_run(plan, NULL);
    if (status == GRAFT_OK) status = graft_plan_read(plan, 0, result, sizeof result);
    check(status == GRAFT_OK, "the plan runs");
    if (has_numbers) check(worst_difference() < 1e-5, "hardswish(x) * y is right");
  }
}

static void test_product(graft_context *context, graft_device *device, bool has_numbers) {
  graft_plan *plan = plan_product(context, device);
  check(plan != NULL, "the device takes the plug-in's kernels");
  if (plan == NULL) return;
  graft_step_info step = {.struct_size = sizeof step};
  graft_plan_step(plan, 0, &step);
  check(graft_plan_n_steps(plan) == 1 && strcmp(step.kernel->name, "acme_hardswish_mul_f32__cuda") == 0,
        "hardswish(x) * y is one step of the plug-in's kernel");
  run_all(plan, has_numbers);
  graft_plan_destroy(plan);
}

static void test_services(const graft_device *device) {
  static const char *const names[] = {GRAFT_CUDA_CONTEXT_SERVICE, GRAFT_CUDA_DEVICE_SERVICE, GRAFT_GPU_CONTEXT_SERVICE,
                                      GRAFT_GPU_DEVICE_SERVICE};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    const graft_cuda_context_service *service = graft_device_service(device, names[i]);
    check(service != NULL && service->describe(device)->warp_size == 32, names[i]);
  }
  check(graft_device_service(device, GRAFT_CUDA_BLAS_SERVICE) != NULL, GRAFT_CUDA_BLAS_SERVICE);
  check(graft_device_service(device, "cuda.context.v9") == NULL, "services that are not there are NULL");
}

int main(int argc, char **argv) {
  graft_context *context = NULL;
  graft_device *device = NULL;
  graft_error error = {0};
  char words[600] = "";
  const bool has_double = argc == 3;
  if (has_double) snprintf(words, sizeof words, "cuda library=%s", argv[2]);
  const graft_context_options options = {.struct_size = sizeof options, .devices = words};
  if (argc < 2 || graft_context_create(&options, &error, &context) != GRAFT_OK) {
    fprintf(stderr, "usage: test_acme_cuda PLUGIN [DRIVER]\n%s\n", error.message);
    return 2;
  }
  int code = 2;
  if (graft_plugin_load(context, argv[1], NULL) != GRAFT_OK) {
    fprintf(stderr, "%s\n", graft_context_error(context)->message);
  } else if (graft_device_open(context, "cuda:0", &device) != GRAFT_OK) {
    fprintf(stderr, "%s\n", graft_context_error(context)->message);
    code = has_double ? 2 : SKIPPED;
  } else {
    test_services(device);
    test_product(context, device, !has_double);
    code = n_failures > 0;
  }
  graft_context_destroy(context);
  return code;
}
