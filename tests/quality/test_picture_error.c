// The measures themselves, on pictures whose distances are known.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "picture_error.h"

enum { SIDE = 16, BYTES = 3 * SIDE * SIDE };

static void psnr_of_a_constant_difference(void **state) {
  (void)state;
  uint8_t a[BYTES], b[BYTES];
  for (int i = 0; i < BYTES; ++i) {
    a[i] = (uint8_t)(100 + i % 50);
    b[i] = (uint8_t)(a[i] + 5);
  }
  const picture pa = {a, SIDE, SIDE}, pb = {b, SIDE, SIDE};
  assert_true(fabs(picture_psnr(&pa, &pb) - 20 * log10(255.0 / 5)) < 1e-9);
  assert_true(isinf(picture_psnr(&pa, &pa)));
}

static void ssim_of_known_pictures(void **state) {
  (void)state;
  uint8_t a[BYTES], b[BYTES], c[BYTES];
  for (int i = 0; i < BYTES; ++i) {
    a[i] = 100;
    b[i] = 150;
    c[i] = (uint8_t)(i / 3 % 2 == 0 ? 50 : 150);
  }
  const picture pa = {a, SIDE, SIDE}, pb = {b, SIDE, SIDE}, pc = {c, SIDE, SIDE};
  assert_true(fabs(picture_ssim(&pc, &pc) - 1) < 1e-12);
  // Without structure only the means count.
  const double c1 = 2.55 * 2.55, want = (2.0 * 100 * 150 + c1) / (100.0 * 100 + 150.0 * 150 + c1);
  assert_true(fabs(picture_ssim(&pa, &pb) - want) < 1e-9);
  assert_true(picture_ssim(&pa, &pc) < 0.2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(psnr_of_a_constant_difference),
                                     cmocka_unit_test(ssim_of_known_pictures)};
  return cmocka_run_group_tests_name("quality.picture_error", tests, NULL, NULL);
}
