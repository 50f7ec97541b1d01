#include "ops/common/cuda/quantize.h"

#include "ops/common/hadamard.h"

enum { SHARED_BY_COMPILER = 1024, MOST_BLOCKS = 256 };

extern const unsigned char graft_cuda_image_quantize[];
static const graft_cuda_module module = {
    .struct_size = sizeof module, .name = "quantize", .image = graft_cuda_image_quantize};

static uint32_t threads_for(int64_t k) {
  uint32_t threads = 32;
  while (threads < GRAFT_QUANTIZE_MAX_THREADS && (int64_t)threads * 16 < k) threads *= 2;
  return threads;
}

graft_status graft_quantizer_init(const graft_device *device, int64_t n_rows, int64_t k, graft_error *error,
                                  graft_quantizer *out_quantizer) {
  const graft_cuda_info *info = graft_cuda_describe(device);
  const size_t bytes = ((size_t)k + (size_t)k / 16 + 1) * sizeof(float);
  graft_quantizer q = {.threads = threads_for(k)};
  const bool is_shared = info != NULL && bytes + SHARED_BY_COMPILER <= info->shared_bytes_per_block;
  if (is_shared) {
    q.shared_bytes = (uint32_t)bytes;
  } else {
    q.most_blocks = n_rows < MOST_BLOCKS ? (uint32_t)n_rows : MOST_BLOCKS;
    q.workspace_bytes = (q.most_blocks * bytes + 255) / 256 * 256;
  }
  GRAFT_TRY(graft_cuda_function_load(device, &module, is_shared ? "graft_quantize_shared" : "graft_quantize_global",
                                     q.shared_bytes, error, &q.function));
  *out_quantizer = q;
  return GRAFT_OK;
}

static bool is_wide(const graft_tensor_desc *x, const void *data) {
  const int64_t bytes = x->dtype->block_bytes;
  const int64_t alignment = bytes * GRAFT_WALK_WIDE < 16 ? bytes * GRAFT_WALK_WIDE : 16;
  const int32_t last = x->rank - 1;
  if (x->strides[last] != bytes || x->shape[last] % GRAFT_WALK_WIDE != 0) return false;
  if ((int64_t)((uintptr_t)data % (uintptr_t)alignment) != 0) return false;
  for (int32_t d = 0; d < last; ++d) {
    if (x->shape[d] > 1 && x->strides[d] % alignment != 0) return false;
  }
  return true;
}

graft_status graft_quantizer_encode(graft_encoder *encoder, const graft_quantizer *quantizer,
                                    const graft_quantize_job *job, graft_error *error) {
  const graft_tensor_desc *x = job->desc;
  graft_cuda_operands operands = {.n = 1, .desc = {x}};
  graft_quantize_params params = {
      .walk = graft_walk_init(&operands, 1, false),
      .x = {.data = (char *)(uintptr_t)job->x, .type = (int32_t)x->dtype->code},
      .x_step = x->strides[x->rank - 1],
      .k = x->shape[x->rank - 1],
      .group = job->group,
      .n_rows = job->n_rows,
      .q_stride = job->q_stride,
      .q = job->q,
      .scales = job->scales,
      .rows = job->workspace,
      .factor = graft_hadamard_factor(job->group),
      .has_bf16_grid = job->has_bf16_grid,
      .is_wide = is_wide(x, job->x),
      .is_quads = job->q_stride % 4 == 0 && (uintptr_t)job->q % 4 == 0,
  };
  const int64_t most = quantizer->most_blocks > 0 ? quantizer->most_blocks : INT32_MAX;
  const graft_cuda_launch launch = {
      .struct_size = sizeof launch,
      .function = quantizer->function,
      .grid = {(uint32_t)(job->n_rows < most ? job->n_rows : most), 1, 1},
      .block = {quantizer->threads, 1, 1},
      .shared_bytes = quantizer->shared_bytes,
      .params = &params,
      .params_bytes = sizeof params,
  };
  return graft_cuda_encode(encoder, &launch, error);
}
