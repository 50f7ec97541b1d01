#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format_files.h"
#include "formats/chat_template.h"
#include "formats/tokenizer.h"
#include "fuzz_folder.h"
#include "fuzz_targets.h"

static const char *const names[] = {"vocab.json", "merges.txt", "added_tokens.json", "tokenizer_config.json"};

static void write_vocabulary(const char *extra) {
  char *members = make_vocabulary(), *text = NULL;
  if (asprintf(&text, "{%s%s}", members, extra == NULL ? "" : extra) < 0) abort();
  temp_folder_write_text(fuzz_folder(), names[0], text);
  free(members);
  free(text);
}

// An empty line leaves the file out.
static void write_line(const char *name, const char *line) {
  if (line != NULL && line[0] != '\0') temp_folder_write_text(fuzz_folder(), name, line);
}

static void use(const char *text, size_t n_bytes) {
  graft_error error = {0};
  graft_tokenizer *tokenizer = NULL;
  graft_token_ids ids = {0};
  if (graft_tokenizer_open(fuzz_folder()->path, &error, &tokenizer) == GRAFT_OK &&
      graft_tokenizer_encode(tokenizer, text, n_bytes, &error, &ids) == GRAFT_OK)
    for (size_t i = 0; i < ids.n_ids; ++i)
      if (ids.ids[i] < 0 || ids.ids[i] >= graft_tokenizer_id_limit(tokenizer)) abort();
  graft_token_ids_release(&ids);
  graft_tokenizer_close(tokenizer);
  (void)(graft_chat_template_check(fuzz_folder()->path, &error) == GRAFT_OK);
}

int fuzz_tokenizer_vocabulary(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  const char *blank = size == 0 ? NULL : memmem(text, size, "\n\n", 2);
  size_t n_merges = blank == NULL ? size : (size_t)(blank - text) + 1;
  temp_folder_write(fuzz_folder(), names[1], text, n_merges);
  size_t taken = blank == NULL ? size : n_merges + 1;
  text += taken;
  size -= taken;
  char *lines[3];
  for (int i = 0; i < 3; ++i) lines[i] = fuzz_take_line(&text, &size);
  write_vocabulary(lines[0]);
  write_line(names[2], lines[1]);
  write_line(names[3], lines[2]);
  use(text, size);
  for (int i = 0; i < 3; ++i) free(lines[i]);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) remove(temp_folder_join(fuzz_folder(), names[i]).text);
  return 0;
}
