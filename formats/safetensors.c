#include "formats/safetensors.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/excerpt.h"
#include "formats/file.h"
#include "formats/safetensors_header.h"

static const uint64_t max_header_bytes = 100000000;

enum { LENGTH_BYTES = 8 };

struct graft_safetensors {
  int fd;  // kept open to notice changes
  char *path;
  uint64_t file_bytes;
  struct timespec modified;
  graft_safetensors_header header;
  void *mapping;  // the whole file, or NULL when it was read
  char *memory;   // the data, or NULL when it is mapped
  const char *data;
  size_t data_bytes;
};

static graft_status fail(const char *path, graft_status status, const char *reason, graft_error *error) {
  return GRAFT_FAIL(error, status, "%s: %s", graft_excerpt_path(path).text, reason);
}

static uint64_t load_little_endian(const unsigned char *bytes) {
  uint64_t value = 0;
  for (int i = LENGTH_BYTES - 1; i >= 0; --i) value = value << 8 | bytes[i];
  return value;
}

static graft_status read_header_length(const graft_safetensors *file, graft_error *error, size_t *out_bytes) {
  unsigned char prefix[LENGTH_BYTES];
  if (file->file_bytes < LENGTH_BYTES)
    return fail(file->path, GRAFT_E_FORMAT, "too short to be a safetensors file (fewer than 8 bytes)", error);
  GRAFT_TRY(graft_file_read((graft_file_range){file->fd, file->path, 0, LENGTH_BYTES}, prefix, error));
  uint64_t n = load_little_endian(prefix);
  if (n > max_header_bytes)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: not a safetensors file: header length %llu, at most %llu is allowed",
                      graft_excerpt_path(file->path).text, (unsigned long long)n, (unsigned long long)max_header_bytes);
  if (n > file->file_bytes - LENGTH_BYTES)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: cut short: the header has %llu bytes, the file only %llu",
                      graft_excerpt_path(file->path).text, (unsigned long long)n, (unsigned long long)file->file_bytes);
  *out_bytes = (size_t)n;
  return GRAFT_OK;
}

static graft_status load_header(graft_safetensors *file, graft_error *error, size_t *out_header_bytes) {
  size_t n = 0;
  GRAFT_TRY(read_header_length(file, error, &n));
  char *text = malloc(n + 1);
  if (text == NULL) return fail(file->path, GRAFT_E_NO_MEMORY, "out of memory for its header", error);
  graft_json *json = NULL;
  graft_status status = graft_file_read((graft_file_range){file->fd, file->path, LENGTH_BYTES, n}, text, error);
  if (status == GRAFT_OK) status = graft_json_parse(text, n, file->path, error, &json);
  free(text);
  GRAFT_TRY(status);
  *out_header_bytes = n;
  return graft_safetensors_header_parse(&file->header, file->path, json, file->file_bytes - LENGTH_BYTES - n, error);
}

static graft_status map_data(graft_safetensors *file, size_t begin, graft_error *error) {
  if (file->file_bytes > SIZE_MAX) return fail(file->path, GRAFT_E_NO_MEMORY, "larger than the address space", error);
  // Shared: of a private mapping the system would make copies for a card that is to read the pages by itself.
  void *mapping = mmap(NULL, (size_t)file->file_bytes, PROT_READ, MAP_SHARED, file->fd, 0);
  if (mapping == MAP_FAILED)
    return GRAFT_FAIL(error, errno == ENOMEM ? GRAFT_E_NO_MEMORY : GRAFT_E_IO, "%s: cannot map: %s",
                      graft_excerpt_path(file->path).text, strerror(errno));
  file->mapping = mapping;
  file->data = (const char *)mapping + begin;
  file->data_bytes = (size_t)file->file_bytes - begin;
  return GRAFT_OK;
}

static graft_status read_data(graft_safetensors *file, size_t begin, graft_error *error) {
  uint64_t bytes = file->file_bytes - begin;
  // One byte more, so that an empty file's tensors have an address too.
  file->memory = bytes < SIZE_MAX ? malloc((size_t)bytes + 1) : NULL;
  if (file->memory == NULL)
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory for its %llu bytes; map it instead",
                      graft_excerpt_path(file->path).text, (unsigned long long)bytes);
  file->data = file->memory;
  file->data_bytes = (size_t)bytes;
  return graft_file_read((graft_file_range){file->fd, file->path, begin, file->data_bytes}, file->memory, error);
}

static void attach_data(graft_safetensors *file, size_t begin) {
  for (size_t i = 0; i < file->header.n_tensors; ++i) {
    graft_safetensors_tensor *tensor = &file->header.tensors[i];
    tensor->data = file->data + tensor->file_offset;
    tensor->file_offset += begin;
    tensor->file = file;
  }
}

static graft_status open_file(graft_safetensors *file, const char *path, graft_error *error) {
  GRAFT_TRY(graft_file_open(path, error, &file->fd, &file->file_bytes));
  size_t n = strlen(path) + 1;
  file->path = malloc(n);
  if (file->path == NULL) return fail(path, GRAFT_E_NO_MEMORY, "out of memory", error);
  memcpy(file->path, path, n);
  struct stat info;
  if (fstat(file->fd, &info) != 0) return fail(path, GRAFT_E_IO, strerror(errno), error);
  file->file_bytes = (uint64_t)info.st_size;
  file->modified = info.st_mtim;
  return GRAFT_OK;
}

graft_status graft_safetensors_open(const char *path, graft_safetensors_access access, graft_error *error,
                                    graft_safetensors **out_file) {
  graft_safetensors *file = calloc(1, sizeof *file);
  if (file == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory", graft_excerpt_path(path).text);
  file->fd = -1;
  size_t header_bytes = 0;
  graft_status status = open_file(file, path, error);
  if (status == GRAFT_OK) status = load_header(file, error, &header_bytes);
  size_t begin = LENGTH_BYTES + header_bytes;
  if (status == GRAFT_OK)
    status = access == GRAFT_SAFETENSORS_READ ? read_data(file, begin, error) : map_data(file, begin, error);
  if (status != GRAFT_OK) {
    graft_safetensors_close(file);
    return status;
  }
  attach_data(file, begin);
  *out_file = file;
  return GRAFT_OK;
}

void graft_safetensors_close(graft_safetensors *file) {
  if (file == NULL) return;
  if (file->mapping != NULL) munmap(file->mapping, (size_t)file->file_bytes);
  if (file->fd >= 0) close(file->fd);
  graft_safetensors_header_release(&file->header);
  free(file->memory);
  free(file->path);
  free(file);
}

const char *graft_safetensors_path(const graft_safetensors *file) {
  return file->path;
}

size_t graft_safetensors_count(const graft_safetensors *file) {
  return file->header.n_tensors;
}

const graft_safetensors_tensor *graft_safetensors_at(const graft_safetensors *file, size_t index) {
  return &file->header.tensors[index];
}

const graft_safetensors_tensor *graft_safetensors_find(const graft_safetensors *file, const char *name) {
  uint32_t index = 0;
  if (!graft_name_table_find(&file->header.names, name, strlen(name), &index)) return NULL;
  return &file->header.tensors[index];
}

graft_status graft_safetensors_require(const graft_safetensors *file, const char *name, graft_error *error,
                                       const graft_safetensors_tensor **out_tensor) {
  const graft_safetensors_tensor *tensor = graft_safetensors_find(file, name);
  if (tensor == NULL)
    return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "%s: there is no tensor `%s`", graft_excerpt_path(file->path).text,
                      graft_excerpt_name(name).text);
  if (tensor->dtype == NULL)
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                      "%s: tensor `%s` has element type %s, which graft cannot compute with",
                      graft_excerpt_path(file->path).text, graft_excerpt_name(name).text, tensor->dtype_name);
  *out_tensor = tensor;
  return GRAFT_OK;
}

const char *graft_safetensors_metadata(const graft_safetensors *file, const char *key) {
  return json_string_value(json_object_get(file->header.metadata, key));
}

json_t *graft_safetensors_metadata_all(const graft_safetensors *file) {
  return file->header.metadata;
}

graft_status graft_safetensors_check(const graft_safetensors *file, graft_error *error) {
  struct stat info;
  if (fstat(file->fd, &info) != 0) return fail(file->path, GRAFT_E_IO, strerror(errno), error);
  if ((uint64_t)info.st_size == file->file_bytes && info.st_mtim.tv_sec == file->modified.tv_sec &&
      info.st_mtim.tv_nsec == file->modified.tv_nsec)
    return GRAFT_OK;
  return fail(file->path, GRAFT_E_IO, "changed on disk while it was in use; run again once it is whole", error);
}

graft_status graft_safetensors_advise(const graft_safetensors *file, const void *data, size_t bytes,
                                      graft_safetensors_advice advice, graft_error *error) {
  uintptr_t first = (uintptr_t)file->data, begin = (uintptr_t)data;
  if (begin < first || bytes > file->data_bytes || begin - first > file->data_bytes - bytes)
    return fail(file->path, GRAFT_E_INVALID, "advice about a range outside of the file's data", error);
  if (file->mapping == NULL || bytes == 0) return GRAFT_OK;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = begin + bytes;
  bool discard = advice == GRAFT_SAFETENSORS_DISCARD;
  // Neighbours on the outer pages may be in use, so discarding stays inside the range; prefetching reaches around it.
  begin = (discard ? begin + page - 1 : begin) / page * page;
  end = discard ? end / page * page : end;
  if (begin >= end) return GRAFT_OK;
  size_t offset = begin - (uintptr_t)file->mapping;
  if (madvise((char *)file->mapping + offset, end - begin, discard ? MADV_DONTNEED : MADV_WILLNEED) == 0)
    return GRAFT_OK;
  return fail(file->path, GRAFT_E_IO, strerror(errno), error);
}
