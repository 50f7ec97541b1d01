#include "formats/png.h"

#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "formats/atomic_file.h"
#include "formats/excerpt.h"
#include "formats/utf8.h"

enum { MAX_SIDE = 1000000, MAX_KEY_BYTES = 79, COMPRESSION_LEVEL = 6 };

// libpng reports errors by a long jump. All that must survive the jump lives here, outside of the jumping function.
typedef struct encoder {
  const char *path;
  const graft_png_image *image;
  png_text *texts;
  int n_texts;
  graft_atomic_file *file;
  graft_error *error;
  graft_status status;
  png_structp png;
  png_infop info;
} encoder;

static graft_status fail(const char *path, graft_status status, const char *reason, graft_error *error) {
  return GRAFT_FAIL(error, status, "%s: cannot write the picture: %s", graft_excerpt_path(path).text, reason);
}

static void *allocate(png_structp png, png_alloc_size_t bytes) {
  encoder *e = png_get_mem_ptr(png);
  void *memory = malloc(bytes);
  if (memory == NULL && e->status == GRAFT_OK) e->status = fail(e->path, GRAFT_E_NO_MEMORY, "out of memory", e->error);
  return memory;
}

static void release(png_structp png, void *memory) {
  (void)png;
  free(memory);
}

static void on_error(png_structp png, png_const_charp message) {
  encoder *e = png_get_error_ptr(png);
  if (e->status == GRAFT_OK) e->status = fail(e->path, GRAFT_E_INVALID, message, e->error);
  png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message) {
  (void)png;
  (void)message;
}

static void write_bytes(png_structp png, png_bytep data, size_t bytes) {
  encoder *e = png_get_io_ptr(png);
  graft_status status = graft_atomic_file_append(e->file, data, bytes, e->error);
  if (status == GRAFT_OK) return;
  e->status = status;
  png_error(png, "write failed");
}

static void flush_bytes(png_structp png) {
  (void)png;
}

static void encode_or_jump(encoder *e) {
  const graft_png_image *image = e->image;
  png_set_write_fn(e->png, e, write_bytes, flush_bytes);
  png_set_compression_level(e->png, COMPRESSION_LEVEL);
  png_set_filter(e->png, PNG_FILTER_TYPE_BASE, PNG_ALL_FILTERS);
  png_set_IHDR(e->png, e->info, (png_uint_32)image->width, (png_uint_32)image->height, 8, PNG_COLOR_TYPE_RGB,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (e->n_texts > 0) png_set_text(e->png, e->info, e->texts, e->n_texts);
  png_write_info(e->png, e->info);
  for (int32_t y = 0; y < image->height; ++y) png_write_row(e->png, image->pixels + (size_t)y * image->row_bytes);
  png_write_end(e->png, NULL);
}

static graft_status encode(encoder *e) {
  e->png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, e, on_error, on_warning, e, allocate, release);
  e->info = e->png == NULL ? NULL : png_create_info_struct(e->png);
  if (e->info == NULL && e->status == GRAFT_OK) e->status = fail(e->path, GRAFT_E_NO_MEMORY, "out of memory", e->error);
  if (e->info != NULL && setjmp(png_jmpbuf(e->png)) == 0) encode_or_jump(e);
  png_destroy_write_struct(&e->png, &e->info);
  return e->status;
}

static bool is_legal_key(const char *key) {
  size_t n = key == NULL ? 0 : strnlen(key, MAX_KEY_BYTES + 1);
  if (n == 0 || n > MAX_KEY_BYTES || key[0] == ' ' || key[n - 1] == ' ') return false;
  for (size_t i = 0; i < n; ++i)
    if (key[i] < ' ' || key[i] > '~' || (key[i] == ' ' && key[i + 1] == ' ')) return false;
  return true;
}

static bool is_ascii(const char *text) {
  for (; *text != '\0'; ++text)
    if ((unsigned char)*text >= 0x80) return false;
  return true;
}

static graft_status check_image(const char *path, const graft_png_image *image, graft_error *error) {
  if (image->width < 1 || image->height < 1 || image->width > MAX_SIDE || image->height > MAX_SIDE)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s: cannot write a picture of %d by %d pixels",
                      graft_excerpt_path(path).text, (int)image->width, (int)image->height);
  if (image->pixels == NULL || image->row_bytes < (size_t)image->width * 3 ||
      image->row_bytes > SIZE_MAX / (size_t)image->height)
    return fail(path, GRAFT_E_INVALID, "its rows do not hold three bytes per pixel", error);
  return GRAFT_OK;
}

// libpng's interface is not const-correct; it copies the strings.
static char *without_const(const char *text) {
  return (char *)(uintptr_t)text;
}

static graft_status collect_texts(encoder *e, const graft_png_text *texts, size_t n_texts) {
  if (n_texts > INT32_MAX) return fail(e->path, GRAFT_E_INVALID, "too many remarks", e->error);
  e->texts = calloc(n_texts + 1, sizeof *e->texts);
  if (e->texts == NULL) return fail(e->path, GRAFT_E_NO_MEMORY, "out of memory", e->error);
  for (size_t i = 0; i < n_texts; ++i) {
    const graft_png_text *text = &texts[i];
    if (!is_legal_key(text->key))
      return fail(e->path, GRAFT_E_INVALID, "the key of a remark is not 1 to 79 plain characters", e->error);
    if (text->value == NULL || !graft_utf8_is_valid(text->value, strlen(text->value), NULL))
      return fail(e->path, GRAFT_E_INVALID, "a remark is not UTF-8", e->error);
    bool ascii = is_ascii(text->value);
    e->texts[i] = (png_text){.compression = ascii ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE,
                             .key = without_const(text->key),
                             .text = without_const(text->value)};
  }
  e->n_texts = (int)n_texts;
  return GRAFT_OK;
}

static graft_status write_file(encoder *e) {
  GRAFT_TRY(graft_atomic_file_begin(e->path, e->error, &e->file));
  graft_status status = encode(e);
  if (status == GRAFT_OK) return graft_atomic_file_commit(e->file, e->error);
  graft_atomic_file_abort(e->file);
  return status;
}

graft_status graft_png_write(const char *path, const graft_png_image *image, const graft_png_text *texts,
                             size_t n_texts, graft_error *error) {
  GRAFT_TRY(check_image(path, image, error));
  encoder e = {.path = path, .image = image, .error = error};
  graft_status status = collect_texts(&e, texts, n_texts);
  if (status == GRAFT_OK) status = write_file(&e);
  free(e.texts);
  return status;
}
