#include "diffusion/quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/quantize_internal.h"
#include "diffusion/transformers/z_image.h"
#include "formats/excerpt.h"
#include "formats/file.h"

enum { PIECE_BYTES = 8 << 20 };

static const char *const kind_names[] = {"f32", "f16", "bf16", "fp8", "int8", "int8_convrot"};
enum { N_KINDS = sizeof kind_names / sizeof kind_names[0] };

bool graft_quantize_kind_parse(const char *text, size_t n_bytes, graft_quantize_kind *out_kind) {
  for (int i = 0; i < N_KINDS; ++i) {
    if (strlen(kind_names[i]) != n_bytes || memcmp(kind_names[i], text, n_bytes) != 0) continue;
    *out_kind = (graft_quantize_kind)i;
    return true;
  }
  return false;
}

const char *graft_quantize_kind_name(graft_quantize_kind kind) {
  return kind_names[kind];
}

static graft_status fail_memory(const quantize_job *job) {
  return GRAFT_FAIL(job->error, GRAFT_E_NO_MEMORY, "%s: out of memory", graft_excerpt_path(job->options->model).text);
}

// The weights of a model's folder are those of its transformer.
graft_status quantize_open_model(quantize_job *job) {
  const char *model = job->options->model;
  char *folder = NULL;
  GRAFT_TRY(graft_file_join(model, "transformer", job->error, &folder));
  const char *path = graft_file_is_folder(model) && graft_file_is_folder(folder) ? folder : model;
  graft_status status = graft_weights_open(path, GRAFT_SAFETENSORS_MAP, job->error, &job->weights);
  free(folder);
  GRAFT_TRY(status);
  graft_quantized *quantized = NULL;
  GRAFT_TRY(graft_quantized_read(job->weights, job->error, &quantized));
  const bool is_quantized = graft_quantized_count(quantized) > 0;
  graft_quantized_free(quantized);
  if (is_quantized)
    return GRAFT_FAIL(job->error, GRAFT_E_UNSUPPORTED, "%s: is quantised already; quantise the original",
                      graft_excerpt_path(model).text);
  job->source = (graft_weight_source){.weights = job->weights, .profile = &graft_z_image_profile};
  graft_weight_source_detect(&job->source);
  if (job->source.prefix != NULL) return GRAFT_OK;
  return GRAFT_FAIL(job->error, GRAFT_E_UNSUPPORTED,
                    "%s: is of no family that graft quantises; that is Z-Image, in the names of diffusers or ComfyUI",
                    graft_excerpt_path(model).text);
}

// A running checksum; all pieces but the last are whole words.
static uint64_t checksum(uint64_t sum, const char *data, size_t bytes) {
  for (size_t i = 0; i < bytes; i += sizeof sum) {
    uint64_t word = 0;
    memcpy(&word, data + i, bytes - i < sizeof word ? bytes - i : sizeof word);
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 32;
  }
  return sum;
}

static graft_status write_piece(quantize_job *job, graft_safetensors_output *output, size_t tensor, uint64_t offset,
                                const void *data, size_t bytes) {
  job->checksums[tensor] = checksum(job->checksums[tensor], data, bytes);
  return graft_safetensors_output_write(output, tensor, offset, data, bytes, job->error);
}

static graft_status check_abort(const quantize_job *job) {
  if (job->options->abort == NULL || !job->options->abort(job->options->user)) return GRAFT_OK;
  return GRAFT_FAIL(job->error, GRAFT_E_CANCELLED, "cancelled");
}

// Mapped pages that were read and will not be needed soon.
static void give_back(const quantize_entry *entry) {
  for (int32_t i = 0; i < entry->n_parts; ++i) {
    const graft_safetensors_tensor *part = entry->parts[i];
    if (graft_safetensors_advise(part->file, part->data, part->bytes, GRAFT_SAFETENSORS_DISCARD, NULL) != GRAFT_OK)
      return;
  }
}

// Buffers for one entry.
typedef struct entry_buffers {
  char *data;              // one piece
  float *scales;           // of all rows
  double *errors, *sizes;  // of all rows
  int64_t rows_per_piece;
} entry_buffers;

static graft_status allocate(const quantize_job *job, const quantize_entry *entry, entry_buffers *b) {
  const size_t row_bytes = quantize_row_bytes(entry), rows = (size_t)entry->rows + 1;
  b->rows_per_piece = row_bytes > 0 && 8 * row_bytes < PIECE_BYTES ? (int64_t)(PIECE_BYTES / row_bytes) & ~7 : 8;
  if (b->rows_per_piece > entry->rows) b->rows_per_piece = entry->rows;
  b->data = malloc((size_t)b->rows_per_piece * row_bytes + 1);
  b->scales = calloc(rows, sizeof *b->scales);
  b->errors = calloc(rows, sizeof *b->errors);
  b->sizes = calloc(rows, sizeof *b->sizes);
  return b->data && b->scales && b->errors && b->sizes ? GRAFT_OK : fail_memory(job);
}

static void release(entry_buffers *b) {
  free(b->sizes);
  free(b->errors);
  free(b->scales);
  free(b->data);
}

static graft_status fail_values(const quantize_job *job, const quantize_entry *entry) {
  return GRAFT_FAIL(job->error, GRAFT_E_FORMAT, "%s: the layer %s holds values that are no finite numbers",
                    graft_excerpt_path(job->options->model).text, graft_excerpt_name(entry->layer).text);
}

// The one scale of a float8 tensor.
static graft_status find_scale(const quantize_job *job, const quantize_entry *entry, float *out_scale) {
  const quantize_rows all = {.entry = entry, .rows = entry->rows};
  float largest = 0;
  GRAFT_TRY(quantize_largest(job->device, &all, job->error, &largest));
  if (!isfinite(largest)) return fail_values(job, entry);
  *out_scale = largest > 0 ? largest / 448 : 1;
  return GRAFT_OK;
}

static void report_entry(quantize_job *job, const quantize_entry *entry, const entry_buffers *b) {
  double error = 0, size = 0;
  graft_quantize_layer *layer = &job->report->layers[job->report->n_layers++];
  *layer = (graft_quantize_layer){.kind = entry->kind,
                                  .rows = entry->rows,
                                  .columns = entry->columns,
                                  .group = entry->group,
                                  .name = strdup(entry->layer)};
  for (int64_t i = 0; i < entry->rows; ++i) {
    error += b->errors[i];
    size += b->sizes[i];
    const double row_error = b->sizes[i] > 0 ? sqrt(b->errors[i] / b->sizes[i]) : 0;
    if (row_error <= layer->worst_row_error) continue;
    layer->worst_row_error = row_error;
    layer->worst_row = i;
  }
  layer->error = size > 0 ? sqrt(error / size) : 0;
}

static graft_status finish_entry(quantize_job *job, graft_safetensors_output *output, const quantize_entry *entry,
                                 const entry_buffers *b) {
  const bool is_fp8 = entry->kind == GRAFT_QUANTIZE_KIND_FP8;
  const size_t n_scales = is_fp8 ? 1 : (size_t)entry->rows;
  for (size_t i = 0; i < n_scales; ++i)
    if (!isfinite(b->scales[i])) return fail_values(job, entry);
  GRAFT_TRY(write_piece(job, output, entry->scale, 0, b->scales, n_scales * sizeof(float)));
  GRAFT_TRY(write_piece(job, output, entry->mark, 0, entry->marker, entry->marker_bytes));
  report_entry(job, entry, b);
  return job->report->layers[job->report->n_layers - 1].name ? GRAFT_OK : fail_memory(job);
}

static graft_status convert_entry(quantize_job *job, graft_safetensors_output *output, const quantize_entry *entry,
                                  entry_buffers *b) {
  const size_t row_bytes = quantize_row_bytes(entry);
  float scale = 1;
  GRAFT_TRY(allocate(job, entry, b));
  if (entry->kind == GRAFT_QUANTIZE_KIND_FP8) {
    GRAFT_TRY(find_scale(job, entry, &scale));
    b->scales[0] = scale;
  }
  for (int64_t row = 0; row < entry->rows; row += b->rows_per_piece) {
    GRAFT_TRY(check_abort(job));
    const int64_t left = entry->rows - row;
    const quantize_rows rows = {.entry = entry,
                                .first = row,
                                .rows = left < b->rows_per_piece ? left : b->rows_per_piece,
                                .scale = scale,
                                .data = b->data,
                                .scales = b->scales + row,
                                .errors = b->errors + row,
                                .sizes = b->sizes + row};
    GRAFT_TRY(quantize_convert(job->device, &rows, job->error));
    GRAFT_TRY(
        write_piece(job, output, entry->weight, (uint64_t)row * row_bytes, b->data, (size_t)rows.rows * row_bytes));
  }
  return quantize_is_quantized(entry->kind) ? finish_entry(job, output, entry, b) : GRAFT_OK;
}

static graft_status write_entries(quantize_job *job, graft_safetensors_output *output) {
  for (size_t i = 0; i < job->n_entries; ++i) {
    const quantize_entry *entry = &job->entries[i];
    entry_buffers buffers = {0};
    if (job->options->on_progress) job->options->on_progress(job->options->user, i, job->n_entries);
    const graft_safetensors_tensor *first = entry->parts[0];
    graft_status status = entry->is_copied ? write_piece(job, output, entry->weight, 0, first->data, first->bytes)
                                           : convert_entry(job, output, entry, &buffers);
    release(&buffers);
    GRAFT_TRY(status);
    give_back(entry);
  }
  if (job->options->on_progress) job->options->on_progress(job->options->user, job->n_entries, job->n_entries);
  return GRAFT_OK;
}

static graft_status write_file(quantize_job *job) {
  const graft_safetensors_contents contents = {
      .tensors = job->tensors, .n_tensors = job->n_tensors, .has_metadata = true};
  graft_safetensors_output *output = NULL;
  GRAFT_TRY(graft_safetensors_output_begin(job->options->output, &contents, job->error, &output));
  job->report->bytes = graft_safetensors_output_bytes(output);
  job->report->n_tensors = job->n_tensors;
  graft_status status = write_entries(job, output);
  if (status == GRAFT_OK) status = graft_weights_check(job->weights, job->error);
  if (status == GRAFT_OK) return graft_safetensors_output_commit(output, job->error);
  graft_safetensors_output_abort(output);
  return status;
}

// Reads the file as any reader would, and compares every tensor with what was written. It has its name by now, so that
// stopping here would leave a file behind and say that nothing was written.
static graft_status verify(const quantize_job *job, const graft_weights *written) {
  for (size_t i = 0; i < job->n_tensors; ++i) {
    const graft_safetensors_tensor *tensor = graft_weights_find(written, job->tensors[i].name);
    if (tensor == NULL || checksum(0, tensor->data, tensor->bytes) != job->checksums[i])
      return GRAFT_FAIL(job->error, GRAFT_E_IO, "%s: the tensor %s does not read back as it was written",
                        graft_excerpt_path(job->options->output).text, graft_excerpt_name(job->tensors[i].name).text);
    GRAFT_TRY(
        graft_safetensors_advise(tensor->file, tensor->data, tensor->bytes, GRAFT_SAFETENSORS_DISCARD, job->error));
  }
  return GRAFT_OK;
}

static graft_status verify_file(const quantize_job *job) {
  graft_weights *written = NULL;
  graft_quantized *quantized = NULL;
  GRAFT_TRY(graft_weights_open(job->options->output, GRAFT_SAFETENSORS_MAP, job->error, &written));
  graft_status status = graft_quantized_read(written, job->error, &quantized);
  if (status == GRAFT_OK && graft_quantized_count(quantized) != job->report->n_layers)
    status = GRAFT_FAIL(job->error, GRAFT_E_IO, "%s: %zu quantised layers were written and %zu read back",
                        graft_excerpt_path(job->options->output).text, job->report->n_layers,
                        graft_quantized_count(quantized));
  if (status == GRAFT_OK) status = verify(job, written);
  graft_quantized_free(quantized);
  graft_weights_close(written);
  return status;
}

static graft_status run(quantize_job *job, graft_context *context) {
  const graft_quantize_options *o = job->options;
  if (o->model == NULL || o->output == NULL) return GRAFT_FAIL(job->error, GRAFT_E_INVALID, "no model or output named");
  if (o->group < 1) return GRAFT_FAIL(job->error, GRAFT_E_INVALID, "the group must be at least 1");
  GRAFT_TRY(graft_device_open(context, "cpu", &job->device));
  GRAFT_TRY(quantize_open_model(job));
  GRAFT_TRY(quantize_collect(job));
  job->report = calloc(1, sizeof *job->report);
  if (job->report == NULL) return fail_memory(job);
  job->report->layers = calloc(job->n_entries + 1, sizeof *job->report->layers);
  if (job->report->layers == NULL) return fail_memory(job);
  GRAFT_TRY(write_file(job));
  return verify_file(job);
}

graft_status graft_quantize_model(graft_context *context, const graft_quantize_options *options,
                                  graft_quantize_report **out_report) {
  quantize_job job = {.options = options, .error = graft_context_error_slot(context)};
  graft_status status = run(&job, context);
  if (status == GRAFT_OK) *out_report = job.report;
  else graft_quantize_report_free(job.report);
  free(job.checksums);
  free(job.tensors);
  free(job.entries);
  graft_weights_close(job.weights);
  return status;
}

void graft_quantize_report_free(graft_quantize_report *report) {
  if (report == NULL) return;
  for (size_t i = 0; i < report->n_layers; ++i) free(report->layers[i].name);
  free(report->layers);
  free(report);
}
