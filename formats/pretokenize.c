#define PCRE2_CODE_UNIT_WIDTH 8
#include "formats/pretokenize.h"

#include <pcre2.h>
#include <stdlib.h>

#include "formats/excerpt.h"
#include "formats/pattern.h"

const char graft_pretokenize_qwen2_pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
    "\\s+(?!\\S)|\\s+";

enum {
  MAX_HEAP_KIB = 64 << 10,
  MAX_NESTING = 64,
  STEPS_PER_BYTE = 200,  // ordinary text in the Qwen2 expression takes about ten
  EXTRA_STEPS = 100000,
};

struct graft_pretokenizer {
  pcre2_general_context *memory;
  pcre2_code *code;
};

static void *allocate(size_t bytes, void *context) {
  (void)context;
  return malloc(bytes);
}

static void release(void *memory, void *context) {
  (void)context;
  free(memory);
}

static graft_status fail_memory(graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "out of memory for a pre-tokenizer");
}

static graft_status compile(graft_pretokenizer *p, const char *pattern, const char *origin, graft_error *error) {
  pcre2_compile_context *context = pcre2_compile_context_create(p->memory);
  if (context == NULL) return fail_memory(error);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context, MAX_NESTING);
  int code = 0;
  PCRE2_SIZE offset = 0;
  // Automatic callouts let the matcher's work be counted, see count_steps.
  p->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_AUTO_CALLOUT, &code,
                          &offset, context);
  pcre2_compile_context_free(context);
  if (p->code != NULL) return GRAFT_OK;
  if (code == PCRE2_ERROR_HEAP_FAILED) return fail_memory(error);
  PCRE2_UCHAR reason[128] = "";
  pcre2_get_error_message(code, reason, sizeof reason);
  return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: the pre-tokenizer's pattern is no regular expression: %s",
                    graft_excerpt_path(origin).text, (const char *)reason);
}

graft_status graft_pretokenizer_create(const char *pattern, const char *origin, graft_error *error,
                                       graft_pretokenizer **out_pretokenizer) {
  char *translated = NULL;
  GRAFT_TRY(graft_pattern_translate(pattern, origin, error, &translated));
  graft_pretokenizer *p = calloc(1, sizeof *p);
  if (p != NULL) p->memory = pcre2_general_context_create(allocate, release, NULL);
  graft_status status = p == NULL || p->memory == NULL ? fail_memory(error) : compile(p, translated, origin, error);
  free(translated);
  if (status != GRAFT_OK) {
    graft_pretokenizer_destroy(p);
    return status;
  }
  *out_pretokenizer = p;
  return GRAFT_OK;
}

void graft_pretokenizer_destroy(graft_pretokenizer *pretokenizer) {
  if (pretokenizer == NULL) return;
  pcre2_code_free(pretokenizer->code);
  pcre2_general_context_free(pretokenizer->memory);
  free(pretokenizer);
}

typedef struct meter {
  size_t position;
  size_t steps_left;
} meter;

// Called before each item of the expression is tried. The distance covered since the last call is what a repetition
// scanned, so the sum bounds the time of any expression, also of one made to be slow.
static int count_steps(pcre2_callout_block *block, void *context) {
  meter *m = context;
  size_t here = block->current_position;
  size_t steps = 1 + (here > m->position ? here - m->position : m->position - here);
  m->position = here;
  if (steps > m->steps_left) return PCRE2_ERROR_MATCHLIMIT;
  m->steps_left -= steps;
  return 0;
}

typedef struct scanner {
  const graft_pretokenizer *pretokenizer;
  pcre2_match_context *context;
  pcre2_match_data *match;
  meter meter;
} scanner;

// Bytes matched at |at|; 0 when nothing matches there.
static graft_status match_at(scanner *s, const char *text, size_t n_bytes, size_t at, graft_error *error,
                             size_t *out_bytes) {
  s->meter.position = at;
  int n = pcre2_match(s->pretokenizer->code, (PCRE2_SPTR)text, n_bytes, at, PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK,
                      s->match, s->context);
  if (n >= 0 || n == PCRE2_ERROR_NOMATCH) {
    *out_bytes = n < 0 ? 0 : pcre2_get_ovector_pointer(s->match)[1] - at;
    return GRAFT_OK;
  }
  if (n == PCRE2_ERROR_NOMEMORY) return fail_memory(error);
  return GRAFT_FAIL(error, GRAFT_E_INVALID, "the text takes the tokenizer's pattern too long, at byte %zu", at);
}

static graft_status scan(scanner *s, const char *text, size_t n_bytes, graft_pretokenize_sink sink,
                         graft_error *error) {
  size_t gap = 0, at = 0;
  while (at < n_bytes) {
    size_t matched = 0;
    GRAFT_TRY(match_at(s, text, n_bytes, at, error, &matched));
    if (matched == 0) {
      do ++at;
      while (at < n_bytes && ((unsigned char)text[at] & 0xC0) == 0x80);
      continue;
    }
    if (gap < at) GRAFT_TRY(sink.on_word(sink.context, text + gap, at - gap, error));
    GRAFT_TRY(sink.on_word(sink.context, text + at, matched, error));
    at += matched;
    gap = at;
  }
  return gap < at ? sink.on_word(sink.context, text + gap, at - gap, error) : GRAFT_OK;
}

graft_status graft_pretokenize(const graft_pretokenizer *pretokenizer, const char *text, size_t n_bytes,
                               graft_pretokenize_sink sink, graft_error *error) {
  scanner s = {.pretokenizer = pretokenizer};
  s.meter.steps_left = n_bytes * STEPS_PER_BYTE + EXTRA_STEPS;
  s.context = pcre2_match_context_create(pretokenizer->memory);
  s.match = pcre2_match_data_create(1, pretokenizer->memory);
  graft_status status = GRAFT_OK;
  if (s.context == NULL || s.match == NULL) {
    status = fail_memory(error);
  } else {
    pcre2_set_callout(s.context, count_steps, &s.meter);
    pcre2_set_heap_limit(s.context, MAX_HEAP_KIB);
    status = scan(&s, text, n_bytes, sink, error);
  }
  pcre2_match_data_free(s.match);
  pcre2_match_context_free(s.context);
  return status;
}
