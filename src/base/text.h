// text.h — text in buffers of a fixed size.
#ifndef GRAFT_SRC_BASE_TEXT_H
#define GRAFT_SRC_BASE_TEXT_H

#include <stdarg.h>
#include <stdint.h>

#include "graft/base.h"

// As vsnprintf into |text| of |bytes| > 0, but a text that does not fit is cut between two UTF-8 characters.
void graft_text_format(char *text, size_t bytes, const char *format, va_list arguments) GRAFT_PRINTF(3, 0);

// The end of a noun behind the number |n|.
static inline const char *graft_text_s(uint64_t n) {
  return n == 1 ? "" : "s";
}

#endif
