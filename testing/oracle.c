#include "testing/oracle.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Elements converted at a time; a whole number of blocks of any block dtype.
enum { CHUNK = 1024 };

// The inputs and outputs as the oracle sees them.
typedef struct problem {
  graft_tensor_desc inputs[GRAFT_CASE_MAX_INPUTS];
  void *values[GRAFT_CASE_MAX_INPUTS];
  void *owned[GRAFT_CASE_MAX_INPUTS];  // widened copies
  graft_tensor_desc outputs[GRAFT_MAX_OUTPUTS];
  void *wants[GRAFT_MAX_OUTPUTS];
} problem;

static void release_problem(problem *work) {
  for (uint32_t i = 0; i < GRAFT_CASE_MAX_INPUTS; ++i) free(work->owned[i]);
  for (uint32_t i = 0; i < GRAFT_MAX_OUTPUTS; ++i) free(work->wants[i]);
}

static graft_status widen_input(const graft_testing_example *example, uint32_t i, graft_error *error, problem *work) {
  const graft_tensor_desc *desc = &example->inputs[i];
  GRAFT_TRY(graft_tensor_desc_init(GRAFT_F32, desc->rank, desc->shape, error, &work->inputs[i]));
  size_t n = (size_t)graft_tensor_desc_elements(desc);
  float *wide = malloc(n * sizeof *wide + 1);
  if (wide == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to widen input %u", i);
  if (n > 0) desc->dtype->to_f32(example->values[i], wide, n);
  work->values[i] = work->owned[i] = wide;
  return GRAFT_OK;
}

// Whether inference takes the example with every floating-point input in f32.
static bool accepts_wide(const graft_testing_example *example, graft_tensor_desc *out_outputs) {
  graft_tensor_desc inputs[GRAFT_CASE_MAX_INPUTS];
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    inputs[i] = example->inputs[i];
    if ((example->present >> i & 1u) == 0 || !inputs[i].dtype->is_float) continue;
    if (graft_tensor_desc_init(GRAFT_F32, inputs[i].rank, example->inputs[i].shape, NULL, &inputs[i]) != GRAFT_OK) {
      return false;
    }
  }
  return graft_testing_infer(example, inputs, NULL, out_outputs) == GRAFT_OK;
}

static graft_status set_problem(const graft_testing_example *example, graft_error *error, problem *work) {
  bool is_wide = !example->is_exact && accepts_wide(example, work->outputs);
  if (!is_wide) memcpy(work->outputs, example->outputs, sizeof work->outputs);
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    if ((example->present >> i & 1u) == 0) continue;
    work->inputs[i] = example->inputs[i];
    work->values[i] = example->values[i];
    if (is_wide && work->inputs[i].dtype->is_float && work->inputs[i].dtype != GRAFT_F32) {
      GRAFT_TRY(widen_input(example, i, error, work));
    }
  }
  for (uint32_t i = 0; i < example->op->n_outputs; ++i) {
    size_t bytes = graft_tensor_desc_bytes(&work->outputs[i]);
    work->wants[i] = malloc(bytes + 1);
    if (work->wants[i] == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for %zu wanted bytes", bytes);
    memset(work->wants[i], 0xff, bytes);
  }
  return GRAFT_OK;
}

static graft_status run_reference(const graft_testing_example *example, problem *work, graft_error *error) {
  graft_view inputs[GRAFT_CASE_MAX_INPUTS] = {0}, outputs[GRAFT_MAX_OUTPUTS] = {0};
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    inputs[i] = (graft_view){.desc = work->inputs[i], .data = work->values[i]};
  }
  for (uint32_t i = 0; i < example->op->n_outputs; ++i) {
    outputs[i] = (graft_view){.desc = work->outputs[i], .data = work->wants[i]};
  }
  graft_reference_args args = {.struct_size = sizeof args,
                               .attrs = example->attrs,
                               .n_inputs = example->n_inputs,
                               .n_outputs = example->op->n_outputs,
                               .inputs = inputs,
                               .outputs = outputs,
                               .error = error};
  return example->op->reference(&args);
}

static graft_status build_decomposition(const graft_testing_example *example, const problem *work, graft_graph *graph) {
  graft_tensor *inputs[GRAFT_CASE_MAX_INPUTS], *outputs[GRAFT_MAX_OUTPUTS] = {NULL};
  char name[16];
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    snprintf(name, sizeof name, "x%u", i);
    bool is_given = (example->present >> i & 1u) != 0;
    inputs[i] = is_given ? graft_graph_input(graph, name, &work->inputs[i]) : graft_graph_none();
  }
  example->op->decompose(graph, example->attrs, inputs, example->n_inputs, outputs);
  for (uint32_t i = 0; i < example->op->n_outputs; ++i) {
    snprintf(name, sizeof name, "y%u", i);
    graft_graph_output(graph, outputs[i], name);
  }
  return graft_graph_status(graph);
}

static graft_status run_plan(const graft_testing_example *example, problem *work, graft_plan *plan) {
  uint32_t n_written = 0;
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    if ((example->present >> i & 1u) == 0) continue;
    GRAFT_TRY(graft_plan_write(plan, n_written++, work->values[i], graft_tensor_desc_bytes(&work->inputs[i])));
  }
  GRAFT_TRY(graft_plan_run(plan, NULL));
  for (uint32_t i = 0; i < example->op->n_outputs; ++i) {
    GRAFT_TRY(graft_plan_read(plan, i, work->wants[i], graft_tensor_desc_bytes(&work->outputs[i])));
  }
  return GRAFT_OK;
}

static graft_status run_decomposition(const graft_testing_example *example, problem *work, graft_device *device,
                                      graft_context *context) {
  graft_graph *graph = NULL;
  graft_plan *plan = NULL;
  graft_plan_options options = {.struct_size = sizeof options, .flags = GRAFT_PLAN_REFERENCE, .device = device};
  GRAFT_TRY(graft_graph_create(context, &graph));
  graft_status status = build_decomposition(example, work, graph);
  if (status == GRAFT_OK) status = graft_plan_create(graph, &options, &plan);
  if (status == GRAFT_OK) status = run_plan(example, work, plan);
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
  return status;
}

graft_status graft_testing_solve(graft_testing_example *example, graft_device *device, graft_context *context,
                                 graft_error *error) {
  problem work = {0};
  graft_status status = set_problem(example, error, &work);
  if (status == GRAFT_OK && example->op->reference != NULL) {
    status = run_reference(example, &work, error);
  } else if (status == GRAFT_OK) {
    status = run_decomposition(example, &work, device, context);
    if (status != GRAFT_OK && error != NULL) *error = *graft_context_error(context);
  }
  if (status == GRAFT_OK) {
    memcpy(example->want_descs, work.outputs, sizeof work.outputs);
    memcpy(example->wants, work.wants, sizeof work.wants);
    memset(work.wants, 0, sizeof work.wants);
  }
  release_problem(&work);
  return status;
}

graft_status graft_testing_decompose(const graft_testing_example *example, graft_device *device, graft_context *context,
                                     graft_error *error, void **out_values) {
  problem work = {0};
  graft_status status = set_problem(example, error, &work);
  if (status == GRAFT_OK) {
    status = run_decomposition(example, &work, device, context);
    if (status != GRAFT_OK && error != NULL) *error = *graft_context_error(context);
  }
  if (status == GRAFT_OK) {
    memcpy(out_values, work.wants, example->op->n_outputs * sizeof *out_values);
    memset(work.wants, 0, sizeof work.wants);
  }
  release_problem(&work);
  return status;
}

static void load_chunk(graft_dtype dtype, const void *values, int64_t first, int64_t n, double *out) {
  const char *source = (const char *)values + first / dtype->block_elements * dtype->block_bytes;
  if (dtype->block_elements == 1 && dtype->code != GRAFT_DTYPE_CUSTOM) {
    for (int64_t i = 0; i < n; ++i) out[i] = graft_dtype_load(dtype, source + i * dtype->block_bytes);
    return;
  }
  float numbers[CHUNK];
  dtype->to_f32(source, numbers, (size_t)n);
  for (int64_t i = 0; i < n; ++i) out[i] = (double)numbers[i];
}

static int64_t chunk_at(int64_t first, int64_t n) {
  return n - first < CHUNK ? n - first : CHUNK;
}

static double root_mean_square(const graft_tensor_desc *desc, const void *values, int64_t n) {
  double sum = 0, chunk[CHUNK];
  int64_t n_finite = 0;
  for (int64_t first = 0; first < n; first += CHUNK) {
    int64_t size = chunk_at(first, n);
    load_chunk(desc->dtype, values, first, size, chunk);
    for (int64_t i = 0; i < size; ++i) {
      if (!isfinite(chunk[i])) continue;
      sum += chunk[i] * chunk[i];
      ++n_finite;
    }
  }
  return n_finite > 0 ? sqrt(sum / (double)n_finite) : 0;
}

// Largest finite value that |dtype| stores: what a wanted value beyond it saturates to.
static double largest_of(graft_dtype dtype) {
  if (!dtype->is_float || dtype->block_elements != 1 || dtype == GRAFT_F32) return (double)FLT_MAX;
  float largest = FLT_MAX, stored = 0;
  char element[16];
  dtype->from_f32(&largest, element, 1);
  dtype->to_f32(element, &stored, 1);
  return isfinite(stored) ? (double)stored : (double)FLT_MAX;
}

static double saturate(double value, double largest) {
  return isfinite(value) ? fmax(-largest, fmin(largest, value)) : value;
}

// Error of one element as a fraction of the bound; infinite where no error is allowed or special values disagree.
static double error_fraction(double got, double want, double bound, double scale) {
  if (isnan(got) || isnan(want)) return isnan(got) && isnan(want) ? 0 : HUGE_VAL;
  if (got == want) return 0;
  if (!isfinite(got) || !isfinite(want)) return HUGE_VAL;
  double allowed = bound * fmax(fabs(want), scale);
  return allowed > 0 ? fabs(got - want) / allowed : HUGE_VAL;
}

static graft_testing_difference compare_bytes(const graft_tensor_desc *desc, const char *got, const char *want) {
  graft_testing_difference difference = {0};
  size_t bytes = graft_tensor_desc_bytes(desc);
  if (bytes == 0 || memcmp(got, want, bytes) == 0) return difference;
  size_t at = 0;
  while (got[at] == want[at]) ++at;
  difference.is_wrong = true;
  difference.worst = HUGE_VAL;
  int64_t block = (int64_t)(at / desc->dtype->block_bytes);
  difference.element = block * desc->dtype->block_elements;
  double chunk[CHUNK];
  load_chunk(desc->dtype, got, difference.element, desc->dtype->block_elements, chunk);
  difference.got = chunk[0];
  load_chunk(desc->dtype, want, difference.element, desc->dtype->block_elements, chunk);
  difference.want = chunk[0];
  return difference;
}

graft_testing_difference graft_testing_compare(const graft_testing_example *example, uint32_t index, graft_dtype dtype,
                                               const void *got) {
  const graft_tensor_desc *desc = &example->want_descs[index];
  const void *want = example->wants[index];
  if (example->is_exact && dtype == desc->dtype) return compare_bytes(desc, got, want);
  graft_testing_difference difference = {0};
  int64_t n = graft_tensor_desc_elements(desc);
  double bound = graft_op_tolerance(dtype, example->sample->reduction), largest = largest_of(dtype);
  // An operator that is told its result's dtype rounds the wanted values as well.
  if (desc->dtype->is_float && desc->dtype != GRAFT_F32) bound += graft_op_tolerance(desc->dtype, 0);
  double scale = root_mean_square(desc, want, n), gots[CHUNK], wants[CHUNK];
  for (int64_t first = 0; first < n; first += CHUNK) {
    int64_t size = chunk_at(first, n);
    load_chunk(dtype, got, first, size, gots);
    load_chunk(desc->dtype, want, first, size, wants);
    for (int64_t i = 0; i < size; ++i) {
      double wanted = saturate(wants[i], largest), fraction = error_fraction(gots[i], wanted, bound, scale);
      difference.worst = fmax(difference.worst, fraction);
      if (fraction <= 1 || difference.is_wrong) continue;
      difference.is_wrong = true;
      difference.element = first + i;
      difference.got = gots[i];
      difference.want = wanted;
    }
  }
  return difference;
}

const char *graft_testing_coordinates(const graft_tensor_desc *desc, int64_t element, char *text, size_t text_bytes) {
  int64_t index[GRAFT_MAX_RANK] = {0};
  for (int32_t d = desc->rank - 1; d >= 0; --d) {
    index[d] = desc->shape[d] > 0 ? element % desc->shape[d] : 0;
    element = desc->shape[d] > 0 ? element / desc->shape[d] : 0;
  }
  size_t used = (size_t)snprintf(text, text_bytes, "[");
  for (int32_t d = 0; d < desc->rank && used < text_bytes; ++d) {
    used += (size_t)snprintf(text + used, text_bytes - used, "%s%lld", d > 0 ? ", " : "", (long long)index[d]);
  }
  if (used < text_bytes) snprintf(text + used, text_bytes - used, "]");
  return text;
}
