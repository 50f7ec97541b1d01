// The smallest whole program: a context, a graph of two operators, a plan, a run.
#include <stdio.h>

#include <graft/graft.h>
#include <graft/ops.h>

// y = softmax(x · wᵀ)
static graft_status build(graft_context *context, const float *w, graft_graph **out_graph) {
  graft_graph *graph = NULL;
  graft_tensor_desc x_desc, w_desc;
  GRAFT_TRY(graft_tensor_desc_init(GRAFT_F32, 2, (int64_t[]){1, 3}, NULL, &x_desc));
  GRAFT_TRY(graft_tensor_desc_init(GRAFT_F32, 2, (int64_t[]){4, 3}, NULL, &w_desc));
  GRAFT_TRY(graft_graph_create(context, &graph));
  graft_tensor *x = graft_graph_input(graph, "x", &x_desc);
  graft_tensor *weight = graft_graph_constant(
      graph, "w", &w_desc,
      &(graft_constant){.struct_size = sizeof(graft_constant), .data = w, .bytes = 12 * sizeof *w});
  graft_tensor *y = graft_softmax(graph, graft_linear(graph, x, weight, graft_graph_none()));
  graft_graph_output(graph, y, "y");
  graft_status status = graft_graph_status(graph);  // the first failure of the lines above, if any
  if (status == GRAFT_OK) *out_graph = graph;
  if (status != GRAFT_OK) graft_graph_destroy(graph);
  return status;
}

static graft_status run(graft_context *context, const graft_graph *graph) {
  const float x[3] = {1, 2, 3};
  float y[4];
  graft_device *device = NULL;
  graft_plan *plan = NULL;
  GRAFT_TRY(graft_device_open(context, "cpu", &device));
  graft_plan_options options = {.struct_size = sizeof options, .device = device};
  GRAFT_TRY(graft_plan_create(graph, &options, &plan));
  graft_status status = graft_plan_write(plan, 0, x, sizeof x);
  if (status == GRAFT_OK) status = graft_plan_run(plan, NULL);
  if (status == GRAFT_OK) status = graft_plan_read(plan, 0, y, sizeof y);
  graft_plan_destroy(plan);
  if (status == GRAFT_OK) printf("softmax(x w) = %.4f %.4f %.4f %.4f\n", y[0], y[1], y[2], y[3]);
  return status;
}

int main(void) {
  const float w[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 0.5f, 0.5f, 0.5f};
  graft_error error = {0};
  graft_context *context = NULL;
  graft_graph *graph = NULL;
  if (graft_context_create(NULL, &error, &context) != GRAFT_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  graft_status status = build(context, w, &graph);
  if (status == GRAFT_OK) status = run(context, graph);
  if (status != GRAFT_OK) fprintf(stderr, "%s\n", graft_context_error(context)->message);
  graft_graph_destroy(graph);
  graft_context_destroy(context);
  return status == GRAFT_OK ? 0 : 1;
}
