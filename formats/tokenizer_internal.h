// tokenizer_internal.h — what the files of the tokenizer share.
#ifndef GRAFT_FORMATS_TOKENIZER_INTERNAL_H
#define GRAFT_FORMATS_TOKENIZER_INTERNAL_H

#include "formats/added_tokens.h"
#include "formats/bpe.h"
#include "formats/pretokenize.h"
#include "formats/tokenizer.h"

struct graft_tokenizer {
  graft_bpe bpe;
  graft_added_tokens added;
  graft_pretokenizer *pretokenizer;
  bool normalize;
};

enum { GRAFT_TOKENIZER_MAX_FILE_BYTES = 64 << 20 };

// Fills |tokenizer| from the file |path|, a tokenizer.json.
GRAFT_NODISCARD graft_status graft_tokenizer_load_json(graft_tokenizer *tokenizer, const char *path,
                                                       graft_error *error);

// Fills |tokenizer| from vocab.json, merges.txt and added_tokens.json of |folder|.
GRAFT_NODISCARD graft_status graft_tokenizer_load_vocabulary(graft_tokenizer *tokenizer, const char *folder,
                                                             graft_error *error);

// Adds the tokens of the `added_tokens_decoder` of |folder|'s tokenizer_config.json, where there is one.
GRAFT_NODISCARD graft_status graft_tokenizer_load_config(graft_tokenizer *tokenizer, const char *folder,
                                                         graft_error *error);

#endif
