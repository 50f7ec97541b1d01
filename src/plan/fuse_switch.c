// Which rules the text of GRAFT_FUSION, --fusion or graft_plan_options.fusion switches off.
#include <string.h>

#include "src/plan/fuse.h"

static bool is_word(const char *word, size_t n, const char *wanted) {
  return n == strlen(wanted) && memcmp(word, wanted, n) == 0;
}

bool graft_fusion_switched_off(const char *text, const char *rule) {
  if (text == NULL) return false;
  for (const char *word = text; *word != '\0';) {
    const size_t n = strcspn(word, ",");
    if (is_word(word, n, "off") || (word[0] == '-' && is_word(word + 1, n - 1, rule))) return true;
    word += n + (word[n] == ',');
  }
  return false;
}

// One of the words of |text|. Beside others "on" would say nothing, and "off" make them mean nothing.
static graft_status check_word(const graft_plan *plan, const char *text, const char *word, size_t n) {
  if (is_word(word, n, "on") || is_word(word, n, "off")) {
    if (text[n] == '\0') return GRAFT_OK;
    return GRAFT_FAIL(plan->error, GRAFT_E_INVALID,
                      "fusion is set to \"%.*s\" beside other words; on and off stand alone", (int)n, word);
  }
  if (n < 2 || word[0] != '-') {
    return GRAFT_FAIL(plan->error, GRAFT_E_INVALID,
                      "fusion is set to \"%s\"; \"%.*s\" must be on, off or a rule to leave out, as in -swiglu", text,
                      (int)n, word);
  }
  const uint32_t n_rules = graft_context_n_fusions(plan->context);
  for (uint32_t i = 0; i < n_rules; ++i) {
    if (is_word(word + 1, n - 1, graft_context_fusion(plan->context, i)->name)) return GRAFT_OK;
  }
  return GRAFT_FAIL(plan->error, GRAFT_E_NOT_FOUND, "no fusion rule is called \"%.*s\"", (int)n - 1, word + 1);
}

graft_status graft_fusion_check_switch(const graft_plan *plan, const char *text) {
  if (text == NULL) return GRAFT_OK;
  for (const char *word = text;;) {
    const size_t n = strcspn(word, ",");
    GRAFT_TRY(check_word(plan, text, word, n));
    word += n;
    if (*word++ == '\0') return GRAFT_OK;
  }
}
