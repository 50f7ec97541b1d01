// fusion_mock.h — operators, kernels and rules for tests of fusion, which link no operator of the project. Tensors are
// f32 of one dimension; all values in the tests are small whole numbers, so that every result is exact.
#ifndef GRAFT_TESTS_FUSION_MOCK_H
#define GRAFT_TESTS_FUSION_MOCK_H

#include "graft/graft.h"

enum { FUSION_N = 64 };  // elements of a tensor

typedef struct fusion_attrs {
  double factor;
  int64_t first, n;  // of a slice
} fusion_attrs;

// Plain operators: fuse.scale.v1 (x), y = factor · x; fuse.add.v1 (a, b), commutative; fuse.sub.v1 (a, b);
// fuse.copy.v1 (x); fuse.slice.v1 (x), a view; fuse.split.v1 (x), two outputs x + 1 and x - 1; fuse.impure.v1 (x), not
// pure; fuse.opaque.v1 (x), with an effect.
//
// Rules, each with a fused operator of its name and a kernel:
//   scale_add     add(scale(a), b); the kernel refuses factor 13 and would rather not run factor 14
//   scale_sub     sub(scale(a), b)
//   scale_slice   scale(slice(scale(a)), factor 2)
//   twice         add(s, s) with s = scale(a)
//   split_first   copy(split(a)[0])
//   scale_copy    copy(scale(a))
//   scale_thrice  scale(scale(scale(a, factor), 3), 5)
//   scale_diff    sub(scale(s, 3), s) with s = scale(a)
//   liar          copy(sub(a, b)), whose capture claims sub(a, b) and a factor that is not there
//   sub_sub       sub(sub(a, b), c), found by `propose`
// The extension fusion_rival has the rule rival, sub(copy(scale(a)), b), of the vendor that brings the backend.
extern const graft_extension fusion_extension, fusion_rival;
extern const graft_extension graft_extension_cpu_backend, graft_extension_private_backend;

// Makes a context with |n_extensions| extensions, the CPU backend and the one with memory of its own. Fails the test
// when it cannot be made.
graft_context *fusion_context(const graft_extension *const *extensions, uint32_t n_extensions);
graft_device *fusion_device(graft_context *context);

graft_tensor *fusion_input(graft_graph *graph, const char *name);
graft_tensor *fusion_apply1(graft_graph *graph, const char *op, double factor, graft_tensor *a);
graft_tensor *fusion_apply2(graft_graph *graph, const char *op, graft_tensor *a, graft_tensor *b);
graft_tensor *fusion_scale(graft_graph *graph, double factor, graft_tensor *a);
graft_tensor *fusion_slice(graft_graph *graph, int64_t first, int64_t n, graft_tensor *a);
// The same written over |into|.
graft_tensor *fusion_scale_into(graft_graph *graph, double factor, graft_tensor *a, graft_tensor *into);
graft_tensor *fusion_copy_into(graft_graph *graph, graft_tensor *a, graft_tensor *into);
graft_tensor *fusion_add_into(graft_graph *graph, graft_tensor *a, graft_tensor *b, graft_tensor *into);

// Plans |graph| with fusion as |fusion| says; fails the test when it cannot be made.
graft_plan *fusion_plan(const graft_graph *graph, graft_device *device, uint32_t flags, const char *fusion);

// How often |rule| replaced a group, and the obstacle of its last near miss ("" without one).
uint32_t fusion_n_groups(const graft_plan *plan, const char *rule);
const char *fusion_obstacle(const graft_plan *plan, const char *rule);

// Runs |graph| with fusion (|flags|) and without, with inputs that count up from different numbers, several times, and
// compares all outputs. Returns the plan with fusion, which the caller destroys, or NULL where they differ.
graft_plan *fusion_try(const graft_graph *graph, graft_device *device, uint32_t flags);
// The same, but fails the test where they differ.
graft_plan *fusion_compare(const graft_graph *graph, graft_device *device, uint32_t flags);

#endif
