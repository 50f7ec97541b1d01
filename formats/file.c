#include "formats/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/excerpt.h"

static graft_status fail_to_open(const char *path, int code, graft_error *error) {
  graft_status status = code == ENOENT || code == ENOTDIR ? GRAFT_E_NOT_FOUND : GRAFT_E_IO;
  return GRAFT_FAIL(error, status, "%s: cannot open: %s", graft_excerpt_path(path).text, strerror(code));
}

graft_status graft_file_open(const char *path, graft_error *error, int *out_fd, uint64_t *out_bytes) {
  if (path == NULL || path[0] == '\0') return GRAFT_FAIL(error, GRAFT_E_INVALID, "no file name given");
  // Without O_NONBLOCK, opening a pipe that nobody writes to never returns. Regular files ignore the flag.
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return fail_to_open(path, errno, error);
  struct stat info;
  if (fstat(fd, &info) != 0) {
    graft_status status = fail_to_open(path, errno, error);
    close(fd);
    return status;
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return GRAFT_FAIL(error, GRAFT_E_IO, "%s: %s, not a regular file", graft_excerpt_path(path).text,
                      S_ISDIR(info.st_mode) ? "a folder" : "a pipe or device");
  }
  *out_fd = fd;
  *out_bytes = (uint64_t)info.st_size;
  return GRAFT_OK;
}

graft_status graft_file_read(graft_file_range range, void *target, graft_error *error) {
  size_t done = 0;
  while (done < range.bytes) {
    ssize_t n = pread(range.fd, (char *)target + done, range.bytes - done, (off_t)(range.offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return GRAFT_FAIL(error, GRAFT_E_IO, "%s: cannot read: %s", graft_excerpt_path(range.path).text, strerror(errno));
    if (n == 0)
      return GRAFT_FAIL(error, GRAFT_E_IO, "%s: the file became shorter while it was read",
                        graft_excerpt_path(range.path).text);
    done += (size_t)n;
  }
  return GRAFT_OK;
}

static graft_status load_open_file(int fd, const char *path, size_t bytes, graft_error *error,
                                   graft_file_text *out_text) {
  char *data = malloc(bytes + 1);
  if (data == NULL)
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory for its %zu bytes", graft_excerpt_path(path).text,
                      bytes);
  graft_status status = graft_file_read((graft_file_range){fd, path, 0, bytes}, data, error);
  if (status != GRAFT_OK) {
    free(data);
    return status;
  }
  data[bytes] = '\0';
  *out_text = (graft_file_text){data, bytes};
  return GRAFT_OK;
}

graft_status graft_file_load(const char *path, size_t max_bytes, graft_error *error, graft_file_text *out_text) {
  int fd = -1;
  uint64_t bytes = 0;
  GRAFT_TRY(graft_file_open(path, error, &fd, &bytes));
  graft_status status =
      bytes > max_bytes || bytes >= SIZE_MAX
          ? GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: %llu bytes, at most %zu are accepted for this kind of file",
                       graft_excerpt_path(path).text, (unsigned long long)bytes, max_bytes)
          : load_open_file(fd, path, (size_t)bytes, error, out_text);
  close(fd);
  return status;
}

void graft_file_text_release(graft_file_text *text) {
  if (text == NULL) return;
  free(text->data);
  *text = (graft_file_text){0};
}

bool graft_file_exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}

bool graft_file_is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

graft_status graft_file_join(const char *folder, const char *name, graft_error *error, char **out_path) {
  size_t n_folder = strlen(folder), n_name = strlen(name);
  char *path = malloc(n_folder + n_name + 2);
  if (path == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "out of memory for a file name");
  memcpy(path, folder, n_folder);
  if (n_folder > 0 && folder[n_folder - 1] != '/') path[n_folder++] = '/';
  memcpy(path + n_folder, name, n_name + 1);
  *out_path = path;
  return GRAFT_OK;
}
