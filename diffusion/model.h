// model.h — what graph builders share: finding weights by name, checking their shapes, and the layers made of them.
//
// A builder is written as plain expressions (graph.h: failures stick) and ended with graft_model_finish, which reports
// missing tensors by name before anything that went wrong because of them.
//
//   graft_model model;
//   graft_model_init(&model, graph, weights, "");
//   graft_model_push(&model, "layers.%d", i);               // weights are "layers.0.…", plans say "layers.0.…"
//   x = graft_model_linear(&model, x, "to_q", (graft_model_size){n_in, n_out});
//   graft_model_pop(&model);
//   return graft_model_finish(&model);
#ifndef GRAFT_DIFFUSION_MODEL_H
#define GRAFT_DIFFUSION_MODEL_H

#include "diffusion/weight_source.h"
#include "graft/context.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"

enum {
  GRAFT_MODEL_MAX_DEPTH = 8,
  GRAFT_MODEL_MAX_NAME = GRAFT_WEIGHT_MAX_NAME,
  GRAFT_MODEL_LISTED_MISSING = 4,
  GRAFT_MODEL_KEPT_QUANTIZED = 16,
};

// An activation that was quantised, for all layers that read it.
typedef struct graft_model_quantized {
  graft_tensor *x;
  int64_t group;
  graft_tensor *packed;
} graft_model_quantized;

typedef struct graft_model {
  graft_graph *graph;
  graft_weight_source source;
  graft_dtype dtype;                                            // of activations: what layers take and give
  graft_model_quantized quantized[GRAFT_MODEL_KEPT_QUANTIZED];  // last used first
  char name[GRAFT_MODEL_MAX_NAME];                              // prefix and open scopes, each ended by a dot
  uint32_t lengths[GRAFT_MODEL_MAX_DEPTH];
  uint32_t depth;
  uint32_t n_missing;
  char missing[GRAFT_MODEL_LISTED_MISSING][GRAFT_MODEL_MAX_NAME];
} graft_model;

// |prefix| stands before every tensor's name in the file: "" or for example "model.". All are borrowed but |prefix|.
void graft_model_init(graft_model *model, graft_graph *graph, const graft_weights *weights, const char *prefix);

// The same with weights that are named otherwise, quantised or to be converted.
void graft_model_init_source(graft_model *model, graft_graph *graph, const graft_weight_source *source,
                             const char *prefix);

// Opens and closes a scope of names, in the file and in the graph.
void graft_model_push(graft_model *model, const char *format, ...) GRAFT_PRINTF(2, 3);
void graft_model_pop(graft_model *model);

// Whether the tensor is in the file.
bool graft_model_has(const graft_model *model, const char *name);

// Size of dimension |axis| of a tensor whose size no configuration tells; 1 and a recorded failure where there is none.
int64_t graft_model_dim(graft_model *model, const char *name, int32_t axis);

// The weight |name| as a constant of the graph. NULL, and a recorded failure, when it is missing or has another shape.
graft_tensor *graft_model_weight(graft_model *model, const char *name, int32_t rank, const int64_t *shape);
graft_tensor *graft_model_vector(graft_model *model, const char *name, int64_t n);

typedef struct graft_model_size {
  int64_t n_in, n_out;
} graft_model_size;

// x · weightᵀ with `name.weight` [n_out, n_in]; the second also adds `name.bias`. x becomes model->dtype, which the
// result has, too. Quantised weights are used as they are; with int8 ones x is rotated and quantised once for all
// layers that read it.
graft_tensor *graft_model_linear(graft_model *model, graft_tensor *x, const char *name, graft_model_size size);
graft_tensor *graft_model_linear_bias(graft_model *model, graft_tensor *x, const char *name, graft_model_size size);

// Square convolution with `name.weight` [n_out, n_in, kernel, kernel] and `name.bias`, in model->dtype.
typedef struct graft_model_conv {
  int64_t n_in, n_out, kernel, stride;
  int64_t padding[4];  // top, bottom, left, right
} graft_model_conv;
graft_tensor *graft_model_conv2d(graft_model *model, graft_tensor *x, const char *name, const graft_model_conv *conv);

// RMS norm over the last dimension of |n| channels with `name.weight`.
graft_tensor *graft_model_rms_norm(graft_model *model, graft_tensor *x, const char *name, int64_t n, double eps);

// An input of the graph. Returns NULL when the shape is none.
graft_tensor *graft_model_input(graft_model *model, const char *name, graft_dtype dtype, int32_t rank,
                                const int64_t *shape);

// GRAFT_OK, or the first failure, described in the context's error record: GRAFT_E_NOT_FOUND lists missing tensors.
GRAFT_NODISCARD graft_status graft_model_finish(graft_model *model);

#endif
