// The shipped model gives the same bytes on any number of threads and in every run.
#include <stdlib.h>
#include <string.h>

#include "files.h"

static picture draw(const temp_folder *folder, const char *threads, const char *seed) {
  assert_done(GRAFT(folder->path, "generate", "-q", "-p", "a red apple on a blue background", "--size", "80x64",
                    "--steps", "2", "--seed", seed, "--threads", threads, "-o", "apple.png"));
  return picture_read(temp_folder_join(folder, "apple.png").text);
}

static void pictures_do_not_depend_on_threads(void **state) {
  (void)state;
  const temp_folder folder = temp_folder_create();
  picture first = draw(&folder, "1", "0"), other = draw(&folder, "1", "1");
  static const char *const threads[] = {"1", "2", "5"};
  for (size_t i = 0; i < sizeof threads / sizeof threads[0]; ++i) {
    picture again = draw(&folder, threads[i], "0");
    assert_same_picture(&first, &again);
    free(again.bytes);
  }
  assert_true(first.n_bytes != other.n_bytes || memcmp(first.bytes, other.bytes, first.n_bytes) != 0);
  free(first.bytes);
  free(other.bytes);
  temp_folder_remove(&folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(pictures_do_not_depend_on_threads)};
  return cmocka_run_group_tests_name("cli.repeat", tests, NULL, NULL);
}
