#include "temp_folder.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void give_up(const char *path) {
  fprintf(stderr, "temp_folder: %s: %s\n", path, strerror(errno));
  abort();
}

temp_folder temp_folder_create(void) {
  temp_folder folder;
  const char *root = getenv("TMPDIR");
  snprintf(folder.path, sizeof folder.path, "%.400s/graft-test-XXXXXX", root != NULL ? root : "/tmp");
  if (mkdtemp(folder.path) == NULL) give_up(folder.path);
  return folder;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
  (void)info;
  (void)kind;
  (void)walk;
  return remove(path);
}

// The contents of a read-only folder cannot be removed.
static int make_writable(const char *path, const struct stat *info, int kind, struct FTW *walk) {
  (void)info;
  (void)walk;
  return kind == FTW_D || kind == FTW_DNR ? chmod(path, 0700) : 0;
}

void temp_folder_remove(const temp_folder *folder) {
  (void)nftw(folder->path, make_writable, 16, FTW_PHYS);
  if (nftw(folder->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0) give_up(folder->path);
}

temp_path temp_folder_join(const temp_folder *folder, const char *name) {
  temp_path path;
  int n = snprintf(path.text, sizeof path.text, "%s/%s", folder->path, name);
  if (n < 0 || (size_t)n >= sizeof path.text) give_up(name);
  return path;
}

temp_path temp_folder_write(const temp_folder *folder, const char *name, const void *data, size_t bytes) {
  temp_path path = temp_folder_join(folder, name);
  FILE *file = fopen(path.text, "wb");
  if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) give_up(path.text);
  return path;
}

temp_path temp_folder_write_text(const temp_folder *folder, const char *name, const char *text) {
  return temp_folder_write(folder, name, text, strlen(text));
}

size_t temp_folder_count(const temp_folder *folder) {
  DIR *entries = opendir(folder->path);
  if (entries == NULL) give_up(folder->path);
  size_t n = 0;
  for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries))
    n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  closedir(entries);
  return n;
}

char *temp_folder_read(const char *path, size_t *out_bytes) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) give_up(path);
  long bytes = ftell(file);
  rewind(file);
  char *data = bytes < 0 ? NULL : malloc((size_t)bytes + 1);
  if (data == NULL || fread(data, 1, (size_t)bytes, file) != (size_t)bytes) give_up(path);
  fclose(file);
  data[bytes] = '\0';
  if (out_bytes != NULL) *out_bytes = (size_t)bytes;
  return data;
}
