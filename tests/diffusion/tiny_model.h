// tiny_model.h — a whole model of the Z-Image family that is small enough to generate in a millisecond. Its weights are
// random, its pictures noise: it is for everything that does not depend on what a picture shows.
//
// Pictures are multiples of 4 pixels, at most 32; latents have 4 channels and a factor of 2.
#ifndef GRAFT_TESTS_DIFFUSION_TINY_MODEL_H
#define GRAFT_TESTS_DIFFUSION_TINY_MODEL_H

#include "temp_folder.h"

enum { TINY_MULTIPLE = 4, TINY_MAX_SIDE = 32, TINY_CHANNELS = 4, TINY_FACTOR = 2 };

// What is wrong with it. Names are those of tensors in any part.
typedef struct tiny_fault {
  const char *dropped;   // this tensor is left out
  const char *reshaped;  // this one has a row too many
  const char *integer;   // this one is I32
  bool has_empty;        // the transformer has one more, F32 [2^40, 0]
} tiny_fault;

// Writes model_index.json and five parts into |folder|. |fault| may be NULL.
void tiny_model_write(const temp_folder *folder, const tiny_fault *fault);

#endif
