#include "diffusion/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "formats/excerpt.h"
#include "ops/conv2d/conv2d.h"
#include "ops/linear/linear.h"
#include "ops/rms_norm/rms_norm.h"

void graft_model_init(graft_model *model, graft_graph *graph, const graft_weights *weights, const char *prefix) {
  *model = (graft_model){.graph = graph, .weights = weights};
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

static const graft_safetensors_tensor *find(graft_model *model, const char *name) {
  full_name full = full_name_of(model, name);
  const graft_safetensors_tensor *tensor = graft_weights_find(model->weights, full.text);
  if (!tensor) {
    if (model->n_missing < GRAFT_MODEL_LISTED_MISSING)
      memcpy(model->missing[model->n_missing], full.text, sizeof full.text);
    ++model->n_missing;
  }
  return tensor;
}

bool graft_model_has(const graft_model *model, const char *name) {
  return graft_weights_find(model->weights, full_name_of(model, name).text) != NULL;
}

int64_t graft_model_dim(graft_model *model, const char *name, int32_t axis) {
  const graft_safetensors_tensor *tensor = find(model, name);
  if (!tensor) return 1;
  if (axis < tensor->rank && tensor->shape[axis] > 0) return tensor->shape[axis];
  graft_graph_fail(model->graph, GRAFT_E_SHAPE, "%s: the tensor %s has no dimension %d with entries",
                   graft_excerpt_path(graft_safetensors_path(tensor->file)).text, graft_excerpt_name(tensor->name).text,
                   axis);
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

static graft_tensor *fail_shape(graft_model *model, const graft_safetensors_tensor *tensor, int32_t rank,
                                const int64_t *shape) {
  return graft_graph_fail(
      model->graph, GRAFT_E_SHAPE, "%s: the tensor %s should be %s by the model's configuration and is %s in the file",
      graft_excerpt_path(graft_safetensors_path(tensor->file)).text, graft_excerpt_name(tensor->name).text,
      shape_of(rank, shape).text, shape_of(tensor->rank, tensor->shape).text);
}

graft_tensor *graft_model_weight(graft_model *model, const char *name, int32_t rank, const int64_t *shape) {
  const graft_safetensors_tensor *tensor = find(model, name);
  if (!tensor) return NULL;
  if (!has_shape(tensor, rank, shape)) return fail_shape(model, tensor, rank, shape);
  if (!tensor->dtype || !tensor->dtype->is_float)
    return graft_graph_fail(model->graph, GRAFT_E_UNSUPPORTED,
                            "%s: the tensor %s is of type %s; a weight must be F32, F16, BF16, F8_E4M3 or F8_E5M2",
                            graft_excerpt_path(graft_safetensors_path(tensor->file)).text,
                            graft_excerpt_name(tensor->name).text, tensor->dtype_name);
  graft_error error = {0};
  graft_tensor_desc desc;
  if (graft_tensor_desc_init(tensor->dtype, rank, shape, &error, &desc) != GRAFT_OK)
    return graft_graph_fail(model->graph, error.status, "%s", error.message);
  const graft_constant constant = {.struct_size = sizeof constant,
                                   .data = tensor->data,
                                   .bytes = tensor->bytes,
                                   .discard = discard,
                                   .user = (void *)(uintptr_t)tensor->file};
  return graft_graph_constant(model->graph, tensor->name, &desc, &constant);
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

graft_tensor *graft_model_linear(graft_model *model, graft_tensor *x, const char *name, graft_model_size size) {
  graft_tensor *weight = suffixed(model, name, "weight", 2, (int64_t[]){size.n_out, size.n_in});
  return graft_linear(model->graph, x, weight, graft_graph_none());
}

graft_tensor *graft_model_linear_bias(graft_model *model, graft_tensor *x, const char *name, graft_model_size size) {
  graft_tensor *weight = suffixed(model, name, "weight", 2, (int64_t[]){size.n_out, size.n_in});
  return graft_linear(model->graph, x, weight, suffixed(model, name, "bias", 1, &size.n_out));
}

graft_tensor *graft_model_conv2d(graft_model *model, graft_tensor *x, const char *name, const graft_model_conv *conv) {
  const int64_t shape[4] = {conv->n_out, conv->n_in, conv->kernel, conv->kernel};
  const int64_t *p = conv->padding;
  const graft_conv2d_attrs attrs = {
      .stride = {conv->stride, conv->stride}, .padding = {p[0], p[1], p[2], p[3]}, .dilation = {1, 1}, .groups = 1};
  graft_tensor *weight = suffixed(model, name, "weight", 4, shape);
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
    return graft_graph_fail(model->graph, error.status, "input %s: %s", name, error.message);
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
                    graft_excerpt_path(graft_weights_path(model->weights)).text, model->n_missing,
                    model->n_missing == 1 ? " is" : "s are", list, model->n_missing > n ? ", …" : "");
}

graft_status graft_model_finish(graft_model *model) {
  graft_error *error = graft_context_error_slot(graft_graph_context(model->graph));
  if (model->n_missing > 0) return fail_missing(model, error);
  graft_status status = graft_graph_status(model->graph);
  if (status != GRAFT_OK && error) *error = *graft_graph_error(model->graph);
  return status;
}
