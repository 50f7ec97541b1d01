#include "ops/binary/binary.h"

#include <stdlib.h>

#include "graft/extension.h"
#include "ops/binary/binary_cases.h"
#include "ops/common/reference.h"

static graft_status infer(graft_infer_args *args) {
  GRAFT_TRY(graft_infer_require_float(args, 0, "a", false));
  GRAFT_TRY(graft_infer_require_float(args, 1, "b", false));
  return graft_infer_elementwise(args);
}

static double sum(double a, double b) {
  return a + b;
}
static double difference(double a, double b) {
  return a - b;
}
static double product(double a, double b) {
  return a * b;
}
static double quotient(double a, double b) {
  return a / b;
}

typedef double (*function)(double a, double b);

// One row of each operand.
typedef struct rows {
  float *a, *b;
  double *y;
} rows;

static graft_status combine_rows(const graft_reference_args *args, function f, const rows *o) {
  const graft_view *y = &args->outputs[0];
  const graft_view a = graft_reference_broadcast(&args->inputs[0], y->desc.rank, y->desc.shape);
  const graft_view b = graft_reference_broadcast(&args->inputs[1], y->desc.rank, y->desc.shape);
  const int64_t n = graft_reference_row_length(&y->desc);
  const graft_tensor_desc walk = graft_reference_rows(&y->desc);
  int64_t index[GRAFT_MAX_RANK] = {0};
  do {
    GRAFT_TRY(graft_reference_check(args));
    graft_reference_load_row(&a, index, o->a);
    graft_reference_load_row(&b, index, o->b);
    for (int64_t i = 0; i < n; ++i) o->y[i] = f((double)o->a[i], (double)o->b[i]);
    graft_reference_store_row(y, index, o->y);
  } while (graft_index_next(&walk, index));
  return GRAFT_OK;
}

static graft_status combine(const graft_reference_args *args, function f) {
  const graft_tensor_desc *desc = &args->outputs[0].desc;
  if (graft_tensor_desc_elements(desc) == 0) return GRAFT_OK;
  const int64_t n = graft_reference_row_length(desc);
  graft_status status = GRAFT_E_NO_MEMORY;
  rows o = {0};
  o.a = graft_reference_allocate(n, sizeof *o.a, args->error);
  o.b = o.a ? graft_reference_allocate(n, sizeof *o.b, args->error) : NULL;
  o.y = o.b ? graft_reference_allocate(n, sizeof *o.y, args->error) : NULL;
  if (o.y) status = combine_rows(args, f, &o);
  free(o.y);
  free(o.b);
  free(o.a);
  return status;
}

static graft_status reference_add(const graft_reference_args *args) {
  return combine(args, sum);
}
static graft_status reference_sub(const graft_reference_args *args) {
  return combine(args, difference);
}
static graft_status reference_mul(const graft_reference_args *args) {
  return combine(args, product);
}
static graft_status reference_div(const graft_reference_args *args) {
  return combine(args, quotient);
}

static graft_tensor *apply(graft_graph *graph, const char *op, graft_tensor *a, graft_tensor *b) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, op, NULL, 0, (graft_tensor *[]){a, b}, 2, &y);
  return y;
}

graft_tensor *graft_add(graft_graph *graph, graft_tensor *a, graft_tensor *b) {
  return apply(graph, "graft.add.v1", a, b);
}

graft_tensor *graft_sub(graft_graph *graph, graft_tensor *a, graft_tensor *b) {
  return apply(graph, "graft.sub.v1", a, b);
}

graft_tensor *graft_mul(graft_graph *graph, graft_tensor *a, graft_tensor *b) {
  return apply(graph, "graft.mul.v1", a, b);
}

graft_tensor *graft_div(graft_graph *graph, graft_tensor *a, graft_tensor *b) {
  return apply(graph, "graft.div.v1", a, b);
}

#define BINARY_LIKE(verb)                                                                                              \
  .struct_size = sizeof(graft_op_def), .name = "graft." #verb ".v1", .min_inputs = 2, .max_inputs = 2, .n_outputs = 1, \
  .infer = infer, .reference = reference_##verb

#define CASES(table, n) .cases = (table), .n_cases = (n)

enum { TRAITS = GRAFT_OP_PURE | GRAFT_OP_ELEMENTWISE };

// The dtype of the result is that of |a|, so sums and products commute in value but not in type: passes that exchange
// inputs compare dtypes first.
static const graft_op_def ops[] = {
    {BINARY_LIKE(add), .traits = TRAITS | GRAFT_OP_COMMUTATIVE, CASES(graft_binary_cases, GRAFT_BINARY_N_CASES)},
    {BINARY_LIKE(sub), .traits = TRAITS, CASES(graft_binary_cases, GRAFT_BINARY_N_CASES)},
    {BINARY_LIKE(mul), .traits = TRAITS | GRAFT_OP_COMMUTATIVE, CASES(graft_binary_cases, GRAFT_BINARY_N_CASES)},
    {BINARY_LIKE(div), .traits = TRAITS, CASES(graft_div_cases, GRAFT_DIV_N_CASES)},
};

extern const graft_extension graft_extension_binary;
const graft_extension graft_extension_binary = {
    .struct_size = sizeof graft_extension_binary,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.binary",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
