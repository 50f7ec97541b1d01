#include "src/run/query.h"

#include "graft/versioned.h"
#include "src/run/context_internal.h"
#include "src/run/registry.h"

static void enter(graft_queries *queries, graft_query_frame *frame, const graft_op_def *op) {
  frame->thread = pthread_self();
  frame->op = op;
  pthread_mutex_lock(&queries->mutex);
  frame->next = queries->frames;
  queries->frames = frame;
  pthread_mutex_unlock(&queries->mutex);
}

static void leave(graft_queries *queries, graft_query_frame *frame) {
  pthread_mutex_lock(&queries->mutex);
  graft_query_frame **link = &queries->frames;
  while (*link != frame) link = &(*link)->next;
  *link = frame->next;
  pthread_mutex_unlock(&queries->mutex);
}

// Whether this thread is within a callback about |op| already: the answer would ask for itself without end.
static bool is_recursive(graft_queries *queries, const graft_op_def *op) {
  bool is_found = false;
  pthread_mutex_lock(&queries->mutex);
  for (const graft_query_frame *frame = queries->frames; frame != NULL; frame = frame->next)
    is_found = is_found || (frame->op == op && pthread_equal(frame->thread, pthread_self()));
  pthread_mutex_unlock(&queries->mutex);
  return is_found;
}

typedef bool (*node_question)(const graft_node_info *node, graft_reason *why);

static bool ask(node_question question, const graft_node_info *node, graft_reason *why) {
  if (question == NULL) return true;
  graft_queries *queries = graft_device_queries(node->device);
  graft_query_frame frame;
  enter(queries, &frame, node->op);
  bool answer = question(node, why);
  leave(queries, &frame);
  return answer;
}

bool graft_query_supports(const graft_kernel_def *kernel, const graft_node_info *node, uint64_t features,
                          graft_reason *why) {
  const graft_backend_def *backend = graft_device_backend(node->device);
  if (backend->accepts != NULL && !backend->accepts(graft_device_state(node->device), node, why)) return false;
  uint64_t missing = kernel->required_features & ~features;
  if (missing != 0)
    return graft_refuse(why, "the device lacks features 0x%llx that it needs", (unsigned long long)missing);
  return ask(kernel->supports, node, why);
}

bool graft_query_prefers(const graft_kernel_def *kernel, const graft_node_info *node, graft_reason *why) {
  return ask(kernel->preferred, node, why);
}

bool graft_device_supports(const graft_device *device, const graft_node_info *node, bool native_only,
                           graft_reason *why) {
  graft_context *context = graft_device_context(device);
  graft_node_info asked;
  graft_error error = {0};
  if (graft_versioned_copy(&asked, sizeof asked, node, "a graft_node_info", &error) != GRAFT_OK)
    return graft_refuse(why, "%.100s", error.message);
  asked.device = device;
  if (is_recursive(graft_device_queries(device), asked.op)) {
    graft_context_log(context, GRAFT_LOG_WARNING, "a kernel of %s asks %s about the same operator again; refused",
                      asked.op->name, graft_device_name(device));
    return graft_refuse(why, "asked from within a kernel's own answer about %.60s", asked.op->name);
  }
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(device, &info);
  const graft_kernel_def *const *kernels = NULL;
  uint32_t n = graft_registry_find_kernels(context, asked.op->name, graft_device_backend(device)->name, &kernels);
  graft_refuse(why, "no%s kernel is registered for %.60s", native_only ? " native" : "", asked.op->name);
  for (uint32_t i = 0; i < n; ++i) {
    if (native_only && !graft_registry_is_native(context, kernels[i])) continue;
    if (graft_query_supports(kernels[i], &asked, info.features, why)) return true;
  }
  return false;
}
