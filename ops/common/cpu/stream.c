#include "ops/common/cpu/stream.h"

#include "graft/cpu.h"

enum { LINE_BYTES = 64 };

bool graft_stream_pays(const graft_encode_args *args, int64_t row_bytes) {
  const graft_node_info *node = args->node;
  const graft_cpu_info *cpu = graft_cpu_describe(node->device);
  const size_t cache_bytes = cpu->l3_bytes > cpu->l2_bytes ? cpu->l3_bytes : cpu->l2_bytes;
  const void *result = args->outputs[0];
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (args->inputs[i] == result) return false;
  }
  return graft_tensor_desc_bytes(node->outputs[0]) >= cache_bytes / 4 * 3 &&
         ((uintptr_t)result | (uintptr_t)row_bytes) % LINE_BYTES == 0;
}
