// Where files come from and go to: read-only models with odd names, folders that cannot be written, disks that are
// full.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "tiny_model.h"

static temp_folder folder;

static int set_up(void **state) {
  (void)state;
  folder = temp_folder_create();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  temp_folder_remove(&folder);
  return 0;
}

static temp_folder make_model(const char *name) {
  temp_folder model = {0};
  snprintf(model.path, sizeof model.path, "%s", temp_folder_join(&folder, name).text);
  assert_int_equal(mkdir(model.path, 0700), 0);
  tiny_model_write(&model, NULL);
  return model;
}

// As a user without rights would be met, also when the test runs as root.
static int drop_rights(void) {
  enum { NOBODY = 65534 };
  return geteuid() != 0 ? 0 : setgid(NOBODY) != 0 || setuid(NOBODY) != 0;
}

// Runs as a user without rights; skips the test where the build lies where nobody else may look.
static program_result run_without_rights(const temp_folder *in, const char *const *arguments) {
  enum { NOT_STARTED = 126 };
  program_result result =
      program_run(&(program_call){.folder = in->path, .prepare = drop_rights, .arguments = arguments});
  if (result.code != NOT_STARTED) return result;
  program_result_release(&result);
  skip();
  return result;
}

static void lock_model(const temp_folder *model) {
  static const char *const parts[] = {"text_encoder", "transformer", "vae", "tokenizer", "scheduler"};
  static const char *const weights[] = {"text_encoder/model.safetensors",
                                        "transformer/diffusion_pytorch_model.safetensors",
                                        "vae/diffusion_pytorch_model.safetensors"};
  for (size_t i = 0; i < sizeof weights / sizeof weights[0]; ++i)
    assert_int_equal(chmod(temp_folder_join(model, weights[i]).text, 0444), 0);
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; ++i)
    assert_int_equal(chmod(temp_folder_join(model, parts[i]).text, 0555), 0);
  assert_int_equal(chmod(model->path, 0555), 0);
}

static void two_processes_share_a_locked_model_with_an_odd_name(void **state) {
  (void)state;
  const temp_folder model = make_model("mo del-\xC3\xA9-\xE6\xA8\xA1\xE5\x9E\x8B-\xF0\x9F\x90\x88");
  const temp_path path = temp_folder_join(&model, "transformer/diffusion_pytorch_model.safetensors");
  size_t n_before, n_after;
  char *before = temp_folder_read(path.text, &n_before);
  lock_model(&model);
  const char *const first[] = {"generate", "-q", "-m", model.path, "-p", "a", "-o", "a \xE7\x8C\xAB.png", NULL};
  const char *const second[] = {"generate", "-q", "-m", model.path, "-p", "a", "-o", "b.png", NULL};
  program a = program_start(&(program_call){.folder = folder.path, .arguments = first});
  program b = program_start(&(program_call){.folder = folder.path, .arguments = second});
  assert_done(program_finish(&a));
  assert_done(program_finish(&b));
  char *after = temp_folder_read(path.text, &n_after);
  assert_int_equal(n_before, n_after);
  assert_memory_equal(before, after, n_after);
  picture p = picture_read(temp_folder_join(&folder, "a \xE7\x8C\xAB.png").text);
  picture q = picture_read(temp_folder_join(&folder, "b.png").text);
  assert_same_picture(&p, &q);
  free(p.bytes);
  free(q.bytes);
  free(before);
  free(after);
}

static void missing_folders_and_names_that_are_folders_are_refused_at_once(void **state) {
  (void)state;
  const temp_folder model = make_model("model");
  assert_int_equal(mkdir(temp_folder_join(&folder, "taken.png").text, 0700), 0);
  assert_int_equal(mkdir(temp_folder_join(&folder, "several-2.png").text, 0700), 0);
  static const char *const wrong[][3] = {
      {"-o", "none/a.png", "none/a.png"},          {"-o", "taken.png", "taken.png"},     {"--dump", "none/d", "none/d"},
      {"--profile", "none/p.json", "none/p.json"}, {"--dump", "/dev/null", "/dev/null"},
  };
  const size_t n = temp_folder_count(&folder);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i)
    assert_refused(GRAFT(folder.path, "generate", "-m", model.path, "-p", "a", wrong[i][0], wrong[i][1]), 1,
                   wrong[i][2]);
  assert_refused(GRAFT(folder.path, "generate", "-m", model.path, "-p", "a", "--batch", "3", "-o", "several.png"), 1,
                 "several-2.png");
  assert_int_equal(temp_folder_count(&folder), n);
}

static void read_only_folder_is_refused_at_once(void **state) {
  (void)state;
  const temp_folder model = make_model("model");
  temp_folder locked = {0};
  snprintf(locked.path, sizeof locked.path, "%s", temp_folder_join(&folder, "locked").text);
  assert_int_equal(mkdir(locked.path, 0555), 0);
  assert_int_equal(chmod(folder.path, 0755), 0);
  assert_int_equal(chmod(model.path, 0755), 0);
  const char *const arguments[] = {"generate", "-m", model.path, "-p", "a", "-o", "a.png", NULL};
  assert_refused(run_without_rights(&locked, arguments), 1, "a.png");
  assert_int_equal(temp_folder_count(&locked), 0);
}

static void what_may_not_be_read_is_not_called_missing(void **state) {
  (void)state;
  const temp_folder model = make_model("model");
  const char *const arguments[] = {"inspect", model.path, NULL};
  const temp_path closed[] = {temp_folder_join(&model, "vae"), temp_folder_join(&model, "scheduler"),
                              temp_folder_join(&folder, "model")};
  assert_int_equal(chmod(folder.path, 0755), 0);
  assert_int_equal(chmod(model.path, 0755), 0);
  for (size_t i = 0; i < sizeof closed / sizeof closed[0]; ++i) {
    assert_int_equal(chmod(closed[i].text, 0), 0);
    program_result result = run_without_rights(&folder, arguments);
    assert_int_equal(chmod(closed[i].text, 0755), 0);
    assert_refused(result, 1, "Permission denied");
  }
}

// Files may grow to a few bytes only, as on a disk that is full.
static int limit_files(void) {
  const struct rlimit limit = {.rlim_cur = 512, .rlim_max = 512};
  return setrlimit(RLIMIT_FSIZE, &limit);
}

static void full_disk_leaves_nothing(void **state) {
  (void)state;
  const temp_folder model = make_model("model");
  temp_folder_write_text(&folder, "old.png", "the old picture");
  const char *const outputs[] = {"new.png", "old.png"};
  for (size_t i = 0; i < 2; ++i) {
    const char *const arguments[] = {"generate", "-q", "-m", model.path, "-p", "a", "-o", outputs[i], NULL};
    assert_refused(program_run(&(program_call){.folder = folder.path, .prepare = limit_files, .arguments = arguments}),
                   1, outputs[i]);
  }
  assert_int_equal(temp_folder_count(&folder), 2);
  char *old = temp_folder_read(temp_folder_join(&folder, "old.png").text, NULL);
  assert_string_equal(old, "the old picture");
  free(old);
}

// The decoder's weights are first touched once the picture is drawn. Behind the end of a file its last page has zeros.
static void cut_model_in_use(bool is_cut_by_little) {
  const temp_folder model = make_model("model");
  const temp_path vae = temp_folder_join(&model, "vae/diffusion_pytorch_model.safetensors");
  const char *const arguments[] = {"generate", "-p",     "a",     "-m",       "model", "--steps",
                                   "1000",     "--size", "32x32", "--output", "a.png", NULL};
  program running = program_start(&(program_call){.folder = folder.path, .arguments = arguments});
  bool is_loaded = false;
  for (int i = 0; i < 4000 && !is_loaded; ++i) {
    test_sleep(0.005);
    char *errors = program_errors(&running);
    is_loaded = strstr(errors, "loading: 1/1") != NULL;
    free(errors);
  }
  struct stat whole;
  assert_int_equal(stat(vae.text, &whole), 0);
  assert_int_equal(truncate(vae.text, is_cut_by_little ? whole.st_size - 40 : 0), 0);
  program_result result = program_finish(&running);
  assert_code(&result, 1);
  assert_holds(result.errors,
               is_cut_by_little ? "changed on disk while it was in use" : "cut short while it was in use");
  assert_int_not_equal(access(temp_folder_join(&folder, "a.png").text, F_OK), 0);
  program_result_release(&result);
}

static void model_that_is_cut_while_it_is_in_use_ends_with_a_message(void **state) {
  (void)state;
  cut_model_in_use(false);
}

static void model_that_is_cut_by_less_than_a_page_ends_with_a_message(void **state) {
  (void)state;
  cut_model_in_use(true);
}

static void pages_are_written_whole_or_not_at_all(void **state) {
  (void)state;
  assert_refused(GRAFT(folder.path, "plan", "--html", "missing/plan.html"), 1, "missing/plan.html");
  const char *const arguments[] = {"plan", "--stage", "decoder", "--html", "plan.html", NULL};
  assert_refused(program_run(&(program_call){.folder = folder.path, .prepare = limit_files, .arguments = arguments}), 1,
                 "plan.html");
  assert_int_equal(temp_folder_count(&folder), 0);
  program_result result = program_run(&(program_call){.folder = folder.path, .arguments = arguments});
  assert_code(&result, 0);
  assert_string_equal(result.output, "");
  assert_string_equal(result.errors, "graft: wrote plan.html\n");
  program_result_release(&result);
  result = GRAFT(folder.path, "plan", "--stage", "decoder", "--format", "html");
  char *page = temp_folder_read(temp_folder_join(&folder, "plan.html").text, NULL);
  assert_string_equal(page, result.output);
  assert_holds(page, "<!doctype html>");
  free(page);
  program_result_release(&result);
}

static void shipped_model_is_found_from_any_folder(void **state) {
  (void)state;
  assert_done(GRAFT(folder.path, "generate", "-q", "-p", "a cat", "--size", "32x32", "--steps", "1"));
  assert_done(GRAFT("/", "tokenize", "a cat"));
  assert_int_equal(temp_folder_count(&folder), 1);
}

static void models_that_are_none_are_refused(void **state) {
  (void)state;
  temp_folder_write_text(&folder, "file", "text");
  assert_refused(GRAFT(folder.path, "generate", "-p", "a", "-m", "nowhere"), 1, "nowhere");
  assert_refused(GRAFT(folder.path, "generate", "-p", "a", "-m", "file"), 1, "file");
  assert_refused(GRAFT(folder.path, "generate", "-p", "a", "-m", "."), 1, "not a model");
  assert_refused(GRAFT(folder.path, "plan", "nowhere"), 1, "nowhere");
  assert_refused(GRAFT(folder.path, "tokenize", "-m", "nowhere", "a"), 1, "nowhere");
  assert_refused(GRAFT(folder.path, "bench", "generate", "-m", "nowhere"), 1, "nowhere");
  assert_int_equal(temp_folder_count(&folder), 1);
}

int main(void) {
#define FILE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      FILE_TEST(two_processes_share_a_locked_model_with_an_odd_name),
      FILE_TEST(missing_folders_and_names_that_are_folders_are_refused_at_once),
      FILE_TEST(read_only_folder_is_refused_at_once),
      FILE_TEST(what_may_not_be_read_is_not_called_missing),
      FILE_TEST(full_disk_leaves_nothing),
      FILE_TEST(model_that_is_cut_while_it_is_in_use_ends_with_a_message),
      FILE_TEST(pages_are_written_whole_or_not_at_all),
      FILE_TEST(model_that_is_cut_by_less_than_a_page_ends_with_a_message),
      FILE_TEST(shipped_model_is_found_from_any_folder),
      FILE_TEST(models_that_are_none_are_refused),
  };
  return cmocka_run_group_tests_name("cli.files", tests, NULL, NULL);
}
