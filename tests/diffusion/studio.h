// studio.h — a tiny model opened and ready to generate, for tests of the pipeline.
#ifndef GRAFT_TESTS_DIFFUSION_STUDIO_H
#define GRAFT_TESTS_DIFFUSION_STUDIO_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graft/diffusion.h"
#include "tiny_model.h"

typedef struct studio {
  temp_folder folder;
  graft_context *context;
  graft_pipeline *pipeline;
} studio;

// |n_threads| 0: as many as there are cores.
static inline studio studio_open(int32_t n_threads) {
  studio s = {.folder = temp_folder_create()};
  const graft_context_options options = {.struct_size = sizeof options, .n_threads = n_threads};
  tiny_model_write(&s.folder, NULL);
  assert_int_equal(graft_context_create(&options, NULL, &s.context), GRAFT_OK);
  if (graft_pipeline_open(s.context, s.folder.path, NULL, &s.pipeline) != GRAFT_OK)
    fail_msg("%s", graft_context_error(s.context)->message);
  return s;
}

static inline void studio_close(studio *s) {
  graft_pipeline_close(s->pipeline);
  graft_context_destroy(s->context);
  temp_folder_remove(&s->folder);
}

static inline graft_generate_request studio_request(const studio *s) {
  graft_generate_request request = {.struct_size = sizeof request};
  graft_generate_request_init(s->pipeline, &request);
  request.prompt = "a cat";
  return request;
}

static inline const char *studio_message(const studio *s) {
  return graft_context_error(s->context)->message;
}

static inline graft_generate_result studio_generate(studio *s, const graft_generate_request *request,
                                                    const graft_generate_callbacks *callbacks) {
  graft_generate_result result = {.struct_size = sizeof result};
  if (graft_pipeline_generate(s->pipeline, request, callbacks, &result) != GRAFT_OK) fail_msg("%s", studio_message(s));
  return result;
}

#endif
