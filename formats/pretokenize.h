// pretokenize.h — cutting text into words by a regular expression.
//
// tokenizer.json states the expression in Oniguruma's syntax. The part of that syntax that tokenizers use means the
// same in PCRE2, after `\s` is spelled out (the two disagree about U+180E); anything else is refused rather than
// guessed at.
#ifndef GRAFT_FORMATS_PRETOKENIZE_H
#define GRAFT_FORMATS_PRETOKENIZE_H

#include "graft/status.h"

// The expression of the Qwen2 family, used when a tokenizer consists of vocab.json and merges.txt only.
extern const char graft_pretokenize_qwen2_pattern[];

typedef struct graft_pretokenizer graft_pretokenizer;

// Compiles |pattern|. |origin| names the file in sentences. Errors: GRAFT_E_UNSUPPORTED (syntax outside of the common
// part), GRAFT_E_FORMAT (no regular expression, too long), GRAFT_E_NO_MEMORY.
GRAFT_NODISCARD graft_status graft_pretokenizer_create(const char *pattern, const char *origin, graft_error *error,
                                                       graft_pretokenizer **out_pretokenizer);
void graft_pretokenizer_destroy(graft_pretokenizer *pretokenizer);

// What to do with each word, in order of the text. Stops at the first failure, which becomes the result.
typedef struct graft_pretokenize_sink {
  graft_status (*on_word)(void *context, const char *word, size_t n_bytes, graft_error *error);
  void *context;
} graft_pretokenize_sink;

// Calls |sink| for every match in |text| (valid UTF-8) and for every stretch between matches, so that all of the text
// is delivered. The work is bounded by a multiple of |n_bytes|, whatever the expression; GRAFT_E_INVALID beyond.
// Thread-safe.
GRAFT_NODISCARD graft_status graft_pretokenize(const graft_pretokenizer *pretokenizer, const char *text, size_t n_bytes,
                                               graft_pretokenize_sink sink, graft_error *error);

#endif
