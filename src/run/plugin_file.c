#include "src/run/plugin_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/checked.h"

typedef struct plugin_file {
  const char *path;
  int descriptor;
  size_t bytes;
} plugin_file;

#if defined(__ELF__)
#include <elf.h>
#include <link.h>

#if defined(__x86_64__)
enum { OWN_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { OWN_MACHINE = EM_AARCH64 };
#else
enum { OWN_MACHINE = EM_NONE };  // the loader decides
#endif
enum { OWN_CLASS = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32 };

static graft_status check_header(const plugin_file *file, const ElfW(Ehdr) * head, graft_error *error) {
  bool is_foreign = head->e_ident[EI_CLASS] != OWN_CLASS || (OWN_MACHINE != EM_NONE && head->e_machine != OWN_MACHINE);
  if (is_foreign)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT,
                      "the plug-in %s was built for another processor (ELF machine %u; here it is %d)", file->path,
                      (unsigned)head->e_machine, (int)OWN_MACHINE);
  if (head->e_type != ET_DYN)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT,
                      "%s is a program or an object file; a plug-in is a shared object (-shared)", file->path);
  return GRAFT_OK;
}

// The loader maps what the file says it has and crashes where a download ended early.
static graft_status check_segments(const plugin_file *file, const ElfW(Ehdr) * head, graft_error *error) {
  for (unsigned i = 0; i < head->e_phnum; ++i) {
    ElfW(Phdr) segment;
    size_t at = head->e_phoff + (size_t)i * sizeof segment, end;
    bool is_whole = head->e_phentsize == sizeof segment && at <= (size_t)INT64_MAX &&
                    pread(file->descriptor, &segment, sizeof segment, (off_t)at) == (ssize_t)sizeof segment &&
                    graft_checked_add(segment.p_offset, segment.p_filesz, &end) && end <= file->bytes;
    if (!is_whole)
      return GRAFT_FAIL(error, GRAFT_E_FORMAT, "the plug-in %s is cut: it has %zu bytes and says that it has more",
                        file->path, file->bytes);
  }
  return GRAFT_OK;
}

// What the loader would refuse with a message for programmers is refused here with one for people.
static graft_status check_content(const plugin_file *file, graft_error *error) {
  ElfW(Ehdr) head;
  if (pread(file->descriptor, &head, sizeof head, 0) != (ssize_t)sizeof head ||
      memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s is no shared object, so it is no plug-in", file->path);
  GRAFT_TRY(check_header(file, &head, error));
  return check_segments(file, &head, error);
}
#else
static graft_status check_content(const plugin_file *file, graft_error *error) {
  if (file->bytes == 0) return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s is empty, so it is no plug-in", file->path);
  return GRAFT_OK;
}
#endif

static graft_status fail_to_open(const char *path, int code, graft_error *error) {
  if (code == ENOENT || code == ENOTDIR) return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "there is no plug-in %s", path);
  return GRAFT_FAIL(error, GRAFT_E_IO, "the plug-in %s cannot be read: %s", path, strerror(code));
}

static graft_status check_file(const char *path, graft_error *error) {
  struct stat info;
  plugin_file file = {.path = path,
                      .descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // a pipe: do not wait
  if (file.descriptor < 0) return fail_to_open(path, errno, error);
  graft_status status = GRAFT_OK;
  if (fstat(file.descriptor, &info) != 0) {
    status = fail_to_open(path, errno, error);
  } else if (!S_ISREG(info.st_mode)) {
    status = GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s is no file, so it is no plug-in", path);
  } else {
    file.bytes = (size_t)info.st_size;
    status = check_content(&file, error);
  }
  close(file.descriptor);
  return status;
}

// dlopen searches the system's folders for a name without a slash; a path is what was given.
static char *plain_path(const char *path) {
  size_t n = strlen(path) + 3;
  char *plain = malloc(n);
  if (plain != NULL) snprintf(plain, n, "%s%s", strchr(path, '/') == NULL ? "./" : "", path);
  return plain;
}

static graft_status ask(const char *path, void *handle, graft_error *error, const graft_plugin_def **out_def) {
  void *symbol = dlsym(handle, GRAFT_PLUGIN_SYMBOL);
  graft_plugin_main_fn ask_plugin;
  if (symbol == NULL)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s exports no function " GRAFT_PLUGIN_SYMBOL ", so it is no plug-in",
                      path);
  memcpy(&ask_plugin, &symbol, sizeof ask_plugin);  // ISO C has no cast from an object's address to a function's
  *out_def = ask_plugin();
  if (*out_def == NULL)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the plug-in %s describes nothing: " GRAFT_PLUGIN_SYMBOL " returned NULL",
                      path);
  return GRAFT_OK;
}

graft_status graft_plugin_file_open(const char *path, graft_error *error, void **out_handle,
                                    const graft_plugin_def **out_def) {
  if (path == NULL || path[0] == '\0') return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "a plug-in needs a path");
  GRAFT_TRY(check_file(path, error));
  char *plain = plain_path(path);
  if (plain == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to load the plug-in %s", path);
  void *handle = dlopen(plain, RTLD_NOW | RTLD_LOCAL);
  free(plain);
  if (handle == NULL) {
    const char *why = dlerror();
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "the plug-in %s cannot be loaded: %.300s", path,
                      why == NULL ? "the system gives no reason" : why);
  }
  graft_status status = ask(path, handle, error, out_def);
  if (status == GRAFT_OK) *out_handle = handle;
  if (status != GRAFT_OK) dlclose(handle);
  return status;
}

void graft_plugin_file_close(void *handle) {
  if (handle != NULL) dlclose(handle);
}
