// features.h — what the processor can do.
#ifndef GRAFT_BACKENDS_CPU_FEATURES_H
#define GRAFT_BACKENDS_CPU_FEATURES_H

#include "graft/cpu.h"

// Bits of graft_cpu_feature that both the processor and the operating system support.
uint64_t graft_cpu_detect_features(void);

// The bits of |available| that a build for |target| ("baseline", "avx2", "avx512"; NULL: no limit) may use.
// Errors: GRAFT_E_INVALID (no such target), GRAFT_E_UNSUPPORTED (this processor lacks it).
GRAFT_NODISCARD graft_status graft_cpu_limit_features(uint64_t available, const char *target, graft_error *error,
                                                      uint64_t *out_features);

// What a person calls the widest of |features|: "AVX-512".
const char *graft_cpu_target_label(uint64_t features);

// The processor's own name; |name| has 64 bytes.
void graft_cpu_brand(char *name);

#endif
