// rotary_heads.h — heads turned by a row of the table, and where wanted brought to a root mean square of 1 first: for
// kernels of rotary_embedding and of operators that end with it. For files that are compiled once per target.
#ifndef GRAFT_OPS_ROTARY_EMBEDDING_ROTARY_HEADS_H
#define GRAFT_OPS_ROTARY_EMBEDDING_ROTARY_HEADS_H

#include "ops/common/cpu/rms.h"
#include "ops/fused/rms_norm_rotary/rms_norm_rotary.h"

enum { ROTARY_MOST_HEADS = 4 };

typedef uint64_t rotary_pairs __attribute__((vector_size(4 * LANES)));  // two neighbouring floats in each lane

// Where heads go and how. With a norm x is f32 and y of any type, else both are of one type.
typedef struct rotary_heads {
  const char *table;
  char *y;
  graft_dtype_code x_type, y_type;
  int64_t shape[4], y_strides[4];        // bytes
  int64_t x_head_stride;                 // bytes
  int64_t item_stride, position_stride;  // of the table, bytes
  int64_t n_pairs;
  bool is_half;
  bool has_norm;
  const char *weight;  // of the norm; NULL: none
  graft_dtype_code weight_type;
  float scale;  // of what was normalised
  double eps;
} rotary_heads;

// Some heads of one position of one batch item: all are turned by the same row of the table. They are few, because
// heads often lie 512 bytes apart: more of them would fall on the same lines of the L1 cache, and loads wait for stores
// that end in the same twelve bits of address.
typedef struct rotary_position {
  const rotary_heads *a;
  const char *x;
  char *y;
  const float *table;
  int64_t n_heads;
  float factors[ROTARY_MOST_HEADS];  // of the norm
} rotary_position;

static inline int64_t rotary_size_of(graft_dtype_code type) {
  return type == GRAFT_DTYPE_F32 ? 4 : 2;
}

static inline vec rotary_load(const char *p, graft_dtype_code type, int64_t n) {
  return n == LANES ? vec_load_typed(p, type) : vec_load_typed_n(p, type, n);
}

static inline void rotary_store(char *p, graft_dtype_code type, vec v, int64_t n) {
  if (n == LANES) {
    vec_store_typed(p, type, v);
  } else {
    vec_store_typed_n(p, type, v, n);
  }
}

// Both floats of every pair become its first (cosine) or second (sine). Pairs lie in memory order, first float lowest.
static inline vec rotary_both_first(vec v) {
  const rotary_pairs first = (rotary_pairs)v & 0xffffffffu;
  return (vec)(first | first << 32);
}

static inline vec rotary_both_second(vec v) {
  const rotary_pairs second = (rotary_pairs)v >> 32;
  return (vec)(second | second << 32);
}

static inline vec rotary_exchanged(vec v) {
  return (vec)((rotary_pairs)v << 32 | (rotary_pairs)v >> 32);
}

// Weights of channels |channel| and following, which carry the scale.
static inline vec rotary_weights_at(const rotary_heads *a, int64_t channel, int64_t n) {
  if (!a->weight) return vec_all(a->scale);
  return rotary_load(a->weight + channel * rotary_size_of(a->weight_type), a->weight_type, n) * a->scale;
}

static inline __attribute__((always_inline)) void rotary_turn_interleaved(const rotary_position *p,
                                                                          graft_dtype_code x_type,
                                                                          graft_dtype_code y_type, bool has_norm) {
  const rotary_heads *a = p->a;
  const int64_t x_size = rotary_size_of(x_type), y_size = rotary_size_of(y_type);
  for (int64_t i = 0; i < 2 * a->n_pairs; i += LANES) {
    const int64_t n = 2 * a->n_pairs - i < LANES ? 2 * a->n_pairs - i : LANES;
    const vec row = rotary_load((const char *)(p->table + i), GRAFT_DTYPE_F32, n);
    const vec cosine = rotary_both_first(row);
    // Of the first float of a pair: negative.
    const vec sine = (vec)((rotary_pairs)rotary_both_second(row) ^ 0x80000000u);
    const vec weights = has_norm ? rotary_weights_at(a, i, n) : (vec){0};
    for (int64_t h = 0; h < p->n_heads; ++h) {
      vec x = rotary_load(p->x + h * a->x_head_stride + i * x_size, x_type, n);
      if (has_norm) x = x * p->factors[h] * weights;
      const vec y = vec_madd(x, cosine, rotary_exchanged(x) * sine);
      rotary_store(p->y + h * a->y_strides[2] + i * y_size, y_type, y, n);
    }
  }
}

static inline __attribute__((always_inline)) void rotary_turn_halves(const rotary_position *p, graft_dtype_code x_type,
                                                                     graft_dtype_code y_type, bool has_norm) {
  const rotary_heads *a = p->a;
  const int64_t x_size = rotary_size_of(x_type), y_size = rotary_size_of(y_type);
  for (int64_t i = 0; i < a->n_pairs; i += LANES) {
    const int64_t n = a->n_pairs - i < LANES ? a->n_pairs - i : LANES;
    float cosines[LANES] = {0}, sines[LANES] = {0};
    for (int64_t k = 0; k < n; ++k) {
      cosines[k] = p->table[2 * (i + k)];
      sines[k] = p->table[2 * (i + k) + 1];
    }
    const vec cosine = vec_load(cosines), sine = vec_load(sines);
    const vec first_weights = has_norm ? rotary_weights_at(a, i, n) : (vec){0};
    const vec second_weights = has_norm ? rotary_weights_at(a, i + a->n_pairs, n) : (vec){0};
    for (int64_t h = 0; h < p->n_heads; ++h) {
      const char *x = p->x + h * a->x_head_stride + i * x_size;
      char *y = p->y + h * a->y_strides[2] + i * y_size;
      vec first = rotary_load(x, x_type, n), second = rotary_load(x + a->n_pairs * x_size, x_type, n);
      if (has_norm) {
        first = first * p->factors[h] * first_weights;
        second = second * p->factors[h] * second_weights;
      }
      rotary_store(y, y_type, vec_madd(first, cosine, -second * sine), n);
      rotary_store(y + a->n_pairs * y_size, y_type, vec_madd(first, sine, second * cosine), n);
    }
  }
}

static inline void rotary_copy_rest(const rotary_position *p) {
  const rotary_heads *a = p->a;
  const int64_t size = rotary_size_of(a->x_type), done = 2 * a->n_pairs * size;
  if (p->x == p->y) return;
  for (int64_t h = 0; h < p->n_heads; ++h) {
    memcpy(p->y + h * a->y_strides[2] + done, p->x + h * a->x_head_stride + done, (size_t)(a->shape[3] * size - done));
  }
}

static inline void rotary_normalise_rest(const rotary_position *p) {
  const rotary_heads *a = p->a;
  const int64_t y_size = rotary_size_of(a->y_type);
  for (int64_t i = 2 * a->n_pairs; i < a->shape[3]; i += LANES) {
    const int64_t n = a->shape[3] - i < LANES ? a->shape[3] - i : LANES;
    const vec weights = rotary_weights_at(a, i, n);
    for (int64_t h = 0; h < p->n_heads; ++h) {
      const vec x = rotary_load(p->x + h * a->x_head_stride + i * 4, GRAFT_DTYPE_F32, n);
      rotary_store(p->y + h * a->y_strides[2] + i * y_size, a->y_type, x * p->factors[h] * weights, n);
    }
  }
}

static inline void rotary_normalise_and_turn(rotary_position *p) {
  const rotary_heads *a = p->a;
  for (int64_t h = 0; h < p->n_heads; ++h) {
    p->factors[h] = rms_factor((const float *)(const void *)(p->x + h * a->x_head_stride), a->shape[3], a->eps);
  }
  const bool is_f32 = a->y_type == GRAFT_DTYPE_F32;
  if (a->is_half && is_f32) {
    rotary_turn_halves(p, GRAFT_DTYPE_F32, GRAFT_DTYPE_F32, true);
  } else if (a->is_half) {
    rotary_turn_halves(p, GRAFT_DTYPE_F32, a->y_type, true);
  } else if (is_f32) {
    rotary_turn_interleaved(p, GRAFT_DTYPE_F32, GRAFT_DTYPE_F32, true);
  } else {
    rotary_turn_interleaved(p, GRAFT_DTYPE_F32, a->y_type, true);
  }
  rotary_normalise_rest(p);
}

static inline void rotary_turn(const rotary_position *p) {
  const bool is_f32 = p->a->x_type == GRAFT_DTYPE_F32;
  if (p->a->is_half && is_f32) {
    rotary_turn_halves(p, GRAFT_DTYPE_F32, GRAFT_DTYPE_F32, false);
  } else if (p->a->is_half) {
    rotary_turn_halves(p, p->a->x_type, p->a->x_type, false);
  } else if (is_f32) {
    rotary_turn_interleaved(p, GRAFT_DTYPE_F32, GRAFT_DTYPE_F32, false);
  } else {
    rotary_turn_interleaved(p, p->a->x_type, p->a->x_type, false);
  }
  rotary_copy_rest(p);
}

// |n| heads of position |row|, counted over all items of the batch, from head |first| on, which is at |x|. May work in
// place.
static inline void rotary_heads_run(const rotary_heads *a, int64_t row, const char *x, int64_t first, int64_t n) {
  const int64_t item = row / a->shape[1], at = row % a->shape[1];
  const char *table = a->table + item * a->item_stride + at * a->position_stride;
  char *y = a->y + item * a->y_strides[0] + at * a->y_strides[1] + first * a->y_strides[2];
  rotary_position p = {.a = a, .table = (const float *)(const void *)table};
  for (int64_t h = 0; h < n; h += ROTARY_MOST_HEADS) {
    p.n_heads = n - h < ROTARY_MOST_HEADS ? n - h : ROTARY_MOST_HEADS;
    p.x = x + h * a->x_head_stride;
    p.y = y + h * a->y_strides[2];
    if (a->has_norm) {
      rotary_normalise_and_turn(&p);
    } else {
      rotary_turn(&p);
    }
  }
}

static inline bool rotary_takes_table(const graft_tensor_desc *table, graft_reason *why) {
  return graft_tensor_desc_is_dense_from(table, table->rank - 2) ||
         graft_refuse(why, "rows of the table are not contiguous");
}

// The heads that |y| is made of.
static inline rotary_heads rotary_heads_describe(const graft_tensor_desc *y, void *y_data,
                                                 const graft_tensor_desc *table, const void *table_data) {
  rotary_heads a = {.table = (const char *)table_data,
                    .y = (char *)y_data,
                    .x_type = y->dtype->code,
                    .y_type = y->dtype->code,
                    .item_stride = table->rank == 4 ? table->strides[0] : 0,
                    .position_stride = table->strides[table->rank - 3],
                    .n_pairs = table->shape[table->rank - 2]};
  for (int d = 0; d < 4; ++d) {
    a.shape[d] = y->shape[d];
    a.y_strides[d] = y->strides[d];
  }
  return a;
}

// Lets them be normalised first; x is f32 then. |weight| may be left out (NULL).
static inline void rotary_heads_set_norm(rotary_heads *a, const graft_rms_norm_rotary_attrs *attrs,
                                         const graft_tensor_desc *weight, const void *weight_data) {
  a->x_type = GRAFT_DTYPE_F32;
  a->is_half = attrs->style == GRAFT_ROTARY_HALF;
  a->has_norm = true;
  a->weight = (const char *)weight_data;
  a->weight_type = weight ? weight->dtype->code : GRAFT_DTYPE_F32;
  a->scale = attrs->scale == 0 ? 1 : (float)attrs->scale;
  a->eps = attrs->eps;
}

#endif
