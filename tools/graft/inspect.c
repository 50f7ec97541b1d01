// graft inspect — says what a file or folder is: family, parts found and missing, element types, parameters, memory.
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/excerpt.h"
#include "formats/file.h"
#include "graft/diffusion.h"
#include "tools/graft/identify.h"
#include "tools/graft/tool.h"

enum { MAX_DTYPES = 32 };

// Bytes per element type of a file, in order of appearance.
typedef struct dtype_totals {
  const char *names[MAX_DTYPES];
  uint64_t bytes[MAX_DTYPES];
  size_t n;
  uint64_t all_bytes;
  int64_t n_elements;
} dtype_totals;

static void add_tensor(dtype_totals *totals, const graft_safetensors_tensor *tensor) {
  totals->all_bytes += tensor->bytes;
  totals->n_elements += tensor->n_elements;
  size_t i = 0;
  while (i < totals->n && strcmp(totals->names[i], tensor->dtype_name) != 0) ++i;
  if (i == MAX_DTYPES) return;
  if (i == totals->n) totals->names[totals->n++] = tensor->dtype_name;
  totals->bytes[i] += tensor->bytes;
}

static void print_totals(const dtype_totals *totals) {
  char text[32];
  printf("  data         %s\n", tool_format_bytes((double)totals->all_bytes, text));
  for (size_t i = 0; i < totals->n; ++i)
    printf("  %-12s %s\n", totals->names[i], tool_format_bytes((double)totals->bytes[i], text));
}

static json_t *describe_file(const char *path, const char *family, const graft_safetensors *file,
                             const dtype_totals *totals) {
  json_t *dtypes = json_object();
  for (size_t i = 0; i < totals->n; ++i)
    json_object_set_new(dtypes, totals->names[i], json_integer((json_int_t)totals->bytes[i]));
  return json_pack("{s:o, s:s, s:s?, s:I, s:I, s:I, s:o}", "path", tool_json_text(path), "kind", "safetensors",
                   "family", family, "tensors", (json_int_t)graft_safetensors_count(file), "elements",
                   (json_int_t)totals->n_elements, "bytes", (json_int_t)totals->all_bytes, "dtypes", dtypes);
}

static void print_metadata(const graft_safetensors *file) {
  const json_t *metadata = graft_safetensors_metadata_all(file);
  const char *key;
  json_t *value;
  if (metadata == NULL) return;
  json_object_foreach((json_t *)(uintptr_t)metadata, key, value) printf(
      "  metadata     %s = %s\n", graft_excerpt_name(key).text, graft_excerpt_name(json_string_value(value)).text);
}

static int inspect_safetensors(const char *path, const graft_safetensors *file, bool as_json) {
  dtype_totals totals = {0};
  for (size_t i = 0; i < graft_safetensors_count(file); ++i) add_tensor(&totals, graft_safetensors_at(file, i));
  const char *family = tool_identify_tensors(file);
  if (as_json) return tool_print_json(describe_file(path, family, file, &totals));
  printf("%s: safetensors, %s\n", graft_excerpt_path(path).text,
         family != NULL ? family : "of no network that graft knows");
  printf("  tensors      %zu\n  parameters   %lld\n", graft_safetensors_count(file), (long long)totals.n_elements);
  print_totals(&totals);
  print_metadata(file);
  return tool_finish_output(TOOL_OK);
}

// A file that does not open as safetensors: says what it seems to be, with the reader's reason.
static int refuse_file(const char *path, const graft_error *error) {
  unsigned char head[64];
  struct stat info;
  bool is_regular = stat(path, &info) == 0 && S_ISREG(info.st_mode);  // opening a pipe would wait for a writer
  FILE *file = is_regular ? fopen(path, "rbe") : NULL;
  size_t n = file != NULL ? fread(head, 1, sizeof head, file) : 0;
  if (file != NULL) fclose(file);
  const char *what = file != NULL ? tool_identify_bytes(head, n) : NULL;
  if (what == NULL) return tool_report(error);
  fprintf(stderr, "graft: %s is %s\n", graft_excerpt_path(path).text, what);
  return TOOL_FAILED;
}

static int inspect_file(const char *path, bool as_json) {
  graft_error error = {0};
  graft_safetensors *file = NULL;
  if (graft_safetensors_open(path, GRAFT_SAFETENSORS_MAP, &error, &file) != GRAFT_OK) return refuse_file(path, &error);
  int code = inspect_safetensors(path, file, as_json);
  graft_safetensors_close(file);
  return code;
}

static json_t *describe_part(const graft_pipeline_part *part) {
  return json_pack("{s:s, s:s, s:b, s:I, s:I, s:I, s:s}", "part", part->name, "class", part->class_name, "present",
                   part->is_present, "tensors", (json_int_t)part->n_tensors, "parameters",
                   (json_int_t)part->n_parameters, "bytes", (json_int_t)part->weight_bytes, "dtypes", part->dtypes);
}

// |memory| is NULL where the parts do not fit together.
static json_t *describe_pipeline(const graft_pipeline_info *info, const graft_pipeline_memory *memory) {
  json_t *parts = json_array();
  for (uint32_t i = 0; i < info->n_parts; ++i) json_array_append_new(parts, describe_part(&info->parts[i]));
  json_t *defaults = json_pack("{s:i, s:i, s:i, s:f, s:s?}", "width", info->width, "height", info->height, "steps",
                               info->n_steps, "guidance", info->guidance, "type", info->weight_type);
  json_t *peak = memory != NULL ? json_integer((json_int_t)memory->peak_bytes) : json_null();
  return json_pack("{s:o, s:s, s:s, s:s, s:o, s:o, s:i, s:I, s:I, s:o}", "path", tool_json_text(info->path), "kind",
                   "pipeline", "family", info->family, "class", info->class_name, "parts", parts, "defaults", defaults,
                   "size_multiple", info->size_multiple, "parameters", (json_int_t)info->n_parameters, "weight_bytes",
                   (json_int_t)info->weight_bytes, "peak_bytes", peak);
}

static void print_memory(const graft_pipeline_memory *memory) {
  char text[32];
  for (int s = 0; s < GRAFT_N_STAGES; ++s)
    if (memory->stage_bytes[s] > 0)
      printf("  memory        %s for the %s\n", tool_format_bytes((double)memory->stage_bytes[s], text),
             graft_pipeline_stage_name((graft_pipeline_stage)s));
  printf("  memory        %s at most, for one picture of the default size\n",
         tool_format_bytes((double)memory->peak_bytes, text));
}

static void print_pipeline(const graft_pipeline_info *info, const graft_pipeline_memory *memory) {
  char text[32];
  printf("%s: %s, %.1f million parameters, %s\n", graft_excerpt_path(info->path).text, info->family,
         1e-6 * (double)info->n_parameters, tool_format_bytes((double)info->weight_bytes, text));
  for (uint32_t i = 0; i < info->n_parts; ++i) {
    const graft_pipeline_part *part = &info->parts[i];
    printf("  %-13s ", part->name);
    if (!part->is_present) printf("missing\n");
    else if (part->n_tensors == 0) printf("%s\n", part->class_name);
    else
      printf("%s, %.1f M parameters, %s, %s\n", part->class_name, 1e-6 * (double)part->n_parameters, part->dtypes,
             tool_format_bytes((double)part->weight_bytes, text));
  }
  printf("  defaults      %dx%d, %d step%s, guidance %g, weights %s\n", info->width, info->height, info->n_steps,
         tool_s((uint64_t)info->n_steps), info->guidance, info->weight_type != NULL ? info->weight_type : "as stored");
  printf("  sizes         multiples of %d", info->size_multiple);
  if (info->max_width > 0) printf(" up to %dx%d", info->max_width, info->max_height);
  printf("\n");
  if (memory != NULL) print_memory(memory);
}

static int show_pipeline(const graft_pipeline *pipeline, const graft_pipeline_memory *memory, bool as_json) {
  graft_pipeline_info info = {.struct_size = sizeof info};
  graft_pipeline_describe(pipeline, &info);
  if (as_json) return tool_print_json(describe_pipeline(&info, memory));
  print_pipeline(&info, memory);
  return tool_finish_output(TOOL_OK);
}

static int inspect_folder(const char *path, bool as_json) {
  graft_context *context = tool_open_context(0);
  if (context == NULL) return TOOL_FAILED;
  graft_pipeline *pipeline = NULL;
  graft_pipeline_memory memory = {.struct_size = sizeof memory};
  graft_stage_request request = {.struct_size = sizeof request};
  int code = TOOL_OK;
  const graft_pipeline_options options = {.struct_size = sizeof options, .type = GRAFT_WEIGHT_RECOMMENDED};
  if (graft_pipeline_open(context, path, &options, &pipeline) != GRAFT_OK) {
    code = tool_report(graft_context_error(context));
  } else {
    // What has a tensor too few or of another shape is still described, and the sentence says what is wrong.
    bool is_whole = graft_pipeline_measure(pipeline, &request, &memory) == GRAFT_OK;
    int shown = show_pipeline(pipeline, is_whole ? &memory : NULL, as_json);
    code = is_whole ? shown : tool_report(graft_context_error(context));
  }
  graft_pipeline_close(pipeline);
  graft_context_destroy(context);
  return code;
}

static int run(const tool_command *self, int argc, char **argv) {
  bool as_json = false;
  const tool_option options[] = {{"json", 0, TOOL_FLAG, NULL, "Print JSON for programs.", &as_json, 0, 0, NULL}};
  const char *path = NULL;
  size_t n = 0;
  int parsed = tool_parse(self, argc, argv, options, sizeof options / sizeof options[0], &path, 1, &n);
  if (parsed != TOOL_PARSED) return parsed;
  if (n == 0) return tool_usage(self, "name a file or a folder");
  return graft_file_is_folder(path) ? inspect_folder(path, as_json) : inspect_file(path, as_json);
}

const tool_command tool_inspect = {"inspect", "Says what a model file or folder is.", "FILE|FOLDER [--json]", run};
