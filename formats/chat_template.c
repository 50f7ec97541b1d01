#include "formats/chat_template.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "formats/excerpt.h"
#include "formats/file.h"
#include "formats/json.h"

static const char before_prompt[] = "<|im_start|>user\n";
static const char after_prompt[] = "<|im_end|>\n<|im_start|>assistant\n";

static graft_status check_text(const char *template, const char *origin, graft_error *error) {
  if (strstr(template, "<|im_start|>") == NULL)
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                      "%s: the chat template is not of the ChatML family (<|im_start|> … <|im_end|>)",
                      graft_excerpt_path(origin).text);
  // Qwen2.5 puts a system turn before conversations without one. In Jinja source the line break is written as \n.
  if (strstr(template, "system\\nYou are") != NULL || strstr(template, "system\nYou are") != NULL)
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                      "%s: the chat template adds a system message by itself, which graft does not support",
                      graft_excerpt_path(origin).text);
  return GRAFT_OK;
}

// `chat_template` is a string, or a list of {"name": …, "template": …}.
static const char *find_template(const json_t *value) {
  if (json_is_string(value)) return json_string_value(value);
  for (size_t i = 0; i < json_array_size(value); ++i) {
    const json_t *item = json_array_get(value, i);
    const char *name = json_string_value(json_object_get(item, "name"));
    if (name != NULL && strcmp(name, "default") == 0) return json_string_value(json_object_get(item, "template"));
  }
  return NULL;
}

static graft_status check_config(const char *path, graft_error *error) {
  graft_json *json = NULL;
  GRAFT_TRY(graft_json_open(path, GRAFT_JSON_MAX_CONFIG_BYTES, error, &json));
  const char *template = find_template(graft_json_find(json, "chat_template"));
  graft_status status = template != NULL
                            ? check_text(template, path, error)
                            : GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "%s: states no chat template (`chat_template`)",
                                         graft_excerpt_path(path).text);
  graft_json_close(json);
  return status;
}

static graft_status check_file(const char *path, graft_error *error) {
  graft_file_text text = {0};
  GRAFT_TRY(graft_file_load(path, GRAFT_JSON_MAX_CONFIG_BYTES, error, &text));
  graft_status status = check_text(text.data, path, error);
  graft_file_text_release(&text);
  return status;
}

graft_status graft_chat_template_check(const char *folder, graft_error *error) {
  char *file = NULL, *config = NULL;
  graft_status status = graft_file_join(folder, "chat_template.jinja", error, &file);
  if (status == GRAFT_OK) status = graft_file_join(folder, "tokenizer_config.json", error, &config);
  if (status == GRAFT_OK) status = graft_file_exists(file) ? check_file(file, error) : check_config(config, error);
  free(config);
  free(file);
  return status;
}

graft_status graft_chat_template_apply(const char *prompt, graft_error *error, char **out_text) {
  size_t n = strlen(prompt), n_before = sizeof before_prompt - 1;
  char *text = n > SIZE_MAX / 2 ? NULL : malloc(n_before + n + sizeof after_prompt);
  if (text == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "out of memory for the prompt");
  memcpy(text, before_prompt, n_before);
  memcpy(text + n_before, prompt, n);
  memcpy(text + n_before + n, after_prompt, sizeof after_prompt);
  *out_text = text;
  return GRAFT_OK;
}
