#include "testing/op_checks.h"

#include <stdlib.h>
#include <string.h>

#include "testing/layout.h"
#include "testing/oracle.h"

// A view's storage, so that all can be freed together.
typedef struct strided {
  graft_view view;
  char *storage;
  size_t bytes;
} strided;

static bool lay_out(const graft_tensor_desc *desc, graft_testing_layout layout, strided *out_side) {
  graft_tensor_desc laid = *desc;
  size_t offset = 0;
  if (!graft_testing_layout_apply(layout, -1, desc, &laid, &offset)) {
    laid = *desc;
    offset = 0;
  }
  out_side->bytes = offset + graft_tensor_desc_bytes(&laid);
  out_side->storage = malloc(out_side->bytes + 1);
  if (out_side->storage == NULL) return false;
  memset(out_side->storage, 0xff, out_side->bytes);
  out_side->view = (graft_view){.desc = laid, .data = out_side->storage + offset};
  return true;
}

static bool lay_out_all(const graft_testing_example *example, graft_testing_layout layout, strided *inputs,
                        strided *outputs) {
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    if ((example->present >> i & 1u) == 0) continue;
    if (!lay_out(&example->inputs[i], layout, &inputs[i])) return false;
    graft_testing_scatter(&inputs[i].view.desc, example->values[i], inputs[i].view.data);
  }
  for (uint32_t i = 0; i < example->op->n_outputs; ++i) {
    if (!lay_out(&example->outputs[i], layout, &outputs[i])) return false;
  }
  return true;
}

static graft_status run_reference(const graft_testing_example *example, const strided *inputs, const strided *outputs,
                                  graft_error *error) {
  graft_view input_views[GRAFT_CASE_MAX_INPUTS] = {0}, output_views[GRAFT_MAX_OUTPUTS] = {0};
  for (uint32_t i = 0; i < example->n_inputs; ++i) input_views[i] = inputs[i].view;
  for (uint32_t i = 0; i < example->op->n_outputs; ++i) output_views[i] = outputs[i].view;
  graft_reference_args args = {.struct_size = sizeof args,
                               .attrs = example->attrs,
                               .n_inputs = example->n_inputs,
                               .n_outputs = example->op->n_outputs,
                               .inputs = input_views,
                               .outputs = output_views,
                               .error = error};
  return example->op->reference(&args);
}

static void judge_outputs(graft_testing_session *session, const strided *outputs) {
  const graft_testing_example *example = session->example;
  void *values[GRAFT_MAX_OUTPUTS] = {NULL};
  const void *got[GRAFT_MAX_OUTPUTS];
  bool has_memory = true;
  for (uint32_t i = 0; i < example->op->n_outputs; ++i) {
    values[i] = malloc(graft_tensor_desc_bytes(&example->outputs[i]) + 1);
    if (values[i] == NULL) {
      has_memory = false;
      continue;
    }
    graft_testing_gather(&outputs[i].view.desc, outputs[i].view.data, values[i]);
  }
  memcpy(got, values, sizeof got);
  if (has_memory) graft_testing_judge(session, got);
  for (uint32_t i = 0; i < GRAFT_MAX_OUTPUTS; ++i) free(values[i]);
}

// Where the operator says that output 0 holds inputs as they are, it does.
static void check_parts(graft_testing_session *session, const strided *inputs, const strided *outputs) {
  const graft_testing_example *example = session->example;
  const graft_view *whole = &outputs[0].view;
  const graft_tensor_desc *descs[GRAFT_CASE_MAX_INPUTS] = {NULL};
  const size_t room = graft_tensor_desc_bytes(&whole->desc);
  if (example->op->part == NULL || !graft_tensor_desc_is_contiguous(&whole->desc)) return;
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    if ((example->present >> i & 1u) != 0) descs[i] = &inputs[i].view.desc;
  }
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    int64_t offset = 0;
    if (descs[i] == NULL || !graft_tensor_desc_is_contiguous(descs[i]) ||
        !example->op->part(example->attrs, descs, example->n_inputs, &whole->desc, i, &offset))
      continue;
    const size_t bytes = graft_tensor_desc_bytes(descs[i]);
    if (offset < 0 || (size_t)offset > room || bytes > room - (size_t)offset) {
      graft_testing_fail(session, "input %u is said to be a part of output 0 that leaves it", i);
    } else if (memcmp((const char *)whole->data + offset, inputs[i].view.data, bytes) != 0) {
      graft_testing_fail(session, "input %u is not where output 0 is said to hold it", i);
    }
  }
}

// The reference in the example's own dtypes, with all inputs and outputs laid out as |layout|.
static void check_reference(graft_testing_session *session, graft_testing_layout layout) {
  const graft_testing_example *example = session->example;
  strided inputs[GRAFT_CASE_MAX_INPUTS] = {0}, outputs[GRAFT_MAX_OUTPUTS] = {0};
  graft_error error = {0};
  graft_testing_vary(session, "reference, all inputs and outputs %s", graft_testing_layout_name(layout));
  if (lay_out_all(example, layout, inputs, outputs)) {
    graft_status status = run_reference(example, inputs, outputs, &error);
    if (status == GRAFT_OK) {
      judge_outputs(session, outputs);
      check_parts(session, inputs, outputs);
    } else {
      graft_testing_fail(session, "%s: %s", graft_status_name(status), error.message);
    }
  }
  for (uint32_t i = 0; i < GRAFT_CASE_MAX_INPUTS; ++i) free(inputs[i].storage);
  for (uint32_t i = 0; i < GRAFT_MAX_OUTPUTS; ++i) free(outputs[i].storage);
}

// The decomposition is evaluated in f32, where the reference's oracle was too.
static void check_decomposition(graft_testing_session *session) {
  const graft_testing_example *example = session->example;
  void *values[GRAFT_MAX_OUTPUTS] = {NULL};
  graft_error error = {0};
  graft_testing_vary(session, "decomposition");
  graft_status status = graft_testing_decompose(example, session->oracle, session->contexts[0], &error, values);
  if (status != GRAFT_OK) graft_testing_fail(session, "%s: %s", graft_status_name(status), error.message);
  ++session->tally->n_runs;
  for (uint32_t i = 0; i < example->op->n_outputs && status == GRAFT_OK; ++i) {
    graft_testing_difference found = graft_testing_compare(example, i, example->want_descs[i].dtype, values[i]);
    if (!found.is_wrong) continue;
    char place[128];
    graft_testing_fail(session, "output %u %s: the decomposition gives %.9g, the reference %.9g", i,
                       graft_testing_coordinates(&example->want_descs[i], found.element, place, sizeof place),
                       found.got, found.want);
  }
  for (uint32_t i = 0; i < GRAFT_MAX_OUTPUTS; ++i) free(values[i]);
}

bool graft_testing_check_op(graft_testing_session *session, graft_testing_example *example, bool is_required) {
  graft_error error = {0};
  graft_status status = graft_testing_solve(example, session->oracle, session->contexts[0], &error);
  if (status != GRAFT_OK) {
    graft_testing_vary(session, "oracle");
    if (is_required) graft_testing_fail(session, "%s: %s", graft_status_name(status), error.message);
    return false;
  }
  const double most = 1e6;  // references are slow
  if (graft_testing_example_cost(example) > most) return true;
  if (example->op->reference != NULL) {
    check_reference(session, GRAFT_LAYOUT_CONTIGUOUS);
    check_reference(session, GRAFT_LAYOUT_TRANSPOSED);
    check_reference(session, GRAFT_LAYOUT_SECOND_ELEMENTS);
    check_reference(session, GRAFT_LAYOUT_ODD_ONES);
    if (example->op->decompose != NULL) check_decomposition(session);
  }
  return true;
}
