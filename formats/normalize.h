// normalize.h — Unicode normalisation form C in linear time.
#ifndef GRAFT_FORMATS_NORMALIZE_H
#define GRAFT_FORMATS_NORMALIZE_H

#include "graft/status.h"

// Plain ASCII needs no change: then |out_text| is NULL and the caller uses the
// original. Otherwise |out_text| is the text in form C, |out_bytes| long, and the caller frees it. |text| must be valid
// UTF-8. Unlike utf8proc's own mapping, long runs of combining marks do not cost quadratic time.
// Errors: GRAFT_E_NO_MEMORY. Thread-safe.
GRAFT_NODISCARD graft_status graft_normalize_nfc(const char *text, size_t n_bytes, graft_error *error, char **out_text,
                                                 size_t *out_bytes);

#endif
