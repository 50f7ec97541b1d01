// graft devices — what this machine offers, and where a backend has nothing, why.
#include <jansson.h>
#include <stdio.h>

#include "tools/graft/tool.h"

// What a device can do, in the order of the report.
static const struct {
  uint32_t flag;
  const char *name, *words;
} capabilities[] = {
    {GRAFT_DEVICE_ASYNC, "async", "asynchronous copies"},
    {GRAFT_DEVICE_EVENTS, "events", "events"},
    {GRAFT_DEVICE_HOST_POINTERS, "host_pointers", "buffers of host pointers"},
    {GRAFT_DEVICE_MAPPING, "mapping", "mapped host memory"},
};
enum { N_CAPABILITIES = sizeof capabilities / sizeof capabilities[0] };

static uint64_t largest_buffer(const graft_device_info *info) {
  return info->max_buffer_bytes > 0 ? info->max_buffer_bytes : info->memory_bytes;
}

static json_t *describe(const char *name, const graft_device_info *info) {
  json_t *device = json_pack("{s:s, s:s, s:I, s:I, s:I}", "device", name, "name", info->name, "memory_bytes",
                             (json_int_t)info->memory_bytes, "free_bytes", (json_int_t)info->free_bytes,
                             "max_buffer_bytes", (json_int_t)largest_buffer(info));
  for (int i = 0; i < N_CAPABILITIES; ++i)
    json_object_set_new(device, capabilities[i].name, json_boolean((info->flags & capabilities[i].flag) != 0));
  return device;
}

static void print_device(const char *name, const graft_device_info *info) {
  char total[32], free_bytes[32], largest[32];
  printf("%-9s %s\n", name, info->name);
  printf("%-9s memory %s, free %s, largest buffer %s\n", "", tool_format_bytes((double)info->memory_bytes, total),
         tool_format_bytes((double)info->free_bytes, free_bytes),
         tool_format_bytes((double)largest_buffer(info), largest));
  printf("%-9s ", "");
  int n = 0;
  for (int i = 0; i < N_CAPABILITIES; ++i) {
    if (info->flags & capabilities[i].flag) printf("%s%s", n++ > 0 ? ", " : "", capabilities[i].words);
  }
  printf("%s\n", n == 0 ? "no asynchronous copies" : "");
}

// Prints or collects the devices of one backend; a device that does not open is shown with the reason.
static void show_backend(graft_context *context, const graft_backend_def *backend, json_t *list) {
  graft_reason why = {0};
  uint32_t n = backend->count(graft_context_backend_config(context), &why);
  if (n == 0 && list == NULL) printf("%-9s none: %s\n", backend->name, why.text);
  if (n == 0 && list != NULL)
    json_array_append_new(list, json_pack("{s:s, s:s}", "device", backend->name, "missing", why.text));
  for (uint32_t i = 0; i < n; ++i) {
    char name[64];
    snprintf(name, sizeof name, "%s:%u", backend->name, i);
    graft_device *device = NULL;
    if (graft_device_open(context, name, &device) != GRAFT_OK) {
      const char *message = graft_context_error(context)->message;
      if (list == NULL) printf("%-9s cannot be opened: %s\n", name, message);
      if (list != NULL) json_array_append_new(list, json_pack("{s:s, s:s}", "device", name, "missing", message));
      continue;
    }
    graft_device_info info = {.struct_size = sizeof info};
    graft_device_describe(device, &info);
    if (list == NULL) print_device(name, &info);
    if (list != NULL) json_array_append_new(list, describe(name, &info));
  }
}

static int run(const tool_command *self, int argc, char **argv) {
  bool as_json = false;
  int64_t n_threads = 0;
  const tool_option options[] = {
      {"json", 0, TOOL_FLAG, NULL, "Print JSON for programs.", &as_json, 0, 0, NULL},
      {"threads", 0, TOOL_INT, "N", "CPU threads (default: all cores).", &n_threads, 1, 1024, NULL},
  };
  int parsed = tool_parse(self, argc, argv, options, sizeof options / sizeof options[0], NULL, 0, NULL);
  if (parsed != TOOL_PARSED) return parsed;
  graft_context *context = tool_open_context(n_threads);
  if (context == NULL) return TOOL_FAILED;
  json_t *list = as_json ? json_array() : NULL;
  for (uint32_t i = 0; i < graft_context_n_backends(context); ++i)
    show_backend(context, graft_context_backend(context, i), list);
  graft_context_destroy(context);
  return as_json ? tool_print_json(list) : tool_finish_output(TOOL_OK);
}

const tool_command tool_devices = {"devices", "Lists the devices of this machine.", "[OPTIONS]", run};
