#include "graft/plugin.h"

#include <stdlib.h>
#include <string.h>

#include "graft/versioned.h"
#include "src/run/context_internal.h"
#include "src/run/plugin_file.h"

struct graft_plugin {
  graft_plugin *next;
  void *handle;
  char *path;
  graft_plugin_def def;
};

static graft_status check_def(const graft_plugin_def *given, graft_error *error, graft_plugin_def *out_def) {
  if (given->struct_size < offsetof(graft_plugin_def, name))
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "struct_size of its graft_plugin_def is %u; set it to sizeof the struct",
                      (unsigned)given->struct_size);
  if (given->abi_version > GRAFT_ABI_VERSION)
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                      "it was built for version %u of the interface and this program has %d; update graft",
                      (unsigned)given->abi_version, GRAFT_ABI_VERSION);
  if (given->abi_version == 0)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "abi_version of its graft_plugin_def is 0; set it to GRAFT_ABI_VERSION");
  GRAFT_TRY(graft_versioned_copy(out_def, sizeof *out_def, given, "its graft_plugin_def", error));
  if (out_def->name == NULL || out_def->name[0] == '\0')
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "its graft_plugin_def has no name");
  if (out_def->n_extensions == 0 || out_def->extensions == NULL)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "it brings no extension");
  for (uint32_t i = 0; i < out_def->n_extensions; ++i) {
    if (out_def->extensions[i] == NULL)
      return GRAFT_FAIL(error, GRAFT_E_INVALID, "its extension %u is NULL", (unsigned)i);
  }
  return GRAFT_OK;
}

static void free_plugin(graft_plugin *plugin) {
  if (plugin == NULL) return;
  graft_plugin_file_close(plugin->handle);
  free(plugin->path);
  free(plugin);
}

static graft_status open_plugin(graft_context *context, graft_plugin *plugin, const char *path) {
  const graft_plugin_def *def = NULL;
  GRAFT_TRY(graft_plugin_file_open(path, &context->error, &plugin->handle, &def));
  graft_status status = check_def(def, &context->error, &plugin->def);
  if (status == GRAFT_OK)
    status = graft_registry_add(&context->registry, plugin->def.extensions, plugin->def.n_extensions, &context->error);
  if (status != GRAFT_OK) graft_error_note(&context->error, "loading the plug-in %s", path);
  return status;
}

graft_status graft_plugin_load(graft_context *context, const char *path, const graft_plugin **out_plugin) {
  graft_plugin *plugin = calloc(1, sizeof *plugin);
  if (plugin != NULL) plugin->path = strdup(path == NULL ? "" : path);
  if (plugin == NULL || plugin->path == NULL) {
    free(plugin);
    return GRAFT_FAIL(&context->error, GRAFT_E_NO_MEMORY, "no memory for a plug-in");
  }
  graft_status status = open_plugin(context, plugin, path);
  if (status != GRAFT_OK) {
    free_plugin(plugin);
    return status;
  }
  graft_plugin **end = &context->plugins;
  while (*end != NULL) end = &(*end)->next;
  *end = plugin;
  if (out_plugin != NULL) *out_plugin = plugin;
  return GRAFT_OK;
}

graft_status graft_plugin_unload(graft_context *context, const graft_plugin *plugin) {
  graft_plugin **link = &context->plugins;
  while (*link != NULL && *link != plugin) link = &(*link)->next;
  graft_plugin *found = *link;
  if (found == NULL) return GRAFT_FAIL(&context->error, GRAFT_E_NOT_FOUND, "the plug-in is not loaded in this context");
  GRAFT_TRY(graft_context_remove(context, found->def.extensions, found->def.n_extensions));
  *link = found->next;
  free_plugin(found);
  return GRAFT_OK;
}

void graft_plugin_close_all(graft_context *context) {
  while (context->plugins != NULL) {
    graft_plugin *plugin = context->plugins;
    context->plugins = plugin->next;
    free_plugin(plugin);
  }
}

uint32_t graft_context_n_plugins(const graft_context *context) {
  uint32_t n = 0;
  for (const graft_plugin *plugin = context->plugins; plugin != NULL; plugin = plugin->next) ++n;
  return n;
}

const graft_plugin *graft_context_plugin(const graft_context *context, uint32_t index) {
  const graft_plugin *plugin = context->plugins;
  for (; plugin != NULL && index > 0; --index) plugin = plugin->next;
  return plugin;
}

const char *graft_plugin_path(const graft_plugin *plugin) {
  return plugin->path;
}

const graft_plugin_def *graft_plugin_describe(const graft_plugin *plugin) {
  return &plugin->def;
}
