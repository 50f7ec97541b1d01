// The sizes of users' reports that the shipped model allows come out exactly as asked for.
#include <stdio.h>
#include <stdlib.h>

#include "files.h"

static void pictures_have_the_size_asked_for(void **state) {
  (void)state;
  static const int sizes[][2] = {{16, 16}, {64, 64}, {608, 512}, {640, 640}, {800, 1200}, {16, 1024}, {1024, 16}};
  const temp_folder folder = temp_folder_create();
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    char size[32];
    snprintf(size, sizeof size, "%dx%d", sizes[i][0], sizes[i][1]);
    assert_done(GRAFT(folder.path, "generate", "-q", "-p", "x", "--steps", "1", "--guidance", "0", "--size", size));
    picture p = picture_read(temp_folder_join(&folder, "graft.png").text);
    assert_int_equal(p.width, sizes[i][0]);
    assert_int_equal(p.height, sizes[i][1]);
    assert_parameter(&p, size);
    free(p.bytes);
  }
  temp_folder_remove(&folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(pictures_have_the_size_asked_for)};
  return cmocka_run_group_tests_name("cli.sizes", tests, NULL, NULL);
}
