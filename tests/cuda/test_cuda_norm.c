// How norms are planned on cards with more and with less shared memory, against a double of the driver.
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "fake_libcuda.h"
#include "graft/graft.h"
#include "ops/layer_norm/layer_norm.h"

enum { TURING_BYTES = 64 << 10, ROWS = 3 };

static fake_cuda_reset_fn reset;
static fake_cuda_counts_fn get_counts;
static fake_cuda_share_fn share;

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

static void plan_norm(graft_context *context, graft_device *device, graft_dtype dtype, int64_t width) {
  graft_tensor_desc x_desc, vector_desc;
  graft_graph *graph = NULL;
  graft_plan *plan = NULL;
  const int64_t shape[] = {ROWS, width};
  assert_int_equal(graft_tensor_desc_init(dtype, 2, shape, NULL, &x_desc), GRAFT_OK);
  assert_int_equal(graft_tensor_desc_init(dtype, 1, &width, NULL, &vector_desc), GRAFT_OK);
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  graft_tensor *x = graft_graph_input(graph, "x", &x_desc), *weight = graft_graph_input(graph, "weight", &vector_desc),
               *bias = graft_graph_input(graph, "bias", &vector_desc);
  graft_graph_output(graph, graft_layer_norm(graph, x, weight, bias, 1e-5), "y");
  const graft_plan_options options = {.struct_size = sizeof options, .device = device};
  if (graft_plan_create(graph, &options, &plan) != GRAFT_OK) fail_msg("%s", graft_context_error(context)->message);
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
}

// Of the longest rows that are held, weights and biases take all of a small card's shared memory, of which the sums
// need some, too: there such rows are read several times.
static void rows_are_planned_with_little_shared_memory(void **state) {
  (void)state;
  const int cards[] = {TURING_BYTES, 99 << 10, 227 << 10};
  const int64_t widths[] = {4096, 4104, 8192, 8200};
  const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_BF16, GRAFT_F16};
  for (int i = 0; i < 3; ++i) {
    graft_device *device = NULL;
    reset(0, 0);
    share(cards[i]);
    graft_context *context = open_context(&device);
    for (int k = 0; k < 3; ++k) {
      for (int w = 0; w < 4; ++w) plan_norm(context, device, dtypes[k], widths[w]);
    }
    graft_context_destroy(context);
    assert_int_equal(get_counts().live_objects, 0);
    assert_int_equal(get_counts().hazards, 0);
  }
}

int main(void) {
  void *library = dlopen(FAKE_LIBCUDA, RTLD_NOW);
  if (library == NULL) return 1;
  *(void **)&reset = dlsym(library, "fake_cuda_reset");
  *(void **)&get_counts = dlsym(library, "fake_cuda_get_counts");
  *(void **)&share = dlsym(library, "fake_cuda_share");
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_planned_with_little_shared_memory)};
  return cmocka_run_group_tests_name("cuda_norm", tests, NULL, NULL);
}
