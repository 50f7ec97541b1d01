#include "graft/kernel.h"

#include <stdarg.h>

#include "src/base/text.h"

bool graft_refuse(graft_reason *why, const char *format, ...) {
  if (why == NULL) return false;
  va_list arguments;
  va_start(arguments, format);
  graft_text_format(why->text, sizeof why->text, format, arguments);
  va_end(arguments);
  return false;
}
