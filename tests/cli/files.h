// files.h — looks into the files that the graft program writes.
#ifndef GRAFT_TESTS_CLI_FILES_H
#define GRAFT_TESTS_CLI_FILES_H

#include <jansson.h>

#include "formats/safetensors.h"
#include "program.h"

// A picture as bytes, with what a viewer would show. The caller frees |bytes|.
typedef struct picture {
  char *bytes;
  size_t n_bytes;
  int width, height;
} picture;

// Ends the test when |path| is no PNG.
picture picture_read(const char *path);
// Whether the text chunk `parameters` holds |piece|.
void assert_parameter(const picture *p, const char *piece);
void assert_same_picture(const picture *a, const picture *b);

// Parses |text|, which must be one JSON value without duplicate keys; the caller releases it.
json_t *parse_json(const char *text);

// Asserts that |file| has F32 tensor |name| of this shape (0-terminated) with finite values; returns them.
const float *assert_tensor(const graft_safetensors *file, const char *name, const int64_t *shape);
// The number of elements of a shape.
size_t count_of(const int64_t *shape);

// Opens a safetensors file that must be right.
graft_safetensors *open_tensors(const char *path);

#endif
