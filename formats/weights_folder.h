// weights_folder.h — which file of a folder holds a model part's weights.
#ifndef GRAFT_FORMATS_WEIGHTS_FOLDER_H
#define GRAFT_FORMATS_WEIGHTS_FOLDER_H

#include "graft/status.h"

// Picks the index or safetensors file of |folder| as formats/weights.h describes; the caller frees |out_path|.
// Errors: GRAFT_E_NOT_FOUND (none), GRAFT_E_INVALID (several, none of which has a usual name), GRAFT_E_IO.
GRAFT_NODISCARD graft_status graft_weights_folder_choose(const char *folder, graft_error *error, char **out_path);

// Whether |path| is named like an index. Thread-safe.
bool graft_weights_folder_is_index(const char *path);

#endif
