#include "ops/common/cuda/finish.h"

extern const unsigned char graft_cuda_image_finish[];
static const graft_cuda_module module = {
    .struct_size = sizeof module, .name = "finish", .image = graft_cuda_image_finish};

graft_status graft_finish_load(const graft_device *device, graft_error *error, graft_elementwise *out_functions) {
  GRAFT_TRY(graft_cuda_function_load(device, &module, "graft_finish_1", 0, error, &out_functions->narrow));
  return graft_cuda_function_load(device, &module, "graft_finish_8", 0, error, &out_functions->wide);
}

graft_status graft_finish_encode(graft_encoder *encoder, const graft_elementwise *functions,
                                 const graft_cuda_operands *operands, int32_t activation, graft_error *error) {
  return graft_elementwise_encode_operands(encoder, functions, operands, (float[2]){(float)activation, 0}, error);
}
