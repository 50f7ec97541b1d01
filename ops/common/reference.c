#include "ops/common/reference.h"

#include <stdlib.h>
#include <string.h>

#include "ops/common/infer.h"

void *graft_reference_allocate(int64_t n, size_t size, graft_error *error) {
  void *memory = calloc(n > 0 ? (size_t)n : 1, size);
  if (!memory) {
    GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for %lld elements of %zu bytes that a reference computes with",
               (long long)n, size);
  }
  return memory;
}

static bool is_dense_row(const graft_tensor_desc *desc) {
  const int32_t last = desc->rank - 1;
  return desc->rank == 0 || desc->dtype->block_elements > 1 || desc->shape[last] <= 1 ||
         desc->strides[last] == (int64_t)desc->dtype->block_bytes;
}

// Address of the first element of a row.
static char *row_at(const graft_view *view, const int64_t *index) {
  char *address = view->data;
  for (int32_t d = 0; d + 1 < view->desc.rank; ++d) address += index[d] * view->desc.strides[d];
  return address;
}

void graft_reference_load_row(const graft_view *view, const int64_t *index, float *out) {
  const graft_tensor_desc *desc = &view->desc;
  const int64_t n = graft_reference_row_length(desc);
  const char *row = row_at(view, index);
  if (is_dense_row(desc)) {
    desc->dtype->to_f32(row, out, (size_t)n);
    return;
  }
  for (int64_t i = 0; i < n; ++i) desc->dtype->to_f32(row + i * desc->strides[desc->rank - 1], out + i, 1);
}

void graft_reference_store_row(const graft_view *view, const int64_t *index, const double *values) {
  const graft_tensor_desc *desc = &view->desc;
  const int64_t n = graft_reference_row_length(desc), stride = desc->rank > 0 ? desc->strides[desc->rank - 1] : 0;
  char *row = row_at(view, index);
  for (int64_t i = 0; i < n; ++i, row += stride) {
    const float value = (float)values[i];
    if (desc->dtype->code == GRAFT_DTYPE_CUSTOM) {
      desc->dtype->from_f32(&value, row, 1);
    } else {
      graft_dtype_store(desc->dtype, row, values[i]);
    }
  }
}

graft_status graft_reference_load(const graft_view *view, graft_error *error, graft_reference_floats *out_floats) {
  *out_floats = (graft_reference_floats){0};
  if (!view->data) return GRAFT_OK;
  const graft_tensor_desc *desc = &view->desc;
  const bool is_aligned = (uintptr_t)view->data % sizeof(float) == 0;
  if (desc->dtype == GRAFT_F32 && is_aligned && graft_tensor_desc_is_contiguous(desc)) {
    out_floats->data = view->data;
    return GRAFT_OK;
  }
  const int64_t n = graft_tensor_desc_elements(desc), row_length = graft_reference_row_length(desc);
  float *out = graft_reference_allocate(n, sizeof(float), error);
  if (!out) return GRAFT_E_NO_MEMORY;
  out_floats->data = out_floats->owned = out;
  if (n == 0) return GRAFT_OK;
  const graft_tensor_desc rows = graft_reference_rows(desc);
  int64_t index[GRAFT_MAX_RANK] = {0};
  do {
    graft_reference_load_row(view, index, out);
    out += row_length;
  } while (graft_index_next(&rows, index));
  return GRAFT_OK;
}

void graft_reference_floats_free(graft_reference_floats *floats) {
  free(floats->owned);
  *floats = (graft_reference_floats){0};
}

void graft_reference_copy(const graft_view *source, const graft_view *target) {
  const graft_tensor_desc *desc = &source->desc;
  if (graft_tensor_desc_elements(desc) == 0) return;
  const graft_tensor_desc rows = graft_reference_rows(desc);
  const bool is_dense = is_dense_row(desc) && is_dense_row(&target->desc);
  const int64_t n = graft_reference_row_length(desc);
  const size_t size = desc->dtype->block_bytes;
  const size_t row_bytes = (size_t)n / desc->dtype->block_elements * size;
  int64_t index[GRAFT_MAX_RANK] = {0};
  do {
    const char *from = row_at(source, index);
    char *to = row_at(target, index);
    if (is_dense) {
      memcpy(to, from, row_bytes);
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      memcpy(to + i * target->desc.strides[desc->rank - 1], from + i * desc->strides[desc->rank - 1], size);
    }
  } while (graft_index_next(&rows, index));
}

graft_status graft_reference_check(const graft_reference_args *args) {
  if (!args->should_abort || !args->should_abort(args->abort_user)) return GRAFT_OK;
  return GRAFT_FAIL(args->error, GRAFT_E_CANCELLED, "the run was cancelled");
}

graft_view graft_reference_broadcast(const graft_view *view, int32_t rank, const int64_t *shape) {
  graft_view out = {.desc = {.dtype = view->desc.dtype, .rank = rank}, .data = view->data};
  const int32_t added = rank - view->desc.rank;
  for (int32_t d = 0; d < rank; ++d) {
    out.desc.shape[d] = shape[d];
    const bool is_repeated = d < added || (view->desc.shape[d - added] == 1 && shape[d] != 1);
    out.desc.strides[d] = is_repeated ? 0 : view->desc.strides[d - added];
  }
  return out;
}

graft_view graft_reference_select(const graft_view *view, int32_t dim, int64_t position) {
  graft_view out = *view;
  out.data = (char *)view->data + position * view->desc.strides[dim];
  out.desc.rank--;
  for (int32_t d = dim; d < out.desc.rank; ++d) {
    out.desc.shape[d] = view->desc.shape[d + 1];
    out.desc.strides[d] = view->desc.strides[d + 1];
  }
  out.desc.shape[out.desc.rank] = out.desc.strides[out.desc.rank] = 0;
  return out;
}

graft_status graft_infer_require_float(const graft_infer_args *args, uint32_t input, const char *name, bool blocks) {
  graft_dtype dtype = args->inputs[input]->dtype;
  if (!dtype->is_float) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "%s is %s, but must be of a float type", name, dtype->name);
  }
  if (dtype->block_elements > 1 && !blocks) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE,
                      "%s is of the block type %s, which only weights may have; cast it to f32 first", name,
                      dtype->name);
  }
  return GRAFT_OK;
}

graft_status graft_infer_converted(graft_infer_args *args, graft_dtype dtype) {
  if (dtype == NULL) return GRAFT_OK;
  if (!dtype->is_float || dtype->block_elements > 1) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "the result can be converted to plain float types only, not to %s",
                      dtype->name);
  }
  const graft_tensor_desc y = args->outputs[0];
  return graft_tensor_desc_init(dtype, y.rank, y.shape, args->error, &args->outputs[0]);
}

graft_status graft_infer_fits_output(const graft_infer_args *args, uint32_t input, const char *name) {
  const graft_tensor_desc *desc = args->inputs[input], *output = &args->outputs[0];
  if (!desc) return GRAFT_OK;
  GRAFT_TRY(graft_infer_require_float(args, input, name, false));
  bool fits = desc->rank <= output->rank;
  for (int32_t d = 1; fits && d <= desc->rank; ++d) {
    const int64_t own = desc->shape[desc->rank - d], full = output->shape[output->rank - d];
    fits = own == full || own == 1;
  }
  if (fits) return GRAFT_OK;
  char text[160];
  return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "%s is %s, which does not broadcast into the result", name,
                    graft_tensor_desc_format(desc, text, sizeof text));
}
