#include "ops/common/epilogue.h"

#include <string.h>

#include "ops/binary/binary.h"
#include "ops/common/infer.h"
#include "ops/common/reference.h"
#include "ops/copy/copy.h"
#include "ops/unary/unary.h"

graft_tensor *graft_epilogue_build(graft_graph *graph, graft_tensor *y, const graft_epilogue *epilogue) {
  switch (epilogue->activation) {
    case GRAFT_EPILOGUE_SILU: y = graft_silu(graph, y); break;
    case GRAFT_EPILOGUE_GELU: y = graft_gelu(graph, y, false); break;
    case GRAFT_EPILOGUE_GELU_TANH: y = graft_gelu(graph, y, true); break;
    default: break;
  }
  if (epilogue->gate != graft_graph_none()) y = graft_mul(graph, y, epilogue->gate);
  if (epilogue->residual != graft_graph_none()) y = graft_add(graph, y, epilogue->residual);
  return epilogue->dtype != NULL ? graft_cast(graph, y, epilogue->dtype) : y;
}

graft_status graft_epilogue_infer(graft_infer_args *args, uint32_t gate, graft_dtype dtype) {
  GRAFT_TRY(graft_infer_fits_output(args, gate, "the gate"));
  GRAFT_TRY(graft_infer_fits_output(args, gate + 1, "the residual"));
  return graft_infer_converted(args, dtype);
}

// The steps in reverse; each may be left out.
enum { CONVERSION, RESIDUAL, GATE, ACTIVATION, PRODUCT };

typedef struct search {
  const char *op;
  graft_epilogue epilogue;
  graft_fusion_node product;
  uint32_t n_steps;
} search;

static bool is_op(const graft_fusion_node *node, const char *name) {
  return strcmp(node->op->name, name) == 0;
}

static bool look(search *s, graft_tensor *tensor, int stage);

// Either operand may be what the product made, and the other one the gate or residual.
static bool look_at_operands(search *s, const graft_fusion_node *node, int stage, graft_tensor **out_other) {
  for (uint32_t i = 0; i < 2; ++i) {
    const search before = *s;
    *out_other = node->inputs[1 - i];
    if (look(s, node->inputs[i], stage + 1)) return true;
    *s = before;
  }
  return false;
}

static bool take_activation(search *s, const graft_fusion_node *node) {
  if (is_op(node, "graft.silu.v1")) {
    s->epilogue.activation = GRAFT_EPILOGUE_SILU;
  } else if (is_op(node, "graft.gelu.v1")) {
    const graft_gelu_attrs *attrs = node->attrs;
    s->epilogue.activation = attrs->tanh_approximation ? GRAFT_EPILOGUE_GELU_TANH : GRAFT_EPILOGUE_GELU;
  } else {
    return false;
  }
  return look(s, node->inputs[0], PRODUCT);
}

static bool look(search *s, graft_tensor *tensor, int stage) {
  graft_fusion_node node = {.struct_size = sizeof node};
  if (!graft_fusion_maker(tensor, &node)) return false;
  // Only the last value may be wanted by more than the next step.
  if (s->n_steps++ > 0 && node.n_readers != 1) return false;
  if (stage <= CONVERSION && (node.op->traits & GRAFT_OP_CAST) && is_op(&node, "graft.cast.v1")) {
    s->epilogue.dtype = ((const graft_cast_attrs *)node.attrs)->dtype;
    return look(s, node.inputs[0], RESIDUAL);
  }
  graft_tensor *other;
  if (stage <= RESIDUAL && is_op(&node, "graft.add.v1")) {
    if (!look_at_operands(s, &node, RESIDUAL, &other)) return false;
    s->epilogue.residual = other;
    return true;
  }
  if (stage <= GATE && is_op(&node, "graft.mul.v1")) {
    if (!look_at_operands(s, &node, GATE, &other)) return false;
    s->epilogue.gate = other;
    return true;
  }
  if (stage <= ACTIVATION && take_activation(s, &node)) return true;
  s->product = node;
  return s->n_steps > 1 && is_op(&node, s->op);
}

bool graft_epilogue_find(graft_tensor *result, const char *op, graft_epilogue *out_epilogue,
                         graft_fusion_node *out_node) {
  search s = {.op = op};
  if (!look(&s, result, CONVERSION)) return false;
  *out_epilogue = s.epilogue;
  *out_node = s.product;
  return true;
}
