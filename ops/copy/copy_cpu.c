#include "graft/cpu.h"
#include "graft/extension.h"
#include "ops/common/cpu/strided_copy.h"

typedef struct arguments {
  graft_strided_copy copy;
  const void *x;
  void *y;
} arguments;

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  graft_strided_copy_run(&a->copy, a->x, a->y, item);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  arguments a = {.x = args->inputs[0], .y = args->outputs[0]};
  graft_strided_copy_init(&a.copy, args->node->inputs[0], args->node->outputs[0]);
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.copy.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 10,
                                            .name = "copy_any_strided__portable",
                                            .op = "graft.copy.v1",
                                            .backend = "cpu",
                                            .encode = encode}};

extern const graft_extension graft_extension_copy_cpu;
const graft_extension graft_extension_copy_cpu = {
    .struct_size = sizeof graft_extension_copy_cpu,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.copy_cpu",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
