#include "testing/example.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing/random.h"

static bool is_plain_float(graft_dtype dtype) {
  return dtype != NULL && dtype->is_float && dtype->block_elements == 1;
}

// Which inputs a change of dtype concerns.
typedef enum group { GROUP_FLOATS, GROUP_FIRST, GROUP_WEIGHTS } group;

static bool is_weight(const graft_op_case *sample, uint32_t input) {
  for (uint32_t i = 0; i < sample->n_inputs; ++i) {
    if (sample->inputs[i].is_constant) return sample->inputs[input].is_constant;
  }
  return input > 0;
}

static bool is_in_group(const graft_op_case *sample, group members, uint32_t input) {
  if (!is_plain_float(sample->inputs[input].dtype)) return false;
  if (members == GROUP_FIRST) return input == 0;
  return members == GROUP_FLOATS || is_weight(sample, input);
}

static graft_testing_form declared_form(const graft_op_case *sample) {
  graft_testing_form form = {.name = "declared"};
  for (uint32_t i = 0; i < GRAFT_CASE_MAX_INPUTS; ++i) {
    form.repeated[i] = -1;
    if (i < sample->n_inputs) form.dtypes[i] = sample->inputs[i].dtype;
  }
  return form;
}

static bool has_dtypes(const graft_testing_form *form, const graft_testing_form *other) {
  return memcmp(form->dtypes, other->dtypes, sizeof form->dtypes) == 0;
}

typedef struct form_list {
  graft_testing_form *forms;
  uint32_t count;
} form_list;

static void add_form(form_list *list, const graft_testing_form *form) {
  if (list->count < GRAFT_TESTING_MAX_FORMS) list->forms[list->count++] = *form;
}

static void add_new_dtypes(form_list *list, const graft_testing_form *form) {
  for (uint32_t i = 0; i < list->count; ++i) {
    if (has_dtypes(form, &list->forms[i])) return;
  }
  add_form(list, form);
}

static void add_float_forms(const graft_op_case *sample, form_list *list) {
  static const struct {
    group members;
    const char *label;
    graft_dtype dtype;
  } changes[] = {
      {GROUP_FLOATS, "floats f32", GRAFT_F32},           {GROUP_FLOATS, "floats bf16", GRAFT_BF16},
      {GROUP_FLOATS, "floats f16", GRAFT_F16},           {GROUP_WEIGHTS, "weights bf16", GRAFT_BF16},
      {GROUP_WEIGHTS, "weights f16", GRAFT_F16},         {GROUP_WEIGHTS, "weights f8_e4m3", GRAFT_F8_E4M3},
      {GROUP_WEIGHTS, "weights f8_e5m2", GRAFT_F8_E5M2}, {GROUP_FIRST, "input 0 bf16", GRAFT_BF16},
      {GROUP_FIRST, "input 0 f16", GRAFT_F16},
  };
  for (size_t c = 0; c < sizeof changes / sizeof changes[0]; ++c) {
    graft_testing_form form = declared_form(sample);
    snprintf(form.name, sizeof form.name, "%s", changes[c].label);
    for (uint32_t i = 0; i < sample->n_inputs; ++i) {
      if (is_in_group(sample, changes[c].members, i)) form.dtypes[i] = changes[c].dtype;
    }
    add_new_dtypes(list, &form);
  }
}

static void add_integer_form(const graft_op_case *sample, form_list *list) {
  graft_testing_form form = declared_form(sample);
  snprintf(form.name, sizeof form.name, "other integers");
  for (uint32_t i = 0; i < sample->n_inputs; ++i) {
    if (sample->inputs[i].dtype == GRAFT_I32) form.dtypes[i] = GRAFT_I64;
    if (sample->inputs[i].dtype == GRAFT_I64) form.dtypes[i] = GRAFT_I32;
  }
  add_new_dtypes(list, &form);
}

static void add_omitted_forms(const graft_op_def *op, const graft_op_case *sample, form_list *list) {
  for (uint32_t i = 0; i < sample->n_inputs; ++i) {
    if ((op->optional_inputs >> i & 1u) == 0) continue;
    graft_testing_form form = declared_form(sample);
    snprintf(form.name, sizeof form.name, "without input %u", i);
    form.dtypes[i] = NULL;
    add_new_dtypes(list, &form);
  }
}

static void add_repeated_forms(const graft_op_case *sample, form_list *list) {
  for (uint32_t i = 0; i < sample->n_inputs; ++i) {
    const graft_case_input *input = &sample->inputs[i];
    if (input->dtype == NULL || input->dtype->block_elements != 1) continue;
    for (int32_t d = 0; d < input->rank; ++d) {
      if (input->shape[d] < 2) continue;
      graft_testing_form form = declared_form(sample);
      snprintf(form.name, sizeof form.name, "input %u repeated along %d", i, d);
      form.repeated[i] = d;
      add_form(list, &form);
    }
  }
}

static bool are_alike(const graft_case_input *a, const graft_case_input *b) {
  return a->dtype != NULL && a->dtype == b->dtype && a->rank == b->rank &&
         memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]) == 0;
}

static void add_shared_forms(const graft_op_case *sample, form_list *list) {
  for (uint32_t i = 0; i < sample->n_inputs; ++i) {
    for (uint32_t j = i + 1; j < sample->n_inputs; ++j) {
      if (!are_alike(&sample->inputs[i], &sample->inputs[j])) continue;
      graft_testing_form form = declared_form(sample);
      snprintf(form.name, sizeof form.name, "inputs %u and %u shared", i, j);
      form.shared[0] = i;
      form.shared[1] = j;
      add_form(list, &form);
    }
  }
}

uint32_t graft_testing_forms(const graft_op_def *op, const graft_op_case *sample,
                             graft_testing_form out_forms[GRAFT_TESTING_MAX_FORMS]) {
  form_list list = {.forms = out_forms};
  graft_testing_form declared = declared_form(sample);
  add_form(&list, &declared);
  add_float_forms(sample, &list);
  add_integer_form(sample, &list);
  add_omitted_forms(op, sample, &list);
  add_repeated_forms(sample, &list);
  add_shared_forms(sample, &list);
  return list.count;
}

static double draw(const graft_case_input *input, uint64_t seed, uint64_t stream, uint64_t counter) {
  switch (input->fill) {
    case GRAFT_FILL_UNIFORM:
      return input->low + (input->high - input->low) * graft_testing_uniform(seed, stream, counter);
    case GRAFT_FILL_INTEGERS:
      return floor(input->low + (input->high - input->low) * graft_testing_uniform(seed, stream, counter));
    case GRAFT_FILL_CONSTANT: return input->low;
    case GRAFT_FILL_NORMAL: break;
  }
  return graft_testing_normal(seed, stream, counter);
}

// Copies the entries at coordinate 0 of |dim| over all others.
static void repeat_along(const graft_tensor_desc *desc, int32_t dim, char *values) {
  int64_t n_outer = 1;
  for (int32_t d = 0; d < dim; ++d) n_outer *= desc->shape[d];
  size_t row = (size_t)desc->strides[dim];
  for (int64_t outer = 0; outer < n_outer; ++outer) {
    char *first = values + (size_t)outer * row * (size_t)desc->shape[dim];
    for (int64_t i = 1; i < desc->shape[dim]; ++i) memcpy(first + (size_t)i * row, first, row);
  }
}

// Sums over repeated values of both signs may cancel so far that no order of adding in f32 meets the bound: where
// anything is repeated, normal values are given without their signs.
static bool has_repeated(const graft_testing_form *form) {
  for (uint32_t i = 0; i < GRAFT_CASE_MAX_INPUTS; ++i) {
    if (form->dtypes[i] != NULL && form->repeated[i] >= 0) return true;
  }
  return false;
}

static graft_status fill_input(graft_testing_example *example, uint32_t i, uint64_t seed, graft_error *error) {
  const graft_case_input *input = &example->sample->inputs[i];
  graft_tensor_desc *desc = &example->inputs[i];
  GRAFT_TRY(graft_tensor_desc_init(example->form.dtypes[i], input->rank, input->shape, error, desc));
  size_t n = (size_t)graft_tensor_desc_elements(desc), bytes = graft_tensor_desc_bytes(desc);
  float *numbers = malloc(n * sizeof *numbers + 1);
  example->values[i] = malloc(bytes + 1);
  if (numbers == NULL || example->values[i] == NULL) {
    free(numbers);
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for %zu bytes of test input", bytes);
  }
  uint64_t stream = graft_testing_stream(graft_testing_stream(i, example->op->name), example->sample->name);
  for (size_t k = 0; k < n; ++k) numbers[k] = (float)draw(input, seed, stream, k);
  if (input->fill == GRAFT_FILL_NORMAL && has_repeated(&example->form)) {
    for (size_t k = 0; k < n; ++k) numbers[k] = fabsf(numbers[k]);
  }
  if (n > 0) desc->dtype->from_f32(numbers, example->values[i], n);
  free(numbers);
  if (n > 0 && example->form.repeated[i] >= 0) repeat_along(desc, example->form.repeated[i], example->values[i]);
  return GRAFT_OK;
}

graft_status graft_testing_infer(const graft_testing_example *example, const graft_tensor_desc *inputs,
                                 graft_error *error, graft_tensor_desc *out_outputs) {
  const graft_tensor_desc *pointers[GRAFT_CASE_MAX_INPUTS] = {NULL};
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    if (example->present >> i & 1u) pointers[i] = &inputs[i];
  }
  memset(out_outputs, 0, example->op->n_outputs * sizeof *out_outputs);
  graft_infer_args args = {.struct_size = sizeof args,
                           .attrs = example->attrs,
                           .n_inputs = example->n_inputs,
                           .n_outputs = example->op->n_outputs,
                           .inputs = pointers,
                           .outputs = out_outputs,
                           .error = error};
  return example->op->infer(&args);
}

static graft_status fill_attrs(graft_testing_example *example, graft_error *error) {
  const graft_op_def *op = example->op;
  example->attrs = calloc(1, op->attrs_bytes + 1u);
  if (example->attrs == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for attributes of %s", op->name);
  if (op->attrs_bytes == 0) return GRAFT_OK;
  if (example->sample->attrs != NULL) {
    memcpy(example->attrs, example->sample->attrs, op->attrs_bytes);
  } else {
    graft_op_default_attrs(op, example->attrs);
  }
  return GRAFT_OK;
}

static graft_status fill_example(graft_testing_example *example, uint64_t seed, graft_error *error) {
  GRAFT_TRY(fill_attrs(example, error));
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    if (example->form.dtypes[i] == NULL) continue;
    example->present |= 1u << i;
    if (example->sample->inputs[i].is_constant) example->constants |= 1u << i;
    GRAFT_TRY(fill_input(example, i, seed, error));
  }
  const uint32_t *shared = example->form.shared;
  if (shared[0] != shared[1]) {
    memcpy(example->values[shared[1]], example->values[shared[0]],
           graft_tensor_desc_bytes(&example->inputs[shared[0]]));
    example->constants &= ~(1u << shared[0] | 1u << shared[1]);
  }
  return graft_testing_infer(example, example->inputs, error, example->outputs);
}

graft_status graft_testing_example_create(const graft_op_def *op, const graft_op_case *sample,
                                          const graft_testing_form *form, uint64_t seed, graft_error *error,
                                          graft_testing_example **out_example) {
  graft_testing_example *example = calloc(1, sizeof *example);
  if (example == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for an example of %s", op->name);
  example->op = op;
  example->sample = sample;
  example->form = *form;
  example->n_inputs = sample->n_inputs;
  example->is_exact = (sample->flags & GRAFT_CASE_EXACT) != 0;
  graft_status status = fill_example(example, seed, error);
  if (status != GRAFT_OK) {
    graft_testing_example_destroy(example);
    return status;
  }
  *out_example = example;
  return GRAFT_OK;
}

void graft_testing_example_destroy(graft_testing_example *example) {
  if (example == NULL) return;
  for (uint32_t i = 0; i < GRAFT_CASE_MAX_INPUTS; ++i) free(example->values[i]);
  for (uint32_t i = 0; i < GRAFT_MAX_OUTPUTS; ++i) free(example->wants[i]);
  free(example->attrs);
  free(example);
}

double graft_testing_example_cost(const graft_testing_example *example) {
  const graft_tensor_desc *pointers[GRAFT_CASE_MAX_INPUTS] = {NULL};
  double elements = 0;
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    if ((example->present >> i & 1u) == 0) continue;
    pointers[i] = &example->inputs[i];
    elements += (double)graft_tensor_desc_elements(pointers[i]);
  }
  for (uint32_t i = 0; i < example->op->n_outputs; ++i) {
    elements += (double)graft_tensor_desc_elements(&example->outputs[i]);
  }
  if (example->op->flops == NULL) return elements;
  return fmax(elements, example->op->flops(example->attrs, pointers, example->n_inputs, example->outputs) / 2);
}
