// device_list.h — the devices that an option --device names.
#ifndef GRAFT_TOOLS_GRAFT_DEVICE_LIST_H
#define GRAFT_TOOLS_GRAFT_DEVICE_LIST_H

#include "graft/graft.h"

enum { TOOL_MAX_DEVICES = 16 };

#define TOOL_DEVICES_HELP "Device as graft devices names it, or several, best first: cuda:0,cpu (default: cpu)."

// Devices of one context, best first.
typedef struct tool_device_list {
  graft_device *items[TOOL_MAX_DEVICES];
  uint32_t n;
} tool_device_list;

// Opens the devices of |text| (NULL: the CPU), as "private lacks=softmax,cpu": between commas the name of a device and
// words for its backend, which the context was given when it was made (tool_planning). Errors are in the context.
GRAFT_NODISCARD graft_status tool_device_list_open(graft_context *context, const char *text,
                                                   tool_device_list *out_list);

// The words of |text| as graft_context_options.devices takes them. The caller frees it; NULL when memory ends.
char *tool_device_list_words(const char *text);

#endif
