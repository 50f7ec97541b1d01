// acme.h — what the files of this plug-in share. In it are one of each thing that a plug-in can bring: an operator with
// a reference and a kernel, a kernel in place of a built-in one, a fusion rule, a dtype of blocks.
#ifndef ACME_H
#define ACME_H

#include <graft/graft.h>

// y = x · clamp(x + 3, 0, 6) / 6, any floating-point dtype. Failures stick to the graph.
graft_tensor *acme_hardswish(graft_graph *graph, graft_tensor *x);

// "acme.q8": 32 elements share one scale.
typedef struct acme_q8_block {
  float scale;
  int8_t values[32];
} acme_q8_block;
extern const graft_dtype_def acme_dtype_q8;

// Operators and the rule (hardswish.c), and what makes them fast on x86-64 (hardswish_avx2.c).
extern const graft_op_def acme_ops[];
extern const graft_fusion_def acme_fusions[];
extern const graft_kernel_def acme_kernels[];
enum { ACME_N_OPS = 2, ACME_N_FUSIONS = 1, ACME_N_KERNELS = 3 };

// All of it.
extern const graft_extension acme_extension;

#endif
