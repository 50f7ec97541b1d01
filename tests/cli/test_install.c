// The installed program, moved where it likes, finds its model.
#include <stdlib.h>

#include "files.h"

static void installed_program_works_from_any_folder(void **state) {
  (void)state;
  const temp_folder folder = temp_folder_create();
  const temp_path prefix = temp_folder_join(&folder, "a prefix"),
                  installed = temp_folder_join(&folder, "a prefix/bin/graft");
  const char *const install[] = {"--install", GRAFT_BUILD_FOLDER, "--prefix", prefix.text, NULL};
  assert_done(program_run(&(program_call){.path = GRAFT_CMAKE, .arguments = install}));
  const char *const version[] = {"--version", NULL};
  assert_prints(program_run(&(program_call){.path = installed.text, .folder = "/", .arguments = version}), "graft ");
  const char *const generate[] = {"generate", "-q", "-p", "x", "--steps", "1", "--size", "16x16", "-o", "a.png", NULL};
  assert_done(program_run(&(program_call){.path = installed.text, .folder = folder.path, .arguments = generate}));
  free(picture_read(temp_folder_join(&folder, "a.png").text).bytes);
  temp_folder_remove(&folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(installed_program_works_from_any_folder)};
  return cmocka_run_group_tests_name("cli.install", tests, NULL, NULL);
}
