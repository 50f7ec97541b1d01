// Which kernel runs a node, and why the others do not.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/plan/plan_internal.h"
#include "src/plan/tune.h"
#include "src/run/query.h"
#include "src/run/registry.h"

// Lines "kernel: reason\n" of the kernels asked so far.
typedef struct rejection_text {
  char *text;
  size_t bytes, capacity;
  bool is_cut;  // memory ended
} rejection_text;

typedef struct line_span {
  size_t begin, end;
} line_span;

typedef struct selection {
  graft_plan *plan;
  const graft_plan_device *device;
  const graft_node_info *node;
  rejection_text rejections;
  const graft_kernel_def *chosen;
  const graft_kernel_def *wanting[GRAFT_TUNE_MAX_KERNELS];  // the node, in order of choice, where times decide
  uint32_t n_wanting;
  // Kernels that support the node but would rather not: the first of the backend's own, and the first of all.
  const graft_kernel_def *native, *any;
  line_span native_line, any_line;
} selection;

static line_span reject(selection *s, const graft_kernel_def *kernel, const graft_reason *why) {
  rejection_text *r = &s->rejections;
  line_span line = {r->bytes, r->bytes};
  size_t needed = r->bytes + strlen(kernel->name) + sizeof why->text + 4;
  if (needed > r->capacity) {
    char *text = realloc(r->text, 2 * needed);
    if (text == NULL) {
      r->is_cut = true;
      return line;
    }
    r->text = text;
    r->capacity = 2 * needed;
  }
  r->bytes +=
      (size_t)sprintf(r->text + r->bytes, "%s: %s\n", kernel->name, why->text[0] ? why->text : "no reason given");
  line.end = r->bytes;
  return line;
}

static bool packs_constants(const graft_kernel_def *kernel, const graft_node_info *node) {
  graft_prepared prepared = {.struct_size = sizeof prepared};
  graft_error error = {0};
  // A failure is not this question's: prepare is asked again once the kernel is chosen.
  if (kernel->prepare == NULL || kernel->prepare(node, &error, &prepared) != GRAFT_OK) return false;
  if (kernel->destroy != NULL) kernel->destroy(prepared.state);
  return prepared.n_packed > 0;
}

static bool can_run(const selection *s, const graft_kernel_def *kernel, graft_reason *why) {
  const graft_plan *plan = s->plan;
  if ((plan->flags & GRAFT_PLAN_REFERENCE) && kernel->op != NULL)
    return graft_refuse(why, "only references were asked for");
  if (!graft_query_supports(kernel, s->node, s->device->info.features, why)) return false;
  if ((plan->flags & GRAFT_PLAN_NO_PACKING) && packs_constants(kernel, s->node)) {
    return graft_refuse(why, "it packs constants, which was switched off");
  }
  return true;
}

static void consider_forced(selection *s, const graft_kernel_def *const *kernels, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    if (s->plan->force_kernel == NULL || strcmp(kernels[i]->name, s->plan->force_kernel) != 0) continue;
    graft_reason why = {0};
    if (can_run(s, kernels[i], &why)) {
      s->chosen = kernels[i];
    } else {
      (void)reject(s, kernels[i], &why);
    }
  }
}

static bool is_forced(const selection *s, const graft_kernel_def *kernel) {
  return s->plan->force_kernel != NULL && strcmp(kernel->name, s->plan->force_kernel) == 0;
}

// The first kernel that wants the node is chosen, unless times decide.
static void want(selection *s, const graft_kernel_def *kernel) {
  if (s->plan->tuner == NULL || kernel->op == NULL) {
    s->chosen = kernel;
  } else if (s->n_wanting < GRAFT_TUNE_MAX_KERNELS) {
    s->wanting[s->n_wanting++] = kernel;
  }
}

// Chooses among the kernels that want the node by their times, or the first of them.
static void choose_wanting(selection *s) {
  uint32_t best = 0;
  double seconds = 0;
  if (s->chosen != NULL || s->n_wanting == 0) return;
  bool is_timed =
      s->n_wanting > 1 && graft_tuner_choose(s->plan->tuner, s->node, s->wanting, s->n_wanting, &best, &seconds);
  s->chosen = s->wanting[best];
  graft_reason why = {0};
  if (is_timed) graft_refuse(&why, "slower when measured: %.40s took %.3g ms", s->chosen->name, 1e3 * seconds);
  for (uint32_t i = 0; i < s->n_wanting; ++i) {
    if (i != best && is_timed) (void)reject(s, s->wanting[i], &why);
  }
}

// Chooses |kernel|, or notes why not.
static void consider(selection *s, const graft_kernel_def *kernel) {
  graft_reason why = {0};
  if (!can_run(s, kernel, &why)) {
    (void)reject(s, kernel, &why);
    return;
  }
  if (graft_query_prefers(kernel, s->node, &why)) {
    want(s, kernel);
    return;
  }
  graft_reason text = {0};
  graft_refuse(&text, "not preferred: %.100s", why.text);
  line_span line = reject(s, kernel, &text);
  if (s->any == NULL) {
    s->any = kernel;
    s->any_line = line;
  }
  if (s->native == NULL && graft_registry_is_native(s->plan->context, kernel)) {
    s->native = kernel;
    s->native_line = line;
  }
}

// Nothing wanted the node: the backend's own kernel that can run it does, else whichever can (KS1).
static void settle(selection *s) {
  if (s->chosen != NULL || s->any == NULL) return;
  s->chosen = s->native != NULL ? s->native : s->any;
  line_span line = s->native != NULL ? s->native_line : s->any_line;
  rejection_text *r = &s->rejections;
  if (line.end == line.begin) return;
  memmove(r->text + line.begin, r->text + line.end, r->bytes - line.end);
  r->bytes -= line.end - line.begin;
}

static graft_status fail_selection(const selection *s, const graft_node *node) {
  if (s->rejections.is_cut) return graft_plan_no_memory(s->plan);
  graft_error *error = s->plan->error;
  graft_status status = GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED, "%s has no way to run %s (%s): %s",
                                   graft_device_name(s->device->device), node->op->name, node->label,
                                   s->rejections.bytes > 0 ? "every kernel refuses" : "no kernel is registered for it");
  snprintf(error->op, sizeof error->op, "%s", node->op->name);
  const char *line = s->rejections.text, *end = line + s->rejections.bytes;
  while (line < end) {
    size_t length = strcspn(line, "\n");
    graft_error_note(error, "%.*s", (int)length, line);
    line += length + 1;
  }
  return status;
}

static void ask_kernels(selection *s, bool has_decomposition, bool *out_expand) {
  const graft_kernel_def *const *kernels = NULL;
  uint32_t n = graft_registry_find_kernels(s->plan->context, s->node->op->name, s->device->backend->name, &kernels);
  consider_forced(s, kernels, n);
  uint32_t i = 0;
  for (; i < n && kernels[i]->op != NULL && s->chosen == NULL; ++i) {
    if (!is_forced(s, kernels[i])) consider(s, kernels[i]);
  }
  choose_wanting(s);
  settle(s);
  // A decomposition whose parts have kernels is better than a reference, unless references are what is wanted.
  bool is_reference_wanted = (s->plan->flags & GRAFT_PLAN_REFERENCE) != 0;
  for (; i < n && s->chosen == NULL && (!has_decomposition || is_reference_wanted); ++i) {
    if (!is_forced(s, kernels[i])) consider(s, kernels[i]);
  }
  settle(s);
  *out_expand = s->chosen == NULL && has_decomposition;
}

// The chosen kernel and the reasons of those asked before it.
static graft_status keep(selection *s, graft_planned_step *step) {
  char *text = graft_arena_alloc(&s->plan->arena, s->rejections.bytes + 1);
  if (text == NULL || s->rejections.is_cut) return graft_plan_no_memory(s->plan);
  if (s->rejections.bytes > 0) memcpy(text, s->rejections.text, s->rejections.bytes);
  step->kernel = s->chosen;
  step->rejections = text;
  return GRAFT_OK;
}

graft_status graft_plan_select(graft_plan *plan, graft_planned_step *step, bool *out_expand) {
  selection s = {.plan = plan, .device = &plan->devices[step->node->device], .node = &step->info};
  ask_kernels(&s, step->node->op->decompose != NULL, out_expand);
  graft_status status = s.chosen == NULL && !*out_expand ? fail_selection(&s, step->node) : keep(&s, step);
  free(s.rejections.text);
  return status;
}

graft_status graft_plan_select_fused(graft_plan *plan, graft_planned_step *step, graft_reason *why) {
  selection s = {.plan = plan, .device = &plan->devices[step->node->device], .node = &step->info};
  const graft_kernel_def *const *kernels = NULL;
  uint32_t n = graft_registry_find_kernels(plan->context, step->node->op->name, s.device->backend->name, &kernels);
  consider_forced(&s, kernels, n);
  for (uint32_t i = 0; i < n && kernels[i]->op != NULL && s.chosen == NULL; ++i) {
    if (!is_forced(&s, kernels[i])) consider(&s, kernels[i]);
  }
  choose_wanting(&s);
  graft_status status = keep(&s, step);
  if (s.chosen == NULL && s.rejections.bytes > 0) {
    // The last kernel asked is the plainest one: what it lacks is the reason, rather than a feature of the device.
    const char *end = s.rejections.text + s.rejections.bytes - 1, *line = end;
    while (line > s.rejections.text && line[-1] != '\n') --line;
    graft_refuse(why, "%.*s", (int)(end - line), line);
  } else if (s.chosen == NULL) {
    graft_refuse(why, "no kernel is registered for %.90s", step->node->op->name);
  }
  free(s.rejections.text);
  return status;
}
