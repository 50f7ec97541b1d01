// plugin_file.h — shared objects of plug-ins, from a path to the table that they export. Not installed.
#ifndef GRAFT_SRC_RUN_PLUGIN_FILE_H
#define GRAFT_SRC_RUN_PLUGIN_FILE_H

#include "graft/plugin.h"

// Loads the file and asks its exported function. |*out_def| lies in the file, unchecked but for NULL.
// Errors: GRAFT_E_NOT_FOUND, GRAFT_E_IO, GRAFT_E_FORMAT, GRAFT_E_NO_MEMORY.
graft_status graft_plugin_file_open(const char *path, graft_error *error, void **out_handle,
                                    const graft_plugin_def **out_def);
void graft_plugin_file_close(void *handle);

#endif
