// capture.h — runs the shipped model as a golden case says and keeps what passes by.
#ifndef GRAFT_TESTS_GOLDEN_CAPTURE_H
#define GRAFT_TESTS_GOLDEN_CAPTURE_H

#include "golden.h"

typedef struct captured {
  char name[48];
  graft_tensor_desc desc;
  void *data;
} captured;

enum { CAPTURE_MAX = 64 };

// Zero-initialise; released with capture_release.
typedef struct capture {
  captured tensors[CAPTURE_MAX];
  size_t n;
  graft_generate_result result;
} capture;

// One of cases.json.
typedef struct golden_case {
  const char *name;
  const char *prompt;
  const char *negative_prompt;
  int32_t width, height;
  double guidance;
} golden_case;

extern const golden_case golden_cases[3];

// Generates with the case's noise out of |reference|. The test fails when that fails.
void capture_run(capture *out, graft_pipeline *pipeline, const golden *g, const golden_case *c,
                 const graft_weights *reference, int32_t n_steps, bool has_blocks);
// The captured tensor; the test fails when there was none.
const captured *capture_find(const capture *c, const char *name);
void capture_release(capture *c);

#endif
