#include "formats/png.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format_files.h"

enum { WIDTH = 5, HEIGHT = 3, ROW = 3 * WIDTH + 2 };

static void fill(uint8_t *pixels, size_t n) {
  for (size_t i = 0; i < n; ++i) pixels[i] = (uint8_t)(i * 37 + i / 7);
}

// Decodes with libpng's simplified interface, which shares nothing with the writer's.
static void check_pixels(const char *path, const uint8_t *pixels) {
  png_image image = {.version = PNG_IMAGE_VERSION};
  assert_true(png_image_begin_read_from_file(&image, path));
  assert_int_equal(image.width, WIDTH);
  assert_int_equal(image.height, HEIGHT);
  assert_int_equal(image.format, PNG_FORMAT_RGB);
  uint8_t decoded[HEIGHT * 3 * WIDTH];
  assert_true(png_image_finish_read(&image, NULL, decoded, 3 * WIDTH, NULL));
  for (int y = 0; y < HEIGHT; ++y) assert_memory_equal(decoded + y * 3 * WIDTH, pixels + y * ROW, 3 * WIDTH);
}

static const char *find(const char *data, size_t n, const char *needle, size_t n_needle) {
  for (size_t i = 0; i + n_needle <= n; ++i)
    if (memcmp(data + i, needle, n_needle) == 0) return data + i;
  return NULL;
}

static void round_trip(void **state) {
  (void)state;
  graft_error error = {0};
  uint8_t pixels[HEIGHT * ROW];
  fill(pixels, sizeof pixels);
  const graft_png_image image = {WIDTH, HEIGHT, ROW, pixels};
  const graft_png_text texts[] = {{"parameters", "a cat, steps 20"}, {"prompt", "une idée 猫"}, {"empty", ""}};
  temp_folder folder = temp_folder_create();
  temp_path path = temp_folder_join(&folder, "a.png"), again = temp_folder_join(&folder, "b.png");
  assert_ok(graft_png_write(path.text, &image, texts, 3, &error), &error);
  check_pixels(path.text, pixels);
  size_t n = 0, n_again = 0;
  char *data = temp_folder_read(path.text, &n);
  assert_non_null(find(data, n, "tEXtparameters\0a cat, steps 20", 30));
  assert_non_null(find(data, n, "iTXtprompt\0\0\0\0\0une idée 猫", 15 + strlen("une idée 猫")));
  assert_null(find(data, n, "tIME", 4));
  assert_ok(graft_png_write(again.text, &image, texts, 3, &error), &error);
  char *same = temp_folder_read(again.text, &n_again);
  assert_int_equal(n, n_again);
  assert_memory_equal(data, same, n);
  assert_int_equal(temp_folder_count(&folder), 2);
  free(data);
  free(same);
  temp_folder_remove(&folder);
}

static void refusals(void **state) {
  (void)state;
  uint8_t pixels[HEIGHT * ROW] = {0};
  char long_key[81];
  memset(long_key, 'k', 80);
  long_key[80] = '\0';
  const struct {
    graft_png_image image;
    graft_png_text text;
    const char *reason;
  } cases[] = {
      {{0, 1, ROW, pixels}, {"k", "v"}, "0 by 1"},
      {{1, -1, ROW, pixels}, {"k", "v"}, "1 by -1"},
      {{1000001, 1, SIZE_MAX, pixels}, {"k", "v"}, "1000001 by 1"},
      {{WIDTH, HEIGHT, 3 * WIDTH - 1, pixels}, {"k", "v"}, "three bytes"},
      {{WIDTH, HEIGHT, SIZE_MAX, pixels}, {"k", "v"}, "three bytes"},
      {{WIDTH, HEIGHT, ROW, NULL}, {"k", "v"}, "three bytes"},
      {{WIDTH, HEIGHT, ROW, pixels}, {"", "v"}, "key"},
      {{WIDTH, HEIGHT, ROW, pixels}, {NULL, "v"}, "key"},
      {{WIDTH, HEIGHT, ROW, pixels}, {" k", "v"}, "key"},
      {{WIDTH, HEIGHT, ROW, pixels}, {"k ", "v"}, "key"},
      {{WIDTH, HEIGHT, ROW, pixels}, {"k  k", "v"}, "key"},
      {{WIDTH, HEIGHT, ROW, pixels}, {"é", "v"}, "key"},
      {{WIDTH, HEIGHT, ROW, pixels}, {long_key, "v"}, "key"},
      {{WIDTH, HEIGHT, ROW, pixels}, {"k", "\xFF"}, "UTF-8"},
      {{WIDTH, HEIGHT, ROW, pixels}, {"k", NULL}, "UTF-8"},
  };
  temp_folder folder = temp_folder_create();
  temp_path path = temp_folder_join(&folder, "a.png");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    graft_error error = {0};
    assert_refused(graft_png_write(path.text, &cases[i].image, &cases[i].text, 1, &error), &error, GRAFT_E_INVALID,
                   "a.png", cases[i].reason);
  }
  const graft_png_image image = {WIDTH, HEIGHT, ROW, pixels};
  graft_error error = {0};
  assert_refused(graft_png_write("/nonexistent/a.png", &image, NULL, 0, &error), &error, GRAFT_E_IO, "a.png",
                 "No such file");
  assert_int_equal(temp_folder_count(&folder), 0);
  temp_folder_remove(&folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trip),
      cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
