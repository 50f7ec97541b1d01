// Broken files: each is refused with a sentence that names the file and the reason, mapped or not.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format_files.h"
#include "formats/safetensors.h"

static void assert_file_refused(const char *path, graft_status status, const char *reason) {
  const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
  for (int access = GRAFT_SAFETENSORS_MAP; access <= GRAFT_SAFETENSORS_READ; ++access) {
    graft_error error = {0};
    graft_safetensors *file = NULL;
    graft_status actual = graft_safetensors_open(path, (graft_safetensors_access)access, &error, &file);
    assert_null(file);
    assert_refused(actual, &error, status, name, reason);
  }
}

typedef struct broken_header {
  const char *header;
  size_t n_data;
  const char *reason;
} broken_header;

#define ENTRY(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const broken_header broken_headers[] = {
    {"{\"t\":" ENTRY("F32", "[1000,1000]", "[0,4]") "}", 4, "needs 4000000 bytes"},
    {"{\"t\":" ENTRY("F32", "[1]", "[8,4]") "}", 8, "ends before it begins"},
    {"{\"t\":" ENTRY("F32", "[1]", "[0,5]") "}", 4, "needs 4 bytes"},
    {"{\"t\":" ENTRY("F32", "[2]", "[0,8]") "}", 7, "beyond the end"},
    {"{\"t\":" ENTRY("F32", "[2]", "[0,8]") "}", 9, "1 bytes follow"},
    {"{\"t\":" ENTRY("F32", "[1]", "[0,4]") "}", 0, "beyond the end"},
    {"{}", 1, "1 bytes follow"},
    {"[]", 0, "not a JSON object"},
    {"null", 0, "JSON"},
    {"", 0, "empty"},
    {"        ", 0, "JSON"},
    {"{", 0, "JSON"},
    {"{} x", 0, "JSON"},
    {"{\"t\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "`dtype`"},
    {"{\"t\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "`dtype`"},
    {"{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "`shape`"},
    {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "`data_offsets`"},
    {"{\"t\":7}", 4, "not an object"},
    {"{\"t\":[]}", 4, "not an object"},
    {"{\"t\":" ENTRY("F32", "[1]", "[\"0\",\"4\"]") "}", 4, "`data_offsets`"},
    {"{\"t\":" ENTRY("F32", "[1]", "[0]") "}", 4, "`data_offsets`"},
    {"{\"t\":" ENTRY("F32", "[1]", "[0,2,4]") "}", 4, "`data_offsets`"},
    {"{\"t\":" ENTRY("F32", "[1]", "[-1,3]") "}", 4, "`data_offsets`"},
    {"{\"t\":" ENTRY("F32", "[1]", "[0.5,4]") "}", 4, "`data_offsets`"},
    {"{\"t\":" ENTRY("F32", "[1]", "[0,4.0]") "}", 4, "`data_offsets`"},
    {"{\"t\":" ENTRY("F32", "[1]", "{\"0\":0}") "}", 4, "`data_offsets`"},
    {"{\"t\":" ENTRY("F32", "[1]", "[0,18446744073709551616]") "}", 4, "JSON"},
    {"{\"t\":" ENTRY("F32", "[1]", "[0,9223372036854775807]") "}", 4, "needs 4 bytes"},
    {"{\"t\":" ENTRY("U8", "[9223372036854775807]", "[0,9223372036854775807]") "}", 4, "overflows"},
    {"{\"t\":" ENTRY("U8", "[1152921504606846976]", "[0,1152921504606846976]") "}", 4, "beyond the end"},
    {"{\"t\":" ENTRY("F32", "[1.5]", "[0,4]") "}", 4, "`shape`"},
    {"{\"t\":" ENTRY("F32", "[-1]", "[0,4]") "}", 4, "`shape`"},
    {"{\"t\":" ENTRY("F32", "[true]", "[0,4]") "}", 4, "`shape`"},
    {"{\"t\":" ENTRY("F32", "1", "[0,4]") "}", 4, "`shape`"},
    {"{\"t\":" ENTRY("F4_X", "[1]", "[0,4]") "}", 4, "unknown element type \"F4_X\""},
    {"{\"t\":" ENTRY("F8_E4M3FN", "[4]", "[0,4]") "}", 4, "unknown element type"},
    {"{\"t\":" ENTRY("f32", "[1]", "[0,4]") "}", 4, "unknown element type"},
    {"{\"t\":" ENTRY("F32", "[8589934592,8589934592]", "[0,4]") "}", 4, "overflows"},
    {"{\"t\":" ENTRY("F32", "[8589934592,8589934592,0]", "[0,0]") "}", 0, "overflows"},
    {"{\"t\":" ENTRY("F32", "[4611686018427387904]", "[0,0]") "}", 0, "overflows"},
    {"{\"t\":" ENTRY("F4", "[3]", "[0,1]") "}", 1, "whole number of bytes"},
    {"{\"t\":" ENTRY("F6_E2M3", "[1]", "[0,1]") "}", 1, "whole number of bytes"},
    {"{\"a\":" ENTRY("U8", "[4]", "[1,5]") "}", 5, "gap"},
    {"{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"t\":" ENTRY("U8", "[4]", "[5,9]") "}", 9, "`t`: its data leaves a gap"},
    {"{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"t\":" ENTRY("U8", "[4]", "[3,7]") "}", 7, "`t`: its data overlaps"},
    {"{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"t\":" ENTRY("U8", "[4]", "[0,4]") "}", 4, "overlaps"},
    {"{\"t\":" ENTRY("U8", "[0]", "[5,5]") "}", 4, "gap"},
    {"{\"t\":" ENTRY("U8", "[2]", "[0,2]") ",\"t\":" ENTRY("U8", "[2]", "[2,4]") "}", 4, "duplicate"},
    {"{\"t\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "duplicate"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "`a`"},
    {"{\"__metadata__\":{\"a\":null}}", 0, "`a`"},
    {"{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", 0, "`a`"},
    {"{\"__metadata__\":[]}", 0, "__metadata__"},
    {"{\"__metadata__\":{\"a\":\"\\u0000\"}}", 0, "JSON"},
    {"{\"a\\u0000b\":" ENTRY("U8", "[1]", "[0,1]") "}", 1, "JSON"},
    {"{\"\xFF\":" ENTRY("U8", "[1]", "[0,1]") "}", 1, "JSON"},
    {"{\"t\":" ENTRY("U8", "[1]", "[0,1e999]") "}", 1, "JSON"},
};

static void broken_files(void **state) {
  (void)state;
  temp_folder folder = temp_folder_create();
  for (size_t i = 0; i < sizeof broken_headers / sizeof broken_headers[0]; ++i) {
    const broken_header *broken = &broken_headers[i];
    temp_path path = write_safetensors(&folder, "broken.safetensors", broken->header, NULL, broken->n_data);
    assert_file_refused(path.text, GRAFT_E_FORMAT, broken->reason);
  }
  temp_folder_remove(&folder);
}

static void wrong_header_lengths(void **state) {
  (void)state;
  const char header[] = "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  size_t n = strlen(header), n_file = 8 + n + 4;
  const struct {
    uint64_t length;
    const char *reason;
  } cases[] = {{0, "empty"},
               {UINT64_MAX, "at most 100000000"},
               {UINT64_MAX - 7, "at most 100000000"},
               {1ull << 63, "at most 100000000"},
               {100000001, "at most 100000000"},
               {100000000, "cut short"},
               {n_file - 7, "cut short"},
               {n_file - 8, "JSON"},
               {n - 1, "JSON"},
               {n + 1, "JSON"}};
  temp_folder folder = temp_folder_create();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    temp_path path = write_safetensors_raw(&folder, "length.safetensors", cases[i].length, header, 4);
    assert_file_refused(path.text, GRAFT_E_FORMAT, cases[i].reason);
  }
  temp_path path = write_safetensors_raw(&folder, "no_data.safetensors", n, header, 0);
  assert_file_refused(path.text, GRAFT_E_FORMAT, "beyond the end");
  temp_folder_remove(&folder);
}

static void short_and_foreign_files(void **state) {
  (void)state;
  temp_folder folder = temp_folder_create();
  const char zeros[8] = {0};
  assert_file_refused(temp_folder_write(&folder, "0.safetensors", zeros, 0).text, GRAFT_E_FORMAT, "too short");
  assert_file_refused(temp_folder_write(&folder, "7.safetensors", zeros, 7).text, GRAFT_E_FORMAT, "too short");
  assert_file_refused(temp_folder_write(&folder, "8.safetensors", zeros, 8).text, GRAFT_E_FORMAT, "empty");
  assert_file_refused(temp_folder_write_text(&folder, "page.safetensors", "<html>").text, GRAFT_E_FORMAT, "too short");
  assert_file_refused(temp_folder_write_text(&folder, "long.safetensors", "<html><body>").text, GRAFT_E_FORMAT,
                      "not a safetensors file");
  temp_folder_remove(&folder);
}

// Cutting a valid file anywhere makes it invalid.
static void every_cut(void **state) {
  (void)state;
  const char header[] = "{\"a\":" ENTRY("F32", "[2]", "[0,8]") ",\"b\":" ENTRY("U8", "[3]", "[8,11]") "}";
  size_t n = 8 + strlen(header) + 11;
  temp_folder folder = temp_folder_create();
  for (size_t length = 0; length < n; ++length) {
    temp_path path = write_safetensors(&folder, "cut.safetensors", header, NULL, 11);
    assert_int_equal(truncate(path.text, (off_t)length), 0);
    assert_file_refused(path.text, GRAFT_E_FORMAT, "cut.safetensors");
  }
  temp_folder_remove(&folder);
}

static void too_many_dimensions(void **state) {
  (void)state;
  temp_folder folder = temp_folder_create();
  temp_path path = write_safetensors(&folder, "rank.safetensors",
                                     "{\"eight\":" ENTRY("U8", "[1,1,1,1,1,1,1,1]", "[0,1]") ",\"nine\":" ENTRY(
                                         "U8", "[1,1,1,1,1,1,1,1,1]", "[1,2]") "}",
                                     NULL, 2);
  assert_file_refused(path.text, GRAFT_E_UNSUPPORTED, "`nine` has 9 dimensions");
  temp_folder_remove(&folder);
}

static void deep_nesting(void **state) {
  (void)state;
  enum { DEPTH = 1000000 };
  char *header = malloc(DEPTH + 1);
  assert_non_null(header);
  memset(header, '[', DEPTH);
  header[DEPTH] = '\0';
  temp_folder folder = temp_folder_create();
  assert_file_refused(write_safetensors(&folder, "deep.safetensors", header, NULL, 0).text, GRAFT_E_FORMAT, "nested");
  temp_folder_remove(&folder);
  free(header);
}

static void things_that_are_no_files(void **state) {
  (void)state;
  graft_error error = {0};
  graft_safetensors *file = NULL;
  temp_folder folder = temp_folder_create();
  assert_file_refused(temp_folder_join(&folder, "absent.safetensors").text, GRAFT_E_NOT_FOUND, "No such file");
  assert_file_refused(folder.path, GRAFT_E_IO, "a folder");
  temp_path pipe = temp_folder_join(&folder, "pipe.safetensors");
  assert_int_equal(mkfifo(pipe.text, 0600), 0);
  assert_file_refused(pipe.text, GRAFT_E_IO, "a pipe or device");
  assert_file_refused("/dev/zero", GRAFT_E_IO, "a pipe or device");
  assert_refused(graft_safetensors_open("", GRAFT_SAFETENSORS_MAP, &error, &file), &error, GRAFT_E_INVALID, "no file",
                 "");
  assert_refused(graft_safetensors_open(NULL, GRAFT_SAFETENSORS_MAP, &error, &file), &error, GRAFT_E_INVALID, "no file",
                 "");
  if (geteuid() != 0) {
    temp_path secret = temp_folder_write_text(&folder, "secret.safetensors", "{}");
    assert_int_equal(chmod(secret.text, 0), 0);
    assert_file_refused(secret.text, GRAFT_E_IO, "Permission");
  }
  temp_folder_remove(&folder);
}

// Names from files are cut and cleaned before they reach a terminal.
static void hostile_names_in_sentences(void **state) {
  (void)state;
  char *header = malloc(200000);
  assert_non_null(header);
  int n = sprintf(header, "{\"\\u001b[31m");
  for (int i = 0; i < 30000; ++i) n += sprintf(header + n, "模");
  sprintf(header + n, "\":7}");
  temp_folder folder = temp_folder_create();
  temp_path path = write_safetensors(&folder, "names.safetensors", header, NULL, 0);
  graft_error error = {0};
  graft_safetensors *file = NULL;
  assert_refused(graft_safetensors_open(path.text, GRAFT_SAFETENSORS_MAP, &error, &file), &error, GRAFT_E_FORMAT,
                 "names.safetensors", "not an object");
  assert_null(strchr(error.message, 0x1B));
  assert_non_null(strstr(error.message, "…"));
  temp_folder_remove(&folder);
  free(header);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(broken_files),
      cmocka_unit_test(wrong_header_lengths),
      cmocka_unit_test(short_and_foreign_files),
      cmocka_unit_test(every_cut),
      cmocka_unit_test(too_many_dimensions),
      cmocka_unit_test(deep_nesting),
      cmocka_unit_test(things_that_are_no_files),
      cmocka_unit_test(hostile_names_in_sentences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
