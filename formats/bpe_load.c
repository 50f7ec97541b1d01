#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "formats/bpe.h"
#include "formats/excerpt.h"

enum { MAX_MERGES = 1 << 24 };

static graft_status fail_memory(const char *origin, graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory for the tokenizer", graft_excerpt_path(origin).text);
}

// GPT-2's table: printable bytes of Latin-1 stand for themselves, the others for the characters from U+0100 on.
static void spell_bytes(graft_bpe *bpe) {
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
    uint32_t codepoint = printable ? byte : next++;
    char *name = bpe->byte_names[byte];
    name[0] = (char)(codepoint < 0x80 ? codepoint : 0xC0 | codepoint >> 6);
    name[1] = (char)(codepoint < 0x80 ? 0 : 0x80 | (codepoint & 0x3F));
  }
}

static graft_status find_byte_tokens(graft_bpe *bpe, const char *origin, graft_error *error) {
  for (int byte = 0; byte < 256; ++byte) {
    uint32_t id = 0;
    const char *name = bpe->byte_names[byte];
    if (!graft_name_table_find(&bpe->vocabulary, name, name[1] == 0 ? 1 : 2, &id))
      return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: the vocabulary has no token for the byte 0x%02x",
                        graft_excerpt_path(origin).text, (unsigned)byte);
    bpe->byte_ids[byte] = (int32_t)id;
  }
  return GRAFT_OK;
}

bool graft_bpe_claim_id(graft_bpe *bpe, int64_t id) {
  if (id < 0 || id > GRAFT_BPE_MAX_ID) return false;
  uint8_t bit = (uint8_t)(1u << (id % 8));
  if (bpe->used_ids[id / 8] & bit) return false;
  bpe->used_ids[id / 8] |= bit;
  if (id >= bpe->n_ids) bpe->n_ids = (int32_t)id + 1;
  return true;
}

static graft_status fail_id(const char *token, json_t *id, const char *origin, graft_error *error) {
  const char *reason = "is no integer";
  if (json_is_integer(id)) {
    json_int_t value = json_integer_value(id);
    reason = value < 0 ? "is negative" : value > GRAFT_BPE_MAX_ID ? "is too large" : "belongs to another token too";
  }
  return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: the id of token `%s` %s", graft_excerpt_path(origin).text,
                    graft_excerpt_name(token).text, reason);
}

static graft_status allocate_vocabulary(graft_bpe *bpe, json_t *vocabulary, const char *origin, graft_error *error) {
  size_t bytes = 1;
  const char *token;
  json_t *id;
  json_object_foreach(vocabulary, token, id) bytes += strlen(token) + 1;
  bpe->names = malloc(bytes);
  bpe->used_ids = calloc((GRAFT_BPE_MAX_ID + 1) / 8, 1);
  if (bpe->names == NULL || bpe->used_ids == NULL ||
      graft_name_table_init(&bpe->vocabulary, json_object_size(vocabulary)) != GRAFT_OK)
    return fail_memory(origin, error);
  return GRAFT_OK;
}

static graft_status add_tokens(graft_bpe *bpe, json_t *vocabulary, const char *origin, graft_error *error) {
  char *name = bpe->names;
  const char *token;
  json_t *id;
  json_object_foreach(vocabulary, token, id) {
    if (!json_is_integer(id) || !graft_bpe_claim_id(bpe, json_integer_value(id)))
      return fail_id(token, id, origin, error);
    size_t n = strlen(token);
    memcpy(name, token, n);
    if (graft_name_table_add(&bpe->vocabulary, name, n, (uint32_t)json_integer_value(id)) != GRAFT_OK)
      return fail_memory(origin, error);
    name += n;
  }
  return GRAFT_OK;
}

graft_status graft_bpe_init(graft_bpe *bpe, json_t *vocabulary, const char *origin, graft_error *error) {
  *bpe = (graft_bpe){0};
  if (!json_is_object(vocabulary))
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: the vocabulary is missing or not an object",
                      graft_excerpt_path(origin).text);
  GRAFT_TRY(allocate_vocabulary(bpe, vocabulary, origin, error));
  GRAFT_TRY(add_tokens(bpe, vocabulary, origin, error));
  spell_bytes(bpe);
  return find_byte_tokens(bpe, origin, error);
}

void graft_bpe_release(graft_bpe *bpe) {
  graft_name_table_release(&bpe->vocabulary);
  free(bpe->names);
  free(bpe->used_ids);
  free(bpe->merges);
  *bpe = (graft_bpe){0};
}

graft_status graft_bpe_reserve_merges(graft_bpe *bpe, size_t n_merges, const char *origin, graft_error *error) {
  if (n_merges > MAX_MERGES)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: %zu merges, at most %d are accepted", graft_excerpt_path(origin).text,
                      n_merges, MAX_MERGES);
  size_t n_slots = 16;
  while (n_slots / 2 < n_merges) n_slots *= 2;
  bpe->merges = malloc(n_slots * sizeof *bpe->merges);
  if (bpe->merges == NULL) return fail_memory(origin, error);
  for (size_t i = 0; i < n_slots; ++i) bpe->merges[i].id = -1;
  bpe->n_merge_slots = n_slots;
  bpe->n_free_merges = n_merges;
  return GRAFT_OK;
}
