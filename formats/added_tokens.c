#include "formats/added_tokens.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "formats/excerpt.h"

enum { MAX_TOKEN_BYTES = 256, MAX_TOKENS = 1 << 20 };

void graft_added_tokens_release(graft_added_tokens *tokens) {
  for (size_t i = 0; i < tokens->n_tokens; ++i) free(tokens->tokens[i].text);
  free(tokens->tokens);
  *tokens = (graft_added_tokens){0};
}

static graft_status fail(const char *origin, const char *token, graft_status status, const char *reason,
                         graft_error *error) {
  return GRAFT_FAIL(error, status, "%s: added token `%s`: %s", graft_excerpt_path(origin).text,
                    graft_excerpt_name(token).text, reason);
}

graft_status graft_added_tokens_add_entry(graft_added_tokens *tokens, json_t *entry, int64_t id, const char *origin,
                                          graft_error *error) {
  static const char *const flags[] = {"lstrip", "rstrip", "single_word", "normalized"};
  const char *text = json_string_value(json_object_get(entry, "content"));
  if (text == NULL)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: an added token without `content`", graft_excerpt_path(origin).text);
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; ++i) {
    json_t *flag = json_object_get(entry, flags[i]);
    if (flag == NULL || json_is_false(flag)) continue;
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED, "%s: added token `%s`: `%s` must be false, graft does not support it",
                      graft_excerpt_path(origin).text, graft_excerpt_name(text).text, flags[i]);
  }
  return graft_added_tokens_add(tokens, text, id, origin, error);
}

static graft_status grow(graft_added_tokens *tokens, const char *origin, graft_error *error) {
  if (tokens->n_tokens < tokens->capacity) return GRAFT_OK;
  if (tokens->n_tokens == MAX_TOKENS)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: too many added tokens", graft_excerpt_path(origin).text);
  size_t capacity = tokens->capacity == 0 ? 32 : 2 * tokens->capacity;
  graft_added_token *grown = realloc(tokens->tokens, capacity * sizeof *grown);
  if (grown == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory", graft_excerpt_path(origin).text);
  tokens->tokens = grown;
  tokens->capacity = capacity;
  return GRAFT_OK;
}

graft_status graft_added_tokens_add(graft_added_tokens *tokens, const char *text, int64_t id, const char *origin,
                                    graft_error *error) {
  size_t n = strlen(text);
  if (n == 0 || n > MAX_TOKEN_BYTES) return fail(origin, text, GRAFT_E_FORMAT, "must have 1 to 256 bytes", error);
  if (id < 0 || id > GRAFT_BPE_MAX_ID) return fail(origin, text, GRAFT_E_FORMAT, "its id is out of range", error);
  GRAFT_TRY(grow(tokens, origin, error));
  char *copy = malloc(n + 1);
  if (copy == NULL) return fail(origin, text, GRAFT_E_NO_MEMORY, "out of memory", error);
  memcpy(copy, text, n + 1);
  tokens->tokens[tokens->n_tokens++] = (graft_added_token){copy, n, (int32_t)id};
  return GRAFT_OK;
}

static int compare_texts(const void *left, const void *right) {
  const graft_added_token *a = left, *b = right;
  return strcmp(a->text, b->text);
}

static graft_status drop_repetitions(graft_added_tokens *tokens, const char *origin, graft_error *error) {
  size_t n = 0;
  for (size_t i = 0; i < tokens->n_tokens; ++i) {
    graft_added_token *token = &tokens->tokens[i], *kept = n == 0 ? NULL : &tokens->tokens[n - 1];
    if (kept == NULL || strcmp(kept->text, token->text) != 0) {
      graft_added_token moved = *token;
      token->text = NULL;
      tokens->tokens[n++] = moved;
      continue;
    }
    if (kept->id != token->id) return fail(origin, kept->text, GRAFT_E_FORMAT, "has two different ids", error);
    free(token->text);
    token->text = NULL;
  }
  tokens->n_tokens = n;
  return GRAFT_OK;
}

graft_status graft_added_tokens_finish(graft_added_tokens *tokens, graft_bpe *bpe, const char *origin,
                                       graft_error *error) {
  if (tokens->n_tokens == 0) return GRAFT_OK;
  qsort(tokens->tokens, tokens->n_tokens, sizeof *tokens->tokens, compare_texts);
  GRAFT_TRY(drop_repetitions(tokens, origin, error));
  for (size_t i = 0; i < tokens->n_tokens; ++i) {
    const graft_added_token *token = &tokens->tokens[i];
    uint32_t id = 0;
    bool known = graft_name_table_find(&bpe->vocabulary, token->text, token->n_bytes, &id);
    if (known ? id != (uint32_t)token->id : !graft_bpe_claim_id(bpe, token->id))
      return fail(origin, token->text, GRAFT_E_FORMAT,
                  known ? "has another id in the vocabulary" : "its id belongs to another token", error);
    tokens->begins[(unsigned char)token->text[0]] = true;
  }
  return GRAFT_OK;
}

// The first token of [begin, end), all equal in their first |depth| bytes, whose next byte is at least |byte|.
static size_t lower_bound(const graft_added_tokens *tokens, size_t begin, size_t end, size_t depth, int byte) {
  while (begin < end) {
    size_t middle = begin + (end - begin) / 2;
    if ((unsigned char)tokens->tokens[middle].text[depth] < byte) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

const graft_added_token *graft_added_tokens_match(const graft_added_tokens *tokens, graft_bpe_text text) {
  if (text.bytes == 0 || !tokens->begins[(unsigned char)text.data[0]]) return NULL;
  const graft_added_token *longest = NULL;
  size_t begin = 0, end = tokens->n_tokens;
  for (size_t depth = 0; depth < text.bytes && begin < end; ++depth) {
    int byte = (unsigned char)text.data[depth];
    if (byte == 0) break;  // no token contains NUL
    begin = lower_bound(tokens, begin, end, depth, byte);
    end = lower_bound(tokens, begin, end, depth, byte + 1);
    // The shortest of those that share a prefix sorts first.
    if (begin < end && tokens->tokens[begin].n_bytes == depth + 1) longest = &tokens->tokens[begin];
  }
  return longest;
}

const graft_added_token *graft_added_tokens_find(const graft_added_tokens *tokens, const char *text) {
  const graft_added_token *token = graft_added_tokens_match(tokens, (graft_bpe_text){text, strlen(text)});
  return token != NULL && strcmp(token->text, text) == 0 ? token : NULL;
}
