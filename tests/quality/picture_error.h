// picture_error.h — how far two pictures are apart, as people measure it.
#ifndef GRAFT_TESTS_QUALITY_PICTURE_ERROR_H
#define GRAFT_TESTS_QUALITY_PICTURE_ERROR_H

#include <stdint.h>

// Interleaved rows of RGB bytes.
typedef struct picture {
  const uint8_t *rgb;
  int32_t width, height;
} picture;

// Peak signal to noise ratio in dB of two pictures of one size; infinite where they are equal.
double picture_psnr(const picture *a, const picture *b);

// Mean structural similarity (Wang et al. 2004): Gaussian window of 11 × 11 with deviation 1.5, K = 0.01 and 0.03, only
// where the window fits, over the three colours. Both sides are at least 11.
double picture_ssim(const picture *a, const picture *b);

#endif
