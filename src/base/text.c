#include "src/base/text.h"

#include <stdio.h>
#include <string.h>

// Cuts |text| back to the start of an unfinished UTF-8 sequence.
static void trim_partial_character(char *text) {
  size_t n = strlen(text), i = n;
  while (i > 0 && ((unsigned char)text[i - 1] & 0xC0) == 0x80) --i;
  if (i == 0) return;
  unsigned char lead = (unsigned char)text[i - 1];
  size_t expected = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  if (n - (i - 1) < expected) text[i - 1] = '\0';
}

void graft_text_format(char *text, size_t bytes, const char *format, va_list arguments) {
  int n = vsnprintf(text, bytes, format, arguments);
  if (n < 0) text[0] = '\0';
  if (n >= 0 && (size_t)n >= bytes) trim_partial_character(text);
}
