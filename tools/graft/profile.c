#include "tools/graft/profile.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/atomic_file.h"
#include "tools/graft/progress.h"

struct tool_profile {
  FILE *stream;  // events as text; plans may be gone before the file is written
  char *text;
  size_t text_bytes;
  double origin, step_started;
  bool has_failed;
  uint32_t n_events;
};

graft_status tool_profile_create(graft_error *error, tool_profile **out_profile) {
  tool_profile *profile = calloc(1, sizeof *profile);
  if (profile != NULL) profile->stream = open_memstream(&profile->text, &profile->text_bytes);
  if (profile == NULL || profile->stream == NULL) {
    free(profile);
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for the profile");
  }
  profile->origin = tool_now();
  *out_profile = profile;
  return GRAFT_OK;
}

void tool_profile_destroy(tool_profile *profile) {
  if (profile == NULL) return;
  fclose(profile->stream);
  free(profile->text);
  free(profile);
}

// "f32[1, 288, 384] x bf16[384, 384] -> f32[1, 288, 384]" into |text|.
static void format_shapes(const graft_step_info *info, char *text, size_t bytes) {
  size_t n = 0;
  char one[96];
  text[0] = '\0';
  for (uint32_t i = 0; i < info->n_inputs + info->n_outputs && n < bytes; ++i) {
    bool is_output = i >= info->n_inputs;
    const graft_tensor_desc *desc = is_output ? info->outputs[i - info->n_inputs] : info->inputs[i];
    if (desc == NULL) continue;
    const char *separator = n == 0 ? "" : i == info->n_inputs ? " -> " : ", ";
    int written = snprintf(text + n, bytes - n, "%s%s", separator, graft_tensor_desc_format(desc, one, sizeof one));
    n += written > 0 ? (size_t)written : 0;
  }
}

static json_t *describe_event(const tool_profile *profile, graft_pipeline_stage stage, const graft_step_info *info,
                              double seconds) {
  char shapes[512];
  format_shapes(info, shapes, sizeof shapes);
  json_t *arguments = json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f}", "op", info->op->name, "kernel",
                                info->kernel->name, "device", info->device, "shape", shapes, "ms", 1e3 * seconds,
                                "gflop_per_s", info->flops / seconds * 1e-9, "gb_per_s", info->bytes / seconds * 1e-9);
  return json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:o}", "name", info->label, "cat",
                   graft_pipeline_stage_name(stage), "ph", "X", "ts", 1e6 * (profile->step_started - profile->origin),
                   "dur", 1e6 * seconds, "pid", 1, "tid", (int)stage, "args", arguments);
}

void tool_profile_step(tool_profile *profile, graft_pipeline_stage stage, const graft_plan *plan, uint32_t step,
                       bool is_end) {
  double now = tool_now();
  if (!is_end) {
    profile->step_started = now;
    return;
  }
  double seconds = now - profile->step_started;
  graft_step_info info = {.struct_size = sizeof info};
  graft_plan_step(plan, step, &info);
  json_t *event = describe_event(profile, stage, &info, seconds > 1e-9 ? seconds : 1e-9);
  if (profile->n_events++ > 0) fputs(",\n", profile->stream);
  if (event == NULL || json_dumpf(event, profile->stream, JSON_COMPACT) != 0) profile->has_failed = true;
  json_decref(event);
}

graft_status tool_profile_write(tool_profile *profile, const char *path, graft_error *error) {
  static const char head[] = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", tail[] = "\n]}\n";
  if (fflush(profile->stream) != 0 || ferror(profile->stream) || profile->has_failed)
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for the profile");
  graft_atomic_file *file = NULL;
  GRAFT_TRY(graft_atomic_file_begin(path, error, &file));
  graft_status status = graft_atomic_file_append(file, head, sizeof head - 1, error);
  if (status == GRAFT_OK) status = graft_atomic_file_append(file, profile->text, profile->text_bytes, error);
  if (status == GRAFT_OK) status = graft_atomic_file_append(file, tail, sizeof tail - 1, error);
  if (status == GRAFT_OK) return graft_atomic_file_commit(file, error);
  graft_atomic_file_abort(file);
  return status;
}
