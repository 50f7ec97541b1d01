// The shipped model planned for a CUDA device, against doubles of the driver and of cublasLt: every step has a kernel
// of the device's own, whatever the type, and computes with the type's activations.
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "graft/diffusion.h"
#include "graft/graft.h"
#include "testing/device_peak.h"

static void (*fail_product)(int type, int status);

static graft_context *open_context(graft_device **out_device) {
  char devices[600];
  graft_context *context = NULL;
  snprintf(devices, sizeof devices, "cuda library=%s", FAKE_LIBCUDA);
  const graft_context_options options = {
      .struct_size = sizeof options, .devices = devices, .ignore_environment = true, .n_threads = 1};
  assert_int_equal(graft_context_create(&options, NULL, &context), GRAFT_OK);
  assert_int_equal(graft_device_open(context, "cuda:0", out_device), GRAFT_OK);
  return context;
}

static void check_status(const graft_context *context, graft_status status) {
  if (status != GRAFT_OK) fail_msg("%s", graft_context_error(context)->message);
}

static void check_step(const graft_step_info *step) {
  if (step->kernel == NULL || step->kernel->op == NULL || strcmp(step->kernel->backend, "cuda") != 0)
    fail_msg("%s: no CUDA kernel, because %s", step->op->name,
             step->rejections != NULL ? step->rejections : "of nothing");
}

typedef struct count {
  int n_steps, n_f32_products;  // linear layers and convolutions with f32 results
  int n_i8;                     // int8 products
  int n_i8_f32;                 // those with f32 results
  int n_swiglu;                 // as steps of their own
} count;

static bool is_product(const char *op) {
  return strncmp(op, "graft.linear.", 13) == 0 || strncmp(op, "graft.conv2d.", 13) == 0 ||
         strncmp(op, "graft.scaled_dot", 16) == 0;
}

static void look_at(const graft_plan *plan, count *c) {
  for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) {
    graft_step_info step = {.struct_size = sizeof step};
    graft_plan_step(plan, i, &step);
    check_step(&step);
    const bool is_f32 = step.outputs[0]->dtype == GRAFT_F32, is_i8 = strcmp(step.op->name, "graft.linear_i8.v1") == 0;
    ++c->n_steps;
    c->n_i8 += is_i8;
    c->n_i8_f32 += is_i8 && is_f32;
    c->n_swiglu += strcmp(step.op->name, "graft.swiglu.v1") == 0;
    c->n_f32_products += is_product(step.op->name) && is_f32;
  }
}

static count plan_all(graft_weight_type type) {
  graft_device *device = NULL;
  graft_context *context = open_context(&device);
  graft_pipeline *pipeline = NULL;
  count c = {0};
  const graft_pipeline_options options = {.struct_size = sizeof options, .device = device, .type = type};
  check_status(context, graft_pipeline_open(context, SHIPPED_MODEL, &options, &pipeline));
  for (int i = 0; i < GRAFT_N_STAGES; ++i) {
    const graft_stage_request request = {.struct_size = sizeof request, .stage = (graft_pipeline_stage)i};
    const graft_plan_options plan_options = {.struct_size = sizeof plan_options, .device = device};
    graft_graph *graph = NULL;
    graft_plan *plan = NULL;
    check_status(context, graft_pipeline_stage_graph(pipeline, &request, &graph));
    check_status(context, graft_plan_create(graph, &plan_options, &plan));
    look_at(plan, &c);
    graft_plan_destroy(plan);
    graft_graph_destroy(graph);
  }
  graft_pipeline_close(pipeline);
  graft_context_destroy(context);
  return c;
}

static void float32_has_kernels_for_everything(void **state) {
  (void)state;
  const count c = plan_all(GRAFT_WEIGHT_AS_STORED);
  assert_true(c.n_steps > 200 && c.n_f32_products > 50);
  assert_int_equal(c.n_i8, 0);
}

static void half_has_kernels_for_everything(void **state) {
  (void)state;
  static const graft_weight_type types[] = {GRAFT_WEIGHT_BF16, GRAFT_WEIGHT_F16};
  for (int i = 0; i < 2; ++i) {
    const count c = plan_all(types[i]);
    assert_true(c.n_steps > 200);
    assert_int_equal(c.n_f32_products, 0);
    // Behind products of 16 bits, not in them, where it would meet float32 sums in memory.
    assert_true(c.n_swiglu > 8);
  }
}

static void int8_has_kernels_for_everything(void **state) {
  (void)state;
  static const graft_weight_type types[] = {GRAFT_WEIGHT_INT8_CONVROT, GRAFT_WEIGHT_INT8};
  for (int i = 0; i < 2; ++i) {
    const count c = plan_all(types[i]);
    assert_true(c.n_i8 > 60);
    assert_int_equal(c.n_i8_f32, 0);
    assert_int_equal(c.n_f32_products, 0);
  }
}

static void peaks_are_measured(void **state) {
  (void)state;
  graft_device *device = NULL;
  graft_context *context = open_context(&device);
  graft_device_peaks peaks;
  graft_error error = {0};
  if (graft_device_peaks_measure(device, 1 << 20, 64, &error, &peaks) != GRAFT_OK) fail_msg("%s", error.message);
  assert_true(peaks.copy_gbytes > 0);
  for (int i = 0; i < GRAFT_N_PRODUCTS; ++i) assert_true(peaks.teraops[i] > 0);
  graft_context_destroy(context);
}

// Only what is not there is missing.
static void what_fails_is_no_missing_peak(void **state) {
  (void)state;
  enum { R_8I = 3, R_8F_E4M3 = 28, ARCH_MISMATCH = 8, INTERNAL_ERROR = 14, NOT_SUPPORTED = 15, NOT_INITIALIZED = 1 };
  static const struct {
    int type, result, product;
    graft_status status;
  } cases[] = {{R_8F_E4M3, NOT_SUPPORTED, GRAFT_PRODUCT_F8, GRAFT_OK},
               {R_8F_E4M3, INTERNAL_ERROR, GRAFT_PRODUCT_F8, GRAFT_E_DEVICE},
               {R_8I, ARCH_MISMATCH, GRAFT_PRODUCT_I8, GRAFT_OK},
               {R_8I, INTERNAL_ERROR, GRAFT_PRODUCT_I8, GRAFT_E_DEVICE},
               {-1, NOT_INITIALIZED, 0, GRAFT_E_DEVICE}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    graft_device *device = NULL;
    graft_context *context = open_context(&device);
    graft_device_peaks peaks;
    graft_error error = {0};
    fail_product(cases[i].type, cases[i].result);
    assert_int_equal(graft_device_peaks_measure(device, 1 << 20, 64, &error, &peaks), cases[i].status);
    assert_int_equal(error.message[0] != '\0', cases[i].status != GRAFT_OK);
    for (int k = 0; k < GRAFT_N_PRODUCTS && cases[i].status == GRAFT_OK; ++k)
      assert_int_equal(peaks.teraops[k] > 0, k != cases[i].product);
    fail_product(-1, 0);
    graft_context_destroy(context);
  }
}

int main(void) {
  // The backend asks for the library by this name, and is given what is there already.
  void *library = dlopen(FAKE_CUBLASLT, RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) return 1;
  *(void **)&fail_product = dlsym(library, "fake_cublaslt_fail");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(float32_has_kernels_for_everything), cmocka_unit_test(half_has_kernels_for_everything),
      cmocka_unit_test(int8_has_kernels_for_everything),    cmocka_unit_test(peaks_are_measured),
      cmocka_unit_test(what_fails_is_no_missing_peak),
  };
  return cmocka_run_group_tests_name("cuda_models", tests, NULL, NULL);
}
