#include "formats/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/excerpt.h"

struct graft_atomic_file {
  int fd;
  char *path;
  char *temporary;
  size_t n_folder;  // bytes of |path| before the last slash, slash included; 0 when there is none
};

enum { TEMPORARY_BYTES = sizeof ".graft-0123456789abcdef.tmp" };

static void destroy(graft_atomic_file *file) {
  if (file == NULL) return;
  if (file->fd >= 0) close(file->fd);
  free(file->temporary);
  free(file->path);
  free(file);
}

static graft_atomic_file *create(const char *path) {
  graft_atomic_file *file = calloc(1, sizeof *file);
  if (file == NULL) return NULL;
  file->fd = -1;
  size_t n = strlen(path);
  const char *slash = strrchr(path, '/');
  file->n_folder = slash == NULL ? 0 : (size_t)(slash - path) + 1;
  file->path = malloc(n + 1);
  file->temporary = malloc(file->n_folder + TEMPORARY_BYTES);
  if (file->path == NULL || file->temporary == NULL) {
    destroy(file);
    return NULL;
  }
  memcpy(file->path, path, n + 1);
  memcpy(file->temporary, path, file->n_folder);
  return file;
}

static int open_temporary(graft_atomic_file *file) {
  for (int attempt = 0; attempt < 16; ++attempt) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) random = ((uint64_t)getpid() << 8) + (uint64_t)attempt;
    snprintf(file->temporary + file->n_folder, TEMPORARY_BYTES, ".graft-%016llx.tmp", (unsigned long long)random);
    // Mode 0666 and the user's umask, as for any other new file; mkstemp would make it private.
    file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd >= 0 || errno != EEXIST) break;
  }
  return file->fd;
}

// Renaming over a device such as /dev/null, or over a link to one such as /dev/stdout, would remove it.
static graft_status check_target(const char *path, graft_error *error) {
  if (path == NULL || path[0] == '\0') return GRAFT_FAIL(error, GRAFT_E_INVALID, "no file name to write to given");
  struct stat info;
  bool is_folder = path[strlen(path) - 1] == '/';
  if (!is_folder && (stat(path, &info) != 0 || S_ISREG(info.st_mode))) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_IO, "%s: cannot write: it is %s", graft_excerpt_path(path).text,
                    is_folder || S_ISDIR(info.st_mode) ? "a folder" : "a pipe or device");
}

graft_status graft_atomic_file_begin(const char *path, graft_error *error, graft_atomic_file **out_file) {
  GRAFT_TRY(check_target(path, error));
  graft_atomic_file *file = create(path);
  if (file == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "out of memory for a file name");
  if (open_temporary(file) < 0) {
    int code = errno;
    destroy(file);
    return GRAFT_FAIL(error, GRAFT_E_IO, "%s: cannot create a file in this folder: %s", graft_excerpt_path(path).text,
                      strerror(code));
  }
  *out_file = file;
  return GRAFT_OK;
}

static graft_status fail_to_write(const graft_atomic_file *file, int code, graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_IO, "%s: cannot write: %s", graft_excerpt_path(file->path).text, strerror(code));
}

graft_status graft_atomic_file_append(graft_atomic_file *file, const void *data, size_t bytes, graft_error *error) {
  size_t done = 0;
  while (done < bytes) {
    ssize_t n = write(file->fd, (const char *)data + done, bytes - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail_to_write(file, n < 0 ? errno : ENOSPC, error);
    done += (size_t)n;
  }
  return GRAFT_OK;
}

graft_status graft_atomic_file_resize(graft_atomic_file *file, uint64_t bytes, graft_error *error) {
  int result;
  do {
    result = ftruncate(file->fd, (off_t)bytes);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? GRAFT_OK : fail_to_write(file, errno, error);
}

graft_status graft_atomic_file_write_at(graft_atomic_file *file, uint64_t offset, const void *data, size_t bytes,
                                        graft_error *error) {
  size_t done = 0;
  while (done < bytes) {
    ssize_t n = pwrite(file->fd, (const char *)data + done, bytes - done, (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail_to_write(file, n < 0 ? errno : ENOSPC, error);
    done += (size_t)n;
  }
  return GRAFT_OK;
}

// The rename itself is durable only once the folder is flushed. The file is already in place and whole, and some file
// systems cannot flush folders, so a failure here is no failure of the write.
static void flush_folder(graft_atomic_file *file) {
  file->path[file->n_folder] = '\0';
  int fd = open(file->n_folder == 0 ? "." : file->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)fsync(fd);
  close(fd);
}

graft_status graft_atomic_file_commit(graft_atomic_file *file, graft_error *error) {
  int code = fsync(file->fd) != 0 ? errno : 0;
  if (close(file->fd) != 0 && code == 0) code = errno;
  file->fd = -1;
  if (code == 0 && rename(file->temporary, file->path) != 0) code = errno;
  if (code != 0) {
    graft_status status = fail_to_write(file, code, error);
    graft_atomic_file_abort(file);
    return status;
  }
  flush_folder(file);
  destroy(file);
  return GRAFT_OK;
}

void graft_atomic_file_abort(graft_atomic_file *file) {
  if (file == NULL) return;
  (void)unlink(file->temporary);
  destroy(file);
}
