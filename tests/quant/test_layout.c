// A file written from the real Z-Image has exactly the tensors, order and size of the one that ComfyUI's users load.
// Normally only its header is made; with --write all of it, from weights that are zero and take no room.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "diffusion/quantize_internal.h"
#include "large_model.h"

#define FILE_BYTES UINT64_C(6201001296)
#define LARGEST_TENSOR_BYTES (INT64_C(11520) * 3840 * 4)

enum { MAX_TENSORS = 1024 };

typedef struct expected {
  char dtype[8], name[96];
  int32_t rank;
  int64_t shape[2];
} expected;

static void parse_shape(const char *text, expected *e) {
  e->rank = strcmp(text, "-") == 0 ? 0 : 1;
  if (e->rank == 0) return;
  e->shape[0] = strtoll(text, NULL, 10);
  const char *x = strchr(text, 'x');
  if (x) e->shape[e->rank++] = strtoll(x + 1, NULL, 10);
}

static size_t add(expected *all, size_t n, const char *dtype, const char *shape, const char *name, int block) {
  expected *e = &all[n];
  assert_true(n < MAX_TENSORS);
  snprintf(e->dtype, sizeof e->dtype, "%s", dtype);
  parse_shape(shape, e);
  const char *star = strchr(name, '*');
  if (star) snprintf(e->name, sizeof e->name, "%.*s%d%s", (int)(star - name), name, block, star + 1);
  else snprintf(e->name, sizeof e->name, "%s", name);
  return n + 1;
}

// Wide types come first, then names decide.
static int compare(const void *left, const void *right) {
  const expected *a = left, *b = right;
  static const char order[] = "F32 I8  U8  ";
  const char *x = strstr(order, a->dtype), *y = strstr(order, b->dtype);
  return x != y ? (x < y ? -1 : 1) : strcmp(a->name, b->name);
}

static size_t load(expected *all) {
  FILE *file = fopen(GRAFT_TEST_QUANT "/z_image_turbo_int8.txt", "r");
  assert_non_null(file);
  char line[256];
  size_t n = 0;
  while (fgets(line, sizeof line, file)) {
    int blocks;
    char dtype[8], shape[32], name[96];
    if (sscanf(line, "%d %7s %31s %95s", &blocks, dtype, shape, name) != 4) continue;
    for (int block = 0; block < blocks; ++block) n = add(all, n, dtype, shape, name, block);
  }
  fclose(file);
  qsort(all, n, sizeof *all, compare);
  return n;
}

static void expect_tensor(const graft_safetensors_source *got, const expected *want) {
  assert_int_equal(got->rank, want->rank);
  for (int32_t d = 0; d < want->rank; ++d) assert_int_equal(got->shape[d], want->shape[d]);
  assert_ptr_equal(got->dtype, graft_dtype_find(want->dtype));
}

static const graft_safetensors_source *find(const quantize_job *job, const char *name, size_t *out_index) {
  for (size_t i = 0; i < job->n_tensors; ++i) {
    *out_index = i;
    if (strcmp(job->tensors[i].name, name) == 0) return &job->tensors[i];
  }
  fail_msg("no tensor %s would be written", name);
  return NULL;
}

static void check_layout(const quantize_job *job, const char *path) {
  static expected all[MAX_TENSORS];
  const size_t n = load(all);
  assert_int_equal(n, 857);
  assert_int_equal(job->n_tensors, n);
  const graft_safetensors_contents contents = {.tensors = job->tensors, .n_tensors = n, .has_metadata = true};
  graft_safetensors_output *output = NULL;
  graft_error error = {0};
  if (graft_safetensors_output_begin(path, &contents, &error, &output) != GRAFT_OK) fail_msg("%s", error.message);
  uint64_t position = 0;
  for (size_t i = 0; i < n; ++i) {
    size_t index;
    const graft_safetensors_source *got = find(job, all[i].name, &index);
    expect_tensor(got, &all[i]);
    const uint64_t offset = graft_safetensors_output_offset(output, index);
    if (i == 0) position = offset;
    assert_int_equal(offset, position);
    uint64_t bytes = got->dtype->block_bytes;
    for (int32_t d = 0; d < got->rank; ++d) bytes *= (uint64_t)got->shape[d];
    position += bytes;
  }
  assert_int_equal(position, FILE_BYTES);
  assert_int_equal(graft_safetensors_output_bytes(output), FILE_BYTES);
  graft_safetensors_output_abort(output);
}

static graft_context *open_context(void) {
  graft_context *context = NULL;
  graft_error error = {0};
  if (graft_context_create(NULL, &error, &context) != GRAFT_OK) fail_msg("%s", error.message);
  return context;
}

static void header(void **state) {
  (void)state;
  const temp_folder folder = temp_folder_create();
  const temp_path path = temp_folder_join(&folder, "int8.safetensors");
  graft_context *context = open_context();
  large_model_write(&folder);
  const graft_quantize_options options = {
      .model = folder.path, .output = path.text, .kind = GRAFT_QUANTIZE_KIND_INT8_CONVROT, .group = 256};
  quantize_job job = {.options = &options, .error = graft_context_error_slot(context)};
  if (quantize_open_model(&job) != GRAFT_OK || quantize_collect(&job) != GRAFT_OK) fail_msg("%s", job.error->message);
  check_layout(&job, path.text);
  size_t n_quantized = 0;
  for (size_t i = 0; i < job.n_entries; ++i) n_quantized += quantize_is_quantized(job.entries[i].kind);
  assert_int_equal(n_quantized, 202);
  free(job.checksums);
  free(job.tensors);
  free(job.entries);
  graft_weights_close(job.weights);
  graft_context_destroy(context);
  temp_folder_remove(&folder);
}

static void whole_file(void **state) {
  (void)state;
  const temp_folder folder = temp_folder_create();
  const temp_path path = temp_folder_join(&folder, "int8.safetensors");
  graft_context *context = open_context();
  large_model_write(&folder);
  const graft_quantize_options options = {
      .model = folder.path, .output = path.text, .kind = GRAFT_QUANTIZE_KIND_INT8_CONVROT, .group = 256};
  graft_quantize_report *report = NULL;
  if (graft_quantize_model(context, &options, &report) != GRAFT_OK)
    fail_msg("%s", graft_context_error(context)->message);
  struct stat info;
  struct rusage usage;
  assert_int_equal(stat(path.text, &info), 0);
  assert_int_equal(info.st_size, FILE_BYTES);
  assert_int_equal(report->n_layers, 202);
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  print_message("    %lld MiB on the disk, at most %ld MiB in memory\n", (long long)info.st_blocks * 512 >> 20,
                usage.ru_maxrss >> 10);
  assert_in_range(usage.ru_maxrss, 0, 2 * LARGEST_TENSOR_BYTES / 1024);
  graft_quantize_report_free(report);
  graft_context_destroy(context);
  temp_folder_remove(&folder);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(header)};
  const struct CMUnitTest long_tests[] = {cmocka_unit_test(whole_file)};
  if (argc > 1 && strcmp(argv[1], "--write") == 0)
    return cmocka_run_group_tests_name("quant.layout_written", long_tests, NULL, NULL);
  return cmocka_run_group_tests_name("quant.layout", tests, NULL, NULL);
}
