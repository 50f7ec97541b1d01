// graft quantize — writes a model's transformer with quantised layers, as ComfyUI reads it.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/quantize.h"
#include "formats/atomic_file.h"
#include "tools/graft/progress.h"
#include "tools/graft/tool.h"

enum { MAX_RULES = 16 };

typedef struct wishes {
  const char *model, *output, *type, *report;
  int64_t group, n_threads;
  bool is_quiet;
  graft_quantize_rule rules[MAX_RULES];
  char patterns[MAX_RULES][256];
  size_t n_rules;
} wishes;

static void on_progress(void *user, size_t n_done, size_t n_tensors) {
  tool_progress *progress = user;
  if (!progress->is_terminal) return;
  char line[64];
  snprintf(line, sizeof line, "quantising %zu/%zu", n_done, n_tensors);
  tool_progress_draw(progress, line);
}

static int add_rule(const tool_command *self, const char *text, wishes *w) {
  const char *equals = strrchr(text, '=');
  graft_quantize_rule *rule = &w->rules[w->n_rules];
  if (equals == NULL || !graft_quantize_kind_parse(equals + 1, strlen(equals + 1), &rule->kind))
    return tool_usage(self, "--rule takes REGEX=TYPE, with f32, f16, bf16, fp8, int8 or int8_convrot; got '%s'", text);
  const size_t n = (size_t)(equals - text);
  if (n >= sizeof w->patterns[0]) return tool_usage(self, "the pattern of a rule is too long");
  memcpy(w->patterns[w->n_rules], text, n);
  w->patterns[w->n_rules][n] = '\0';
  rule->pattern = w->patterns[w->n_rules++];
  return TOOL_PARSED;
}

static void print_report(const graft_quantize_report *report) {
  printf("%-42s %-13s %6s %14s %9s %9s\n", "layer", "type", "group", "shape", "error", "worst row");
  for (size_t i = 0; i < report->n_layers; ++i) {
    const graft_quantize_layer *l = &report->layers[i];
    char shape[48];
    snprintf(shape, sizeof shape, "%lldx%lld", (long long)l->rows, (long long)l->columns);
    printf("%-42s %-13s %6lld %14s %9.6f %9.6f\n", l->name, graft_quantize_kind_name(l->kind), (long long)l->group,
           shape, l->error, l->worst_row_error);
  }
}

static json_t *describe_layer(const graft_quantize_layer *l) {
  return json_pack("{s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:I}", "layer", l->name, "type",
                   graft_quantize_kind_name(l->kind), "rows", (json_int_t)l->rows, "columns", (json_int_t)l->columns,
                   "group", (json_int_t)l->group, "error", l->error, "worst_row_error", l->worst_row_error, "worst_row",
                   (json_int_t)l->worst_row);
}

static graft_status write_report(const graft_quantize_report *report, const char *path, graft_error *error) {
  json_t *layers = json_array();
  for (size_t i = 0; i < report->n_layers; ++i) json_array_append_new(layers, describe_layer(&report->layers[i]));
  json_t *root = json_pack("{s:I, s:I, s:o}", "bytes", (json_int_t)report->bytes, "tensors",
                           (json_int_t)report->n_tensors, "layers", layers);
  char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
  json_decref(root);
  if (text == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for the report");
  graft_atomic_file *file = NULL;
  graft_status status = graft_atomic_file_begin(path, error, &file);
  if (status == GRAFT_OK) {
    status = graft_atomic_file_append(file, text, strlen(text), error);
    if (status == GRAFT_OK) status = graft_atomic_file_commit(file, error);
    else graft_atomic_file_abort(file);
  }
  free(text);
  return status;
}

static int quantize(graft_context *context, const wishes *w, graft_quantize_kind kind) {
  tool_progress progress;
  tool_progress_begin(&progress);
  progress.is_terminal = progress.is_terminal && !w->is_quiet;
  char model[TOOL_PATH_BYTES];
  if (!tool_find_model(w->model, model)) return TOOL_FAILED;
  const graft_quantize_options options = {.struct_size = sizeof options,
                                          .model = model,
                                          .output = w->output,
                                          .kind = kind,
                                          .group = w->group,
                                          .rules = w->rules,
                                          .n_rules = w->n_rules,
                                          .user = &progress,
                                          .on_progress = on_progress,
                                          .abort = tool_is_interrupted};
  graft_quantize_report *report = NULL;
  graft_status status = graft_quantize_model(context, &options, &report);
  tool_progress_end(&progress);
  if (status == GRAFT_OK && w->report) status = write_report(report, w->report, graft_context_error_slot(context));
  if (status == GRAFT_OK && !w->is_quiet) print_report(report);
  if (status == GRAFT_OK && !w->is_quiet)
    fprintf(stderr, "graft: wrote %s: %zu tensor%s, %zu layer%s quantised, %llu bytes, %.1f s\n", w->output,
            report->n_tensors, tool_s(report->n_tensors), report->n_layers, tool_s(report->n_layers),
            (unsigned long long)report->bytes, tool_progress_elapsed(&progress));
  graft_quantize_report_free(report);
  return status == GRAFT_OK ? TOOL_OK : tool_report(graft_context_error(context));
}

static int check(const tool_command *self, const wishes *w, graft_quantize_kind *out_kind) {
  if (w->output == NULL) return tool_usage(self, "say where to write: -o FILE.safetensors");
  if (w->report != NULL && strcmp(w->report, w->output) == 0)
    return tool_usage(self, "--report needs a file of its own");
  const bool is_known = graft_quantize_kind_parse(w->type, strlen(w->type), out_kind);
  if (!is_known || *out_kind < GRAFT_QUANTIZE_KIND_FP8)
    return tool_usage(self, "--type takes int8_convrot, int8 or fp8; got '%s'", w->type);
  return TOOL_PARSED;
}

static int run(const tool_command *self, int argc, char **argv) {
  wishes w = {.type = "int8_convrot", .group = 256};
  const char *rules[MAX_RULES];
  tool_text_list rule_list = {.items = rules, .capacity = MAX_RULES};
  const tool_option options[] = {
      {"output", 'o', TOOL_TEXT, "FILE", "The safetensors file to write.", &w.output, 0, 0, NULL},
      {"type", 0, TOOL_TEXT, "TYPE", "int8_convrot (default), int8 or fp8.", &w.type, 0, 0, NULL},
      {"group", 0, TOOL_INT, "N",
       "Largest group of the rotation; a power of four that divides a row is taken (default: 256).", &w.group, 1,
       1 << 20, NULL},
      {"rule", 0, TOOL_TEXTS, "REGEX=TYPE",
       "Layers that match become this type instead; the last match decides. May be repeated.", &rule_list, 0, 0, NULL},
      {"report", 0, TOOL_TEXT, "FILE", "Also write the table of errors as JSON.", &w.report, 0, 0, NULL},
      {"threads", 0, TOOL_INT, "N", "CPU threads (default: all cores).", &w.n_threads, 1, 1024, NULL},
      {"quiet", 'q', TOOL_FLAG, NULL, "Print nothing.", &w.is_quiet, 0, 0, NULL},
  };
  size_t n = 0;
  graft_quantize_kind kind;
  int parsed = tool_parse(self, argc, argv, options, sizeof options / sizeof options[0], &w.model, 1, &n);
  for (size_t i = 0; i < rule_list.n && parsed == TOOL_PARSED; ++i) parsed = add_rule(self, rules[i], &w);
  if (parsed == TOOL_PARSED) parsed = check(self, &w, &kind);
  if (parsed != TOOL_PARSED) return parsed;
  tool_catch_interrupt();
  graft_context *context = tool_open_context(w.n_threads);
  if (context == NULL) return TOOL_FAILED;
  int code = quantize(context, &w, kind);
  graft_context_destroy(context);
  return tool_finish_output(code);
}

const tool_command tool_quantize = {"quantize", "Writes a model with int8 or float8 layers.",
                                    "[MODEL] -o FILE [OPTIONS]", run};
