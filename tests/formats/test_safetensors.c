// Legal files, also the unusual ones, read both mapped and into memory.
#include "formats/safetensors.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format_files.h"

static const graft_safetensors_access both[] = {GRAFT_SAFETENSORS_MAP, GRAFT_SAFETENSORS_READ};

static graft_safetensors *open_file(const char *path, graft_safetensors_access access) {
  graft_error error = {0};
  graft_safetensors *file = NULL;
  assert_ok(graft_safetensors_open(path, access, &error, &file), &error);
  return file;
}

static const graft_safetensors_tensor *require(const graft_safetensors *file, const char *name) {
  graft_error error = {0};
  const graft_safetensors_tensor *tensor = NULL;
  assert_ok(graft_safetensors_require(file, name, &error, &tensor), &error);
  return tensor;
}

static float load_float(const graft_safetensors_tensor *tensor, size_t index) {
  float value;
  memcpy(&value, (const char *)tensor->data + index * sizeof value, sizeof value);
  return value;
}

static void check_unusual(const char *path, graft_safetensors_access access) {
  graft_safetensors *file = open_file(path, access);
  assert_int_equal(graft_safetensors_count(file), 3);
  const graft_safetensors_tensor *empty = require(file, "scaled_fp8"), *scalar = require(file, "s"),
                                 *vector = require(file, "w");
  assert_int_equal(empty->bytes, 0);
  assert_int_equal(empty->rank, 1);
  assert_int_equal(empty->shape[0], 0);
  assert_ptr_equal(empty->dtype, GRAFT_F8_E4M3);
  assert_int_equal(scalar->rank, 0);
  assert_true(load_float(scalar, 0) == 0.25f);
  assert_int_equal(vector->shape[0], 2);
  assert_true(load_float(vector, 0) == 1.0f && load_float(vector, 1) == -2.0f);
  assert_null(graft_safetensors_find(file, "absent"));
  assert_null(graft_safetensors_metadata(file, "absent"));
  graft_safetensors_close(file);
}

// P1: empty tensor, scalar, empty metadata; padded, unpadded (misaligned data), keys in reverse order.
static void unusual_files(void **state) {
  (void)state;
  static const char *const headers[] = {
      "{\"__metadata__\":{},\"scaled_fp8\":{\"dtype\":\"F8_E4M3\",\"shape\":[0],\"data_offsets\":[0,0]},"
      "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
      "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}    ",
      "{\"__metadata__\":{},\"scaled_fp8\":{\"dtype\":\"F8_E4M3\",\"shape\":[0],\"data_offsets\":[0,0]},"
      "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
      "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}} ",
      " {\"w\":{\"data_offsets\":[4,12],\"shape\":[2],\"dtype\":\"F32\"},"
      "\"s\":{\"data_offsets\":[0,4],\"extra\":null,\"shape\":[],\"dtype\":\"F32\"},"
      "\"scaled_fp8\":{\"data_offsets\":[0,0],\"shape\":[0],\"dtype\":\"F8_E4M3\"},\"__metadata__\":{}}\n",
  };
  const float data[] = {0.25f, 1.0f, -2.0f};
  temp_folder folder = temp_folder_create();
  for (size_t i = 0; i < 3; ++i) {
    temp_path path = write_safetensors(&folder, "unusual.safetensors", headers[i], data, sizeof data);
    for (size_t k = 0; k < 2; ++k) check_unusual(path.text, both[k]);
  }
  temp_folder_remove(&folder);
}

static void smallest_files(void **state) {
  (void)state;
  temp_folder folder = temp_folder_create();
  static const char no_elements[] =
      "{\"e\":{\"dtype\":\"I64\",\"shape\":[0,4611686018427387904],\"data_offsets\":[0,0]},"
      "\"g\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,2,0],\"data_offsets\":[0,0]},"
      "\"f\":{\"dtype\":\"U8\",\"shape\":[3,0],\"data_offsets\":[0,0]}}";
  static const char *const headers[] = {"{}", "{\"__metadata__\":{\"a\":\"b\"}}", no_elements};
  static const size_t counts[] = {0, 0, 3};
  for (size_t i = 0; i < 6; ++i) {
    temp_path path = write_safetensors(&folder, "small.safetensors", headers[i / 2], NULL, 0);
    graft_safetensors *file = open_file(path.text, both[i % 2]);
    assert_int_equal(graft_safetensors_count(file), counts[i / 2]);
    for (size_t k = 0; k < counts[i / 2]; ++k) assert_int_equal(graft_safetensors_at(file, k)->n_elements, 0);
    graft_safetensors_close(file);
  }
  temp_folder_remove(&folder);
}

static void metadata(void **state) {
  (void)state;
  // A thumbnail or a workflow in the metadata can be long.
  enum { LONG = 70000 };
  char *header = malloc(LONG + 100);
  assert_non_null(header);
  int n = sprintf(header, "{\"__metadata__\":{\"ключ\":\"\\u00e9\",\"long\":\"");
  memset(header + n, 'x', LONG);
  strcpy(header + n + LONG, "\"}}");
  temp_folder folder = temp_folder_create();
  temp_path path = write_safetensors(&folder, "m.safetensors", header, NULL, 0);
  graft_safetensors *file = open_file(path.text, GRAFT_SAFETENSORS_MAP);
  assert_string_equal(graft_safetensors_metadata(file, "ключ"), "é");
  assert_int_equal(strlen(graft_safetensors_metadata(file, "long")), LONG);
  assert_int_equal(json_object_size(graft_safetensors_metadata_all(file)), 2);
  graft_safetensors_close(file);
  temp_folder_remove(&folder);
  free(header);
}

typedef struct element_type {
  const char *name;
  graft_dtype dtype;  // NULL: known to the container only
  size_t bytes;
  uint64_t values[4];
} element_type;

static const element_type types[] = {
    {"F64", NULL, 8, {0x3FF0000000000000, 0xC000000000000000, 0x3FE0000000000000, 0x7FEFFFFFFFFFFFFF}},
    {"I64", GRAFT_I64, 8, {1, (uint64_t)-2, 3, INT64_MAX}},
    {"U64", NULL, 8, {1, 2, 3, UINT64_MAX}},
    {"C64", NULL, 8, {1, 2, 3, 4}},
    {"F32", GRAFT_F32, 4, {0x3F800000, 0xC0000000, 0x3F000000, 0x7F7FFFFF}},
    {"U32", NULL, 4, {1, 2, 3, UINT32_MAX}},
    {"I32", GRAFT_I32, 4, {1, 0xFFFFFFFE, 3, INT32_MAX}},
    {"BF16", GRAFT_BF16, 2, {0x3F80, 0xC000, 0x3F00, 0x7F7F}},
    {"F16", GRAFT_F16, 2, {0x3C00, 0xC000, 0x3800, 0x7BFF}},
    {"I16", NULL, 2, {1, 0xFFFE, 3, 0x7FFF}},
    {"U16", NULL, 2, {1, 2, 3, 0xFFFF}},
    {"F8_E4M3", GRAFT_F8_E4M3, 1, {0x38, 0xC0, 0x7E, 0x7F}},
    {"F8_E5M2", GRAFT_F8_E5M2, 1, {0x3C, 0xC0, 0x7B, 0x7C}},
    {"F8_E8M0", NULL, 1, {0, 127, 254, 255}},
    {"F8_E4M3FNUZ", NULL, 1, {1, 2, 3, 4}},
    {"F8_E5M2FNUZ", NULL, 1, {1, 2, 3, 4}},
    {"I8", GRAFT_I8, 1, {1, 0xFE, 3, 0x7F}},
    {"U8", GRAFT_U8, 1, {1, 2, 3, 0xFF}},
    {"BOOL", GRAFT_BOOL, 1, {0, 1, 1, 0}},
};
enum { N_TYPES = sizeof types / sizeof types[0] };

static temp_path write_types(const temp_folder *folder) {
  char header[4096] = "{", data[1024];
  size_t n = 1, offset = 0;
  for (size_t i = 0; i < N_TYPES; ++i) {
    n += (size_t)sprintf(header + n, "%s\"t.%s\":{\"dtype\":\"%s\",\"shape\":[4],\"data_offsets\":[%zu,%zu]}",
                         i == 0 ? "" : ",", types[i].name, types[i].name, offset, offset + 4 * types[i].bytes);
    for (size_t k = 0; k < 4; ++k, offset += types[i].bytes) memcpy(data + offset, &types[i].values[k], types[i].bytes);
  }
  strcpy(header + n, "}");
  return write_safetensors(folder, "types.safetensors", header, data, offset);
}

static void check_type(const graft_safetensors *file, size_t index) {
  const element_type *type = &types[index];
  const graft_safetensors_tensor *tensor = graft_safetensors_at(file, index), *found = NULL;
  graft_error error = {0};
  assert_string_equal(tensor->dtype_name, type->name);
  assert_int_equal(tensor->element_bits, 8 * type->bytes);
  assert_int_equal(tensor->bytes, 4 * type->bytes);
  for (size_t k = 0; k < 4; ++k)
    assert_memory_equal((const char *)tensor->data + k * type->bytes, &type->values[k], type->bytes);
  graft_status status = graft_safetensors_require(file, tensor->name, &error, &found);
  if (type->dtype == NULL) {
    assert_refused(status, &error, GRAFT_E_UNSUPPORTED, "types.safetensors", tensor->name);
    assert_non_null(strstr(error.message, type->name));
    return;
  }
  assert_ok(status, &error);
  assert_ptr_equal(found->dtype, type->dtype);
}

// P3: the container knows all types, none is dropped; what graft cannot compute with is refused when it is asked for.
static void element_types(void **state) {
  (void)state;
  temp_folder folder = temp_folder_create();
  temp_path path = write_types(&folder);
  for (size_t k = 0; k < 2; ++k) {
    graft_safetensors *file = open_file(path.text, both[k]);
    assert_int_equal(graft_safetensors_count(file), N_TYPES);
    for (size_t i = 0; i < N_TYPES; ++i) check_type(file, i);
    graft_safetensors_close(file);
  }
  temp_folder_remove(&folder);
}

static void types_below_a_byte(void **state) {
  (void)state;
  temp_folder folder = temp_folder_create();
  temp_path path = write_safetensors(&folder, "f4.safetensors",
                                     "{\"a\":{\"dtype\":\"F4\",\"shape\":[3,2],\"data_offsets\":[0,3]},"
                                     "\"b\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[3,6]},"
                                     "\"c\":{\"dtype\":\"F6_E3M2\",\"shape\":[8],\"data_offsets\":[6,12]}}",
                                     NULL, 12);
  graft_safetensors *file = open_file(path.text, GRAFT_SAFETENSORS_MAP);
  assert_int_equal(graft_safetensors_find(file, "a")->element_bits, 4);
  assert_int_equal(graft_safetensors_find(file, "c")->element_bits, 6);
  graft_safetensors_close(file);
  temp_folder_remove(&folder);
}

static void open_in_child(const char *path) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    graft_safetensors *file = NULL;
    graft_status status = graft_safetensors_open(path, GRAFT_SAFETENSORS_MAP, NULL, &file);
    graft_safetensors_close(file);
    _exit(status == GRAFT_OK ? 0 : 1);
  }
  int result = 0;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_int_equal(result, 0);
}

// P4: a read-only file in a read-only folder of an odd name, opened by two processes at once, not modified.
static void read_only_and_odd_names(void **state) {
  (void)state;
  temp_folder outer = temp_folder_create();
  temp_path odd = temp_folder_join(&outer, "mo del-é-模型-🐈");
  assert_int_equal(mkdir(odd.text, 0755), 0);
  temp_folder inner;
  memcpy(inner.path, odd.text, sizeof inner.path);
  temp_path path = write_types(&inner);
  size_t n_before = 0, n_after = 0;
  char *before = temp_folder_read(path.text, &n_before);
  assert_int_equal(chmod(path.text, 0444), 0);
  assert_int_equal(chmod(inner.path, 0555), 0);
  graft_safetensors *file = open_file(path.text, GRAFT_SAFETENSORS_MAP);
  open_in_child(path.text);
  check_type(file, 4);
  graft_safetensors_close(file);
  char *after = temp_folder_read(path.text, &n_after);
  assert_int_equal(n_before, n_after);
  assert_memory_equal(before, after, n_before);
  free(before);
  free(after);
  temp_folder_remove(&outer);
}

static void files_are_closed_on_exec(void **state) {
  (void)state;
  temp_folder folder = temp_folder_create();
  temp_path path = write_safetensors(&folder, "a.safetensors", "{}", NULL, 0);
  int next = dup(0);  // the lowest free number, which the file will get
  assert_true(next >= 0);
  close(next);
  graft_safetensors *file = open_file(path.text, GRAFT_SAFETENSORS_MAP);
  assert_int_equal(fcntl(next, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  graft_safetensors_close(file);
  temp_folder_remove(&folder);
}

static void changes_are_noticed(void **state) {
  (void)state;
  graft_error error = {0};
  temp_folder folder = temp_folder_create();
  temp_path path = write_types(&folder);
  for (size_t k = 0; k < 2; ++k) {
    graft_safetensors *file = open_file(path.text, both[k]);
    assert_ok(graft_safetensors_check(file, &error), &error);
    assert_int_equal(truncate(path.text, 100), 0);
    assert_refused(graft_safetensors_check(file, &error), &error, GRAFT_E_IO, "types.safetensors", "changed");
    graft_safetensors_close(file);
    path = write_types(&folder);
  }
  temp_folder_remove(&folder);
}

static void advice(void **state) {
  (void)state;
  enum { BYTES = 100000 };
  char header[128];
  snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", BYTES, BYTES);
  char *data = malloc(BYTES);
  assert_non_null(data);
  for (int i = 0; i < BYTES; ++i) data[i] = (char)(i * 31);
  temp_folder folder = temp_folder_create();
  temp_path path = write_safetensors(&folder, "a.safetensors", header, data, BYTES);
  graft_error error = {0};
  for (size_t k = 0; k < 2; ++k) {
    graft_safetensors *file = open_file(path.text, both[k]);
    const graft_safetensors_tensor *t = require(file, "t");
    assert_ok(graft_safetensors_advise(file, t->data, t->bytes, GRAFT_SAFETENSORS_WILL_NEED, &error), &error);
    assert_memory_equal(t->data, data, BYTES);
    assert_ok(graft_safetensors_advise(file, t->data, t->bytes, GRAFT_SAFETENSORS_DISCARD, &error), &error);
    assert_ok(graft_safetensors_advise(file, t->data, 1, GRAFT_SAFETENSORS_DISCARD, &error), &error);
    assert_memory_equal(t->data, data, BYTES);
    assert_refused(graft_safetensors_advise(file, t->data, BYTES + 1, GRAFT_SAFETENSORS_DISCARD, &error), &error,
                   GRAFT_E_INVALID, "a.safetensors", "outside");
    assert_refused(graft_safetensors_advise(file, header, 1, GRAFT_SAFETENSORS_DISCARD, &error), &error,
                   GRAFT_E_INVALID, "a.safetensors", "outside");
    graft_safetensors_close(file);
  }
  free(data);
  temp_folder_remove(&folder);
}

// Opening reads the header only: a file that holds 24 GB of nothing opens at once and costs no memory.
static void huge_sparse_file(void **state) {
  (void)state;
  const char header[] = "{\"t\":{\"dtype\":\"F32\",\"shape\":[6000000000],\"data_offsets\":[0,24000000000]}}";
  temp_folder folder = temp_folder_create();
  temp_path path = write_safetensors(&folder, "huge.safetensors", header, NULL, 0);
  if (truncate(path.text, (off_t)(8 + strlen(header)) + 24000000000) != 0) {
    temp_folder_remove(&folder);
    skip();  // a file system without sparse files
  }
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  graft_safetensors *file = open_file(path.text, GRAFT_SAFETENSORS_MAP);
  getrusage(RUSAGE_SELF, &after);
  assert_int_equal(require(file, "t")->bytes, 24000000000);
  // An emulator keeps a note for every page that is mapped, so a few faults are no sign; reading touches every page.
  assert_true(after.ru_minflt - before.ru_minflt < (long)(24000000000 / 4096 / 16));
  assert_true(load_float(require(file, "t"), 5999999999) == 0.0f);
  graft_safetensors_close(file);
  temp_folder_remove(&folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unusual_files),
      cmocka_unit_test(smallest_files),
      cmocka_unit_test(metadata),
      cmocka_unit_test(element_types),
      cmocka_unit_test(types_below_a_byte),
      cmocka_unit_test(read_only_and_odd_names),
      cmocka_unit_test(files_are_closed_on_exec),
      cmocka_unit_test(changes_are_noticed),
      cmocka_unit_test(advice),
      cmocka_unit_test(huge_sparse_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
