// graft plan — how a model would run: every step with its device, kernel, fusion and bytes, why not other kernels, and
// memory over time. Reads no weights and allocates no tensor, unless times are asked for.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/atomic_file.h"
#include "tools/graft/device_list.h"
#include "tools/graft/plan.h"
#include "tools/graft/weight_type.h"

typedef struct plan_wishes {
  const char *model, *stage, *format, *page, *fusion, *devices, *transformer, *type_name;
  graft_weight_type type;
  int64_t size[2];
  int64_t n_tokens, n_threads;
  bool without_reasons, is_measured;
} plan_wishes;

static const char *const stage_names[GRAFT_N_STAGES] = {"text_encoder", "transformer", "decoder"};
static const char *const format_names[] = {"text", "json", "dot", "html"};
enum { N_FORMATS = sizeof format_names / sizeof format_names[0] };

static graft_status measure(graft_context *context, const graft_graph *graph, graft_plan *plan, double **out_seconds) {
  graft_error *error = graft_context_error_slot(context);
  double *seconds = calloc((size_t)graft_plan_n_steps(plan) + 1, sizeof *seconds);
  if (seconds == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for the times of a plan");
  graft_status status = tool_plan_measure(plan, graph, error, seconds);
  if (status == GRAFT_OK) *out_seconds = seconds;
  if (status != GRAFT_OK) free(seconds);
  return status;
}

// Shows one stage: as text at once, for JSON and the page in |list|.
static graft_status show_plan(graft_context *context, const plan_wishes *wishes, const tool_planned_stage *stage,
                              json_t *list) {
  if (list == NULL) return tool_plan_print(stage, !wishes->without_reasons);
  if (json_array_append_new(list, tool_plan_describe(stage)) == 0) return GRAFT_OK;
  return GRAFT_FAIL(graft_context_error_slot(context), GRAFT_E_NO_MEMORY, "no memory to describe a plan");
}

static graft_status show_stage(graft_context *context, const plan_wishes *wishes, graft_pipeline_stage stage,
                               const graft_graph *graph, json_t *list) {
  tool_device_list devices;
  GRAFT_TRY(tool_device_list_open(context, wishes->devices, &devices));
  graft_plan_options options = {.struct_size = sizeof options,
                                .flags = wishes->is_measured ? 0 : GRAFT_PLAN_MEASURE_ONLY,
                                .devices = devices.items,
                                .n_devices = devices.n};
  graft_plan *plan = NULL;
  double *seconds = NULL;
  GRAFT_TRY(graft_plan_create(graph, &options, &plan));
  graft_status status = wishes->is_measured ? measure(context, graph, plan, &seconds) : GRAFT_OK;
  if (status == GRAFT_OK) {
    const char *name = list == NULL ? graft_pipeline_stage_name(stage) : stage_names[stage];
    status = show_plan(context, wishes, &(tool_planned_stage){name, plan, seconds}, list);
  }
  free(seconds);
  graft_plan_destroy(plan);
  return status;
}

static bool is_wanted(const plan_wishes *wishes, graft_pipeline_stage stage) {
  return wishes->stage == NULL || strcmp(wishes->stage, stage_names[stage]) == 0;
}

// Plans every wanted stage whose part is there; a stage that was asked for by name must be.
static graft_status show_stages(graft_context *context, graft_pipeline *pipeline, const plan_wishes *wishes,
                                json_t *list) {
  uint32_t n_shown = 0;
  for (int s = 0; s < GRAFT_N_STAGES; ++s) {
    graft_pipeline_stage stage = (graft_pipeline_stage)s;
    if (!is_wanted(wishes, stage)) continue;
    graft_stage_request request = {.struct_size = sizeof request,
                                   .stage = stage,
                                   .width = (int32_t)wishes->size[0],
                                   .height = (int32_t)wishes->size[1],
                                   .n_tokens = (int32_t)wishes->n_tokens};
    graft_graph *graph = NULL;
    graft_status status = graft_pipeline_stage_graph(pipeline, &request, &graph);
    if (status == GRAFT_E_NOT_FOUND && wishes->stage == NULL) {
      fprintf(stderr, "graft: no plan for the %s: %s\n", graft_pipeline_stage_name(stage),
              graft_context_error(context)->message);
      continue;
    }
    GRAFT_TRY(status);
    if (strcmp(wishes->format, "dot") == 0) status = graft_graph_print_dot(graph, tool_stdout_writer());
    else status = show_stage(context, wishes, stage, graph, list);
    graft_graph_destroy(graph);
    GRAFT_TRY(status);
    ++n_shown;
  }
  if (n_shown == 0)
    return GRAFT_FAIL(graft_context_error_slot(context), GRAFT_E_NOT_FOUND,
                      "this model has no part that can be planned");
  return GRAFT_OK;
}

// Where a page goes.
typedef struct page_file {
  graft_atomic_file *file;
  graft_error error;  // why it could not be written
} page_file;

static graft_status append_to_page(void *user, const char *text, size_t size) {
  page_file *page = user;
  return graft_atomic_file_append(page->file, text, size, &page->error);
}

static graft_status write_page(const char *target, const char *model, const json_t *list, graft_error *error) {
  page_file page = {0};
  GRAFT_TRY(graft_atomic_file_begin(target, error, &page.file));
  graft_status status =
      tool_plan_write_html(model, list, (graft_writer){.write = append_to_page, .user = &page}, error);
  if (status != GRAFT_OK) {
    graft_atomic_file_abort(page.file);
    if (page.error.status != GRAFT_OK) *error = page.error;
    return status;
  }
  GRAFT_TRY(graft_atomic_file_commit(page.file, error));
  fprintf(stderr, "graft: wrote %s\n", target);
  return GRAFT_OK;
}

// Fails now rather than after all was planned and measured.
static graft_status probe_page(const plan_wishes *wishes, graft_error *error) {
  graft_atomic_file *file = NULL;
  if (wishes->page == NULL) return GRAFT_OK;
  GRAFT_TRY(graft_atomic_file_begin(wishes->page, error, &file));
  graft_atomic_file_abort(file);
  return GRAFT_OK;
}

// What was collected, if anything; text and dot were printed on the way.
static graft_status print_list(graft_context *context, const char *path, const plan_wishes *wishes, json_t *list) {
  if (list == NULL) return GRAFT_OK;
  graft_error *error = graft_context_error_slot(context);
  if (wishes->page != NULL) return write_page(wishes->page, path, list, error);
  if (strcmp(wishes->format, "html") == 0) return tool_plan_write_html(path, list, tool_stdout_writer(), error);
  return tool_print_json(json_incref(list)) == TOOL_OK ? GRAFT_OK
                                                       : GRAFT_FAIL(error, GRAFT_E_IO, "the JSON could not be written");
}

static int show(const char *path, const plan_wishes *wishes) {
  graft_context *context =
      tool_open_planning_context(&(tool_planning){wishes->n_threads, wishes->fusion, wishes->devices});
  if (context == NULL) return TOOL_FAILED;
  graft_pipeline *pipeline = NULL;
  bool is_collected = strcmp(wishes->format, "json") == 0 || strcmp(wishes->format, "html") == 0;
  json_t *list = is_collected ? json_array() : NULL;
  tool_catch_interrupt();
  const graft_pipeline_options options = {
      .struct_size = sizeof options, .transformer = wishes->transformer, .type = wishes->type};
  graft_status status = probe_page(wishes, graft_context_error_slot(context));
  if (status == GRAFT_OK) status = graft_pipeline_open(context, path, &options, &pipeline);
  if (status == GRAFT_OK) status = show_stages(context, pipeline, wishes, list);
  if (status == GRAFT_OK) status = print_list(context, path, wishes, list);
  // Where standard output failed, finishing it says so.
  int code = status == GRAFT_OK || ferror(stdout) ? TOOL_OK : tool_report(graft_context_error(context));
  json_decref(list);
  graft_pipeline_close(pipeline);
  graft_context_destroy(context);
  return tool_finish_output(code);
}

static bool is_format(const char *name) {
  for (int i = 0; i < N_FORMATS; ++i)
    if (strcmp(name, format_names[i]) == 0) return true;
  return false;
}

// One of --format, --json and --html says what is printed.
static int choose_format(const tool_command *self, plan_wishes *o, bool has_format, bool as_json) {
  if (has_format + as_json + (o->page != NULL) > 1)
    return tool_usage(self, "--format, --json and --html each say what to print; give one of them");
  if (as_json) o->format = "json";
  if (o->page != NULL) o->format = "html";
  if (is_format(o->format)) return TOOL_PARSED;
  return tool_usage(self, "--format takes text, json, dot or html; got '%s'", o->format);
}

static int run(const tool_command *self, int argc, char **argv) {
  plan_wishes o = {.format = "text"};
  bool as_json = false, has_format = false;
  const tool_option options[] = {
      {"model", 'm', TOOL_TEXT, "FOLDER", "Model to plan (default: the one that ships with graft).", &o.model, 0, 0,
       NULL},
      {"transformer", 0, TOOL_TEXT, "FILE", TOOL_TRANSFORMER_HELP, &o.transformer, 0, 0, NULL},
      {"type", 0, TOOL_TEXT, "TYPE", TOOL_TYPE_HELP, &o.type_name, 0, 0, NULL},
      {"stage", 0, TOOL_TEXT, "NAME", "Only text_encoder, transformer or decoder.", &o.stage, 0, 0, NULL},
      {"size", 0, TOOL_SIZE, "WxH", "Picture size in pixels (default: the model's).", o.size, 1, 1 << 20, NULL},
      {"device", 0, TOOL_TEXT, "NAMES", TOOL_DEVICES_HELP, &o.devices, 0, 0, NULL},
      {"tokens", 0, TOOL_INT, "N", "Length of the prompt in tokens (default: 32).", &o.n_tokens, 1, 1 << 20, NULL},
      {"threads", 0, TOOL_INT, "N", "CPU threads (default: all cores).", &o.n_threads, 1, 1024, NULL},
      {"fusion", 0, TOOL_TEXT, "RULES", "on, off, or fusion rules to leave out: -swiglu,-gated_residual.", &o.fusion, 0,
       0, NULL},
      {"format", 0, TOOL_TEXT, "F", "text, json, dot (the graph, for Graphviz) or html (a page).", &o.format, 0, 0,
       &has_format},
      {"json", 0, TOOL_FLAG, NULL, "The same as --format json.", &as_json, 0, 0, NULL},
      {"html", 0, TOOL_TEXT, "FILE", "Write the page of --format html to a file.", &o.page, 0, 0, NULL},
      {"measure", 0, TOOL_FLAG, NULL, "Run it on made-up inputs and show the time of every step.", &o.is_measured, 0, 0,
       NULL},
      {"brief", 0, TOOL_FLAG, NULL, "Leave out why other kernels were not chosen.", &o.without_reasons, 0, 0, NULL},
  };
  const char *model = NULL;
  size_t n = 0;
  int parsed = tool_parse(self, argc, argv, options, sizeof options / sizeof options[0], &model, 1, &n);
  if (parsed == TOOL_PARSED) parsed = tool_weight_type(self, o.type_name, &o.type);
  if (parsed == TOOL_PARSED) parsed = choose_format(self, &o, has_format, as_json);
  if (parsed != TOOL_PARSED) return parsed;
  if (o.stage != NULL && !is_wanted(&o, GRAFT_STAGE_TEXT_ENCODER) && !is_wanted(&o, GRAFT_STAGE_TRANSFORMER) &&
      !is_wanted(&o, GRAFT_STAGE_DECODER))
    return tool_usage(self, "--stage takes text_encoder, transformer or decoder; got '%s'", o.stage);
  char path[TOOL_PATH_BYTES];
  if (!tool_find_model(n == 1 ? model : o.model, path)) return TOOL_FAILED;
  return show(path, &o);
}

const tool_command tool_plan = {"plan", "Shows how a model runs, step by step.", "[MODEL] [OPTIONS]", run};
