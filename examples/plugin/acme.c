// The plug-in itself: a table of what it brings, and the function by which graft finds it.
#include "acme.h"
#if defined(ACME_WITH_CUDA)
#include "acme_cuda.h"
#endif

static const graft_dtype dtypes[] = {&acme_dtype_q8};

const graft_extension acme_extension = {
    .struct_size = sizeof acme_extension,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "acme.ops",
    .vendor = "acme",
    .ops = acme_ops,
    .n_ops = ACME_N_OPS,
    .fusions = acme_fusions,
    .n_fusions = ACME_N_FUSIONS,
    .dtypes = dtypes,
    .n_dtypes = 1,
#if defined(__x86_64__)
    .kernels = acme_kernels,
    .n_kernels = ACME_N_KERNELS,
#endif
};

GRAFT_PLUGIN_EXPORT const graft_plugin_def *graft_extension_main(void);
GRAFT_PLUGIN_EXPORT const graft_plugin_def *graft_extension_main(void) {
  static const graft_extension *const extensions[] = {
    &acme_extension,
#if defined(ACME_WITH_CUDA)
    &acme_cuda_extension,
    &acme_gram_extension
#endif
  };
  static const graft_plugin_def plugin = {.struct_size = sizeof plugin,
                                          .abi_version = GRAFT_ABI_VERSION,
                                          .name = "acme",
                                          .version = "1.0",
                                          .extensions = extensions,
                                          .n_extensions = sizeof extensions / sizeof extensions[0]};
  return &plugin;
}
