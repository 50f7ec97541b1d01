#include "diffusion/made_up.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/common/hadamard.h"

enum { STEP_BYTES = 64, MOST_TENSORS = 1 << 14 };

struct graft_made_up {
  graft_made_up_options options;
  uint32_t n_given;
  char *numbers[3];  // bytes, the wide type of |options.type|, scales
};

enum { BYTES, FLOATS, SCALES };

static graft_dtype float_type(graft_weight_type type) {
  return type == GRAFT_WEIGHT_F32 ? GRAFT_F32 : type == GRAFT_WEIGHT_F16 ? GRAFT_F16 : GRAFT_BF16;
}

static bool is_int8(const graft_made_up *made_up) {
  const graft_weight_type type = made_up->options.type;
  return type == GRAFT_WEIGHT_INT8 || type == GRAFT_WEIGHT_INT8_CONVROT;
}

static uint32_t next_random(uint32_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

// |n| numbers of |dtype| between |low| and |low| + |range|; any bytes for int8.
static void fill(graft_dtype dtype, char *numbers, size_t n, float low, float range) {
  enum { CHUNK = 1024 };
  uint32_t state = 2463534242u;
  float values[CHUNK];
  for (size_t first = 0; first < n; first += CHUNK) {
    const size_t size = n - first < CHUNK ? n - first : CHUNK;
    for (size_t i = 0; i < size; ++i) {
      const uint32_t random = next_random(&state);
      if (dtype == GRAFT_I8) numbers[first + i] = (char)(random >> 24);
      values[i] = low + range * (float)(random >> 8) / (float)(1 << 24);
    }
    if (dtype != GRAFT_I8) dtype->from_f32(values, numbers + first * dtype->block_bytes, size);
  }
}

static bool make(graft_made_up *made_up, int which, graft_dtype dtype, float low, float range) {
  const size_t bytes = (size_t)made_up->options.most_elements * dtype->block_bytes + (size_t)MOST_TENSORS * STEP_BYTES;
  made_up->numbers[which] = malloc(bytes);
  if (made_up->numbers[which] == NULL) return false;
  fill(dtype, made_up->numbers[which], bytes / dtype->block_bytes, low, range);
  return true;
}

graft_status graft_made_up_create(const graft_made_up_options *options, graft_error *error,
                                  graft_made_up **out_made_up) {
  graft_made_up *made_up = calloc(1, sizeof *made_up);
  if (made_up == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for made-up weights");
  made_up->options = *options;
  bool has_memory = make(made_up, FLOATS, float_type(options->type), -0.04f, 0.08f);
  if (has_memory && is_int8(made_up)) {
    has_memory = make(made_up, BYTES, GRAFT_I8, 0, 0) && make(made_up, SCALES, GRAFT_F32, 2e-4f, 2e-4f);
  }
  if (!has_memory) {
    graft_made_up_free(made_up);
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for made-up weights");
  }
  *out_made_up = made_up;
  return GRAFT_OK;
}

void graft_made_up_free(graft_made_up *made_up) {
  if (made_up == NULL) return;
  for (int i = 0; i < 3; ++i) free(made_up->numbers[i]);
  free(made_up);
}

// A stretch of the numbers |which| for a tensor of |rank| and |shape|.
static graft_safetensors_tensor give(graft_made_up *made_up, int which, graft_dtype dtype, int32_t rank,
                                     const int64_t *shape) {
  graft_safetensors_tensor tensor = {.name = "a made-up weight",
                                     .dtype_name = dtype->name,
                                     .dtype = dtype,
                                     .element_bits = (uint32_t)(8 * dtype->block_bytes),
                                     .rank = rank,
                                     .n_elements = 1};
  for (int32_t d = 0; d < rank; ++d) {
    tensor.shape[d] = shape[d];
    tensor.n_elements *= shape[d];
  }
  tensor.bytes = (size_t)tensor.n_elements * dtype->block_bytes;
  tensor.data = made_up->numbers[which] + (size_t)(made_up->n_given++ % MOST_TENSORS) * STEP_BYTES;
  return tensor;
}

bool graft_made_up_find(graft_made_up *made_up, const char *name, graft_safetensors_tensor *out_tensor) {
  int64_t shape[GRAFT_MAX_RANK];
  const int32_t rank = made_up->options.shape_of(made_up->options.config, name, shape);
  if (rank == 0) return false;
  *out_tensor = give(made_up, FLOATS, float_type(made_up->options.type), rank, shape);
  return true;
}

bool graft_made_up_layer(graft_made_up *made_up, const char *name, graft_weight_layer *out_layer) {
  char weight[GRAFT_WEIGHT_MAX_NAME];
  snprintf(weight, sizeof weight, "%s.weight", name);
  *out_layer = (graft_weight_layer){.group = 1};
  if (!graft_made_up_find(made_up, weight, &out_layer->weight)) return false;
  if (!is_int8(made_up) || !made_up->options.profile->is_quantized(name)) return true;
  const graft_safetensors_tensor wide = out_layer->weight;
  out_layer->weight = give(made_up, BYTES, GRAFT_I8, wide.rank, wide.shape);
  out_layer->scale = give(made_up, SCALES, GRAFT_F32, 1, wide.shape);
  out_layer->is_quantized = out_layer->has_scale = true;
  out_layer->format = GRAFT_QUANTIZED_INT8;
  if (made_up->options.type == GRAFT_WEIGHT_INT8_CONVROT) {
    out_layer->group = graft_hadamard_fit(wide.shape[1], GRAFT_WEIGHT_GROUP);
  }
  return true;
}
