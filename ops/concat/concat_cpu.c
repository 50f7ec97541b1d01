#include "graft/cpu.h"
#include "graft/extension.h"
#include "ops/common/cpu/strided_copy.h"
#include "ops/concat/concat.h"

typedef struct arguments {
  graft_strided_copy copy;
  const void *x;
  void *part;  // of the output
} arguments;

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  graft_strided_copy_run(&a->copy, a->x, a->part, item);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_node_info *node = args->node;
  const int32_t axis = (int32_t)((const graft_concat_attrs *)node->attrs)->axis;
  const int64_t unit = axis == node->outputs[0]->rank - 1 ? node->outputs[0]->dtype->block_elements : 1;
  graft_tensor_desc part = *node->outputs[0];
  int64_t offset = 0;
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    arguments a = {.x = args->inputs[i], .part = (char *)args->outputs[0] + offset};
    part.shape[axis] = node->inputs[i]->shape[axis];
    offset += part.shape[axis] / unit * part.strides[axis];
    if (a.x == a.part) continue;  // it was made there
    graft_strided_copy_init(&a.copy, node->inputs[i], &part);
    const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.copy.n_items};
    GRAFT_TRY(graft_cpu_encode(encoder, &task, args->error));
  }
  return GRAFT_OK;
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 10,
                                            .name = "concat_any_strided__portable",
                                            .op = "graft.concat.v1",
                                            .backend = "cpu",
                                            .encode = encode,
                                            .traits = GRAFT_KERNEL_PLACED_INPUTS}};

extern const graft_extension graft_extension_concat_cpu;
const graft_extension graft_extension_concat_cpu = {
    .struct_size = sizeof graft_extension_concat_cpu,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.concat_cpu",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
