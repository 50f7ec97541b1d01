// words.h — what graft_backend_config.devices says about one device.
#ifndef GRAFT_BACKENDS_WORDS_H
#define GRAFT_BACKENDS_WORDS_H

#include "graft/device.h"

// Takes one word, which is not terminated.
typedef graft_status (*graft_word_fn)(void *user, const char *word, size_t length, graft_error *error);

// Gives |read| every word of |devices| (NULL: none) that stands behind the name of |device|, as "private:0", or behind
// that of its backend alone, in their order. Ends with the first failure.
GRAFT_NODISCARD graft_status graft_words_read(const char *devices, const char *device, graft_word_fn read, void *user,
                                              graft_error *error);

#endif
