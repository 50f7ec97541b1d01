#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format_files.h"
#include "formats/tokenizer.h"
#include "fuzz_folder.h"
#include "fuzz_targets.h"

static const char default_text[] = "hello <|end|>\n  e\xCC\x81 l'été 猫 123";

static char *wrap_pattern(const char *pattern) {
  if (pattern == NULL || pattern[0] == '\0') return NULL;
  char *text = NULL;
  if (asprintf(&text,
               "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},"
               "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"use_regex\":false}]}",
               pattern) < 0)
    abort();
  return text;
}

// An empty line stands for the default, too.
static const char *given(const char *line) {
  return line == NULL || line[0] == '\0' ? NULL : line;
}

enum { N_LINES = 6 };

static void build(const char *data, size_t size, char **out_document, char **out_text) {
  char *lines[N_LINES];
  for (int i = 0; i < N_LINES; ++i) lines[i] = fuzz_take_line(&data, &size);
  char *pre_tokenizer = wrap_pattern(lines[4]);
  *out_document = make_tokenizer_json((tokenizer_parts){.extra_vocabulary = given(lines[1]),
                                                        .merges = given(lines[2]),
                                                        .added_tokens = given(lines[3]),
                                                        .pre_tokenizer = pre_tokenizer,
                                                        .extra_model = given(lines[5])});
  free(pre_tokenizer);
  for (int i = 1; i < N_LINES; ++i) free(lines[i]);
  *out_text = lines[0];
}

int fuzz_tokenizer_json(const uint8_t *data, size_t size) {
  char *document = NULL, *text = NULL;
  bool whole = size > 0 && data[0] == '{';
  if (!whole) build((const char *)data, size, &document, &text);
  if (whole) temp_folder_write(fuzz_folder(), "tokenizer.json", data, size);
  else temp_folder_write_text(fuzz_folder(), "tokenizer.json", document);
  graft_error error = {0};
  graft_tokenizer *tokenizer = NULL;
  graft_token_ids ids = {0};
  const char *input = text == NULL ? default_text : text;
  if (graft_tokenizer_open(fuzz_folder()->path, &error, &tokenizer) == GRAFT_OK &&
      graft_tokenizer_encode(tokenizer, input, strlen(input), &error, &ids) == GRAFT_OK)
    for (size_t i = 0; i < ids.n_ids; ++i)
      if (ids.ids[i] < 0 || ids.ids[i] >= graft_tokenizer_id_limit(tokenizer)) abort();
  graft_token_ids_release(&ids);
  graft_tokenizer_close(tokenizer);
  remove(temp_folder_join(fuzz_folder(), "tokenizer.json").text);
  free(document);
  free(text);
  return 0;
}
