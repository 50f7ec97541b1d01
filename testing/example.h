// example.h — one concrete use of an operator: a case of its table in a given form (dtypes, omitted inputs), with
// values in the inputs and the wanted outputs beside them.
#ifndef GRAFT_TESTING_EXAMPLE_H
#define GRAFT_TESTING_EXAMPLE_H

#include "graft/graft.h"

enum { GRAFT_TESTING_MAX_FORMS = 64 };

// A form of a case: the same shapes in other dtypes, without some optional inputs, with repeated values,
// or with one tensor in two places.
typedef struct graft_testing_form {
  char name[48];
  graft_dtype dtypes[GRAFT_CASE_MAX_INPUTS];  // NULL: the input is left out
  // Along this dimension all entries of the input are equal (so that it may be given with stride 0); -1: none.
  int32_t repeated[GRAFT_CASE_MAX_INPUTS];
  uint32_t shared[2];  // these two inputs, alike in every way, are one tensor; equal numbers: none
} graft_testing_form;

typedef struct graft_testing_example {
  const graft_op_def *op;
  const graft_op_case *sample;
  graft_testing_form form;
  void *attrs;
  uint32_t n_inputs;
  uint32_t present;                                 // bit i: input i is given
  uint32_t constants;                               // bit i: the case gives input i as a constant
  graft_tensor_desc inputs[GRAFT_CASE_MAX_INPUTS];  // contiguous
  void *values[GRAFT_CASE_MAX_INPUTS];
  graft_tensor_desc outputs[GRAFT_MAX_OUTPUTS];  // as inference describes them
  graft_tensor_desc want_descs[GRAFT_MAX_OUTPUTS];
  void *wants[GRAFT_MAX_OUTPUTS];  // NULL until solved
  bool is_exact;                   // outputs must have the wanted bytes
} graft_testing_example;

// Lists the forms of |sample|, the declared one first; whether the operator accepts a form shows when an example is
// made.
uint32_t graft_testing_forms(const graft_op_def *op, const graft_op_case *sample,
                             graft_testing_form out_forms[GRAFT_TESTING_MAX_FORMS]);

// Makes an example and fills its inputs from |seed| and the names of operator and case.
// Errors: GRAFT_E_SHAPE, GRAFT_E_INVALID (the operator's inference refuses the form), GRAFT_E_NO_MEMORY.
GRAFT_NODISCARD graft_status graft_testing_example_create(const graft_op_def *op, const graft_op_case *sample,
                                                          const graft_testing_form *form, uint64_t seed,
                                                          graft_error *error, graft_testing_example **out_example);
void graft_testing_example_destroy(graft_testing_example *example);

// Runs the operator's inference on |inputs| (n_inputs descriptions; only those of |example->present| are given).
GRAFT_NODISCARD graft_status graft_testing_infer(const graft_testing_example *example, const graft_tensor_desc *inputs,
                                                 graft_error *error, graft_tensor_desc *out_outputs);

// Rough cost of one evaluation: elements touched or multiply-adds, whichever is more.
double graft_testing_example_cost(const graft_testing_example *example);

#endif
