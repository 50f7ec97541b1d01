#include "formats/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "formats/excerpt.h"

// A token of the word being encoded, in a doubly linked list of positions; -1 ends it.
typedef struct graft_bpe_symbol {
  int32_t id;  // negative: merged into the symbol before it
  int32_t previous, next;
} symbol;

enum { MAX_NAME_IN_MESSAGE = 64 };

// The slot of |pair|, or the free one where it belongs. At least half of the slots are free.
static graft_bpe_merge *locate(const graft_bpe *bpe, uint64_t pair) {
  size_t mask = bpe->n_merge_slots - 1;
  for (size_t i = (size_t)graft_name_table_mix(pair ^ bpe->vocabulary.seed) & mask;; i = (i + 1) & mask) {
    graft_bpe_merge *merge = &bpe->merges[i];
    if (merge->id < 0 || merge->pair == pair) return merge;
  }
}

static uint64_t make_pair(int32_t left, int32_t right) {
  return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static graft_status fail_merge(const graft_bpe *bpe, graft_bpe_text token, const char *origin, graft_error *error) {
  char name[MAX_NAME_IN_MESSAGE];
  size_t n = token.bytes < sizeof name - 1 ? token.bytes : sizeof name - 1;
  while (n < token.bytes && n > 0 && ((unsigned char)token.data[n] & 0xC0) == 0x80) --n;
  memcpy(name, token.data, n);
  name[n] = '\0';
  return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: merge %u: token `%s` is not in the vocabulary",
                    graft_excerpt_path(origin).text, (unsigned)bpe->n_merges + 1, graft_excerpt_name(name).text);
}

graft_status graft_bpe_add_merge(graft_bpe *bpe, graft_bpe_text left, graft_bpe_text right, const char *origin,
                                 graft_error *error) {
  uint32_t left_id = 0, right_id = 0, merged_id = 0;
  if (!graft_name_table_find(&bpe->vocabulary, left.data, left.bytes, &left_id))
    return fail_merge(bpe, left, origin, error);
  if (!graft_name_table_find(&bpe->vocabulary, right.data, right.bytes, &right_id))
    return fail_merge(bpe, right, origin, error);
  graft_bpe_text merged = {NULL, left.bytes + right.bytes};
  char *text = malloc(merged.bytes + 1);
  if (text == NULL || bpe->n_free_merges == 0) {
    free(text);
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory for merges", graft_excerpt_path(origin).text);
  }
  memcpy(text, left.data, left.bytes);
  memcpy(text + left.bytes, right.data, right.bytes);
  merged.data = text;
  bool known = graft_name_table_find(&bpe->vocabulary, text, merged.bytes, &merged_id);
  graft_status status = known ? GRAFT_OK : fail_merge(bpe, merged, origin, error);
  free(text);
  GRAFT_TRY(status);
  uint64_t pair = make_pair((int32_t)left_id, (int32_t)right_id);
  *locate(bpe, pair) = (graft_bpe_merge){pair, bpe->n_merges++, (int32_t)merged_id};
  --bpe->n_free_merges;
  return GRAFT_OK;
}

void graft_bpe_scratch_release(graft_bpe_scratch *scratch) {
  free(scratch->symbols);
  free(scratch->heap);
  free(scratch->text);
  *scratch = (graft_bpe_scratch){0};
}

// A word of n bytes has n - 1 pairs at first, and each of at most n - 1 merges makes at most two new ones.
static graft_status reserve(graft_bpe_scratch *scratch, size_t n, graft_error *error) {
  if (n <= scratch->capacity) return GRAFT_OK;
  size_t capacity = n < 64 ? 64 : n;
  graft_bpe_scratch_release(scratch);
  if (n <= INT32_MAX / 32) {
    scratch->symbols = malloc(capacity * sizeof *scratch->symbols);
    scratch->heap = malloc(3 * capacity * sizeof *scratch->heap);
    scratch->text = malloc(2 * capacity);
  }
  if (scratch->symbols == NULL || scratch->heap == NULL || scratch->text == NULL)
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "out of memory for a word of %zu bytes", n);
  scratch->capacity = capacity;
  return GRAFT_OK;
}

// The heap's entries are rank and position in one number, so that equal ranks are taken from left to right.
static void heap_push(graft_bpe_scratch *scratch, uint64_t entry) {
  uint64_t *heap = scratch->heap;
  size_t i = scratch->n_heap++;
  while (i > 0 && heap[(i - 1) / 2] > entry) {
    heap[i] = heap[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  heap[i] = entry;
}

static uint64_t heap_pop(graft_bpe_scratch *scratch) {
  uint64_t *heap = scratch->heap, top = heap[0], last = heap[--scratch->n_heap];
  size_t i = 0, n = scratch->n_heap;
  for (size_t child = 1; child < n; child = 2 * i + 1) {
    if (child + 1 < n && heap[child + 1] < heap[child]) ++child;
    if (heap[child] >= last) break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = last;
  return top;
}

static const graft_bpe_merge *merge_at(const graft_bpe *bpe, const symbol *symbols, int32_t position) {
  if (position < 0 || symbols[position].id < 0 || symbols[position].next < 0) return NULL;
  const graft_bpe_merge *merge = locate(bpe, make_pair(symbols[position].id, symbols[symbols[position].next].id));
  return merge->id < 0 ? NULL : merge;
}

static void offer(const graft_bpe *bpe, graft_bpe_scratch *scratch, int32_t position) {
  const graft_bpe_merge *merge = merge_at(bpe, scratch->symbols, position);
  if (merge != NULL) heap_push(scratch, (uint64_t)merge->rank << 32 | (uint32_t)position);
}

static void apply_merges(const graft_bpe *bpe, graft_bpe_scratch *scratch, int32_t n) {
  symbol *symbols = scratch->symbols;
  scratch->n_heap = 0;
  for (int32_t i = 0; i < n; ++i) offer(bpe, scratch, i);
  while (scratch->n_heap > 0) {
    uint64_t entry = heap_pop(scratch);
    int32_t left = (int32_t)(uint32_t)entry;
    const graft_bpe_merge *merge = merge_at(bpe, symbols, left);
    // Earlier merges may have taken either half; the pair that is there now has its own entry.
    if (merge == NULL || merge->rank != (uint32_t)(entry >> 32)) continue;
    int32_t right = symbols[left].next, after = symbols[right].next;
    symbols[left].id = merge->id;
    symbols[left].next = after;
    symbols[right].id = -1;
    if (after >= 0) symbols[after].previous = left;
    offer(bpe, scratch, symbols[left].previous);
    offer(bpe, scratch, left);
  }
}

// The word's own id when it is a token as a whole.
static bool find_whole(const graft_bpe *bpe, graft_bpe_text word, char *spelled, uint32_t *out_id) {
  size_t n = 0;
  for (size_t i = 0; i < word.bytes; ++i) {
    const char *name = bpe->byte_names[(unsigned char)word.data[i]];
    spelled[n++] = name[0];
    if (name[1] != 0) spelled[n++] = name[1];
  }
  return graft_name_table_find(&bpe->vocabulary, spelled, n, out_id);
}

graft_status graft_bpe_encode(const graft_bpe *bpe, graft_bpe_text word, graft_bpe_scratch *scratch,
                              graft_token_ids *ids, graft_error *error) {
  if (word.bytes == 0) return GRAFT_OK;
  GRAFT_TRY(reserve(scratch, word.bytes, error));
  uint32_t whole = 0;
  if (bpe->ignore_merges && find_whole(bpe, word, scratch->text, &whole))
    return graft_token_ids_append(ids, (int32_t)whole, error);
  int32_t n = (int32_t)word.bytes;
  for (int32_t i = 0; i < n; ++i)
    scratch->symbols[i] = (symbol){bpe->byte_ids[(unsigned char)word.data[i]], i - 1, i + 1 < n ? i + 1 : -1};
  apply_merges(bpe, scratch, n);
  for (int32_t i = 0; i >= 0; i = scratch->symbols[i].next)
    GRAFT_TRY(graft_token_ids_append(ids, scratch->symbols[i].id, error));
  return GRAFT_OK;
}
