#include "picture_error.h"

#include <math.h>

enum { WINDOW = 11, RADIUS = WINDOW / 2 };

double picture_psnr(const picture *a, const picture *b) {
  const int64_t n = (int64_t)a->width * a->height * 3;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double difference = (double)a->rgb[i] - (double)b->rgb[i];
    sum += difference * difference;
  }
  return sum > 0 ? 10 * log10(255 * 255 * (double)n / sum) : HUGE_VAL;
}

// Weights of a window's rows and columns; their products add up to 1.
static void fill_window(double weights[WINDOW]) {
  double sum = 0;
  for (int i = 0; i < WINDOW; ++i) {
    weights[i] = exp(-(i - RADIUS) * (i - RADIUS) / (2 * 1.5 * 1.5));
    sum += weights[i];
  }
  for (int i = 0; i < WINDOW; ++i) weights[i] /= sum;
}

// Similarity of the windows around one place in one colour.
static double window_ssim(const picture *a, const picture *b, int32_t x, int32_t y, int colour,
                          const double weights[WINDOW]) {
  const double c1 = (0.01 * 255) * (0.01 * 255), c2 = (0.03 * 255) * (0.03 * 255);
  double mean_a = 0, mean_b = 0, square_a = 0, square_b = 0, product = 0;
  for (int i = -RADIUS; i <= RADIUS; ++i) {
    for (int j = -RADIUS; j <= RADIUS; ++j) {
      const int64_t at = 3 * ((int64_t)(y + i) * a->width + x + j) + colour;
      const double weight = weights[i + RADIUS] * weights[j + RADIUS], u = a->rgb[at], v = b->rgb[at];
      mean_a += weight * u;
      mean_b += weight * v;
      square_a += weight * u * u;
      square_b += weight * v * v;
      product += weight * u * v;
    }
  }
  const double variance_a = square_a - mean_a * mean_a, variance_b = square_b - mean_b * mean_b;
  const double covariance = product - mean_a * mean_b;
  return (2 * mean_a * mean_b + c1) * (2 * covariance + c2) /
         ((mean_a * mean_a + mean_b * mean_b + c1) * (variance_a + variance_b + c2));
}

double picture_ssim(const picture *a, const picture *b) {
  double weights[WINDOW], sum = 0;
  int64_t n = 0;
  fill_window(weights);
  for (int32_t y = RADIUS; y < a->height - RADIUS; ++y) {
    for (int32_t x = RADIUS; x < a->width - RADIUS; ++x) {
      for (int colour = 0; colour < 3; ++colour, ++n) sum += window_ssim(a, b, x, y, colour, weights);
    }
  }
  return sum / (double)n;
}
