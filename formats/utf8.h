// utf8.h — checks that text is UTF-8 before anything else looks at it.
#ifndef GRAFT_FORMATS_UTF8_H
#define GRAFT_FORMATS_UTF8_H

#include "graft/base.h"

// Whether the |n_bytes| at |text| are well-formed UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF).
// When they are not, |out_offset| (may be NULL) receives the offset of the first bad byte. Thread-safe.
bool graft_utf8_is_valid(const char *text, size_t n_bytes, size_t *out_offset);

#endif
