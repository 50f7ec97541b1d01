// plugin.h — extensions that come as a shared object. It is built against the installed headers alone (CMake target
// graft::plugin, pkg-config graft-plugin), links no library of graft, and exports one function:
//
//   GRAFT_PLUGIN_EXPORT const graft_plugin_def *graft_extension_main(void) {
//     static const graft_extension *const extensions[] = {&acme};
//     static const graft_plugin_def plugin = {.struct_size = sizeof plugin, .abi_version = GRAFT_ABI_VERSION,
//                                             .name = "acme", .version = "1.0",
//                                             .extensions = extensions, .n_extensions = 1};
//     return &plugin;
//   }
//
// What it calls of graft is found in the program that loads it: the `graft` program exports it, and so does any program
// that links the shared library (docs/adr/0006-plug-ins-find-graft-in-the-program.md). Loading runs the file's code;
// load what you would run.
#ifndef GRAFT_PLUGIN_H
#define GRAFT_PLUGIN_H

#include "graft/context.h"

#ifdef __cplusplus
#define GRAFT_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))
extern "C" {
#else
#define GRAFT_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

#define GRAFT_PLUGIN_SYMBOL "graft_extension_main"

// What a plug-in says of itself. Constant, with static storage.
typedef struct graft_plugin_def {
  uint32_t struct_size;
  uint32_t abi_version;                      // GRAFT_ABI_VERSION as the plug-in was compiled
  const char *name;                          // "acme", for people
  const char *version;                       // its own, for people; may be NULL
  const graft_extension *const *extensions;  // registered in this order, all or none
  uint32_t n_extensions;
} graft_plugin_def;

// The type of the exported function. It is called once each time a context loads the file.
typedef const graft_plugin_def *(*graft_plugin_main_fn)(void);

// A plug-in that is loaded into a context, which owns it.
typedef struct graft_plugin graft_plugin;

// Loads the shared object at |path| and registers all of its extensions or, on failure, nothing. A relative path is
// taken from the working folder; no other folders are searched. |out_plugin| may be NULL. The file stays loaded until
// graft_plugin_unload or the end of the context.
// Errors: GRAFT_E_NOT_FOUND (no such file), GRAFT_E_IO, GRAFT_E_FORMAT (no shared object, one for another processor, a
// symbol that is missing in it or in this program), GRAFT_E_UNSUPPORTED (built for a newer interface), GRAFT_E_INVALID
// (what it says of itself breaks a rule), what graft_context_register reports, GRAFT_E_NO_MEMORY.
GRAFT_API GRAFT_NODISCARD graft_status graft_plugin_load(graft_context *context, const char *path,
                                                         const graft_plugin **out_plugin);

// Unregisters the extensions of |plugin| and lets go of the file. GRAFT_E_BUSY as graft_context_unregister says,
// GRAFT_E_NOT_FOUND when the context has no such plug-in.
GRAFT_API GRAFT_NODISCARD graft_status graft_plugin_unload(graft_context *context, const graft_plugin *plugin);

// Plug-ins in order of loading; NULL out of range. Borrowed from the context.
GRAFT_API uint32_t graft_context_n_plugins(const graft_context *context);
GRAFT_API const graft_plugin *graft_context_plugin(const graft_context *context, uint32_t index);

// The path it was loaded from, and what it says of itself. Borrowed. Thread-safe.
GRAFT_API const char *graft_plugin_path(const graft_plugin *plugin);
GRAFT_API const graft_plugin_def *graft_plugin_describe(const graft_plugin *plugin);

#ifdef __cplusplus
}
#endif

#endif
