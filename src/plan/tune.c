#include "src/plan/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/graph/printer.h"

// Text in memory that grows; |text| is NULL once memory ended.
typedef struct growing_text {
  char *text;
  size_t n, capacity;
} growing_text;

static graft_status append(void *user, const char *piece, size_t size) {
  growing_text *t = user;
  if (t->n + size + 1 > t->capacity) {
    size_t capacity = 2 * (t->n + size + 1);
    char *text = realloc(t->text, capacity);
    if (text == NULL) return GRAFT_E_NO_MEMORY;
    t->text = text;
    t->capacity = capacity;
  }
  memcpy(t->text + t->n, piece, size);
  t->n += size;
  t->text[t->n] = '\0';
  return GRAFT_OK;
}

static void print_descs(graft_printer *printer, const graft_tensor_desc *const *descs, uint32_t n, uint32_t constants) {
  char text[512];
  for (uint32_t i = 0; i < n; ++i) {
    graft_print_text(printer, i == 0 ? "" : ", ");
    graft_print_text(printer, descs[i] == NULL ? "none" : graft_tensor_desc_format(descs[i], text, sizeof text));
    if (constants >> i & 1) graft_print_text(printer, " constant");
  }
}

// Everything that a measurement depends on, on one line; NULL when memory ends.
static char *make_key(const graft_node_info *node, const graft_kernel_def *const *kernels, uint32_t n_kernels) {
  growing_text text = {0};
  graft_printer printer = {{append, &text}, GRAFT_OK};
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(node->device, &info);
  graft_print_format(&printer, "graft %s | %s ", graft_version(), graft_device_name(node->device));
  graft_print_text(&printer, info.name);
  graft_print_format(&printer, " %llx | %s {", (unsigned long long)info.features, node->op->name);
  graft_print_attrs(&printer, node->op, node->attrs);
  graft_print_text(&printer, "} | ");
  print_descs(&printer, node->inputs, node->n_inputs, node->constant_inputs);
  graft_print_text(&printer, " -> ");
  print_descs(&printer, node->outputs, node->n_outputs, 0);
  graft_print_text(&printer, " |");
  for (uint32_t i = 0; i < n_kernels; ++i) graft_print_format(&printer, " %s", kernels[i]->name);
  if (printer.status != GRAFT_OK) {
    free(text.text);
    return NULL;
  }
  for (char *c = text.text; *c != '\0'; ++c) {
    if ((unsigned char)*c < ' ') *c = ' ';
  }
  return text.text;
}

static bool find_known(const graft_tuner *tuner, const char *key, const graft_kernel_def *const *kernels,
                       uint32_t n_kernels, uint32_t *out_index, double *out_seconds) {
  const graft_tune_entry *entry = graft_tune_find(tuner, key);
  for (uint32_t i = 0; entry != NULL && i < n_kernels; ++i) {
    if (strcmp(kernels[i]->name, entry->kernel) != 0) continue;
    *out_index = i;
    *out_seconds = entry->seconds;
    return true;
  }
  return false;
}

static bool measure(graft_tuner *tuner, const char *key, const graft_node_info *node,
                    const graft_kernel_def *const *kernels, uint32_t n_kernels, uint32_t *out_index,
                    double *out_seconds) {
  double seconds[GRAFT_TUNE_MAX_KERNELS];
  uint32_t best = 0;
  graft_tune_measure(node, kernels, n_kernels, seconds);
  for (uint32_t i = 1; i < n_kernels; ++i) {
    if (seconds[i] < seconds[best]) best = i;
  }
  if (!isfinite(seconds[best]) || !graft_tune_add(tuner, key, kernels[best]->name, seconds[best])) return false;
  tuner->is_changed = true;
  *out_index = best;
  *out_seconds = seconds[best];
  return true;
}

bool graft_tuner_choose(graft_tuner *tuner, const graft_node_info *node, const graft_kernel_def *const *kernels,
                        uint32_t n_kernels, uint32_t *out_index, double *out_seconds) {
  // What it does beside its outputs must not be done for a test.
  if (node->op->traits & GRAFT_OP_OPAQUE_EFFECT) return false;
  if (n_kernels > GRAFT_TUNE_MAX_KERNELS) n_kernels = GRAFT_TUNE_MAX_KERNELS;
  char *key = make_key(node, kernels, n_kernels);
  if (key == NULL) return false;
  bool is_known = find_known(tuner, key, kernels, n_kernels, out_index, out_seconds);
  if (!is_known && tuner->may_measure) is_known = measure(tuner, key, node, kernels, n_kernels, out_index, out_seconds);
  free(key);
  return is_known;
}

graft_status graft_tuner_open(graft_context *context, const char *path, bool may_measure, graft_error *error,
                              graft_tuner **out_tuner) {
  graft_tuner *tuner = calloc(1, sizeof *tuner);
  if (tuner != NULL) tuner->path = strdup(path);
  if (tuner == NULL || tuner->path == NULL) {
    free(tuner);
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for measured selection");
  }
  tuner->context = context;
  tuner->may_measure = may_measure;
  if (path[0] != '\0') graft_tune_read(tuner);
  *out_tuner = tuner;
  return GRAFT_OK;
}

void graft_tuner_close(graft_tuner *tuner) {
  if (tuner == NULL) return;
  graft_error error = {0};
  if (tuner->is_changed && tuner->path[0] != '\0' && graft_tune_write(tuner, &error) != GRAFT_OK)
    graft_tune_warn(tuner, GRAFT_TUNE_WRITING, "measured times are not kept: %s", error.message);
  graft_tune_forget(tuner);
  free(tuner->path);
  free(tuner);
}
