#include "formats/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "formats/excerpt.h"
#include "formats/file.h"
#include "formats/normalize.h"
#include "formats/tokenizer_internal.h"
#include "formats/utf8.h"

static graft_status load(graft_tokenizer *tokenizer, const char *folder, graft_error *error) {
  char *path = NULL;
  GRAFT_TRY(graft_file_join(folder, "tokenizer.json", error, &path));
  graft_status status = graft_file_exists(path) ? graft_tokenizer_load_json(tokenizer, path, error)
                                                : graft_tokenizer_load_vocabulary(tokenizer, folder, error);
  free(path);
  GRAFT_TRY(status);
  GRAFT_TRY(graft_tokenizer_load_config(tokenizer, folder, error));
  return graft_added_tokens_finish(&tokenizer->added, &tokenizer->bpe, folder, error);
}

graft_status graft_tokenizer_open(const char *folder, graft_error *error, graft_tokenizer **out_tokenizer) {
  if (folder == NULL || !graft_file_is_folder(folder))
    return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "%s: no such tokenizer folder", graft_excerpt_path(folder).text);
  graft_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
  if (tokenizer == NULL)
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory", graft_excerpt_path(folder).text);
  graft_status status = load(tokenizer, folder, error);
  if (status != GRAFT_OK) {
    graft_tokenizer_close(tokenizer);
    return status;
  }
  *out_tokenizer = tokenizer;
  return GRAFT_OK;
}

void graft_tokenizer_close(graft_tokenizer *tokenizer) {
  if (tokenizer == NULL) return;
  graft_pretokenizer_destroy(tokenizer->pretokenizer);
  graft_added_tokens_release(&tokenizer->added);
  graft_bpe_release(&tokenizer->bpe);
  free(tokenizer);
}

typedef struct encoder {
  const graft_tokenizer *tokenizer;
  graft_bpe_scratch scratch;
  graft_token_ids ids;
} encoder;

static graft_status encode_word(void *context, const char *word, size_t n_bytes, graft_error *error) {
  encoder *e = context;
  return graft_bpe_encode(&e->tokenizer->bpe, (graft_bpe_text){word, n_bytes}, &e->scratch, &e->ids, error);
}

// Encodes a stretch without added tokens.
static graft_status encode_plain(encoder *e, const char *text, size_t n_bytes, graft_error *error) {
  if (n_bytes == 0) return GRAFT_OK;
  char *normalized = NULL;
  if (e->tokenizer->normalize) GRAFT_TRY(graft_normalize_nfc(text, n_bytes, error, &normalized, &n_bytes));
  graft_pretokenize_sink sink = {encode_word, e};
  graft_status status =
      graft_pretokenize(e->tokenizer->pretokenizer, normalized != NULL ? normalized : text, n_bytes, sink, error);
  free(normalized);
  return status;
}

static graft_status encode_all(encoder *e, const char *text, size_t n_bytes, graft_error *error) {
  size_t plain = 0;
  for (size_t at = 0; at < n_bytes;) {
    const graft_added_token *token =
        graft_added_tokens_match(&e->tokenizer->added, (graft_bpe_text){text + at, n_bytes - at});
    if (token == NULL) {
      ++at;
      continue;
    }
    GRAFT_TRY(encode_plain(e, text + plain, at - plain, error));
    GRAFT_TRY(graft_token_ids_append(&e->ids, token->id, error));
    at += token->n_bytes;
    plain = at;
  }
  return encode_plain(e, text + plain, n_bytes - plain, error);
}

graft_status graft_tokenizer_encode(const graft_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                    graft_error *error, graft_token_ids *out_ids) {
  if (n_bytes > GRAFT_TOKENIZER_MAX_TEXT_BYTES)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the text has %zu bytes, at most %d can be encoded", n_bytes,
                      GRAFT_TOKENIZER_MAX_TEXT_BYTES);
  size_t offset = 0;
  if (!graft_utf8_is_valid(text, n_bytes, &offset))
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the text is not UTF-8: byte 0x%02x at offset %zu",
                      (unsigned)(unsigned char)text[offset], offset);
  encoder e = {.tokenizer = tokenizer};
  graft_status status = encode_all(&e, text, n_bytes, error);
  graft_bpe_scratch_release(&e.scratch);
  if (status != GRAFT_OK) {
    graft_token_ids_release(&e.ids);
    return status;
  }
  *out_ids = e.ids;
  return GRAFT_OK;
}

graft_status graft_tokenizer_find(const graft_tokenizer *tokenizer, const char *text, graft_error *error,
                                  int32_t *out_id) {
  const graft_added_token *token = graft_added_tokens_find(&tokenizer->added, text);
  if (token == NULL)
    return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "the tokenizer has no added token `%s`", graft_excerpt_name(text).text);
  *out_id = token->id;
  return GRAFT_OK;
}

int32_t graft_tokenizer_id_limit(const graft_tokenizer *tokenizer) {
  return tokenizer->bpe.n_ids;
}
