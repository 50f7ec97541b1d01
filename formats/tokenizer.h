// tokenizer.h — from text to the token ids of a Qwen2-style byte-level BPE tokenizer.
//
// Loaded from a folder as the model libraries write it: `tokenizer.json`, or else `vocab.json` and `merges.txt` with
// `added_tokens.json`; in both cases `tokenizer_config.json`, where present, adds the tokens of its
// `added_tokens_decoder`. Both forms of one tokenizer give the same ids.
// Steps: added tokens such as <|im_end|> are cut out (longest first, case matters, also when a user typed them; so it
// is in the reference), the rest is brought to Unicode form C, cut into words by the tokenizer's regular expression,
// and encoded word by word. No token is added at the beginning or the end, and nothing is truncated: padding and
// truncation that a tokenizer.json may state are the caller's business, as in the reference. Anything else that a
// tokenizer.json can ask for is refused with a sentence. Unicode tables are those of the installed pcre2 and utf8proc;
// characters assigned later may be cut differently than by a newer reference.
#ifndef GRAFT_FORMATS_TOKENIZER_H
#define GRAFT_FORMATS_TOKENIZER_H

#include "formats/token_ids.h"

enum { GRAFT_TOKENIZER_MAX_TEXT_BYTES = 1 << 20 };

typedef struct graft_tokenizer graft_tokenizer;

// Opens the tokenizer in |folder|. Close the result with graft_tokenizer_close.
// Errors: GRAFT_E_NOT_FOUND, GRAFT_E_IO, GRAFT_E_FORMAT, GRAFT_E_UNSUPPORTED, GRAFT_E_NO_MEMORY; all name the file.
GRAFT_NODISCARD graft_status graft_tokenizer_open(const char *folder, graft_error *error,
                                                  graft_tokenizer **out_tokenizer);
void graft_tokenizer_close(graft_tokenizer *tokenizer);

// Encodes |n_bytes| of |text|, which may hold NUL characters. The caller releases |out_ids|.
// Errors: GRAFT_E_INVALID (no UTF-8, longer than GRAFT_TOKENIZER_MAX_TEXT_BYTES), GRAFT_E_NO_MEMORY. Thread-safe.
GRAFT_NODISCARD graft_status graft_tokenizer_encode(const graft_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                                    graft_error *error, graft_token_ids *out_ids);

// The id of the added token |text|, for example "<|endoftext|>". Errors: GRAFT_E_NOT_FOUND. Thread-safe.
GRAFT_NODISCARD graft_status graft_tokenizer_find(const graft_tokenizer *tokenizer, const char *text,
                                                  graft_error *error, int32_t *out_id);

// All ids are below this number. Thread-safe.
int32_t graft_tokenizer_id_limit(const graft_tokenizer *tokenizer);

#endif
