// What a plan tells about itself.
#include <stdio.h>
#include <string.h>

#include "graft/versioned.h"
#include "src/base/text.h"
#include "src/plan/plan_internal.h"

void graft_plan_memory(const graft_plan *plan, graft_memory_report *out_report) {
  graft_versioned_fill(out_report, &plan->report, sizeof plan->report);
}

void graft_plan_device_memory(const graft_plan *plan, uint32_t index, graft_memory_report *out_report) {
  static const graft_memory_report nothing = {.struct_size = sizeof nothing};
  const graft_memory_report *report = index < plan->n_devices ? &plan->devices[index].report : &nothing;
  graft_versioned_fill(out_report, report, sizeof *report);
}

size_t graft_plan_host_bytes(const graft_plan *plan) {
  return plan->staging_bytes + graft_prefetch_bytes(plan);
}

uint32_t graft_plan_n_steps(const graft_plan *plan) {
  return plan->steps.n;
}

static double count_flops(const graft_planned_step *step) {
  graft_tensor_desc outputs[GRAFT_MAX_OUTPUTS];
  double n_elements = 0;
  for (uint32_t i = 0; i < step->info.n_outputs; ++i) {
    outputs[i] = *step->info.outputs[i];
    n_elements += (double)graft_tensor_desc_elements(&outputs[i]);
  }
  const graft_op_def *op = step->info.op;
  return op->flops != NULL ? op->flops(step->info.attrs, step->info.inputs, step->info.n_inputs, outputs) : n_elements;
}

static double count_bytes(const graft_planned_step *step) {
  double bytes = 0;
  for (uint32_t i = 0; i < step->info.n_inputs; ++i) {
    if (step->info.inputs[i] != NULL) bytes += (double)graft_tensor_desc_bytes(step->info.inputs[i]);
  }
  for (uint32_t i = 0; i < step->info.n_outputs; ++i) bytes += (double)graft_tensor_desc_bytes(step->info.outputs[i]);
  for (uint32_t i = 0; i < step->info.n_inputs; ++i) {
    if (step->placed_inputs >> i & 1) bytes -= 2 * (double)graft_tensor_desc_bytes(step->info.inputs[i]);
  }
  return bytes;
}

void graft_plan_step(const graft_plan *plan, uint32_t index, graft_step_info *out_info) {
  graft_step_info info = {.struct_size = sizeof info};
  graft_versioned_fill(out_info, &info, sizeof info);
  if (index >= plan->steps.n) return;
  const graft_planned_step *step = graft_plan_step_at(plan, index);
  info = (graft_step_info){
      .op = step->info.op,
      .attrs = step->info.attrs,
      .kernel = step->kernel,
      .label = step->node->label,
      .device = graft_device_name(plan->devices[step->node->device].device),
      .n_inputs = step->info.n_inputs,
      .n_outputs = step->info.n_outputs,
      .inputs = step->info.inputs,
      .outputs = step->info.outputs,
      .flops = count_flops(step),
      .bytes = count_bytes(step),
      .workspace_bytes = step->prepared.workspace_bytes,
      .is_in_place = step->in_place_input != GRAFT_PLAN_NONE,
      .rejections = step->rejections,
      .fusion = step->fusion != NULL ? step->fusion->name : NULL,
      .n_fused = step->n_fused,
      .placement = step->node->placement != NULL ? step->node->placement : "",
      .placed_inputs = step->placed_inputs,
  };
  for (uint32_t i = 0; i < step->prepared.n_packed; ++i) info.packed_bytes += step->prepared.packed[i].bytes;
  graft_versioned_fill(out_info, &info, sizeof info);
}

// "123.4 MiB", "  5.0 KiB": nine characters.
static const char *format_bytes(double bytes, char *text, size_t text_bytes) {
  const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1024;
  snprintf(text, text_bytes, unit == 0 ? "%5.0f %s" : "%5.1f %s", bytes, units[unit]);
  return text;
}

static graft_status write_text(graft_writer writer, const char *text) {
  return writer.write(writer.user, text, strlen(text));
}

// Wide enough for all names that are not very long, so that the columns behind it stand below each other.
static int kernel_column(const graft_plan *plan) {
  enum { WIDEST = 64 };
  size_t width = sizeof "kernel" - 1;
  for (uint32_t i = 0; i < plan->steps.n; ++i) {
    graft_step_info info = {.struct_size = sizeof info};
    graft_plan_step(plan, i, &info);
    const size_t n = strlen(info.kernel->name);
    if (n > width && n <= WIDEST) width = n;
  }
  return (int)width;
}

// ", 2 of 3 inputs made in their places"; "" where none are.
static const char *format_placed(const graft_step_info *info, char *text, size_t text_bytes) {
  const unsigned n = (unsigned)__builtin_popcount(info->placed_inputs), n_all = (unsigned)info->n_inputs;
  text[0] = '\0';
  if (n > 0 && n == n_all) snprintf(text, text_bytes, ", all inputs made in their places: nothing to do");
  if (n > 0 && n < n_all) snprintf(text, text_bytes, ", %u of %u inputs made in their places", n, n_all);
  return text;
}

static graft_status print_step(const graft_plan *plan, uint32_t index, int width, graft_writer writer) {
  char output[128], bytes[24], placed[64], line[512];
  graft_step_info info = {.struct_size = sizeof info};
  graft_plan_step(plan, index, &info);
  graft_tensor_desc_format(info.outputs[0], output, sizeof output);
  format_bytes(info.bytes, bytes, sizeof bytes);
  snprintf(line, sizeof line, "%4u %-*s %-20s %9s %c %s%s\n", (unsigned)index, width, info.kernel->name, output, bytes,
           info.is_in_place ? '=' : ' ', info.label, format_placed(&info, placed, sizeof placed));
  if (plan->n_devices == 1) return write_text(writer, line);
  line[strlen(line) - 1] = '\0';
  GRAFT_TRY(write_text(writer, line));
  snprintf(line, sizeof line, "  %s%s%s\n", info.device, info.placement[0] != '\0' ? ": " : "", info.placement);
  return write_text(writer, line);
}

static graft_status print_amount(graft_writer writer, const char *what, size_t bytes, const char *note) {
  char amount[24], line[128];
  snprintf(line, sizeof line, "%-12s %9s  %s\n", what, format_bytes((double)bytes, amount, sizeof amount), note);
  return write_text(writer, line);
}

static graft_status print_device(const graft_plan *plan, uint32_t device, graft_writer writer) {
  char note[64];
  uint32_t n_steps = 0;
  for (uint32_t s = 0; s < plan->steps.n; ++s) n_steps += graft_plan_step_at(plan, s)->node->device == device;
  snprintf(note, sizeof note, "at its peak; %u step%s", (unsigned)n_steps, graft_text_s(n_steps));
  const graft_plan_device *used = &plan->devices[device];
  return print_amount(writer, graft_device_name(used->device), used->report.peak_bytes, note);
}

static graft_status print_memory(const graft_plan *plan, graft_writer writer) {
  const graft_memory_report *report = &plan->report;
  char note[96], amount[24];
  snprintf(note, sizeof note, "inputs, results and workspace; %s without sharing",
           format_bytes((double)report->naive_bytes, amount, sizeof amount) + strspn(amount, " "));
  GRAFT_TRY(write_text(writer, "\n"));
  GRAFT_TRY(print_amount(writer, "arena", report->arena_bytes, note));
  GRAFT_TRY(print_amount(writer, "workspace", report->workspace_bytes, "the largest; part of the arena"));
  GRAFT_TRY(print_amount(writer, "constants", report->constant_bytes, "used as they are"));
  GRAFT_TRY(print_amount(writer, "packed", report->packed_bytes, "constants in a kernel's own layout"));
  GRAFT_TRY(print_amount(writer, "peak", report->peak_bytes, ""));
  for (uint32_t d = 0; d < plan->n_devices && plan->n_devices > 1; ++d) GRAFT_TRY(print_device(plan, d, writer));
  return GRAFT_OK;
}

graft_status graft_plan_print(const graft_plan *plan, graft_writer writer) {
  char line[160];
  const int width = kernel_column(plan);
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    snprintf(line, sizeof line, "%s, ", graft_device_name(plan->devices[d].device));
    GRAFT_TRY(write_text(writer, line));
  }
  snprintf(line, sizeof line, "%u step%s\n", (unsigned)plan->steps.n, graft_text_s(plan->steps.n));
  GRAFT_TRY(write_text(writer, line));
  snprintf(line, sizeof line, "%4s %-*s %-20s %9s %s\n", "step", width, "kernel", "output", "moved",
           "= in place, node");
  GRAFT_TRY(write_text(writer, line));
  for (uint32_t i = 0; i < plan->steps.n; ++i) GRAFT_TRY(print_step(plan, i, width, writer));
  GRAFT_TRY(print_memory(plan, writer));
  GRAFT_TRY(write_text(writer, "\n"));
  return graft_plan_print_fusions(plan, writer);
}
