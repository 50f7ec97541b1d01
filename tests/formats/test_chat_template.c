#include "formats/chat_template.h"

#include <stdlib.h>
#include <string.h>

#include "format_files.h"

static void applies(void **state) {
  (void)state;
  graft_error error = {0};
  char *text = NULL;
  assert_ok(graft_chat_template_apply("a cat", &error, &text), &error);
  assert_string_equal(text, "<|im_start|>user\na cat<|im_end|>\n<|im_start|>assistant\n");
  free(text);
  assert_ok(graft_chat_template_apply("", &error, &text), &error);
  assert_string_equal(text, "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n");
  free(text);
}

static void recognises(void **state) {
  (void)state;
  static const char *const good[] = {
      "{\"chat_template\":\"{{ '<|im_start|>' }}\"}",
      "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"x\"},"
      "{\"name\":\"default\",\"template\":\"<|im_start|>\"}]}",
  };
  graft_error error = {0};
  temp_folder folder = temp_folder_create();
  for (size_t i = 0; i < 2; ++i) {
    temp_folder_write_text(&folder, "tokenizer_config.json", good[i]);
    assert_ok(graft_chat_template_check(folder.path, &error), &error);
  }
  temp_folder_write_text(&folder, "tokenizer_config.json", "{}");
  temp_folder_write_text(&folder, "chat_template.jinja", "{{ '<|im_start|>user' }}");
  assert_ok(graft_chat_template_check(folder.path, &error), &error);
  temp_folder_remove(&folder);
}

static void refuses(void **state) {
  (void)state;
  static const struct {
    const char *config;
    graft_status status;
    const char *reason;
  } cases[] = {
      {"{}", GRAFT_E_NOT_FOUND, "no chat template"},
      {"[]", GRAFT_E_NOT_FOUND, "no chat template"},
      {"{\"chat_template\":null}", GRAFT_E_NOT_FOUND, "no chat template"},
      {"{\"chat_template\":7}", GRAFT_E_NOT_FOUND, "no chat template"},
      {"{\"chat_template\":[{\"name\":7},7]}", GRAFT_E_NOT_FOUND, "no chat template"},
      {"{\"chat_template\":\"[INST] {{ x }}\"}", GRAFT_E_UNSUPPORTED, "ChatML"},
      {"{\"chat_template\":\"<|im_start|>system\\\\nYou are Qwen\"}", GRAFT_E_UNSUPPORTED, "system message"},
      {"{", GRAFT_E_FORMAT, "JSON"},
  };
  graft_error error = {0};
  temp_folder folder = temp_folder_create();
  assert_refused(graft_chat_template_check(folder.path, &error), &error, GRAFT_E_NOT_FOUND, "tokenizer_config.json",
                 "No such file");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    temp_folder_write_text(&folder, "tokenizer_config.json", cases[i].config);
    assert_refused(graft_chat_template_check(folder.path, &error), &error, cases[i].status, "tokenizer_config.json",
                   cases[i].reason);
  }
  temp_folder_remove(&folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(applies),
      cmocka_unit_test(recognises),
      cmocka_unit_test(refuses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
