#include "diffusion/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "formats/excerpt.h"
#include "ops/binary/binary.h"
#include "ops/conv2d/conv2d.h"
#include "ops/copy/copy.h"
#include "ops/linear/linear.h"
#include "ops/linear_i8/linear_i8.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/view/view.h"

void graft_model_init(graft_model *model, graft_graph *graph, const graft_weights *weights, const char *prefix) {
  const graft_weight_source source = {.weights = weights};
  graft_model_init_source(model, graph, &source, prefix);
}

void graft_model_init_source(graft_model *model, graft_graph *graph, const graft_weight_source *source,
                             const char *prefix) {
  *model =
      (graft_model){.graph = graph, .source = *source, .dtype = source->activations ? source->activations : GRAFT_F32};
  snprintf(model->name, sizeof model->name, "%s", prefix);
}

void graft_model_push(graft_model *model, const char *format, ...) {
  char scope[64];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(scope, sizeof scope, format, arguments);
  va_end(arguments);
  size_t length = strlen(model->name);
  if (model->depth < GRAFT_MODEL_MAX_DEPTH) model->lengths[model->depth] = (uint32_t)length;
  ++model->depth;
  snprintf(model->name + length, sizeof model->name - length, "%s.", scope);
  graft_graph_scope_push(model->graph, "%s", scope);
}

void graft_model_pop(graft_model *model) {
  if (--model->depth < GRAFT_MODEL_MAX_DEPTH) model->name[model->lengths[model->depth]] = '\0';
  graft_graph_scope_pop(model->graph);
}

typedef struct full_name {
  char text[GRAFT_MODEL_MAX_NAME];
} full_name;

static full_name full_name_of(const graft_model *model, const char *name) {
  full_name full;
  size_t length = strlen(model->name);
  memcpy(full.text, model->name, length + 1);
  snprintf(full.text + length, sizeof full.text - length, "%s", name);
  return full;
}

static full_name suffixed_name(const full_name *layer, const char *suffix) {
  full_name full = *layer;
  const size_t length = strlen(full.text);
  snprintf(full.text + length, sizeof full.text - length, ".%s", suffix);
  return full;
}

static void note_missing(graft_model *model, const char *name) {
  if (model->n_missing < GRAFT_MODEL_LISTED_MISSING)
    snprintf(model->missing[model->n_missing], GRAFT_MODEL_MAX_NAME, "%s", name);
  ++model->n_missing;
}

static bool find(graft_model *model, const char *name, graft_safetensors_tensor *out_tensor) {
  const full_name full = full_name_of(model, name);
  if (graft_weight_source_find(&model->source, full.text, out_tensor)) return true;
  note_missing(model, full.text);
  return false;
}

bool graft_model_has(const graft_model *model, const char *name) {
  graft_safetensors_tensor tensor;
  return graft_weight_source_find(&model->source, full_name_of(model, name).text, &tensor);
}

static const char *origin_of(const graft_model *model) {
  return model->source.made_up ? "made-up weights" : graft_weights_path(model->source.weights);
}

static graft_excerpt path_of(const graft_model *model, const graft_safetensors_tensor *tensor) {
  return graft_excerpt_path(tensor->file ? graft_safetensors_path(tensor->file) : origin_of(model));
}

int64_t graft_model_dim(graft_model *model, const char *name, int32_t axis) {
  graft_safetensors_tensor tensor;
  if (!find(model, name, &tensor)) return 1;
  if (axis < tensor.rank && tensor.shape[axis] > 0) return tensor.shape[axis];
  GRAFT_GRAPH_FAIL(model->graph, GRAFT_E_SHAPE, "%s: the tensor %s has no dimension %d with entries",
                   path_of(model, &tensor).text, graft_excerpt_name(tensor.name).text, axis);
  return 1;
}

// Gives mapped pages back once a kernel keeps a packed copy; that this can fail does not matter then.
static void discard(void *user, const void *data, size_t bytes) {
  if (graft_safetensors_advise(user, data, bytes, GRAFT_SAFETENSORS_DISCARD, NULL) != GRAFT_OK) return;
}

static bool has_shape(const graft_safetensors_tensor *tensor, int32_t rank, const int64_t *shape) {
  bool is_same = tensor->rank == rank;
  for (int32_t d = 0; is_same && d < rank; ++d) is_same = tensor->shape[d] == shape[d];
  return is_same;
}

typedef struct shape_text {
  char text[96];
} shape_text;

static shape_text shape_of(int32_t rank, const int64_t *shape) {
  shape_text out = {"["};
  for (int32_t d = 0; d < rank; ++d) {
    size_t length = strlen(out.text);
    snprintf(out.text + length, sizeof out.text - length, d ? ", %lld" : "%lld", (long long)shape[d]);
  }
  size_t length = strlen(out.text);
  snprintf(out.text + length, sizeof out.text - length, "]");
  return out;
}

static bool check_shape(graft_model *model, const graft_safetensors_tensor *tensor, int32_t rank,
                        const int64_t *shape) {
  if (has_shape(tensor, rank, shape)) return true;
  GRAFT_GRAPH_FAIL(model->graph, GRAFT_E_SHAPE,
                   "%s: the tensor %s should be %s by the model's configuration and is %s in the file",
                   path_of(model, tensor).text, graft_excerpt_name(tensor->name).text, shape_of(rank, shape).text,
                   shape_of(tensor->rank, tensor->shape).text);
  return false;
}

// |tensor| as it is, in memory that may be given back where it is a file's.
static graft_tensor *constant_of(graft_model *model, const graft_safetensors_tensor *tensor, const char *name) {
  graft_error error = {0};
  graft_tensor_desc desc;
  if (graft_tensor_desc_init(tensor->dtype, tensor->rank, tensor->shape, &error, &desc) != GRAFT_OK)
    return GRAFT_GRAPH_FAIL(model->graph, error.status, "%s", error.message);
  const graft_constant constant = {.struct_size = sizeof constant,
                                   .data = tensor->data,
                                   .bytes = tensor->bytes,
                                   .discard = tensor->file ? discard : NULL,
                                   .user = (void *)(uintptr_t)tensor->file};
  return graft_graph_constant(model->graph, name, &desc, &constant);
}

static graft_tensor *float_constant(graft_model *model, const graft_safetensors_tensor *tensor, const char *name) {
  if (!tensor->dtype || !tensor->dtype->is_float)
    return GRAFT_GRAPH_FAIL(model->graph, GRAFT_E_UNSUPPORTED,
                            "%s: the tensor %s is of type %s; a weight must be F32, F16, BF16, F8_E4M3 or F8_E5M2",
                            path_of(model, tensor).text, graft_excerpt_name(tensor->name).text, tensor->dtype_name);
  return constant_of(model, tensor, name);
}

graft_tensor *graft_model_weight(graft_model *model, const char *name, int32_t rank, const int64_t *shape) {
  graft_safetensors_tensor tensor;
  const full_name full = full_name_of(model, name);
  if (!find(model, name, &tensor) || !check_shape(model, &tensor, rank, shape)) return NULL;
  if (graft_weight_source_is_quantized(&model->source, full.text))
    return GRAFT_GRAPH_FAIL(model->graph, GRAFT_E_UNSUPPORTED,
                            "%s: the tensor %s is quantised; graft can use that only in linear layers",
                            path_of(model, &tensor).text, graft_excerpt_name(tensor.name).text);
  return float_constant(model, &tensor, full.text);
}

graft_tensor *graft_model_vector(graft_model *model, const char *name, int64_t n) {
  return graft_model_weight(model, name, 1, &n);
}

static graft_tensor *suffixed(graft_model *model, const char *name, const char *suffix, int32_t rank,
                              const int64_t *shape) {
  char full[GRAFT_MODEL_MAX_NAME];
  snprintf(full, sizeof full, "%s.%s", name, suffix);
  return graft_model_weight(model, full, rank, shape);
}

// x rotated and quantised, once for all layers that ask. In one tensor, so that a kernel that makes x can do it.
static graft_tensor *quantized(graft_model *model, graft_tensor *x, int64_t group) {
  graft_model_quantized *kept = model->quantized;
  size_t i = 0;
  while (i + 1 < GRAFT_MODEL_KEPT_QUANTIZED && !(kept[i].x == x && kept[i].group == group)) ++i;
  graft_model_quantized found = kept[i];
  if (found.x != x || found.group != group || found.packed == NULL) {
    const graft_quantize_convrot_i8_attrs attrs = {.group = group};
    found = (graft_model_quantized){x, group, graft_quantize_convrot_i8_packed(model->graph, x, &attrs)};
  }
  memmove(kept + 1, kept, i * sizeof *kept);
  kept[0] = found;
  return found.packed;
}

// A linear layer on its way into the graph.
typedef struct linear_layer {
  full_name weight_name, scale_name;
  graft_weight_layer found;
  graft_tensor *bias;
} linear_layer;

static graft_tensor *scale_of(graft_model *model, const linear_layer *l) {
  if (!l->found.has_scale) return graft_graph_none();
  return constant_of(model, &l->found.scale, l->scale_name.text);
}

static graft_tensor *linear_i8(graft_model *model, graft_tensor *x, const linear_layer *l, int64_t group) {
  graft_tensor *packed = quantized(model, x, group);
  if (packed == NULL) return NULL;
  const graft_safetensors_tensor *weight = &l->found.weight;
  const graft_linear_i8_inputs inputs = {
      .x = packed,
      .x_scale = graft_graph_none(),
      .weight = l->found.is_quantized ? constant_of(model, weight, l->weight_name.text)
                                      : float_constant(model, weight, l->weight_name.text),
      .weight_scale = scale_of(model, l),
      .bias = l->bias,
  };
  const graft_tensor_desc *desc = graft_tensor_describe(x);
  int64_t shape[GRAFT_MAX_RANK], n_rows = 1;
  for (int32_t d = 0; d + 1 < desc->rank; ++d) n_rows *= shape[d] = desc->shape[d];
  shape[desc->rank - 1] = weight->shape[0];
  const graft_linear_i8_attrs attrs = {.group = group, .y_dtype = model->dtype, .packed_rows = n_rows};
  return graft_reshape(model->graph, graft_linear_i8(model->graph, &inputs, &attrs), desc->rank, shape);
}

// A weight of float8 with a scale: y = (x · weightᵀ) · scale + bias.
static graft_tensor *linear_f8(graft_model *model, graft_tensor *x, const linear_layer *l) {
  graft_tensor *weight = float_constant(model, &l->found.weight, l->weight_name.text);
  graft_tensor *y = graft_linear(model->graph, x, weight, graft_graph_none());
  y = graft_mul(model->graph, y, scale_of(model, l));
  return l->bias == graft_graph_none() ? y : graft_add(model->graph, y, l->bias);
}

static graft_tensor *linear(graft_model *model, graft_tensor *x, const char *name, graft_model_size size,
                            graft_tensor *bias) {
  const full_name full = full_name_of(model, name);
  linear_layer l = {
      .weight_name = suffixed_name(&full, "weight"), .scale_name = suffixed_name(&full, "weight_scale"), .bias = bias};
  const graft_weight_source *source = &model->source;
  int64_t group;
  if (!graft_weight_source_layer(source, full.text, &l.found)) {
    note_missing(model, l.weight_name.text);
    return NULL;
  }
  if (!check_shape(model, &l.found.weight, 2, (int64_t[]){size.n_out, size.n_in})) return NULL;
  const bool is_i8 = l.found.is_quantized && l.found.format == GRAFT_QUANTIZED_INT8;
  if (is_i8) return linear_i8(model, x, &l, l.found.group);
  if (!l.found.is_quantized && graft_weight_source_quantizes(source, full.text, size.n_in, &group))
    return linear_i8(model, x, &l, group);
  x = graft_cast(model->graph, x, model->dtype);
  if (l.found.has_scale) return linear_f8(model, x, &l);
  return graft_linear(model->graph, x, float_constant(model, &l.found.weight, l.weight_name.text), bias);
}

graft_tensor *graft_model_linear(graft_model *model, graft_tensor *x, const char *name, graft_model_size size) {
  return linear(model, x, name, size, graft_graph_none());
}

graft_tensor *graft_model_linear_bias(graft_model *model, graft_tensor *x, const char *name, graft_model_size size) {
  return linear(model, x, name, size, suffixed(model, name, "bias", 1, &size.n_out));
}

graft_tensor *graft_model_conv2d(graft_model *model, graft_tensor *x, const char *name, const graft_model_conv *conv) {
  const int64_t shape[4] = {conv->n_out, conv->n_in, conv->kernel, conv->kernel};
  const int64_t *p = conv->padding;
  const graft_conv2d_attrs attrs = {
      .stride = {conv->stride, conv->stride}, .padding = {p[0], p[1], p[2], p[3]}, .dilation = {1, 1}, .groups = 1};
  graft_tensor *weight = suffixed(model, name, "weight", 4, shape);
  x = graft_cast(model->graph, x, model->dtype);
  return graft_conv2d(model->graph, x, weight, suffixed(model, name, "bias", 1, &conv->n_out), &attrs);
}

graft_tensor *graft_model_rms_norm(graft_model *model, graft_tensor *x, const char *name, int64_t n, double eps) {
  return graft_rms_norm(model->graph, x, suffixed(model, name, "weight", 1, &n), eps);
}

graft_tensor *graft_model_input(graft_model *model, const char *name, graft_dtype dtype, int32_t rank,
                                const int64_t *shape) {
  graft_error error = {0};
  graft_tensor_desc desc;
  if (graft_tensor_desc_init(dtype, rank, shape, &error, &desc) != GRAFT_OK)
    return GRAFT_GRAPH_FAIL(model->graph, error.status, "input %s: %s", name, error.message);
  return graft_graph_input(model->graph, name, &desc);
}

static graft_status fail_missing(const graft_model *model, graft_error *error) {
  char list[400] = "";
  uint32_t n = model->n_missing < GRAFT_MODEL_LISTED_MISSING ? model->n_missing : GRAFT_MODEL_LISTED_MISSING;
  for (uint32_t i = 0; i < n; ++i) {
    size_t length = strlen(list);
    snprintf(list + length, sizeof list - length, "%s%s", i ? ", " : "", graft_excerpt_name(model->missing[i]).text);
  }
  return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "%s: %u tensor%s missing: %s%s",
                    graft_excerpt_path(origin_of(model)).text, model->n_missing,
                    model->n_missing == 1 ? " is" : "s are", list, model->n_missing > n ? ", …" : "");
}

graft_status graft_model_finish(graft_model *model) {
  graft_error *error = graft_context_error_slot(graft_graph_context(model->graph));
  if (model->n_missing > 0) return fail_missing(model, error);
  graft_status status = graft_graph_status(model->graph);
  if (status != GRAFT_OK && error) *error = *graft_graph_error(model->graph);
  return status;
}
