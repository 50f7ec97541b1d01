// golden.h — comparing with tensors that the reference implementation gave.
#ifndef GRAFT_TESTS_GOLDEN_GOLDEN_H
#define GRAFT_TESTS_GOLDEN_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "diffusion/model.h"
#include "formats/json.h"
#include "graft/diffusion.h"

// A context and device; the test fails when there is none.
typedef struct golden {
  graft_context *context;
  graft_device *device;
} golden;

golden golden_open(void);
void golden_close(golden *g);

// Fails the test with the error record's sentence unless |status| is GRAFT_OK.
void golden_check(const golden *g, graft_status status);

// "folder/emoji-zimage/cat.safetensors" below the golden folder. Closed with graft_weights_close.
graft_weights *golden_weights(const char *name);
graft_json *golden_json(const char *text);

// The tensor |name| as f32 or i32 values; the test fails when it is not there. Borrowed from |weights|.
const graft_safetensors_tensor *golden_tensor(const graft_weights *weights, const char *name);

// ‖got - want‖ / ‖want‖ over |n| values; infinite where something is no number.
double golden_error(const float *got, const float *want, size_t n);

// What is shown of a picture's sample, 0 … 1, and the peak signal to noise ratio in dB of two pictures so shown.
double golden_shown(float sample);
double golden_psnr(const float *got, const float *want, size_t n);

// Prints the error and fails the test when it is above |bound|.
void golden_expect(const char *what, const float *got, const float *want, size_t n, double bound);

// A graph that was built, made a plan. |status| is what graft_model_finish said.
typedef struct golden_plan {
  graft_graph *graph;
  graft_plan *plan;
} golden_plan;

golden_plan golden_plan_open(const golden *g, graft_model *model);
void golden_plan_close(golden_plan *plan);
void golden_write(const golden *g, const golden_plan *plan, const char *input, const void *data);
void golden_run(const golden *g, const golden_plan *plan);
// The output's values; the caller frees them. |out_n| may be NULL.
float *golden_read(const golden *g, const golden_plan *plan, const char *output, size_t *out_n);

#endif
