#include "src/run/plugin_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__ELF__)
#include <elf.h>

// What the loader would refuse with a message for programmers is refused here with one for people.
static graft_status check_header(const char *path, const unsigned char *head, size_t n, graft_error *error) {
  Elf64_Ehdr own;  // the first members are alike in 32-bit files
  if (n < sizeof own || memcmp(head, ELFMAG, SELFMAG) != 0)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s is no shared object, so it is no plug-in", path);
  memcpy(&own, head, sizeof own);
#if defined(__x86_64__)
  const unsigned machine = EM_X86_64;
  const char *const name = "x86-64";
#elif defined(__aarch64__)
  const unsigned machine = EM_AARCH64;
  const char *const name = "arm64";
#else
  const unsigned machine = own.e_machine;
  const char *const name = "another processor";
#endif
  if (own.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) || own.e_machine != machine)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT,
                      "%s was built for another processor (ELF machine %u); this program runs on %s", path,
                      (unsigned)own.e_machine, name);
  if (own.e_type != ET_DYN)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT,
                      "%s is a program or an object file; a plug-in is a shared object (-shared)", path);
  return GRAFT_OK;
}
#else
static graft_status check_header(const char *path, const unsigned char *head, size_t n, graft_error *error) {
  (void)head;
  if (n == 0) return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s is empty, so it is no plug-in", path);
  return GRAFT_OK;
}
#endif

static graft_status fail_to_open(const char *path, int code, graft_error *error) {
  if (code == ENOENT || code == ENOTDIR) return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "there is no plug-in %s", path);
  return GRAFT_FAIL(error, GRAFT_E_IO, "the plug-in %s cannot be read: %s", path, strerror(code));
}

static graft_status check_file(const char *path, graft_error *error) {
  unsigned char head[64];
  struct stat info;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not make us wait
  if (file < 0) return fail_to_open(path, errno, error);
  graft_status status = GRAFT_OK;
  ssize_t n = 0;
  if (fstat(file, &info) != 0) status = fail_to_open(path, errno, error);
  else if (!S_ISREG(info.st_mode))
    status = GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s is no file, so it is no plug-in", path);
  else if ((n = read(file, head, sizeof head)) < 0) status = fail_to_open(path, errno, error);
  close(file);
  return status == GRAFT_OK ? check_header(path, head, (size_t)n, error) : status;
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
