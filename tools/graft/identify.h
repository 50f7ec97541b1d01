// identify.h — what a file is, from its first bytes or its tensors' names.
#ifndef GRAFT_TOOLS_GRAFT_IDENTIFY_H
#define GRAFT_TOOLS_GRAFT_IDENTIFY_H

#include "formats/safetensors.h"

// For a file that is no safetensors: a sentence's object such as "a GGUF model, which graft does not read yet", or NULL
// when the first bytes say nothing. |head| holds the first |n| bytes. Static storage.
const char *tool_identify_bytes(const unsigned char *head, size_t n);

// Which known network the tensors of |file| belong to: "Z-Image transformer", or NULL. Static storage.
const char *tool_identify_tensors(const graft_safetensors *file);

#endif
