#include "files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIGNATURE_BYTES = 8, WIDTH_AT = 16, HEIGHT_AT = 20, LEAST_BYTES = 57 };

static int big_endian(const char *bytes) {
  const unsigned char *b = (const unsigned char *)bytes;
  return (int)((uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3]);
}

picture picture_read(const char *path) {
  picture p = {0};
  p.bytes = temp_folder_read(path, &p.n_bytes);
  assert_true(p.n_bytes >= LEAST_BYTES);
  assert_memory_equal(p.bytes, "\x89PNG\r\n\x1a\n", SIGNATURE_BYTES);
  assert_memory_equal(p.bytes + p.n_bytes - 8, "IEND\xAE\x42\x60\x82", 8);
  p.width = big_endian(p.bytes + WIDTH_AT);
  p.height = big_endian(p.bytes + HEIGHT_AT);
  return p;
}

void assert_parameter(const picture *p, const char *piece) {
  const char *text = memmem(p->bytes, p->n_bytes, "parameters", sizeof "parameters");
  assert_non_null(text);
  // The length of a chunk stands before its type.
  const size_t n = (size_t)big_endian(text - 8);
  if (memmem(text, n, piece, strlen(piece)) == NULL) fail_msg("the picture's text does not say: %s", piece);
}

void assert_same_picture(const picture *a, const picture *b) {
  assert_int_equal(a->n_bytes, b->n_bytes);
  assert_memory_equal(a->bytes, b->bytes, a->n_bytes);
}

json_t *parse_json(const char *text) {
  json_error_t error;
  json_t *value = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
  if (value == NULL) fail_msg("no JSON: %s at line %d of: %.200s", error.text, error.line, text);
  return value;
}

size_t count_of(const int64_t *shape) {
  size_t n = 1;
  for (; *shape != 0; ++shape) n *= (size_t)*shape;
  return n;
}

const float *assert_tensor(const graft_safetensors *file, const char *name, const int64_t *shape) {
  const graft_safetensors_tensor *tensor = graft_safetensors_find(file, name);
  if (tensor == NULL) fail_msg("the dump has no %s", name);
  int32_t rank = 0;
  while (shape[rank] != 0) ++rank;
  assert_string_equal(tensor->dtype_name, "F32");
  assert_int_equal(tensor->rank, rank);
  for (int32_t d = 0; d < rank; ++d)
    if (tensor->shape[d] != shape[d]) fail_msg("%s: side %d is %lld", name, d, (long long)tensor->shape[d]);
  const float *values = tensor->data;
  for (size_t i = 0; i < count_of(shape); ++i)
    if (!isfinite(values[i])) fail_msg("%s: element %zu is not finite", name, i);
  return values;
}

graft_safetensors *open_tensors(const char *path) {
  graft_error error = {0};
  graft_safetensors *file = NULL;
  if (graft_safetensors_open(path, GRAFT_SAFETENSORS_READ, &error, &file) != GRAFT_OK) fail_msg("%s", error.message);
  return file;
}
