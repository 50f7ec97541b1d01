// added_tokens.h — tokens such as <|im_end|> that are cut out of a text before anything else happens to it.
#ifndef GRAFT_FORMATS_ADDED_TOKENS_H
#define GRAFT_FORMATS_ADDED_TOKENS_H

#include "formats/bpe.h"

typedef struct graft_added_token {
  char *text;
  size_t n_bytes;
  int32_t id;
} graft_added_token;

// Zero-initialise. Add all tokens, finish once, then search; searching is thread-safe.
typedef struct graft_added_tokens {
  graft_added_token *tokens;  // sorted by text, once finished
  size_t n_tokens;
  size_t capacity;
  bool begins[256];  // whether a token begins with this byte
} graft_added_tokens;

void graft_added_tokens_release(graft_added_tokens *tokens);

// Adds a token as JSON describes it in tokenizer.json and tokenizer_config.json: an object with `content` and flags.
// Errors: GRAFT_E_FORMAT, GRAFT_E_UNSUPPORTED (flags that graft does not follow), GRAFT_E_NO_MEMORY; naming |origin|.
GRAFT_NODISCARD graft_status graft_added_tokens_add_entry(graft_added_tokens *tokens, struct json_t *entry, int64_t id,
                                                          const char *origin, graft_error *error);

// Adds a token by its text.
GRAFT_NODISCARD graft_status graft_added_tokens_add(graft_added_tokens *tokens, const char *text, int64_t id,
                                                    const char *origin, graft_error *error);

// Sorts the tokens and reconciles them with |bpe|: one that is in the vocabulary has the same id there, all others have
// ids of their own. A token may be added several times with the same id. Errors: GRAFT_E_FORMAT.
GRAFT_NODISCARD graft_status graft_added_tokens_finish(graft_added_tokens *tokens, graft_bpe *bpe, const char *origin,
                                                       graft_error *error);

// The longest token that |text| begins with, or NULL.
const graft_added_token *graft_added_tokens_match(const graft_added_tokens *tokens, graft_bpe_text text);

// The token spelled |text|, or NULL.
const graft_added_token *graft_added_tokens_find(const graft_added_tokens *tokens, const char *text);

#endif
