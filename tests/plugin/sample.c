// A plug-in, and the ways in which one can be wrong: compiled once for each value of SAMPLE.
#include <stddef.h>

#include "graft/cpu.h"
#include "graft/plugin.h"

enum {
  GOOD,
  SYMBOL_MISSING,
  NEWER,
  NOTHING,
  EMPTY,
  NULL_EXTENSION,
  TWIN,
  UNRESOLVED,
  UNSIZED,
  OLDER,
  NAMELESS,
  WRONG,
  ORPHAN
};

static graft_status infer(graft_infer_args *args) {
  return graft_infer_elementwise(args);
}

static graft_status reference(const graft_reference_args *args) {
  const graft_view *x = &args->inputs[0], *y = &args->outputs[0];
  int64_t index[GRAFT_MAX_RANK] = {0};
  if (graft_tensor_desc_elements(&x->desc) == 0) return GRAFT_OK;
  do {
    double value = graft_dtype_load(x->desc.dtype, graft_view_at(x, index));
    graft_dtype_store(y->desc.dtype, graft_view_at(y, index), 2 * value);
  } while (graft_index_next(&x->desc, index));
  return GRAFT_OK;
}

typedef struct double_args {
  const float *x;
  float *y;
  int64_t n;
} double_args;

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const double_args *a = args;
  (void)item;
  (void)worker;
  for (int64_t i = 0; i < a->n; ++i) a->y[i] = (SAMPLE == WRONG ? 3 : 2) * a->x[i];
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  if (node->inputs[0]->dtype != GRAFT_F32) return graft_refuse(why, "only f32");
  return graft_tensor_desc_is_contiguous(node->inputs[0]) || graft_refuse(why, "only contiguous inputs");
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const double_args a = {args->inputs[0], args->outputs[0], graft_tensor_desc_elements(args->node->inputs[0])};
  return graft_cpu_encode(encoder, &(graft_cpu_task){.run = run, .args = &a, .args_bytes = sizeof a, .n_items = 1},
                          args->error);
}

static const graft_op_case cases[] = {
    {.name = "small", .n_inputs = 1, .inputs = {{.dtype = GRAFT_F32, .rank = 2, .shape = {3, 5}}}},
    {.name = "large",
     .n_inputs = 1,
     .inputs = {{.dtype = GRAFT_F32, .rank = 1, .shape = {4096}}},
     .flags = GRAFT_CASE_BENCH}};

static const graft_op_def ops[] = {{.struct_size = sizeof ops[0],
                                    .traits = GRAFT_OP_PURE | GRAFT_OP_ELEMENTWISE,
                                    .name = "sample.double.v1",
                                    .min_inputs = 1,
                                    .max_inputs = 1,
                                    .n_outputs = 1,
                                    .infer = infer,
                                    .reference = reference,
                                    .cases = cases,
                                    .n_cases = 2}};

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 1,
                                            .name = "double_f32__portable",
                                            .op = SAMPLE == ORPHAN ? "sample.duoble.v1" : "sample.double.v1",
                                            .backend = "cpu",
                                            .supports = supports,
                                            .in_place_inputs = 1,
                                            .encode = encode}};

static bool propose(graft_tensor *result, graft_fusion_proposal *proposal, graft_reason *why) {
  (void)result, (void)proposal;
  return graft_refuse(why, "never");
}

static const graft_fusion_def fusions[] = {
    {.struct_size = sizeof fusions[0], .name = "sample_halve", .op = "sample.halve.v1", .propose = propose}};

static const graft_extension extension = {.struct_size = sizeof extension,
                                          .abi_version = GRAFT_ABI_VERSION,
                                          .name = "sample.ops",
                                          .vendor = "sample",
                                          .ops = ops,
                                          .n_ops = 1,
                                          .kernels = kernels,
                                          .n_kernels = 1,
                                          .fusions = fusions,
                                          .n_fusions = SAMPLE == ORPHAN};

#if SAMPLE == 6  // TWIN: its second extension takes a name of the first
static const graft_extension twin = {.struct_size = sizeof twin,
                                     .abi_version = GRAFT_ABI_VERSION,
                                     .name = "sample.twin",
                                     .vendor = "sample",
                                     .ops = ops,
                                     .n_ops = 1};
static const graft_extension *const extensions[] = {&extension, &twin};
#elif SAMPLE == 5  // NULL_EXTENSION
static const graft_extension *const extensions[] = {&extension, NULL};
#else
static const graft_extension *const extensions[] = {&extension};
#endif

#if SAMPLE == 7  // UNRESOLVED: needs what no program has
int sample_from_nowhere(void);
#endif

// What a later version of the interface might append.
typedef struct newer_def {
  graft_plugin_def def;
  uint64_t unknown;
} newer_def;

static const newer_def plugin = {
    .def = {.struct_size = SAMPLE == UNSIZED ? 0
                           : SAMPLE == OLDER ? sizeof(newer_def)
                                             : sizeof(graft_plugin_def),
            .abi_version = SAMPLE == NEWER ? GRAFT_ABI_VERSION + 1 : GRAFT_ABI_VERSION,
            .name = SAMPLE == NAMELESS ? "" : "sample",
            .version = "1.2",
            .extensions = extensions,
            .n_extensions = SAMPLE == EMPTY ? 0 : sizeof extensions / sizeof extensions[0]},
    .unknown = SAMPLE == OLDER};

#if SAMPLE == 1  // SYMBOL_MISSING
GRAFT_PLUGIN_EXPORT const graft_plugin_def *sample_main(void);
GRAFT_PLUGIN_EXPORT const graft_plugin_def *sample_main(void) {
#else
GRAFT_PLUGIN_EXPORT const graft_plugin_def *graft_extension_main(void);
GRAFT_PLUGIN_EXPORT const graft_plugin_def *graft_extension_main(void) {
#endif
#if SAMPLE == 7
  if (sample_from_nowhere() != 0) return NULL;
#endif
  return SAMPLE == NOTHING ? NULL : &plugin.def;
}
