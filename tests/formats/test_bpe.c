// The heap against the plain definition: merge the leftmost pair of the lowest rank until there is none.
#include "formats/bpe.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "format_files.h"

// Merges over the letters a and b whose results are merges' inputs again, in a rank order that makes them compete.
static const char *const merges[][2] = {{"b", "a"},   {"a", "a"},   {"ba", "ba"}, {"aa", "b"}, {"aa", "a"},
                                        {"b", "b"},   {"ba", "aa"}, {"aaa", "b"}, {"a", "bb"}, {"baba", "aab"},
                                        {"aa", "aa"}, {"bb", "bb"}, {"ab", "a"},  {"a", "b"},  {"bbbb", "ba"}};
enum { N_MERGES = sizeof merges / sizeof merges[0], WORD = 40 };

static void init_bpe(graft_bpe *bpe) {
  graft_error error = {0};
  char *members = make_vocabulary(), *text = NULL;
  assert_true(asprintf(&text, "{%s}", members) > 0);
  json_t *vocabulary = json_loads(text, 0, NULL);
  assert_non_null(vocabulary);
  for (size_t i = 0; i < N_MERGES; ++i) {
    char merged[16];
    snprintf(merged, sizeof merged, "%s%s", merges[i][0], merges[i][1]);
    if (json_object_get(vocabulary, merged) == NULL)
      json_object_set_new(vocabulary, merged, json_integer(1000 + (json_int_t)i));
  }
  assert_ok(graft_bpe_init(bpe, vocabulary, "vocab.json", &error), &error);
  assert_ok(graft_bpe_reserve_merges(bpe, N_MERGES, "merges.txt", &error), &error);
  for (size_t i = 0; i < N_MERGES; ++i) {
    graft_bpe_text left = {merges[i][0], strlen(merges[i][0])}, right = {merges[i][1], strlen(merges[i][1])};
    assert_ok(graft_bpe_add_merge(bpe, left, right, "merges.txt", &error), &error);
  }
  json_decref(vocabulary);
  free(members);
  free(text);
}

// One step of the definition on tokens kept as strings. False when no pair can be merged.
static bool merge_once(char tokens[WORD][WORD + 1], size_t *n) {
  for (size_t rank = 0; rank < N_MERGES; ++rank)
    for (size_t i = 0; i + 1 < *n; ++i) {
      if (strcmp(tokens[i], merges[rank][0]) != 0 || strcmp(tokens[i + 1], merges[rank][1]) != 0) continue;
      strcat(tokens[i], tokens[i + 1]);
      memmove(tokens + i + 1, tokens + i + 2, (*n - i - 2) * sizeof tokens[0]);
      --*n;
      return true;
    }
  return false;
}

static void check_word(const graft_bpe *bpe, graft_bpe_scratch *scratch, const char *word) {
  char tokens[WORD][WORD + 1];
  size_t n = strlen(word);
  for (size_t i = 0; i < n; ++i) snprintf(tokens[i], sizeof tokens[i], "%c", word[i]);
  while (merge_once(tokens, &n)) continue;
  graft_error error = {0};
  graft_token_ids ids = {0};
  assert_ok(graft_bpe_encode(bpe, (graft_bpe_text){word, strlen(word)}, scratch, &ids, &error), &error);
  assert_int_equal(ids.n_ids, n);
  for (size_t i = 0; i < n; ++i) {
    uint32_t id = 0;
    assert_true(graft_name_table_find(&bpe->vocabulary, tokens[i], strlen(tokens[i]), &id));
    if ((uint32_t)ids.ids[i] != id) fail_msg("\"%s\": token %zu is %d, expected %u", word, i, ids.ids[i], id);
  }
  graft_token_ids_release(&ids);
}

static void equals_the_definition(void **state) {
  (void)state;
  graft_bpe bpe;
  graft_bpe_scratch scratch = {0};
  init_bpe(&bpe);
  uint64_t random = 1;
  char word[WORD + 1];
  for (int round = 0; round < 5000; ++round) {
    random = graft_name_table_mix(random + 1);
    size_t n = random % WORD;
    for (size_t i = 0; i < n; ++i) word[i] = random >> (8 + i % 48) & 1 ? 'a' : 'b';
    word[n] = '\0';
    check_word(&bpe, &scratch, word);
  }
  graft_bpe_scratch_release(&scratch);
  graft_bpe_release(&bpe);
}

static void every_byte_is_a_token(void **state) {
  (void)state;
  graft_bpe bpe;
  graft_bpe_scratch scratch = {0};
  graft_error error = {0};
  init_bpe(&bpe);
  char word[256];
  for (int i = 0; i < 256; ++i) word[i] = (char)(unsigned char)(255 - i);
  graft_token_ids ids = {0};
  assert_ok(graft_bpe_encode(&bpe, (graft_bpe_text){word, 256}, &scratch, &ids, &error), &error);
  size_t at = 0;
  for (int i = 0; i < 256; ++i) {
    if (255 - i == 'b') {  // "ba" is the only pair in descending order that merges
      assert_int_equal(ids.ids[at++], 1000);
      ++i;
      continue;
    }
    assert_int_equal(ids.ids[at++], 255 - i);
  }
  assert_int_equal(ids.n_ids, 255);
  graft_token_ids_release(&ids);
  graft_bpe_scratch_release(&scratch);
  graft_bpe_release(&bpe);
}

static void later_rank_wins(void **state) {
  (void)state;
  graft_error error = {0};
  graft_bpe bpe;
  graft_bpe_scratch scratch = {0};
  json_t *vocabulary = NULL;
  char *members = make_vocabulary(), *text = NULL;
  assert_true(asprintf(&text, "{%s,\"ab\":500,\"bc\":501}", members) > 0);
  vocabulary = json_loads(text, 0, NULL);
  assert_ok(graft_bpe_init(&bpe, vocabulary, "v", &error), &error);
  assert_ok(graft_bpe_reserve_merges(&bpe, 3, "m", &error), &error);
  const graft_bpe_text a = {"a", 1}, b = {"b", 1}, c = {"c", 1};
  assert_ok(graft_bpe_add_merge(&bpe, a, b, "m", &error), &error);
  assert_ok(graft_bpe_add_merge(&bpe, b, c, "m", &error), &error);
  assert_ok(graft_bpe_add_merge(&bpe, a, b, "m", &error), &error);
  assert_refused(graft_bpe_add_merge(&bpe, a, b, "m", &error), &error, GRAFT_E_NO_MEMORY, "m", "merges");
  graft_token_ids ids = {0};
  assert_ok(graft_bpe_encode(&bpe, (graft_bpe_text){"abc", 3}, &scratch, &ids, &error), &error);
  assert_int_equal(ids.n_ids, 2);
  assert_int_equal(ids.ids[1], 501);
  graft_token_ids_release(&ids);
  graft_bpe_scratch_release(&scratch);
  graft_bpe_release(&bpe);
  json_decref(vocabulary);
  free(members);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equals_the_definition),
      cmocka_unit_test(every_byte_is_a_token),
      cmocka_unit_test(later_rank_wins),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
