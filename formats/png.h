// png.h — writing 8-bit RGB pictures.
#ifndef GRAFT_FORMATS_PNG_H
#define GRAFT_FORMATS_PNG_H

#include "graft/status.h"

// A picture in memory: rows of red, green, blue bytes, top row first, |row_bytes| apart (at least 3 × width). Borrowed.
typedef struct graft_png_image {
  int32_t width, height;
  size_t row_bytes;
  const uint8_t *pixels;
} graft_png_image;

// A remark in the file. |key|: 1 to 79 printable ASCII characters without leading, trailing or repeated spaces.
// |value|: UTF-8; plain ASCII becomes a tEXt chunk, anything else an iTXt chunk. Borrowed.
typedef struct graft_png_text {
  const char *key;
  const char *value;
} graft_png_text;

// Writes |path| whole or not at all (formats/atomic_file.h), with remarks in the given order. Equal pictures and
// remarks give equal bytes with the same versions of libpng and zlib: compression settings are fixed and no time is
// stored. Errors: GRAFT_E_INVALID (size, rows, remarks), GRAFT_E_NO_MEMORY, GRAFT_E_IO.
GRAFT_NODISCARD graft_status graft_png_write(const char *path, const graft_png_image *image,
                                             const graft_png_text *texts, size_t n_texts, graft_error *error);

#endif
