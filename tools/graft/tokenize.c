// graft tokenize — the token ids of a text, as JSON.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/chat_template.h"
#include "formats/tokenizer.h"
#include "tools/graft/tool.h"

static void print_ids(const graft_token_ids *ids) {
  printf("[");
  for (size_t i = 0; i < ids->n_ids; ++i) printf("%s%d", i > 0 ? ", " : "", ids->ids[i]);
  printf("]\n");
}

static graft_status tokenize(const char *folder, const char *text, bool as_chat, graft_error *error) {
  graft_tokenizer *tokenizer = NULL;
  graft_token_ids ids = {0};
  char *chat = NULL;
  graft_status status = graft_tokenizer_open(folder, error, &tokenizer);
  if (status == GRAFT_OK && as_chat) status = graft_chat_template_check(folder, error);
  if (status == GRAFT_OK && as_chat) status = graft_chat_template_apply(text, error, &chat);
  if (chat != NULL) text = chat;
  if (status == GRAFT_OK) status = graft_tokenizer_encode(tokenizer, text, strlen(text), error, &ids);
  if (status == GRAFT_OK) print_ids(&ids);
  graft_token_ids_release(&ids);
  free(chat);
  graft_tokenizer_close(tokenizer);
  return status;
}

static int run(const tool_command *self, int argc, char **argv) {
  const char *model = NULL, *text = NULL;
  bool as_chat = false;
  const tool_option options[] = {
      {"model", 'm', TOOL_TEXT, "FOLDER", "Model whose tokenizer to use (default: the one that ships with graft).",
       &model, 0, 0, NULL},
      {"chat", 0, TOOL_FLAG, NULL, "Wrap the text as a prompt first, as `graft generate` does.", &as_chat, 0, 0, NULL},
  };
  size_t n = 0;
  int parsed = tool_parse(self, argc, argv, options, sizeof options / sizeof options[0], &text, 1, &n);
  if (parsed != TOOL_PARSED) return parsed;
  if (n == 0) return tool_usage(self, "give the text to tokenize");
  char path[TOOL_PATH_BYTES], folder[TOOL_PATH_BYTES + 16];
  if (!tool_find_model(model, path)) return TOOL_FAILED;
  snprintf(folder, sizeof folder, "%s/tokenizer", path);
  graft_error error = {0};
  if (tokenize(folder, text, as_chat, &error) != GRAFT_OK) return tool_report(&error);
  return tool_finish_output(TOOL_OK);
}

const tool_command tool_tokenize = {"tokenize", "Shows the token ids of a text.", "[-m FOLDER] [--chat] TEXT", run};
