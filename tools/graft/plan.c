// graft plan — how a model would run: every step with its device, kernel and bytes, and why not other kernels. Reads no
// weights and allocates no tensor.
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "graft/diffusion.h"
#include "tools/graft/tool.h"

typedef struct plan_wishes {
  const char *model, *stage, *format, *fusion;
  int64_t size[2];
  int64_t n_tokens, n_threads;
  bool without_reasons;
} plan_wishes;

static const char *const stage_names[GRAFT_N_STAGES] = {"text_encoder", "transformer", "decoder"};

static json_t *describe_step(const graft_plan *plan, uint32_t index) {
  graft_step_info info;
  graft_plan_step(plan, index, &info);
  json_t *inputs = json_array(), *outputs = json_array();
  char text[160];
  for (uint32_t i = 0; i < info.n_inputs; ++i)
    json_array_append_new(inputs, info.inputs[i] == NULL
                                      ? json_null()
                                      : json_string(graft_tensor_desc_format(info.inputs[i], text, sizeof text)));
  for (uint32_t i = 0; i < info.n_outputs; ++i)
    json_array_append_new(outputs, json_string(graft_tensor_desc_format(info.outputs[i], text, sizeof text)));
  return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:f, s:f, s:I, s:I, s:b, s:s, s:s?, s:i}", "node", info.label, "op",
                   info.op->name, "device", info.device, "kernel", info.kernel->name, "inputs", inputs, "outputs",
                   outputs, "flops", info.flops, "bytes", info.bytes, "workspace_bytes",
                   (json_int_t)info.workspace_bytes, "packed_bytes", (json_int_t)info.packed_bytes, "in_place",
                   info.is_in_place, "rejected", info.rejections, "fusion", info.fusion, "fused", (int)info.n_fused);
}

static json_t *describe_memory(const graft_memory_report *memory) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "arena_bytes", (json_int_t)memory->arena_bytes, "naive_bytes",
                   (json_int_t)memory->naive_bytes, "workspace_bytes", (json_int_t)memory->workspace_bytes,
                   "constant_bytes", (json_int_t)memory->constant_bytes, "packed_bytes",
                   (json_int_t)memory->packed_bytes, "peak_bytes", (json_int_t)memory->peak_bytes);
}

static json_t *describe_fusions(const graft_plan *plan) {
  json_t *rules = json_array(), *near_misses = json_array();
  for (uint32_t i = 0; i < graft_plan_n_fusion_rules(plan); ++i) {
    graft_fusion_count rule;
    graft_plan_fusion_rule(plan, i, &rule);
    json_array_append_new(
        rules, json_pack("{s:s, s:s, s:i, s:i, s:b}", "rule", rule.rule, "op", rule.op, "fused", (int)rule.n_groups,
                         "near_misses", (int)rule.n_near_misses, "off", rule.is_off));
  }
  for (uint32_t i = 0; i < graft_plan_n_fusion_groups(plan); ++i) {
    graft_fusion_group group;
    graft_plan_fusion_group(plan, i, &group);
    if (group.obstacle == NULL) continue;
    json_array_append_new(near_misses, json_pack("{s:s, s:s, s:i, s:s}", "rule", group.rule, "node", group.label,
                                                 "nodes", (int)group.n_nodes, "obstacle", group.obstacle));
  }
  return json_pack("{s:o, s:o}", "rules", rules, "near_misses", near_misses);
}

static void print_reasons(const graft_plan *plan) {
  printf("\nWhy not other kernels:\n");
  bool has_any = false;
  for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) {
    graft_step_info info;
    graft_plan_step(plan, i, &info);
    if (info.rejections[0] == '\0') continue;
    has_any = true;
    printf("  %s, run by %s\n", info.label, info.kernel->name);
    for (const char *line = info.rejections; *line != '\0';) {
      size_t n = strcspn(line, "\n");
      printf("    %.*s\n", (int)n, line);
      line += n + (line[n] == '\n');
    }
  }
  if (!has_any) printf("  every step has its first choice\n");
}

static graft_status show_stage(graft_context *context, const plan_wishes *wishes, graft_pipeline_stage stage,
                               const graft_graph *graph, json_t *list) {
  graft_device *device = NULL;
  GRAFT_TRY(graft_device_open(context, "cpu", &device));
  graft_plan_options options = {.struct_size = sizeof options, .flags = GRAFT_PLAN_MEASURE_ONLY, .device = device};
  graft_plan *plan = NULL;
  GRAFT_TRY(graft_plan_create(graph, &options, &plan));
  graft_status status = GRAFT_OK;
  if (list != NULL) {
    json_t *steps = json_array();
    for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) json_array_append_new(steps, describe_step(plan, i));
    graft_memory_report memory;
    graft_plan_memory(plan, &memory);
    json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:o}", "stage", stage_names[stage], "steps", steps, "memory",
                                          describe_memory(&memory), "fusion", describe_fusions(plan)));
  } else {
    printf("== %s\n", graft_pipeline_stage_name(stage));
    status = graft_plan_print(plan, tool_stdout_writer());
    if (!wishes->without_reasons) print_reasons(plan);
    printf("\n");
  }
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

static int show(const char *path, const plan_wishes *wishes) {
  graft_context *context = tool_open_planning_context(wishes->n_threads, wishes->fusion);
  if (context == NULL) return TOOL_FAILED;
  graft_pipeline *pipeline = NULL;
  json_t *list = strcmp(wishes->format, "json") == 0 ? json_array() : NULL;
  graft_status status = graft_pipeline_open(context, path, NULL, &pipeline);
  if (status == GRAFT_OK) status = show_stages(context, pipeline, wishes, list);
  // Where standard output failed, finishing it says so.
  int code = status == GRAFT_OK || ferror(stdout) ? TOOL_OK : tool_report(graft_context_error(context));
  if (list != NULL && status == GRAFT_OK) code = tool_print_json(json_incref(list));
  json_decref(list);
  graft_pipeline_close(pipeline);
  graft_context_destroy(context);
  return tool_finish_output(code);
}

static int run(const tool_command *self, int argc, char **argv) {
  plan_wishes o = {.format = "text"};
  bool as_json = false;
  const tool_option options[] = {
      {"model", 'm', TOOL_TEXT, "FOLDER", "Model to plan (default: the one that ships with graft).", &o.model, 0, 0,
       NULL},
      {"stage", 0, TOOL_TEXT, "NAME", "Only text_encoder, transformer or decoder.", &o.stage, 0, 0, NULL},
      {"size", 0, TOOL_SIZE, "WxH", "Picture size in pixels (default: the model's).", o.size, 1, 1 << 20, NULL},
      {"tokens", 0, TOOL_INT, "N", "Length of the prompt in tokens (default: 32).", &o.n_tokens, 1, 1 << 20, NULL},
      {"threads", 0, TOOL_INT, "N", "CPU threads (default: all cores).", &o.n_threads, 1, 1024, NULL},
      {"fusion", 0, TOOL_TEXT, "RULES", "on, off, or fusion rules to leave out: -swiglu,-gated_residual.", &o.fusion, 0,
       0, NULL},
      {"format", 0, TOOL_TEXT, "F", "text, json or dot (the graph, for Graphviz).", &o.format, 0, 0, NULL},
      {"json", 0, TOOL_FLAG, NULL, "The same as --format json.", &as_json, 0, 0, NULL},
      {"brief", 0, TOOL_FLAG, NULL, "Leave out why other kernels were not chosen.", &o.without_reasons, 0, 0, NULL},
  };
  const char *model = NULL;
  size_t n = 0;
  int parsed = tool_parse(self, argc, argv, options, sizeof options / sizeof options[0], &model, 1, &n);
  if (parsed != TOOL_PARSED) return parsed;
  if (as_json) o.format = "json";
  if (strcmp(o.format, "text") != 0 && strcmp(o.format, "json") != 0 && strcmp(o.format, "dot") != 0)
    return tool_usage(self, "--format takes text, json or dot; got '%s'", o.format);
  if (o.stage != NULL && !is_wanted(&o, GRAFT_STAGE_TEXT_ENCODER) && !is_wanted(&o, GRAFT_STAGE_TRANSFORMER) &&
      !is_wanted(&o, GRAFT_STAGE_DECODER))
    return tool_usage(self, "--stage takes text_encoder, transformer or decoder; got '%s'", o.stage);
  char path[TOOL_PATH_BYTES];
  if (!tool_find_model(n == 1 ? model : o.model, path)) return TOOL_FAILED;
  return show(path, &o);
}

const tool_command tool_plan = {"plan", "Shows how a model would run, without running it.", "[MODEL] [OPTIONS]", run};
