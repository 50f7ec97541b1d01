// Plans for programs, and for the page that draws them.
#include <jansson.h>
#include <string.h>

#include "tools/graft/plan.h"

static json_t *describe_descs(const graft_tensor_desc *const *descs, uint32_t n) {
  json_t *list = json_array();
  char text[160];
  for (uint32_t i = 0; i < n; ++i)
    json_array_append_new(
        list, descs[i] == NULL ? json_null() : json_string(graft_tensor_desc_format(descs[i], text, sizeof text)));
  return list;
}

static json_t *describe_sources(const graft_plan *plan, uint32_t index, uint32_t n) {
  int32_t steps[GRAFT_MAX_INPUTS];
  json_t *list = json_array();
  graft_plan_step_sources(plan, index, steps);
  for (uint32_t i = 0; i < n; ++i) json_array_append_new(list, json_integer(steps[i]));
  return list;
}

static json_t *describe_live(const graft_plan *plan, uint32_t step) {
  json_t *list = json_array();
  for (uint32_t d = 0; d < graft_plan_n_devices(plan); ++d)
    json_array_append_new(list, json_integer((json_int_t)graft_plan_live_bytes(plan, d, step)));
  return list;
}

static json_t *describe_step(const tool_planned_stage *stage, uint32_t index) {
  graft_step_info info = {.struct_size = sizeof info};
  graft_plan_step(stage->plan, index, &info);
  json_t *step = json_pack(
      "{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:f, s:f, s:I, s:I, s:b, s:s, s:s?, s:i, s:s}", "node", info.label,
      "op", info.op->name, "device", info.device, "kernel", info.kernel == NULL ? "" : info.kernel->name, "inputs",
      describe_descs(info.inputs, info.n_inputs), "outputs", describe_descs(info.outputs, info.n_outputs), "sources",
      describe_sources(stage->plan, index, info.n_inputs), "live_bytes", describe_live(stage->plan, index), "flops",
      info.flops, "bytes", info.bytes, "workspace_bytes", (json_int_t)info.workspace_bytes, "packed_bytes",
      (json_int_t)info.packed_bytes, "in_place", info.is_in_place, "rejected",
      info.rejections == NULL ? "" : info.rejections, "fusion", info.fusion, "fused", (int)info.n_fused, "placement",
      info.placement);
  json_t *placed = json_array();
  for (uint32_t i = 0; i < info.n_inputs; ++i) {
    if (info.placed_inputs >> i & 1) json_array_append_new(placed, json_integer((json_int_t)i));
  }
  json_object_set_new(step, "placed_inputs", placed);
  if (stage->seconds != NULL) json_object_set_new(step, "ms", json_real(1e3 * stage->seconds[index]));
  return step;
}

static json_t *describe_device(const graft_plan *plan, uint32_t index) {
  const char *name = graft_device_name(graft_plan_used_device(plan, index));
  int n_steps = 0;
  for (uint32_t s = 0; s < graft_plan_n_steps(plan); ++s) {
    graft_step_info info = {.struct_size = sizeof info};
    graft_plan_step(plan, s, &info);
    n_steps += strcmp(info.device, name) == 0;
  }
  graft_memory_report memory = {.struct_size = sizeof memory};
  graft_plan_device_memory(plan, index, &memory);
  return json_pack("{s:s, s:i, s:I}", "device", name, "steps", n_steps, "peak_bytes", (json_int_t)memory.peak_bytes);
}

static json_t *describe_memory(const graft_plan *plan) {
  graft_memory_report memory = {.struct_size = sizeof memory};
  json_t *devices = json_array();
  for (uint32_t i = 0; i < graft_plan_n_devices(plan); ++i) json_array_append_new(devices, describe_device(plan, i));
  graft_plan_memory(plan, &memory);
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "arena_bytes", (json_int_t)memory.arena_bytes, "naive_bytes",
                   (json_int_t)memory.naive_bytes, "workspace_bytes", (json_int_t)memory.workspace_bytes,
                   "constant_bytes", (json_int_t)memory.constant_bytes, "packed_bytes", (json_int_t)memory.packed_bytes,
                   "peak_bytes", (json_int_t)memory.peak_bytes, "devices", devices);
}

static json_t *describe_fusions(const graft_plan *plan) {
  json_t *rules = json_array(), *near_misses = json_array();
  for (uint32_t i = 0; i < graft_plan_n_fusion_rules(plan); ++i) {
    graft_fusion_count rule = {.struct_size = sizeof rule};
    graft_plan_fusion_rule(plan, i, &rule);
    json_array_append_new(
        rules, json_pack("{s:s, s:s, s:i, s:i, s:b}", "rule", rule.rule, "op", rule.op, "fused", (int)rule.n_groups,
                         "near_misses", (int)rule.n_near_misses, "off", rule.is_off));
  }
  for (uint32_t i = 0; i < graft_plan_n_fusion_groups(plan); ++i) {
    graft_fusion_group group = {.struct_size = sizeof group};
    graft_plan_fusion_group(plan, i, &group);
    if (group.obstacle == NULL) continue;
    json_array_append_new(near_misses, json_pack("{s:s, s:s, s:i, s:s}", "rule", group.rule, "node", group.label,
                                                 "nodes", (int)group.n_nodes, "obstacle", group.obstacle));
  }
  return json_pack("{s:o, s:o}", "rules", rules, "near_misses", near_misses);
}

json_t *tool_plan_describe(const tool_planned_stage *stage) {
  json_t *steps = json_array(), *devices = json_array();
  for (uint32_t i = 0; i < graft_plan_n_steps(stage->plan); ++i) json_array_append_new(steps, describe_step(stage, i));
  for (uint32_t i = 0; i < graft_plan_n_devices(stage->plan); ++i)
    json_array_append_new(devices, json_string(graft_device_name(graft_plan_used_device(stage->plan, i))));
  return json_pack("{s:s, s:o, s:o, s:o, s:o}", "stage", stage->name, "devices", devices, "steps", steps, "memory",
                   describe_memory(stage->plan), "fusion", describe_fusions(stage->plan));
}
