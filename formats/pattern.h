// pattern.h — translating a tokenizer's regular expression from Oniguruma's syntax to PCRE2's.
#ifndef GRAFT_FORMATS_PATTERN_H
#define GRAFT_FORMATS_PATTERN_H

#include "graft/status.h"

enum { GRAFT_PATTERN_MAX_BYTES = 4096 };

// Translates |pattern| for PCRE2 with UTF and UCP; the caller frees |out_pattern|. Refuses what could mean something
// else there: GRAFT_E_UNSUPPORTED. GRAFT_E_FORMAT when it is too long or ends in the middle. |origin| names the file.
GRAFT_NODISCARD graft_status graft_pattern_translate(const char *pattern, const char *origin, graft_error *error,
                                                     char **out_pattern);

#endif
