#include "graft/extension.h"
#include "ops/common/cpu/simd.h"
#include "ops/common/cpu/target.h"

enum { IDS, TABLE, ITEM_BYTES = 32768 };

typedef struct arguments {
  const char *ids, *table;
  char *y;
  graft_dtype_code id_type, from, to;
  int64_t n_ids, n_rows, width, row_stride;  // of the table; the stride in bytes
  int64_t ids_per_item;
} arguments;

static int64_t size_of(graft_dtype_code type) {
  return type == GRAFT_DTYPE_F32 ? 4 : 2;
}

static int64_t id_at(const arguments *a, int64_t i) {
  int32_t small;
  int64_t wide;
  if (a->id_type == GRAFT_DTYPE_I64) {
    memcpy(&wide, a->ids + i * 8, sizeof wide);
    return wide;
  }
  memcpy(&small, a->ids + i * 4, sizeof small);
  return small;
}

static void convert_row(const arguments *a, const char *row, char *y) {
  const int64_t from_size = size_of(a->from), to_size = size_of(a->to), n = a->width;
  if (a->from == a->to) {
    memcpy(y, row, (size_t)(n * to_size));
    return;
  }
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    vec_store_typed(y + i * to_size, a->to, vec_load_typed(row + i * from_size, a->from));
  }
  if (i < n) vec_store_typed_n(y + i * to_size, a->to, vec_load_typed_n(row + i * from_size, a->from, n - i), n - i);
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  int64_t end = (item + 1) * a->ids_per_item;
  if (end > a->n_ids) end = a->n_ids;
  for (int64_t i = item * a->ids_per_item; i < end; ++i) {
    const int64_t id = id_at(a, i);
    if (id < 0 || id >= a->n_rows) {
      graft_cpu_fail(worker, GRAFT_E_INVALID, "index %lld is outside the table of %lld rows", (long long)id,
                     (long long)a->n_rows);
      return;
    }
    convert_row(a, a->table + id * a->row_stride, a->y + i * a->width * size_of(a->to));
  }
}

static bool is_handled(graft_dtype dtype) {
  return dtype == GRAFT_F32 || dtype == GRAFT_F16 || dtype == GRAFT_BF16;
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *table = node->inputs[TABLE];
  if (!is_handled(table->dtype) || !is_handled(node->outputs[0]->dtype)) {
    return graft_refuse(why, "%s to %s is not between f32, f16 and bf16", table->dtype->name,
                        node->outputs[0]->dtype->name);
  }
  if (!graft_tensor_desc_is_contiguous(node->inputs[IDS])) return graft_refuse(why, "indices are not contiguous");
  if (!graft_tensor_desc_is_dense_from(table, 1)) return graft_refuse(why, "rows of the table are not contiguous");
  return true;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_tensor_desc *ids = args->node->inputs[IDS], *table = args->node->inputs[TABLE];
  arguments a = {.ids = args->inputs[IDS],
                 .table = args->inputs[TABLE],
                 .y = args->outputs[0],
                 .id_type = ids->dtype->code,
                 .from = table->dtype->code,
                 .to = args->node->outputs[0]->dtype->code,
                 .n_ids = graft_tensor_desc_elements(ids),
                 .n_rows = table->shape[0],
                 .width = table->shape[1],
                 .row_stride = table->strides[0]};
  const int64_t row_bytes = a.width * size_of(a.to);
  a.ids_per_item = row_bytes < ITEM_BYTES ? ITEM_BYTES / (row_bytes > 0 ? row_bytes : 1) : 1;
  const graft_cpu_task task = {
      .run = run, .args = &a, .args_bytes = sizeof a, .n_items = (a.n_ids + a.ids_per_item - 1) / a.ids_per_item};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof(graft_kernel_def),
                                            .priority = GRAFT_TARGET_PRIORITY,
                                            .name = GRAFT_TARGETED_NAME(embedding_float_rows),
                                            .op = "graft.embedding.v1",
                                            .backend = "cpu",
                                            .required_features = GRAFT_TARGET_REQUIRES,
                                            .supports = supports,
                                            .encode = encode}};

extern const graft_extension GRAFT_TARGETED(graft_extension_embedding);
const graft_extension GRAFT_TARGETED(graft_extension_embedding) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(embedding),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
