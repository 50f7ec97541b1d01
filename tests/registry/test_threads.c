// Contexts are independent: some threads register and unregister in theirs while others build graphs in theirs.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "mock.h"

enum { N_THREADS = 4, N_ROUNDS = 60 };

// Checks of cmocka belong to the main thread; a worker returns whether all went well.
static bool change_registry(graft_context *context) {
  graft_extension more = {.struct_size = sizeof more,
                          .abi_version = GRAFT_ABI_VERSION,
                          .name = "more",
                          .vendor = "mock",
                          .kernels = &mock_kernel,
                          .n_kernels = 1};
  return graft_context_register(context, &more) == GRAFT_OK && graft_context_find_kernel(context, "mock_add") != NULL &&
         graft_context_unregister(context, &more) == GRAFT_OK;
}

static bool build_graph(graft_context *context) {
  graft_graph *graph;
  graft_tensor_desc desc;
  if (graft_graph_create(context, &graph) != GRAFT_OK) return false;
  if (graft_tensor_desc_init(GRAFT_BF16, 2, (int64_t[]){3, 5}, NULL, &desc) != GRAFT_OK) return false;
  graft_tensor *x = graft_graph_input(graph, "x", &desc), *inputs[] = {x, x}, *y;
  for (int i = 0; i < 20; ++i) {
    graft_graph_apply(graph, "mock.add.v1", NULL, 0, inputs, 2, &y);
    inputs[i % 2] = y;
  }
  bool is_good = graft_graph_status(graph) == GRAFT_OK && graft_graph_verify(graph, NULL) == GRAFT_OK;
  graft_context_log(context, GRAFT_LOG_DEBUG, "dropped");
  graft_graph_destroy(graph);
  return is_good;
}

typedef struct worker {
  bool (*round)(graft_context *context);
  graft_context *context;
  bool is_good;
} worker;

static void *work(void *argument) {
  worker *self = argument;
  self->is_good = true;
  for (int i = 0; i < N_ROUNDS; ++i) self->is_good &= self->round(self->context);
  return NULL;
}

static void contexts_do_not_disturb_each_other(void **state) {
  (void)state;
  pthread_t threads[N_THREADS];
  worker workers[N_THREADS];
  for (int i = 0; i < N_THREADS; ++i) {
    workers[i] = (worker){i % 2 == 0 ? change_registry : build_graph, mock_context(), false};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < N_THREADS; ++i) {
    pthread_join(threads[i], NULL);
    assert_true(workers[i].is_good);
    graft_context_destroy(workers[i].context);
  }
}

static void count_line(void *user, graft_log_level level, const char *line) {
  (void)level, (void)line;
  ++*(int *)user;  // not atomic: the context promises one call at a time
}

static void *write_lines(void *context) {
  for (int i = 0; i < N_ROUNDS; ++i) graft_context_log(context, GRAFT_LOG_ERROR, "line %d", i);
  return NULL;
}

static void log_sink_is_called_by_one_thread_at_a_time(void **state) {
  (void)state;
  int n_lines = 0;
  graft_context_options options = {.struct_size = sizeof options, .log = count_line, .log_user = &n_lines};
  graft_context *context;
  pthread_t threads[N_THREADS];
  assert_int_equal(graft_context_create(&options, NULL, &context), GRAFT_OK);
  for (int i = 0; i < N_THREADS; ++i) assert_int_equal(pthread_create(&threads[i], NULL, write_lines, context), 0);
  for (int i = 0; i < N_THREADS; ++i) pthread_join(threads[i], NULL);
  assert_int_equal(n_lines, N_THREADS * N_ROUNDS);
  graft_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contexts_do_not_disturb_each_other),
      cmocka_unit_test(log_sink_is_called_by_one_thread_at_a_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
