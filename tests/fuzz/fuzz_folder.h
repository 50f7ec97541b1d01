// fuzz_folder.h — files for code that reads files, made from fuzzed bytes.
#ifndef GRAFT_TESTS_FUZZ_FOLDER_H
#define GRAFT_TESTS_FUZZ_FOLDER_H

#include <stddef.h>

#include "temp_folder.h"

// A folder that all runs of the process share; it is removed when the process exits.
const temp_folder *fuzz_folder(void);

// Takes the next line off |text|: returns a copy without the line's end, which the caller frees, or NULL when none is
// left. NUL characters end a line early for whoever reads it as a string.
char *fuzz_take_line(const char **text, size_t *n_bytes);

#endif
