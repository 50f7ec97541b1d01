#include "ops/embedding/embedding.h"

#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/reference.h"
#include "ops/embedding/embedding_cases.h"

enum { IDS, TABLE };

static graft_status infer(graft_infer_args *args) {
  const graft_embedding_attrs *attrs = args->attrs;
  const graft_tensor_desc *ids = args->inputs[IDS], *table = args->inputs[TABLE];
  if (ids->dtype != GRAFT_I32 && ids->dtype != GRAFT_I64) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "indices must be i32 or i64, not %s", ids->dtype->name);
  }
  GRAFT_TRY(graft_infer_require_float(args, TABLE, "the table", true));
  if (table->rank != 2 || ids->rank >= GRAFT_MAX_RANK) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE,
                      "the table must have 2 dimensions and the indices fewer than %d, not %d and %d", GRAFT_MAX_RANK,
                      table->rank, ids->rank);
  }
  if (attrs->dtype == NULL || !attrs->dtype->is_float || attrs->dtype->block_elements > 1) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID,
                      "the result's dtype must be a float type of single elements, not %s",
                      attrs->dtype ? attrs->dtype->name : "missing");
  }
  int64_t shape[GRAFT_MAX_RANK];
  for (int32_t d = 0; d < ids->rank; ++d) shape[d] = ids->shape[d];
  shape[ids->rank] = table->shape[1];
  return graft_tensor_desc_init(attrs->dtype, ids->rank + 1, shape, args->error, &args->outputs[0]);
}

static int64_t id_at(const graft_view *ids, const int64_t *index) {
  const void *element = graft_view_at(ids, index);
  return ids->desc.dtype == GRAFT_I32 ? *(const int32_t *)element : *(const int64_t *)element;
}

typedef struct buffers {
  float *row;
  double *wide;
} buffers;

static graft_status look_up(const graft_reference_args *args, const buffers *b) {
  const graft_view *ids = &args->inputs[IDS], *table = &args->inputs[TABLE];
  const int64_t width = table->desc.shape[1];
  int64_t index[GRAFT_MAX_RANK] = {0};
  do {
    const int64_t from[2] = {id_at(ids, index), 0};
    if (from[0] < 0 || from[0] >= table->desc.shape[0]) {
      return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "index %lld is outside the table of %lld rows",
                        (long long)from[0], (long long)table->desc.shape[0]);
    }
    graft_reference_load_row(table, from, b->row);
    for (int64_t i = 0; i < width; ++i) b->wide[i] = (double)b->row[i];
    graft_reference_store_row(&args->outputs[0], index, b->wide);
    GRAFT_TRY(graft_reference_check(args));
  } while (graft_index_next(&ids->desc, index));
  return GRAFT_OK;
}

static graft_status reference(const graft_reference_args *args) {
  const int64_t width = args->inputs[TABLE].desc.shape[1];
  if (graft_tensor_desc_elements(&args->inputs[IDS].desc) == 0) return GRAFT_OK;
  buffers b = {.row = graft_reference_allocate(width, sizeof *b.row, args->error)};
  if (b.row) b.wide = graft_reference_allocate(width, sizeof *b.wide, args->error);
  const graft_status status = b.wide ? look_up(args, &b) : GRAFT_E_NO_MEMORY;
  free(b.wide);
  free(b.row);
  return status;
}

graft_tensor *graft_embedding(graft_graph *graph, graft_tensor *ids, graft_tensor *table, graft_dtype dtype) {
  const graft_embedding_attrs attrs = {dtype};
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.embedding.v1", &attrs, sizeof attrs, (graft_tensor *[]){ids, table}, 2, &y);
  return y;
}

static const graft_attr_def attr_defs[] = {{.name = "dtype",
                                            .type = GRAFT_ATTR_DTYPE,
                                            .offset = offsetof(graft_embedding_attrs, dtype),
                                            .default_i64 = GRAFT_DTYPE_F32}};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.embedding.v1",
    .min_inputs = 2,
    .max_inputs = 2,
    .n_outputs = 1,
    .attrs = attr_defs,
    .n_attrs = 1,
    .attrs_bytes = sizeof(graft_embedding_attrs),
    .infer = infer,
    .reference = reference,
    .cases = graft_embedding_cases,
    .n_cases = GRAFT_EMBEDDING_N_CASES,
}};

extern const graft_extension graft_extension_embedding;
const graft_extension graft_extension_embedding = {
    .struct_size = sizeof graft_extension_embedding,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.embedding",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
