// What is written is what is read, in the layout of the reference writer; failures leave nothing behind.
#include "formats/safetensors_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "format_files.h"
#include "formats/safetensors.h"

static const float floats[] = {1.0f, -2.0f, 0.5f, 3.25f, 0.0f, 7.0f};
static const int32_t ints[] = {1, -2, 3};
static const uint8_t bytes[] = {1, 2, 3, 4, 5};
static const int64_t longs[] = {-1};

static const graft_safetensors_source sources[] = {
    {"u", GRAFT_U8, 1, {5}, bytes},         {"b.f", GRAFT_F32, 2, {2, 3}, floats},
    {"a.f", GRAFT_F32, 0, {0}, floats + 3}, {"i", GRAFT_I32, 1, {3}, ints},
    {"empty", GRAFT_F16, 2, {0, 4}, NULL},  {"l", GRAFT_I64, 1, {1}, longs},
    {"flag é", GRAFT_BOOL, 1, {1}, bytes},
};
enum { N_SOURCES = sizeof sources / sizeof sources[0] };

static const graft_safetensors_pair pairs[] = {{"format", "graft"}, {"note", "quote \" and 猫"}};

static void write_ok(const char *path, const graft_safetensors_contents *contents) {
  graft_error error = {0};
  assert_ok(graft_safetensors_write(path, contents, &error), &error);
}

static void check_source(const graft_safetensors *file, const graft_safetensors_source *source) {
  const graft_safetensors_tensor *tensor = graft_safetensors_find(file, source->name);
  assert_non_null(tensor);
  assert_ptr_equal(tensor->dtype, source->dtype);
  assert_int_equal(tensor->rank, source->rank);
  for (int32_t i = 0; i < source->rank; ++i) assert_int_equal(tensor->shape[i], source->shape[i]);
  if (tensor->bytes > 0) assert_memory_equal(tensor->data, source->data, tensor->bytes);
  assert_int_equal(tensor->file_offset % source->dtype->block_bytes, 0);
}

static void round_trip(void **state) {
  (void)state;
  static const char *const order[] = {"l", "a.f", "b.f", "i", "empty", "u", "flag é"};
  graft_error error = {0};
  temp_folder folder = temp_folder_create();
  temp_path path = temp_folder_join(&folder, "out.safetensors");
  write_ok(path.text, &(graft_safetensors_contents){
                          .tensors = sources, .n_tensors = N_SOURCES, .metadata = pairs, .n_metadata = 2});
  graft_safetensors *file = NULL;
  assert_ok(graft_safetensors_open(path.text, GRAFT_SAFETENSORS_MAP, &error, &file), &error);
  assert_int_equal(graft_safetensors_count(file), N_SOURCES);
  for (size_t i = 0; i < N_SOURCES; ++i) check_source(file, &sources[i]);
  for (size_t i = 0; i < N_SOURCES; ++i) assert_string_equal(graft_safetensors_at(file, i)->name, order[i]);
  assert_string_equal(graft_safetensors_metadata(file, "note"), "quote \" and 猫");
  graft_safetensors_close(file);
  assert_int_equal(temp_folder_count(&folder), 1);
  temp_folder_remove(&folder);
}

// The bytes of the reference writer for the same tensors.
static void reference_bytes(void **state) {
  (void)state;
  static const char header[] =
      "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
      "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";
  const graft_safetensors_pair pair = {"format", "pt"};
  const graft_safetensors_source two[] = {{"a", GRAFT_U8, 1, {3}, bytes}, {"b", GRAFT_F32, 1, {2}, floats}};
  temp_folder folder = temp_folder_create();
  temp_path path = temp_folder_join(&folder, "out.safetensors");
  write_ok(path.text,
           &(graft_safetensors_contents){.tensors = two, .n_tensors = 2, .metadata = &pair, .n_metadata = 1});
  size_t n = 0, n_header = strlen(header), padded = (n_header + 7) / 8 * 8;
  char *written = temp_folder_read(path.text, &n);
  assert_int_equal(n, 8 + padded + 11);
  assert_int_equal((unsigned char)written[0], padded);
  assert_memory_equal(written + 8, header, n_header);
  for (size_t i = n_header; i < padded; ++i) assert_int_equal(written[8 + i], ' ');
  assert_memory_equal(written + 8 + padded, floats, 8);
  assert_memory_equal(written + 8 + padded + 8, bytes, 3);
  free(written);
  temp_folder_remove(&folder);
}

static void empty_file(void **state) {
  (void)state;
  temp_folder folder = temp_folder_create();
  temp_path path = temp_folder_join(&folder, "out.safetensors");
  write_ok(path.text, &(graft_safetensors_contents){0});
  size_t n = 0;
  char *written = temp_folder_read(path.text, &n);
  assert_int_equal(n, 16);
  assert_memory_equal(written, "\10\0\0\0\0\0\0\0{}      ", 16);
  free(written);
  temp_folder_remove(&folder);
}

static const graft_dtype_def custom = {.struct_size = sizeof(graft_dtype_def), .name = "test.custom"};

static void refusals(void **state) {
  (void)state;
  const struct {
    graft_safetensors_source source;
    graft_status status;
    const char *reason;
  } cases[] = {
      {{NULL, GRAFT_U8, 1, {1}, bytes}, GRAFT_E_INVALID, "name"},
      {{"__metadata__", GRAFT_U8, 1, {1}, bytes}, GRAFT_E_INVALID, "name"},
      {{"\xFF", GRAFT_U8, 1, {1}, bytes}, GRAFT_E_INVALID, "UTF-8"},
      {{"t", &custom, 1, {1}, bytes}, GRAFT_E_UNSUPPORTED, "element type"},
      {{"t", NULL, 1, {1}, bytes}, GRAFT_E_UNSUPPORTED, "element type"},
      {{"t", GRAFT_U8, 1, {1}, NULL}, GRAFT_E_INVALID, "no data"},
      {{"t", GRAFT_U8, 1, {-1}, bytes}, GRAFT_E_SHAPE, "negative"},
      {{"t", GRAFT_U8, 9, {1}, bytes}, GRAFT_E_SHAPE, "rank"},
      {{"t", GRAFT_U8, -1, {1}, bytes}, GRAFT_E_SHAPE, "rank"},
      {{"t", GRAFT_F32, 2, {INT64_MAX, 4}, bytes}, GRAFT_E_NO_MEMORY, "overflows"},
      {{"same", GRAFT_U8, 1, {1}, bytes}, GRAFT_E_INVALID, "two tensors"},
  };
  temp_folder folder = temp_folder_create();
  temp_path path = temp_folder_join(&folder, "out.safetensors");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    const graft_safetensors_source two[] = {cases[i].source, {"same", GRAFT_F32, 1, {1}, floats}};
    graft_error error = {0};
    assert_refused(
        graft_safetensors_write(path.text, &(graft_safetensors_contents){.tensors = two, .n_tensors = 2}, &error),
        &error, cases[i].status, "out.safetensors", cases[i].reason);
  }
  graft_error error = {0};
  const graft_safetensors_pair bad = {"k", "\xC3"};
  assert_refused(
      graft_safetensors_write(path.text, &(graft_safetensors_contents){.metadata = &bad, .n_metadata = 1}, &error),
      &error, GRAFT_E_INVALID, "out.safetensors", "metadata `k`");
  assert_int_equal(temp_folder_count(&folder), 0);
  temp_folder_remove(&folder);
}

static void missing_folder(void **state) {
  (void)state;
  graft_error error = {0};
  temp_folder folder = temp_folder_create();
  temp_path path = temp_folder_join(&folder, "absent/out.safetensors");
  assert_refused(graft_safetensors_write(path.text, &(graft_safetensors_contents){0}, &error), &error, GRAFT_E_IO,
                 "out.safetensors", "No such file");
  temp_folder_remove(&folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trip), cmocka_unit_test(reference_bytes), cmocka_unit_test(empty_file),
      cmocka_unit_test(refusals),   cmocka_unit_test(missing_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
