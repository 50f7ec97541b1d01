// extension.h — the one door through which operators, kernels, fusion rules, dtypes and backends enter. Built-ins are
// an array of the same thing; a plug-in exports one.
//
//   const graft_extension acme = {.struct_size = sizeof acme, .abi_version = GRAFT_ABI_VERSION, .name = "acme.ops",
//                                 .vendor = "acme", .ops = ops, .n_ops = 2, .kernels = kernels, .n_kernels = 3};
#ifndef GRAFT_EXTENSION_H
#define GRAFT_EXTENSION_H

#include "graft/device.h"
#include "graft/fusion.h"

#ifdef __cplusplus
extern "C" {
#endif

// A set of definitions. Constant, with static storage; must outlive the context it is registered in. The elements of
// ops, kernels, fusions and backends lie struct_size bytes apart, so tables of another age are read correctly. Kernels
// and fusion rules may name operators and backends that are not registered, or not yet: until they are, they never run.
typedef struct graft_extension {
  uint32_t struct_size;
  uint32_t abi_version;  // GRAFT_ABI_VERSION
  const char *name;      // unique: "graft.rms_norm"
  const char *vendor;    // kernels of the vendor that provides a backend are that backend's native ones
  const graft_op_def *ops;
  uint32_t n_ops;
  const graft_kernel_def *kernels;
  uint32_t n_kernels;
  const graft_fusion_def *fusions;
  uint32_t n_fusions;
  const graft_dtype *dtypes;
  uint32_t n_dtypes;
  const graft_backend_def *backends;
  uint32_t n_backends;
} graft_extension;

// What comes with graft: |*out_count| extensions. Static storage. Thread-safe.
GRAFT_API const graft_extension *const *graft_builtin_extensions(uint32_t *out_count);

#ifdef __cplusplus
}
#endif

#endif
