#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_targets.h"
#include "graft/graft.h"
#include "graft/serialize.h"

enum { MAX_PLANNED_NODES = 32 };

// Any constant is there; nothing reads its bytes before a plan that runs is made.
static graft_status find_constant(void *user, const char *name, const graft_tensor_desc *desc, graft_error *error,
                                  graft_constant *out_constant) {
  static const char bytes[64];
  (void)user;
  (void)name;
  (void)error;
  out_constant->data = bytes;
  out_constant->bytes = graft_tensor_desc_bytes(desc);
  return GRAFT_OK;
}

typedef struct text {
  char *bytes;
  size_t n, capacity;
} text;

static graft_status append(void *user, const char *piece, size_t size) {
  text *t = user;
  if (t->n + size > t->capacity) {
    t->capacity = 2 * (t->n + size);
    t->bytes = realloc(t->bytes, t->capacity);
    if (t->bytes == NULL) abort();
  }
  memcpy(t->bytes + t->n, piece, size);
  t->n += size;
  return GRAFT_OK;
}

static text save(const graft_graph *graph) {
  text t = {0};
  if (graft_graph_save(graph, (graft_writer){append, &t}) != GRAFT_OK) abort();
  return t;
}

static void check(graft_context *context, const graft_graph *graph) {
  const graft_graph_source source = {.struct_size = sizeof source, .find_constant = find_constant};
  graft_error error = {0};
  graft_graph *again = NULL;
  if (graft_graph_verify(graph, &error) != GRAFT_OK) abort();
  text first = save(graph);
  if (graft_graph_load(context, first.bytes, first.n, &source, &again) != GRAFT_OK) abort();
  text second = save(again);
  if (first.n != second.n || memcmp(first.bytes, second.bytes, first.n) != 0) abort();
  graft_device *device = NULL;
  if (graft_device_open(context, "cpu", &device) != GRAFT_OK) abort();
  const graft_plan_options options = {
      .struct_size = sizeof options, .device = device, .flags = GRAFT_PLAN_MEASURE_ONLY};
  graft_plan *plan = NULL;
  if (graft_graph_n_nodes(graph) <= MAX_PLANNED_NODES && graft_plan_create(again, &options, &plan) != GRAFT_OK &&
      graft_context_error(context)->message[0] == '\0')
    abort();
  graft_plan_destroy(plan);
  graft_graph_destroy(again);
  free(first.bytes);
  free(second.bytes);
}

int fuzz_graph(const uint8_t *data, size_t size) {
  const graft_context_options options = {.struct_size = sizeof options, .n_threads = 1, .ignore_environment = true};
  const graft_graph_source source = {.struct_size = sizeof source, .find_constant = find_constant};
  graft_context *context = NULL;
  graft_graph *graph = NULL;
  if (graft_context_create(&options, NULL, &context) != GRAFT_OK) abort();
  graft_status status = graft_graph_load(context, (const char *)data, size, &source, &graph);
  if (status == GRAFT_OK) check(context, graph);
  else if (graft_context_error(context)->message[0] == '\0') abort();
  graft_graph_destroy(graph);
  graft_context_destroy(context);
  return 0;
}
