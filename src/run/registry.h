// registry.h — what is registered in a context, indexed for passes. Not installed.
#ifndef GRAFT_SRC_RUN_REGISTRY_H
#define GRAFT_SRC_RUN_REGISTRY_H

#include "graft/context.h"

// The kernels of |backend| that may be asked to run operator |op|, in order of choice: the operator's own by priority,
// then application before native, then registration; after them the backend's catch-alls in the same order. Returns
// their number and a borrowed array that is valid until something is registered or unregistered.
uint32_t graft_registry_find_kernels(const graft_context *context, const char *op, const char *backend,
                                     const graft_kernel_def *const **out_kernels);

// Whether |kernel| was registered by the vendor that provides its backend (KS1: native).
bool graft_registry_is_native(const graft_context *context, const graft_kernel_def *kernel);

// The same for a fusion rule and the backend called |backend|.
bool graft_registry_is_native_fusion(const graft_context *context, const graft_fusion_def *fusion, const char *backend);

// The backend named |name|, or NULL.
const graft_backend_def *graft_registry_find_backend(const graft_context *context, const char *name);

#endif
