#include "cuda_session.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "cuda_layer.h"

extern const graft_extension graft_extension_cpu_backend, graft_extension_cuda_backend;

bool cuda_double_find(cuda_double *out_double) {
  void *library = dlopen(FAKE_LIBCUDA, RTLD_NOW);
  if (library == NULL) return false;
  *(void **)&out_double->reset = dlsym(library, "fake_cuda_reset");
  *(void **)&out_double->get_counts = dlsym(library, "fake_cuda_get_counts");
  *(void **)&out_double->set_memory = dlsym(library, "fake_cuda_set_memory");
  *(void **)&out_double->lack = dlsym(library, "fake_cuda_lack");
  *(void **)&out_double->limit_pinning = dlsym(library, "fake_cuda_limit_pinning");
  *(void **)&out_double->begin_capture = dlsym(library, "cuStreamBeginCapture_v2");
  *(void **)&out_double->end_capture = dlsym(library, "cuStreamEndCapture");
  *(void **)&out_double->destroy_graph = dlsym(library, "cuGraphDestroy");
  *(void **)&out_double->on_capture = dlsym(library, "fake_cuda_on_capture");
  *(void **)&out_double->synchronize_context = dlsym(library, "cuCtxSynchronize");
  return true;
}

static void note(void *user, graft_log_level level, const char *line) {
  cuda_session *s = user;
  if (level > GRAFT_LOG_WARNING) return;
  ++s->n_warnings;
  snprintf(s->warning, sizeof s->warning, "%s", line);
}

void cuda_session_open(const char *words, cuda_session *s) {
  char devices[600];
  snprintf(devices, sizeof devices, "cuda library=%s %s", FAKE_LIBCUDA, words);
  const graft_context_options options = {.struct_size = sizeof options,
                                         .devices = devices,
                                         .ignore_environment = true,
                                         .n_threads = 1,
                                         .log_level = GRAFT_LOG_WARNING,
                                         .log = note,
                                         .log_user = s,
                                         .without_builtins = true};
  *s = (cuda_session){0};
  assert_int_equal(graft_context_create(&options, NULL, &s->context), GRAFT_OK);
  assert_int_equal(graft_context_register(s->context, &graft_extension_cpu_backend), GRAFT_OK);
  assert_int_equal(graft_context_register(s->context, &graft_extension_cuda_backend), GRAFT_OK);
  assert_int_equal(graft_context_register(s->context, &cuda_layer_extension), GRAFT_OK);
}

graft_status cuda_session_open_devices(const char *words, cuda_session *s) {
  GRAFT_TRY(graft_device_open(s->context, "cpu", &s->cpu));
  GRAFT_TRY(graft_device_open(s->context, "cuda:0", &s->gpu));
  return strstr(words, "virtual=2") != NULL ? graft_device_open(s->context, "cuda:1", &s->second) : GRAFT_OK;
}

void cuda_session_close(cuda_session *s) {
  if (s->graph != NULL) graft_graph_destroy(s->graph);
  graft_context_destroy(s->context);
}

void cuda_session_build(cuda_session *s, const cuda_layers *layers) {
  graft_tensor_desc desc;
  const int64_t shape[] = {layers->rows, layers->columns};
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 2, shape, NULL, &desc), GRAFT_OK);
  assert_int_equal(graft_graph_create(s->context, &s->graph), GRAFT_OK);
  graft_tensor *value = graft_graph_input(s->graph, "x", &desc);
  for (int i = 0; i < layers->n; ++i) {
    const graft_constant data = {
        .struct_size = sizeof data, .data = layers->weights_of(i), .bytes = graft_tensor_desc_bytes(&desc)};
    const int64_t work = layers->work != NULL ? layers->work[i] : 1;
    const cuda_layer_attrs attrs = {.factor = 0.5 + i, .work = work, .packs = i % 4 == 0};
    graft_tensor *const inputs[] = {value, graft_graph_constant(s->graph, "w", &desc, &data)};
    graft_graph_apply(s->graph, "tests.layer.v1", &attrs, sizeof attrs, inputs, 2, &value);
  }
  graft_graph_output(s->graph, value, "y");
  assert_int_equal(graft_graph_status(s->graph), GRAFT_OK);
}

graft_plan *cuda_session_plan(const cuda_session *s, graft_plan_options options) {
  graft_plan *plan = NULL;
  options.struct_size = sizeof options;
  if (graft_plan_create(s->graph, &options, &plan) != GRAFT_OK)
    fail_msg("%s", graft_context_error(s->context)->message);
  return plan;
}

graft_status cuda_session_run(graft_plan *plan, const void *x, void *y, size_t bytes) {
  GRAFT_TRY(graft_plan_write(plan, 0, x, bytes));
  GRAFT_TRY(graft_plan_run(plan, NULL));
  return graft_plan_read(plan, 0, y, bytes);
}
