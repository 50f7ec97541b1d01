#include "formats/atomic_file.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format_files.h"

static graft_status write_all(const char *path, const char *text, graft_error *error) {
  graft_atomic_file *file = NULL;
  GRAFT_TRY(graft_atomic_file_begin(path, error, &file));
  graft_status status = graft_atomic_file_append(file, text, strlen(text), error);
  if (status == GRAFT_OK) return graft_atomic_file_commit(file, error);
  graft_atomic_file_abort(file);
  return status;
}

static void assert_content(const char *path, const char *expected) {
  char *text = temp_folder_read(path, NULL);
  assert_string_equal(text, expected);
  free(text);
}

static void appears_whole(void **state) {
  (void)state;
  graft_error error = {0};
  temp_folder folder = temp_folder_create();
  temp_path path = temp_folder_write_text(&folder, "f", "old");
  graft_atomic_file *file = NULL;
  assert_ok(graft_atomic_file_begin(path.text, &error, &file), &error);
  assert_ok(graft_atomic_file_append(file, "ne", 2, &error), &error);
  assert_content(path.text, "old");
  assert_ok(graft_atomic_file_append(file, "w", 1, &error), &error);
  assert_ok(graft_atomic_file_commit(file, &error), &error);
  assert_content(path.text, "new");
  assert_int_equal(temp_folder_count(&folder), 1);
  temp_folder_remove(&folder);
}

static void aborting_keeps_the_old(void **state) {
  (void)state;
  graft_error error = {0};
  temp_folder folder = temp_folder_create();
  temp_path path = temp_folder_write_text(&folder, "f", "old");
  graft_atomic_file *file = NULL;
  assert_ok(graft_atomic_file_begin(path.text, &error, &file), &error);
  assert_ok(graft_atomic_file_append(file, "new", 3, &error), &error);
  graft_atomic_file_abort(file);
  graft_atomic_file_abort(NULL);
  assert_content(path.text, "old");
  assert_int_equal(temp_folder_count(&folder), 1);
  temp_folder_remove(&folder);
}

static void follows_the_umask(void **state) {
  (void)state;
  graft_error error = {0};
  temp_folder folder = temp_folder_create();
  temp_path path = temp_folder_join(&folder, "f");
  mode_t before = umask(027);
  assert_ok(write_all(path.text, "x", &error), &error);
  umask(before);
  struct stat info;
  assert_int_equal(stat(path.text, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0640);
  temp_folder_remove(&folder);
}

static void works_in_the_current_folder(void **state) {
  (void)state;
  graft_error error = {0};
  char before[4096];
  assert_non_null(getcwd(before, sizeof before));
  temp_folder folder = temp_folder_create();
  assert_int_equal(chdir(folder.path), 0);
  assert_ok(write_all("bare", "x", &error), &error);
  assert_content("bare", "x");
  assert_int_equal(chdir(before), 0);
  temp_folder_remove(&folder);
}

static void refuses_what_is_no_file(void **state) {
  (void)state;
  graft_error error = {0};
  temp_folder folder = temp_folder_create();
  temp_path slash = temp_folder_join(&folder, "");
  assert_refused(write_all(folder.path, "x", &error), &error, GRAFT_E_IO, folder.path, "a folder");
  assert_refused(write_all(slash.text, "x", &error), &error, GRAFT_E_IO, folder.path, "a folder");
  assert_refused(write_all("/dev/null", "x", &error), &error, GRAFT_E_IO, "/dev/null", "device");
  temp_path link = temp_folder_join(&folder, "link");
  assert_int_equal(symlink("/dev/null", link.text), 0);
  assert_refused(write_all(link.text, "x", &error), &error, GRAFT_E_IO, "link", "device");
  assert_int_equal(unlink(link.text), 0);
  assert_refused(write_all("", "x", &error), &error, GRAFT_E_INVALID, "no file", "name");
  assert_refused(write_all(NULL, "x", &error), &error, GRAFT_E_INVALID, "no file", "name");
  temp_path absent = temp_folder_join(&folder, "absent/f");
  assert_refused(write_all(absent.text, "x", &error), &error, GRAFT_E_IO, "absent/f", "No such file");
  if (geteuid() != 0) {
    assert_int_equal(chmod(folder.path, 0555), 0);
    temp_path path = temp_folder_join(&folder, "f");
    assert_refused(write_all(path.text, "x", &error), &error, GRAFT_E_IO, "/f", "Permission denied");
  }
  temp_folder_remove(&folder);
}

// A full disk, played by a limit on the size of files.
static void full_disk_keeps_the_old(void **state) {
  (void)state;
  graft_error error = {0};
  temp_folder folder = temp_folder_create();
  temp_path path = temp_folder_write_text(&folder, "f", "old");
  struct rlimit before, small;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = before;
  small.rlim_cur = 1000;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  char text[2001];
  memset(text, 'x', 2000);
  text[2000] = '\0';
  graft_status status = write_all(path.text, text, &error);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_DFL);
  assert_refused(status, &error, GRAFT_E_IO, "/f", "File too large");
  assert_content(path.text, "old");
  assert_int_equal(temp_folder_count(&folder), 1);
  temp_folder_remove(&folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(appears_whole),           cmocka_unit_test(aborting_keeps_the_old),
      cmocka_unit_test(follows_the_umask),       cmocka_unit_test(works_in_the_current_folder),
      cmocka_unit_test(refuses_what_is_no_file), cmocka_unit_test(full_disk_keeps_the_old),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
