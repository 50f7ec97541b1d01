// guarded_cpu.h — the built-in "cpu" backend with poisoned memory and margins around every allocation, to be registered
// in place of the original: kernels for "cpu" then run unchanged, and what they write outside an arena fails the run.
#ifndef GRAFT_TESTING_GUARDED_CPU_H
#define GRAFT_TESTING_GUARDED_CPU_H

#include "graft/graft.h"

// Whether |extension| is the one that brings the built-in "cpu" backend.
bool graft_testing_brings_cpu(const graft_extension *extension);

// The built-in backend with guarded allocations; its `run` fails with GRAFT_E_DEVICE after memory beside an allocation
// was written. The table must outlive the context it is registered in. Several devices may be open, on one thread at a
// time. Only where an extension brings the original.
graft_backend_def graft_testing_guarded_cpu(void);

#endif
