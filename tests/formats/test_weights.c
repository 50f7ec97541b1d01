// Which files a folder's weights are, and indexes that lie.
#include "formats/weights.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "format_files.h"

#define ONE(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"

static void write_one(const temp_folder *folder, const char *file, const char *header) {
  write_safetensors(folder, file, header, NULL, 1);
}

static void assert_has(const char *path, const char *tensor) {
  graft_error error = {0};
  graft_weights *weights = NULL;
  const graft_safetensors_tensor *found = NULL;
  assert_ok(graft_weights_open(path, GRAFT_SAFETENSORS_MAP, &error, &weights), &error);
  assert_string_equal(graft_weights_path(weights), path);
  assert_ok(graft_weights_require(weights, tensor, &error, &found), &error);
  assert_ptr_equal(found, graft_weights_find(weights, tensor));
  assert_refused(graft_weights_require(weights, "absent", &error, &found), &error, GRAFT_E_NOT_FOUND, path, "`absent`");
  graft_weights_close(weights);
}

static void assert_not_opened(const char *path, graft_status status, const char *first, const char *second) {
  for (int access = GRAFT_SAFETENSORS_MAP; access <= GRAFT_SAFETENSORS_READ; ++access) {
    graft_error error = {0};
    graft_weights *weights = NULL;
    graft_status actual = graft_weights_open(path, (graft_safetensors_access)access, &error, &weights);
    assert_null(weights);
    assert_refused(actual, &error, status, first, second);
  }
}

static void order_of_preference(void **state) {
  (void)state;
  temp_folder folder = temp_folder_create();
  assert_not_opened(folder.path, GRAFT_E_NOT_FOUND, folder.path, "no safetensors file");
  write_one(&folder, ".hidden.safetensors", ONE("hidden"));
  assert_not_opened(folder.path, GRAFT_E_NOT_FOUND, folder.path, "no safetensors file");
  write_one(&folder, "any.safetensors", ONE("any"));
  assert_has(folder.path, "any");
  write_one(&folder, "other.safetensors", ONE("other"));
  assert_not_opened(folder.path, GRAFT_E_INVALID, folder.path, "2 safetensors files");
  temp_folder_write_text(&folder, "x.safetensors.index.json", "{\"weight_map\":{\"other\":\"other.safetensors\"}}");
  assert_has(folder.path, "other");
  temp_folder_write_text(&folder, "y.safetensors.index.json", "{\"weight_map\":{\"any\":\"any.safetensors\"}}");
  assert_not_opened(folder.path, GRAFT_E_INVALID, folder.path, "2 index files");
  assert_has(temp_folder_join(&folder, "y.safetensors.index.json").text, "any");
  assert_has(temp_folder_join(&folder, "other.safetensors").text, "other");
  temp_folder_write_text(&folder, "model.safetensors.index.json", "{\"weight_map\":{\"any\":\"any.safetensors\"}}");
  assert_has(folder.path, "any");
  write_one(&folder, "model.safetensors", ONE("m"));
  assert_has(folder.path, "m");
  write_one(&folder, "diffusion_pytorch_model.safetensors", ONE("d"));
  assert_has(folder.path, "d");
  temp_folder_remove(&folder);
}

static void shards(void **state) {
  (void)state;
  graft_error error = {0};
  temp_folder folder = temp_folder_create();
  write_one(&folder, "m-1.safetensors", ONE("a"));
  write_safetensors(&folder, "m-2.safetensors",
                    "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                    "\"unlisted\":{\"dtype\":\"U16\",\"shape\":[1],\"data_offsets\":[2,4]}}",
                    NULL, 4);
  temp_folder_write_text(&folder, "model.safetensors.index.json",
                         "{\"metadata\":{\"total_size\":5},"
                         "\"weight_map\":{\"b\":\"m-2.safetensors\",\"a\":\"m-1.safetensors\"}}");
  graft_weights *weights = NULL;
  assert_ok(graft_weights_open(folder.path, GRAFT_SAFETENSORS_READ, &error, &weights), &error);
  assert_int_equal(graft_weights_file_count(weights), 2);
  assert_int_equal(graft_weights_count(weights), 3);
  assert_ptr_equal(graft_weights_find(weights, "a")->file, graft_weights_file(weights, 1));
  assert_string_equal(graft_weights_at(weights, 0)->name, "b");
  const graft_safetensors_tensor *tensor = NULL;
  assert_refused(graft_weights_require(weights, "unlisted", &error, &tensor), &error, GRAFT_E_UNSUPPORTED,
                 "m-2.safetensors", "U16");
  // A change of any shard is noticed.
  assert_ok(graft_weights_check(weights, &error), &error);
  assert_int_equal(truncate(temp_folder_join(&folder, "m-1.safetensors").text, 8), 0);
  assert_refused(graft_weights_check(weights, &error), &error, GRAFT_E_IO, "m-1.safetensors", "changed on disk");
  graft_weights_close(weights);
  temp_folder_remove(&folder);
}

static void lying_indexes(void **state) {
  (void)state;
  static const struct {
    const char *index;
    graft_status status;
    const char *file, *reason;
  } cases[] = {
      {"{}", GRAFT_E_FORMAT, "model.safetensors.index.json", "weight_map"},
      {"[]", GRAFT_E_FORMAT, "model.safetensors.index.json", "weight_map"},
      {"", GRAFT_E_FORMAT, "model.safetensors.index.json", "empty"},
      {"{\"weight_map\":[]}", GRAFT_E_FORMAT, "model.safetensors.index.json", "weight_map"},
      {"{\"weight_map\":{\"a\":1}}", GRAFT_E_FORMAT, "model.safetensors.index.json", "`a`"},
      {"{\"weight_map\":{\"a\":\"\"}}", GRAFT_E_FORMAT, "model.safetensors.index.json", "`a`"},
      {"{\"weight_map\":{\"a\":\"..\"}}", GRAFT_E_FORMAT, "model.safetensors.index.json", "beside the index"},
      {"{\"weight_map\":{\"a\":\"../1.safetensors\"}}", GRAFT_E_FORMAT, "model.safetensors.index.json",
       "beside the index"},
      {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", GRAFT_E_FORMAT, "model.safetensors.index.json", "beside the index"},
      {"{\"weight_map\":{\"a\":\"3.safetensors\"}}", GRAFT_E_NOT_FOUND, "3.safetensors", "No such file"},
      {"{\"weight_map\":{\"b\":\"1.safetensors\"}}", GRAFT_E_FORMAT, "1.safetensors", "`b` is not in this file"},
      {"{\"weight_map\":{\"a\":\"1.safetensors\",\"c\":\"2.safetensors\"}}", GRAFT_E_FORMAT, "2.safetensors",
       "`a` is in another file"},
      {"{\"weight_map\":{\"a\":\"1.safetensors\",\"a\":\"2.safetensors\"}}", GRAFT_E_FORMAT,
       "model.safetensors.index.json", "duplicate"},
  };
  temp_folder folder = temp_folder_create();
  write_one(&folder, "1.safetensors", ONE("a"));
  write_safetensors(&folder, "2.safetensors",
                    "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                    "\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                    NULL, 2);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    temp_folder_write_text(&folder, "model.safetensors.index.json", cases[i].index);
    assert_not_opened(folder.path, cases[i].status, cases[i].file, cases[i].reason);
  }
  assert_not_opened("", GRAFT_E_INVALID, "no weights", "");
  assert_not_opened(temp_folder_join(&folder, "absent").text, GRAFT_E_NOT_FOUND, "absent", "No such file");
  temp_folder_remove(&folder);
}

static void too_many_shards(void **state) {
  (void)state;
  enum { SHARDS = 1025 };
  static char index[SHARDS * 40 + 100];
  temp_folder folder = temp_folder_create();
  size_t n = (size_t)sprintf(index, "{\"weight_map\":{");
  for (int i = 0; i < SHARDS; ++i) {
    char name[32], header[96];
    snprintf(name, sizeof name, "%d.safetensors", i);
    snprintf(header, sizeof header, "{\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", i);
    write_one(&folder, name, header);
    n += (size_t)sprintf(index + n, "%s\"t%d\":\"%s\"", i == 0 ? "" : ",", i, name);
  }
  strcpy(index + n, "}}");
  temp_folder_write_text(&folder, "model.safetensors.index.json", index);
  graft_error error = {0};
  graft_weights *weights = NULL;
  graft_status status = graft_weights_open(folder.path, GRAFT_SAFETENSORS_MAP, &error, &weights);
  // Either the limit of graft or that of the system on open files.
  assert_true(status == GRAFT_E_FORMAT || status == GRAFT_E_IO);
  assert_null(weights);
  temp_folder_remove(&folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(order_of_preference),
      cmocka_unit_test(shards),
      cmocka_unit_test(lying_indexes),
      cmocka_unit_test(too_many_shards),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
