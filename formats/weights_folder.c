#include "formats/weights_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "formats/excerpt.h"
#include "formats/file.h"

static const char data_suffix[] = ".safetensors";
static const char index_suffix[] = ".safetensors.index.json";
static const char *const usual_names[] = {
    "diffusion_pytorch_model.safetensors",
    "model.safetensors",
    "diffusion_pytorch_model.safetensors.index.json",
    "model.safetensors.index.json",
};

static bool ends_with(const char *text, const char *suffix) {
  size_t n = strlen(text), n_suffix = strlen(suffix);
  return n > n_suffix && strcmp(text + n - n_suffix, suffix) == 0;
}

bool graft_weights_folder_is_index(const char *path) {
  return ends_with(path, index_suffix);
}

// Leaves |out_path| NULL when none of the usual names exists.
static graft_status choose_usual(const char *folder, graft_error *error, char **out_path) {
  for (size_t i = 0; i < sizeof usual_names / sizeof usual_names[0]; ++i) {
    char *path = NULL;
    GRAFT_TRY(graft_file_join(folder, usual_names[i], error, &path));
    if (graft_file_exists(path)) {
      *out_path = path;
      return GRAFT_OK;
    }
    free(path);
  }
  return GRAFT_OK;
}

// The names of one kind found so far: how many, and the only one.
typedef struct candidates {
  size_t count;
  char *path;
} candidates;

static graft_status note_candidate(candidates *found, const char *folder, const char *name, graft_error *error) {
  if (found->count++ > 0) return GRAFT_OK;
  return graft_file_join(folder, name, error, &found->path);
}

static graft_status scan(DIR *entries, const char *folder, candidates *indexes, candidates *files, graft_error *error) {
  for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
    if (entry->d_name[0] == '.') continue;
    if (ends_with(entry->d_name, index_suffix)) GRAFT_TRY(note_candidate(indexes, folder, entry->d_name, error));
    else if (ends_with(entry->d_name, data_suffix)) GRAFT_TRY(note_candidate(files, folder, entry->d_name, error));
  }
  return GRAFT_OK;
}

static graft_status pick(const char *folder, candidates *indexes, candidates *files, graft_error *error,
                         char **out_path) {
  candidates *chosen = indexes->count > 0 ? indexes : files;
  if (chosen->count == 0)
    return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "%s: no safetensors file in this folder",
                      graft_excerpt_path(folder).text);
  if (chosen->count > 1)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s: %zu %s in this folder; name the one to use",
                      graft_excerpt_path(folder).text, chosen->count,
                      chosen == indexes ? "index files" : "safetensors files");
  *out_path = chosen->path;
  chosen->path = NULL;
  return GRAFT_OK;
}

static graft_status choose_any(const char *folder, graft_error *error, char **out_path) {
  DIR *entries = opendir(folder);
  if (entries == NULL)
    return GRAFT_FAIL(error, errno == ENOMEM ? GRAFT_E_NO_MEMORY : GRAFT_E_IO, "%s: cannot list: %s",
                      graft_excerpt_path(folder).text, strerror(errno));
  candidates indexes = {0}, files = {0};
  graft_status status = scan(entries, folder, &indexes, &files, error);
  closedir(entries);
  if (status == GRAFT_OK) status = pick(folder, &indexes, &files, error, out_path);
  free(indexes.path);
  free(files.path);
  return status;
}

graft_status graft_weights_folder_choose(const char *folder, graft_error *error, char **out_path) {
  char *path = NULL;
  GRAFT_TRY(choose_usual(folder, error, &path));
  if (path == NULL) GRAFT_TRY(choose_any(folder, error, &path));
  *out_path = path;
  return GRAFT_OK;
}
