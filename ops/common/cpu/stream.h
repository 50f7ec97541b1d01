// stream.h — whether a kernel should write its result past the caches (vec_stream in simd.h).
#ifndef GRAFT_OPS_COMMON_CPU_STREAM_H
#define GRAFT_OPS_COMMON_CPU_STREAM_H

#include "graft/kernel.h"

// Whether output 0, in rows |row_bytes| apart, is so large that it would only push out of the caches what is still
// needed. Rows must begin on cache lines, and no input's storage may be written over. Results are the same bytes
// either way. Thread-safe.
bool graft_stream_pays(const graft_encode_args *args, int64_t row_bytes);

#endif
