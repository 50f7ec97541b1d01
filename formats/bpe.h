// bpe.h — byte-level byte-pair encoding: a vocabulary, ranked merges, and their application to one word.
//
// A word starts as one token per byte; the adjacent pair whose merge has the lowest rank (the leftmost of several) is
// replaced by the merged token until no pair can be merged. A heap keeps this at O(n log n) for a word of n bytes.
// In vocabularies, bytes are spelled as printable characters: GPT-2's table, in which a space is "Ġ".
#ifndef GRAFT_FORMATS_BPE_H
#define GRAFT_FORMATS_BPE_H

#include "formats/name_table.h"
#include "formats/token_ids.h"

struct json_t;

enum { GRAFT_BPE_MAX_ID = (1 << 24) - 1 };

typedef struct graft_bpe_merge {
  uint64_t pair;  // left id in the upper half, right id in the lower
  uint32_t rank;
  int32_t id;  // negative: the slot is free
} graft_bpe_merge;

typedef struct graft_bpe {
  graft_name_table vocabulary;
  char *names;        // what the vocabulary's keys point into
  uint8_t *used_ids;  // one bit per id
  int32_t n_ids;      // the largest id plus one; added tokens may raise it
  graft_bpe_merge *merges;
  size_t n_merge_slots;  // a power of two
  size_t n_free_merges;
  uint32_t n_merges;
  int32_t byte_ids[256];
  char byte_names[256][2];  // one or two bytes of UTF-8
  bool ignore_merges;       // a word that is itself a token becomes that token
} graft_bpe;

// Takes over the tokens of |vocabulary|, an object of ids: text → 0 … GRAFT_BPE_MAX_ID. |bpe| is zeroed first; release
// it also after a failure. |origin| names the file. Errors: GRAFT_E_FORMAT (an id that is no integer, out of range or
// used twice; a byte without a token), GRAFT_E_NO_MEMORY.
GRAFT_NODISCARD graft_status graft_bpe_init(graft_bpe *bpe, struct json_t *vocabulary, const char *origin,
                                            graft_error *error);
void graft_bpe_release(graft_bpe *bpe);

// Claims |id| for a token that is not part of the vocabulary. False when it is taken or out of range.
bool graft_bpe_claim_id(graft_bpe *bpe, int64_t id);

// Makes room for |n_merges| merges. Errors: GRAFT_E_FORMAT (absurdly many), GRAFT_E_NO_MEMORY.
GRAFT_NODISCARD graft_status graft_bpe_reserve_merges(graft_bpe *bpe, size_t n_merges, const char *origin,
                                                      graft_error *error);

// A stretch of text; not NUL-terminated. Borrowed.
typedef struct graft_bpe_text {
  const char *data;
  size_t bytes;
} graft_bpe_text;

// Adds the next merge; its rank is the number of merges before it. A pair that is merged twice takes the later rank, as
// in the reference. Errors: GRAFT_E_FORMAT (a token that is not in the vocabulary).
GRAFT_NODISCARD graft_status graft_bpe_add_merge(graft_bpe *bpe, graft_bpe_text left, graft_bpe_text right,
                                                 const char *origin, graft_error *error);

// Working memory, kept from word to word. Zero-initialise.
typedef struct graft_bpe_scratch {
  struct graft_bpe_symbol *symbols;
  uint64_t *heap;
  size_t n_heap;
  char *text;
  size_t capacity;  // bytes of the longest word so far
} graft_bpe_scratch;

void graft_bpe_scratch_release(graft_bpe_scratch *scratch);

// Appends the tokens of |word|, any bytes, to |ids|. Errors: GRAFT_E_NO_MEMORY. Thread-safe for distinct scratch.
GRAFT_NODISCARD graft_status graft_bpe_encode(const graft_bpe *bpe, graft_bpe_text word, graft_bpe_scratch *scratch,
                                              graft_token_ids *ids, graft_error *error);

#endif
