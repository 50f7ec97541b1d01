// "private lacks=softmax,cpu" as devices and as what their backends are told.
#include "tools/graft/device_list.h"

#include <stdlib.h>
#include <string.h>

static const char default_device[] = "cpu";

static graft_status open_one(graft_context *context, const char *name, size_t length, tool_device_list *list) {
  graft_error *error = graft_context_error_slot(context);
  char terminated[96];
  if (length == 0) return GRAFT_FAIL(error, GRAFT_E_INVALID, "a name is missing between the commas of --device");
  if (length >= sizeof terminated)
    return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "there is no device \"%.60s…\"; see graft devices", name);
  if (list->n == TOOL_MAX_DEVICES)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "--device takes at most %d devices", TOOL_MAX_DEVICES);
  memcpy(terminated, name, length);
  terminated[length] = '\0';
  GRAFT_TRY(graft_device_open(context, terminated, &list->items[list->n]));
  ++list->n;
  return GRAFT_OK;
}

graft_status tool_device_list_open(graft_context *context, const char *text, tool_device_list *out_list) {
  tool_device_list list = {.n = 0};
  for (const char *at = text != NULL ? text : default_device;;) {
    at += strspn(at, " ");
    GRAFT_TRY(open_one(context, at, strcspn(at, " ,"), &list));
    at += strcspn(at, ",");
    if (*at++ == '\0') break;
  }
  *out_list = list;
  return GRAFT_OK;
}

char *tool_device_list_words(const char *text) {
  char *words = strdup(text);
  for (char *c = words; c != NULL && *c != '\0'; ++c)
    if (*c == ',') *c = ';';
  return words;
}
