// converted.h — weights that were converted from what the files hold: in memory, made before the first plan that
// computes with them.
#ifndef GRAFT_DIFFUSION_CONVERTED_H
#define GRAFT_DIFFUSION_CONVERTED_H

#include "diffusion/weight_source.h"
#include "graft/device.h"

// Sets memory aside for what must be converted of |source|: quantised layers where |source->type| asks for
// floating-point numbers, or where they themselves ask for floating-point products; F32 layers where the type is bf16
// or f16; weights and biases of another type than |source->activations|. Fills nothing. NULL where there is nothing to
// convert. Errors: GRAFT_E_NO_MEMORY.
GRAFT_NODISCARD graft_status graft_converted_create(const graft_weight_source *source, graft_error *error,
                                                    graft_converted **out_converted);
void graft_converted_free(graft_converted *converted);

// Converts, in parallel on the host threads of |device|. Later calls do nothing. NULL is accepted.
// Errors: GRAFT_E_NO_MEMORY.
GRAFT_NODISCARD graft_status graft_converted_fill(graft_converted *converted, const graft_device *device,
                                                  graft_error *error);

// The converted form of |tensor|, a whole weight of the source's files; NULL where there is none. Thread-safe.
const graft_safetensors_tensor *graft_converted_find(const graft_converted *converted,
                                                     const graft_safetensors_tensor *tensor);

#endif
