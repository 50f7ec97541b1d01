// Kernels for CPUs with AVX2: hardswish, hardswish · x, and an addition that takes the built-in one's place for f32
// tensors of one shape. Compiled with -mavx2 -mfma; the table says that the device must have it.
#if defined(__x86_64__)
#include <immintrin.h>

#include <graft/cpu.h>

#include "acme.h"

// Which vector function a task runs; |b| is NULL for hardswish.
typedef struct rows {
  __m256 (*combine)(__m256 a, __m256 b);
  const float *a, *b;
  float *y;
  int64_t n;
} rows;

enum { LANES = 8, ITEM = 1 << 14 };  // elements of one item: a few microseconds

static __m256 hardswish(__m256 x, __m256 unused) {
  (void)unused;
  const __m256 three = _mm256_set1_ps(3), zero = _mm256_setzero_ps();
  __m256 y = _mm256_div_ps(_mm256_mul_ps(x, _mm256_add_ps(x, three)), _mm256_set1_ps(6));
  y = _mm256_blendv_ps(y, x, _mm256_cmp_ps(x, three, _CMP_GE_OQ));
  return _mm256_blendv_ps(y, zero, _mm256_cmp_ps(x, _mm256_sub_ps(zero, three), _CMP_LE_OQ));
}

static __m256 hardswish_mul(__m256 gate, __m256 x) {
  return _mm256_mul_ps(hardswish(gate, x), x);
}

static __m256 add(__m256 a, __m256 b) {
  return _mm256_add_ps(a, b);
}

// The last few elements: as one vector of which the rest is not read and not written.
static void run_tail(const rows *r, int64_t at, int64_t n) {
  __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
  __m256 a = _mm256_maskload_ps(r->a + at, mask);
  __m256 b = r->b == NULL ? a : _mm256_maskload_ps(r->b + at, mask);
  _mm256_maskstore_ps(r->y + at, mask, r->combine(a, b));
}

// How work is split depends on the shape alone, so that results are the same for any number of threads.
static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const rows *r = args;
  int64_t at = item * ITEM, end = at + ITEM < r->n ? at + ITEM : r->n;
  (void)worker;
  for (; at + LANES <= end; at += LANES) {
    __m256 a = _mm256_loadu_ps(r->a + at);
    __m256 b = r->b == NULL ? a : _mm256_loadu_ps(r->b + at);
    _mm256_storeu_ps(r->y + at, r->combine(a, b));
  }
  if (at < end) run_tail(r, at, end - at);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args, __m256 (*combine)(__m256, __m256)) {
  rows r = {.combine = combine,
            .a = args->inputs[0],
            .b = args->node->n_inputs > 1 ? args->inputs[1] : NULL,
            .y = args->outputs[0],
            .n = graft_tensor_desc_elements(args->node->outputs[0])};
  const graft_cpu_task task = {.run = run, .args = &r, .args_bytes = sizeof r, .n_items = (r.n + ITEM - 1) / ITEM};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode_hardswish(graft_encoder *encoder, const graft_encode_args *args) {
  return encode(encoder, args, hardswish);
}

static graft_status encode_hardswish_mul(graft_encoder *encoder, const graft_encode_args *args) {
  return encode(encoder, args, hardswish_mul);
}

static graft_status encode_add(graft_encoder *encoder, const graft_encode_args *args) {
  return encode(encoder, args, add);
}

// What it refuses runs on the next kernel: here the built-in one, or the reference.
static bool supports(const graft_node_info *node, graft_reason *why) {
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (node->inputs[i]->dtype != GRAFT_F32)
      return graft_refuse(why, "an input is %s, not f32", node->inputs[i]->dtype->name);
    if (!graft_tensor_desc_is_contiguous(node->inputs[i])) return graft_refuse(why, "an input is not contiguous");
    if (!graft_tensor_desc_same_shape(node->inputs[i], node->outputs[0]))
      return graft_refuse(why, "an input is repeated");
  }
  return true;
}

const graft_kernel_def acme_kernels[] = {
    {.struct_size = sizeof acme_kernels[0],
     .priority = 100,
     .name = "acme_hardswish_f32__avx2",
     .op = "acme.hardswish.v1",
     .backend = "cpu",
     .required_features = GRAFT_CPU_AVX2,
     .supports = supports,
     .in_place_inputs = 1,
     .encode = encode_hardswish},
    {.struct_size = sizeof acme_kernels[0],
     .priority = 100,
     .name = "acme_hardswish_mul_f32__avx2",
     .op = "acme.hardswish_mul.v1",
     .backend = "cpu",
     .required_features = GRAFT_CPU_AVX2,
     .supports = supports,
     .in_place_inputs = 3,
     .encode = encode_hardswish_mul},
    {.struct_size = sizeof acme_kernels[0],
     .priority = 1000,  // before the built-in kernels of graft.add.v1
     .name = "acme_add_f32__avx2",
     .op = "graft.add.v1",
     .backend = "cpu",
     .required_features = GRAFT_CPU_AVX2,
     .supports = supports,
     .in_place_inputs = 3,
     .encode = encode_add},
};
#endif
