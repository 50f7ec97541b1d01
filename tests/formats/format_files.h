// format_files.h — builds the files that the tests read, and checks what refusing them says.
#ifndef GRAFT_TESTS_FORMAT_FILES_H
#define GRAFT_TESTS_FORMAT_FILES_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "graft/status.h"
#include "temp_folder.h"

// Writes a safetensors file: the length of |header|, |header|, |n_data| bytes of |data| (NULL: zeros).
temp_path write_safetensors(const temp_folder *folder, const char *name, const char *header, const void *data,
                            size_t n_data);

// The same with a length prefix that need not be right.
temp_path write_safetensors_raw(const temp_folder *folder, const char *name, uint64_t length, const char *header,
                                size_t n_data);

// Asserts that a call failed with |status| and a sentence that contains |first| and |second|, one of them the file's
// name.
void assert_refused(graft_status actual, const graft_error *error, graft_status status, const char *first,
                    const char *second);

// Prints the sentence when a call that must succeed did not.
void assert_ok(graft_status actual, const graft_error *error);

// A vocabulary of the 256 byte tokens with ids 0 … 255 as members of a JSON object, without the braces:
//   "!":33,"\"":34,…   Some tokens of more bytes ("he", "ll", "hell", "Ġa") follow with ids from 256 on.
// The caller frees it.
char *make_vocabulary(void);

// A whole tokenizer.json around make_vocabulary, with printf-like |format| pieces for what tests vary:
typedef struct tokenizer_parts {
  const char *extra_vocabulary;  // more members, each with a leading comma
  const char *merges;            // inside of the list
  const char *added_tokens;      // inside of the list
  const char *normalizer;        // whole values from here on
  const char *pre_tokenizer;
  const char *post_processor;
  const char *extra_model;  // more members of `model`, each with a leading comma
} tokenizer_parts;

// Members left NULL take a working default. The caller frees it.
char *make_tokenizer_json(tokenizer_parts parts);

#endif
