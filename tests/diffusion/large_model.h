// large_model.h — the transformer of the real Z-Image, six billion parameters in three files of zeros that take no
// space on the disk.
#ifndef GRAFT_TESTS_DIFFUSION_LARGE_MODEL_H
#define GRAFT_TESTS_DIFFUSION_LARGE_MODEL_H

#include "temp_folder.h"

#define LARGE_MODEL_PARAMETERS INT64_C(6154908736)

// Writes transformer/ with configuration, index and weights into |folder|; there are no other parts.
void large_model_write(const temp_folder *folder);

#endif
