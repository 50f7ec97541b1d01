// Kernels for CUDA devices with device code of their own. They are launches with fixed parameters, so that a plan of
// them is replayed as one CUDA graph.
#include "hardswish_cuda.h"
#include "acme.h"
#include "acme_cuda.h"

// The assembler includes what nvcc made of hardswish.cu.
extern const char acme_hardswish_image[] __attribute__((visibility("hidden")));
__asm__(
    ".section .rodata\n.balign 64\n.globl acme_hardswish_image\n.hidden acme_hardswish_image\n"
    "acme_hardswish_image:\n.incbin \"" ACME_HARDSWISH_FATBIN "\"\n.previous\n");

static const graft_cuda_module module = {
    .struct_size = sizeof module, .name = "acme_hardswish", .image = acme_hardswish_image};

enum { THREADS = 256, BLOCKS_OF_PROCESSOR = 8 };

// Facts about the device come from a service, by name: this works for any device that offers it.
static const graft_cuda_info *describe(const graft_device *device) {
  const graft_cuda_context_service *service = graft_device_service(device, GRAFT_CUDA_CONTEXT_SERVICE);
  return service != NULL ? service->describe(device) : NULL;
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  if (describe(node->device) == NULL) return graft_refuse(why, "the device has no " GRAFT_CUDA_CONTEXT_SERVICE);
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (node->inputs[i]->dtype != GRAFT_F32)
      return graft_refuse(why, "an input is %s, not f32", node->inputs[i]->dtype->name);
    if (!graft_tensor_desc_is_contiguous(node->inputs[i])) return graft_refuse(why, "an input is not contiguous");
    if (!graft_tensor_desc_same_shape(node->inputs[i], node->outputs[0]))
      return graft_refuse(why, "an input is repeated");
  }
  return true;
}

// The function belongs to the device, which keeps it: there is nothing to destroy.
static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  graft_cuda_function *function = NULL;
  const char *name = node->n_inputs > 1 ? "acme_hardswish_mul" : "acme_hardswish";
  GRAFT_TRY(graft_cuda_function_load(node->device, &module, name, 0, error, &function));
  out_prepared->state = function;
  return GRAFT_OK;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const acme_elements e = {.a = args->inputs[0],
                           .b = args->node->n_inputs > 1 ? args->inputs[1] : NULL,
                           .y = args->outputs[0],
                           .n = graft_tensor_desc_elements(args->node->outputs[0])};
  const long long enough = (e.n + THREADS - 1) / THREADS;
  const long long most = (long long)describe(args->node->device)->n_multiprocessors * BLOCKS_OF_PROCESSOR;
  const graft_cuda_launch launch = {.struct_size = sizeof launch,
                                    .function = args->state,
                                    .grid = {(uint32_t)(enough < most ? enough : most), 1, 1},
                                    .block = {THREADS, 1, 1},
                                    .params = &e,
                                    .params_bytes = sizeof e};
  return graft_cuda_encode(encoder, &launch, args->error);
}

static const graft_kernel_def kernels[] = {
    {.struct_size = sizeof kernels[0],
     .priority = 100,
     .name = "acme_hardswish_f32__cuda",
     .op = "acme.hardswish.v1",
     .backend = "cuda",
     .supports = supports,
     .in_place_inputs = 1,
     .prepare = prepare,
     .encode = encode},
    {.struct_size = sizeof kernels[0],
     .priority = 100,
     .name = "acme_hardswish_mul_f32__cuda",
     .op = "acme.hardswish_mul.v1",
     .backend = "cuda",
     .supports = supports,
     .in_place_inputs = 3,
     .prepare = prepare,
     .encode = encode},
};

const graft_extension acme_cuda_extension = {.struct_size = sizeof acme_cuda_extension,
                                             .abi_version = GRAFT_ABI_VERSION,
                                             .name = "acme.cuda",
                                             .vendor = "acme",
                                             .kernels = kernels,
                                             .n_kernels = 2};
