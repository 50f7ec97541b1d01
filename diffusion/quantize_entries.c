#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/quantize_internal.h"
#include "formats/excerpt.h"
#include "ops/common/hadamard.h"

static graft_status fail_memory(const quantize_job *job) {
  return GRAFT_FAIL(job->error, GRAFT_E_NO_MEMORY, "%s: out of memory for a table of its tensors",
                    graft_excerpt_path(job->options->model).text);
}

static graft_status fail_tensor(const quantize_job *job, const char *name, const char *reason) {
  return GRAFT_FAIL(job->error, GRAFT_E_FORMAT, "%s: the tensor %s %s", graft_excerpt_path(job->options->model).text,
                    graft_excerpt_name(name).text, reason);
}

static quantize_entry *find_entry(const quantize_job *job, const char *name) {
  for (size_t i = 0; i < job->n_entries; ++i)
    if (strcmp(job->entries[i].name, name) == 0) return &job->entries[i];
  return NULL;
}

// Appends ".weight_scale" and the like to a layer's name; false where that is too long.
static bool join(char out[GRAFT_WEIGHT_MAX_NAME], const char *layer, const char *suffix) {
  const int n = snprintf(out, GRAFT_WEIGHT_MAX_NAME, "%.*s%s", GRAFT_WEIGHT_MAX_NAME - 1, layer, suffix);
  return n > 0 && n < GRAFT_WEIGHT_MAX_NAME;
}

static bool name_entry(quantize_entry *entry) {
  const size_t n = strlen(entry->name), n_suffix = strlen(".weight");
  memcpy(entry->layer, entry->name, n + 1);
  if (n > n_suffix && strcmp(entry->name + n - n_suffix, ".weight") == 0) entry->layer[n - n_suffix] = '\0';
  return join(entry->scale_name, entry->layer, ".weight_scale") &&
         join(entry->marker_name, entry->layer, ".comfy_quant");
}

static graft_status add_tensor(quantize_job *job, const graft_safetensors_tensor *tensor) {
  const char *prefix = job->source.prefix ? job->source.prefix : "";
  const size_t n_prefix = strlen(prefix);
  graft_weight_place place = {.n_parts = 1};
  if (strncmp(tensor->name, prefix, n_prefix) != 0) return GRAFT_OK;
  if (strlen(tensor->name) >= GRAFT_WEIGHT_MAX_NAME) return fail_tensor(job, tensor->name, "has too long a name");
  if (job->source.is_comfy) snprintf(place.name, sizeof place.name, "%s", tensor->name + n_prefix);
  else job->source.profile->place(tensor->name + n_prefix, &place);
  if (tensor->dtype == NULL) return fail_tensor(job, tensor->name, "is of a type that graft does not know");
  quantize_entry *entry = find_entry(job, place.name);
  if (entry == NULL) {
    entry = &job->entries[job->n_entries++];
    *entry = (quantize_entry){.n_parts = place.n_parts, .kind = GRAFT_QUANTIZE_KIND_F32, .group = 1};
    memcpy(entry->name, place.name, sizeof entry->name);
    if (!name_entry(entry)) return fail_tensor(job, tensor->name, "has too long a name");
  }
  if (entry->parts[place.part] != NULL) return fail_tensor(job, tensor->name, "is there twice under different names");
  entry->parts[place.part] = tensor;
  return GRAFT_OK;
}

static graft_status measure_entry(const quantize_job *job, quantize_entry *entry) {
  for (int32_t i = 0; i < entry->n_parts; ++i)
    if (entry->parts[i] == NULL) return fail_tensor(job, entry->name, "cannot be put together: a part is missing");
  const graft_safetensors_tensor *first = entry->parts[0];
  entry->is_copied = !first->dtype->is_float;
  if (entry->is_copied && entry->n_parts > 1) return fail_tensor(job, entry->name, "is not of a float type");
  entry->columns = first->rank > 0 ? first->shape[first->rank - 1] : 1;
  for (int32_t i = 0; i < entry->n_parts; ++i) {
    const graft_safetensors_tensor *part = entry->parts[i];
    const bool fits = part->dtype == first->dtype && part->rank == first->rank &&
                      (i == 0 || (part->rank == 2 && part->shape[1] == first->shape[1]));
    if (!fits) return fail_tensor(job, entry->name, "cannot be put together: its parts have different types or widths");
    // None where they are empty, so that a shape like [2^40, 0] is no work.
    if (entry->columns > 0) entry->rows += part->n_elements / entry->columns;
  }
  return GRAFT_OK;
}

// Rules compiled once.
typedef struct rule_list {
  regex_t *expressions;
  bool *are_used;
  size_t n;
} rule_list;

static void free_rules(rule_list *rules) {
  for (size_t i = 0; i < rules->n; ++i) regfree(&rules->expressions[i]);
  free(rules->expressions);
  free(rules->are_used);
}

static graft_status compile_rules(const quantize_job *job, rule_list *rules) {
  const graft_quantize_options *o = job->options;
  rules->expressions = calloc(o->n_rules + 1, sizeof *rules->expressions);
  rules->are_used = calloc(o->n_rules + 1, sizeof *rules->are_used);
  if (rules->expressions == NULL || rules->are_used == NULL) return fail_memory(job);
  for (; rules->n < o->n_rules; ++rules->n) {
    const int code = regcomp(&rules->expressions[rules->n], o->rules[rules->n].pattern, REG_EXTENDED | REG_NOSUB);
    if (code == 0) continue;
    char reason[128];
    regerror(code, &rules->expressions[rules->n], reason, sizeof reason);
    return GRAFT_FAIL(job->error, GRAFT_E_INVALID, "the rule's pattern '%s' is no regular expression: %s",
                      graft_excerpt_name(o->rules[rules->n].pattern).text, reason);
  }
  return GRAFT_OK;
}

static bool is_matrix_weight(const quantize_entry *entry) {
  return entry->parts[0]->rank == 2 && entry->rows > 0 && entry->columns > 0 && strcmp(entry->name, entry->layer) != 0;
}

static void decide(const quantize_job *job, rule_list *rules, quantize_entry *entry) {
  const graft_quantize_options *o = job->options;
  if (entry->is_copied) return;
  if (is_matrix_weight(entry) && job->source.profile->is_quantized(entry->layer)) entry->kind = o->kind;
  for (size_t i = 0; i < rules->n; ++i) {
    if (regexec(&rules->expressions[i], entry->layer, 0, NULL, 0) != 0) continue;
    rules->are_used[i] = true;
    if (is_matrix_weight(entry) || !quantize_is_quantized(o->rules[i].kind)) entry->kind = o->rules[i].kind;
  }
  if (entry->kind == GRAFT_QUANTIZE_KIND_INT8_CONVROT) entry->group = graft_hadamard_fit(entry->columns, o->group);
  if (!quantize_is_quantized(entry->kind)) return;
  const bool is_fp8 = entry->kind == GRAFT_QUANTIZE_KIND_FP8;
  entry->marker_bytes =
      graft_quantized_marker(is_fp8 ? GRAFT_QUANTIZED_E4M3 : GRAFT_QUANTIZED_INT8, entry->group, entry->marker);
}

// A rule for nothing is a mistake in its pattern, which a file without it would hide.
static graft_status check_use(const quantize_job *job, const rule_list *rules) {
  for (size_t i = 0; i < rules->n; ++i) {
    if (rules->are_used[i]) continue;
    return GRAFT_FAIL(job->error, GRAFT_E_NOT_FOUND, "no layer's name matches the rule's pattern '%s'",
                      graft_excerpt_name(job->options->rules[i].pattern).text);
  }
  return GRAFT_OK;
}

static graft_status decide_all(quantize_job *job) {
  rule_list rules = {0};
  graft_status status = compile_rules(job, &rules);
  for (size_t i = 0; i < job->n_entries && status == GRAFT_OK; ++i) decide(job, &rules, &job->entries[i]);
  if (status == GRAFT_OK) status = check_use(job, &rules);
  free_rules(&rules);
  return status;
}

static size_t add_output(quantize_job *job, const char *name, graft_dtype dtype, int32_t rank, const int64_t *shape) {
  graft_safetensors_source *out = &job->tensors[job->n_tensors];
  *out = (graft_safetensors_source){.name = name, .dtype = dtype, .rank = rank};
  for (int32_t d = 0; d < rank; ++d) out->shape[d] = shape[d];
  return job->n_tensors++;
}

static void lay_out(quantize_job *job, quantize_entry *entry) {
  const graft_safetensors_tensor *first = entry->parts[0];
  int64_t shape[GRAFT_MAX_RANK];
  memcpy(shape, first->shape, sizeof shape);
  if (entry->n_parts > 1) shape[0] = entry->rows;
  entry->weight = add_output(job, entry->name, quantize_dtype(entry), first->rank, shape);
  if (!quantize_is_quantized(entry->kind)) return;
  const int32_t scale_rank = entry->kind == GRAFT_QUANTIZE_KIND_FP8 ? 0 : 2;
  entry->scale = add_output(job, entry->scale_name, GRAFT_F32, scale_rank, (int64_t[]){entry->rows, 1});
  entry->mark = add_output(job, entry->marker_name, GRAFT_U8, 1, (int64_t[]){(int64_t)entry->marker_bytes});
}

graft_status quantize_collect(quantize_job *job) {
  const size_t n = graft_weights_count(job->weights);
  job->entries = calloc(n + 1, sizeof *job->entries);
  job->tensors = calloc(3 * n + 1, sizeof *job->tensors);
  job->checksums = calloc(3 * n + 1, sizeof *job->checksums);
  if (job->entries == NULL || job->tensors == NULL || job->checksums == NULL) return fail_memory(job);
  for (size_t i = 0; i < n; ++i) GRAFT_TRY(add_tensor(job, graft_weights_at(job->weights, i)));
  for (size_t i = 0; i < job->n_entries; ++i) GRAFT_TRY(measure_entry(job, &job->entries[i]));
  GRAFT_TRY(decide_all(job));
  for (size_t i = 0; i < job->n_entries; ++i) lay_out(job, &job->entries[i]);
  return GRAFT_OK;
}
