// Requests that cannot be met, or only just: sizes, steps, guidance, prompts. What is refused leaves nothing behind.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "tiny_model.h"

static temp_folder folder, model;

static int set_up(void **state) {
  (void)state;
  folder = temp_folder_create();
  model = temp_folder_create();
  tiny_model_write(&model, NULL);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  temp_folder_remove(&folder);
  temp_folder_remove(&model);
  return 0;
}

#define GENERATE(...) GRAFT(folder.path, "generate", "-q", "-m", model.path, __VA_ARGS__)

static void sizes_are_met_exactly_or_refused_with_the_nearest(void **state) {
  (void)state;
  // The shipped model takes multiples of 16 up to 8192; the sizes are those that users of such programs tripped over.
  static const char *const sizes[][2] = {
      {"8x8", "16x16"},       {"504x520", "512x528"},      {"513x512", "512x512"}, {"1x1", "16x16"},
      {"0x512", "16x512"},    {"-8x512", "16x512"},        {"65536x8", "8192x16"}, {"512x0", "512x16"},
      {"8200x64", "8192x64"}, {"999999999x16", "8192x16"},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    char nearest[64];
    snprintf(nearest, sizeof nearest, "nearest legal size is %s", sizes[i][1]);
    assert_refused(GRAFT(folder.path, "generate", "-q", "-m", GRAFT_SHIPPED_MODEL, "-p", "x", "--size", sizes[i][0]), 1,
                   nearest);
  }
  assert_refused(GENERATE("-p", "x", "--size", "1000000000000x16"), 2, "WIDTHxHEIGHT");
  assert_int_equal(temp_folder_count(&folder), 0);
}

static void steps_are_bounded(void **state) {
  (void)state;
  static const char *const right[] = {"1", "2", "7", "999", "1000"};
  for (size_t i = 0; i < sizeof right / sizeof right[0]; ++i) {
    assert_done(GENERATE("-p", "x", "--steps", right[i], "--size", "4x4", "--guidance", "0"));
    assert_int_equal(temp_folder_count(&folder), 1);
  }
  temp_folder_remove(&folder);
  folder = temp_folder_create();
  assert_refused(GENERATE("-p", "x", "--steps", "1001"), 1, "between 1 and 1000, not 1001");
  assert_refused(GENERATE("-p", "x", "--steps", "5000000000"), 1, "between 1 and 1000, not 2147483647");
  assert_refused(GENERATE("-p", "x", "--steps", "0"), 2, "from 1");
  assert_refused(GENERATE("-p", "x", "--steps", "-4"), 2, "from 1");
  assert_int_equal(temp_folder_count(&folder), 0);
}

// Pictures hold the guidance as text, so the values are compared, not the files.
static void assert_same_image(const char *a, const char *b) {
  const int64_t shape[] = {1, 3, 16, 16, 0};
  graft_safetensors *first = open_tensors(temp_folder_join(&folder, a).text);
  graft_safetensors *second = open_tensors(temp_folder_join(&folder, b).text);
  assert_memory_equal(assert_tensor(first, "image", shape), assert_tensor(second, "image", shape),
                      count_of(shape) * sizeof(float));
  assert_null(graft_safetensors_find(second, "negative_prompt_embeds"));
  graft_safetensors_close(first);
  graft_safetensors_close(second);
}

static void no_guidance_takes_no_notice_of_the_negative_prompt(void **state) {
  (void)state;
  assert_done(GENERATE("-p", "x", "--guidance", "0", "--dump", "zero.safetensors"));
  assert_done(GENERATE("-p", "x", "--guidance", "0", "-n", "a dog", "--dump", "zero_negative.safetensors"));
  assert_done(GENERATE("-p", "x", "--guidance", "-1", "-n", "a cow", "--dump", "below.safetensors"));
  assert_same_image("zero.safetensors", "zero_negative.safetensors");
  assert_same_image("zero.safetensors", "below.safetensors");
  assert_refused(GENERATE("-p", "x", "--guidance", "nan"), 2, "got 'nan'");
  assert_refused(GENERATE("-p", "x", "--guidance", "-inf"), 2, "got '-inf'");
  assert_refused(GENERATE("-p", "x", "--guidance", "1e300"), 2, "got '1e300'");
}

static void awkward_prompts_work(void **state) {
  (void)state;
  static const char *const prompts[] = {"",
                                        " ",
                                        "\n\n\n  a",
                                        "un chaton tr\xC3\xA8s mignon",
                                        "\xE4\xB8\x80\xE5\x8F\xAA\xE7\x8C\xAB",
                                        "\xF0\x9F\x90\x88\xE2\x80\x8D\xE2\xAC\x9B cat",
                                        "e\xCC\x81",
                                        "<|endoftext|> cat",
                                        "<|ENDOFTEXT|> cat",
                                        "(((a))",
                                        "\\(x\\)",
                                        "(a:1e9)",
                                        "(cat:1.2) (dog:0.8)",
                                        "-p",
                                        "--help"};
  for (size_t i = 0; i < sizeof prompts / sizeof prompts[0]; ++i) {
    assert_done(GENERATE("-p", prompts[i]));
    picture p = picture_read(temp_folder_join(&folder, "graft.png").text);
    if (prompts[i][0] > ' ') assert_parameter(&p, prompts[i]);
    free(p.bytes);
    program_result ids = GRAFT(NULL, "tokenize", "-m", GRAFT_SHIPPED_MODEL, "--", prompts[i]);
    assert_code(&ids, 0);
    json_t *list = parse_json(ids.output);
    assert_true(json_is_array(list));
    assert_int_equal(json_array_size(list) == 0, prompts[i][0] == '\0');
    json_decref(list);
    program_result_release(&ids);
  }
}

static void prompts_that_are_no_text_or_too_long_are_refused(void **state) {
  (void)state;
  enum { N = 50000 };
  char *text = malloc(2 * N + 1);
  assert_non_null(text);
  for (int i = 0; i < N; ++i) memcpy(text + 2 * (size_t)i, "a ", 3);
  assert_refused(GENERATE("-p", text), 1, "tokens");
  assert_refused(GENERATE("-p", "\xFF\xFE"), 1, "not UTF-8");
  assert_refused(GENERATE("-p", "x", "-n", "\xFF\xFE"), 1, "not UTF-8");
  assert_refused(GRAFT(NULL, "tokenize", "-m", GRAFT_SHIPPED_MODEL, "\xFF\xFE"), 1, "not UTF-8");
  assert_int_equal(temp_folder_count(&folder), 0);
  program_result ids = GRAFT(NULL, "tokenize", "-m", GRAFT_SHIPPED_MODEL, text);
  assert_code(&ids, 0);
  json_t *list = parse_json(ids.output);
  assert_in_range(json_array_size(list), N, 2 * N);
  json_decref(list);
  program_result_release(&ids);
  free(text);
}

static void chat_wraps_the_text(void **state) {
  (void)state;
  program_result plain = GRAFT(NULL, "tokenize", "-m", GRAFT_SHIPPED_MODEL, "a cat");
  program_result chat = GRAFT(NULL, "tokenize", "-m", GRAFT_SHIPPED_MODEL, "--chat", "a cat");
  json_t *inner = parse_json(plain.output), *outer = parse_json(chat.output);
  assert_true(json_array_size(outer) > json_array_size(inner));
  json_decref(inner);
  json_decref(outer);
  program_result_release(&plain);
  program_result_release(&chat);
}

int main(void) {
#define REQUEST_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      REQUEST_TEST(sizes_are_met_exactly_or_refused_with_the_nearest),  REQUEST_TEST(steps_are_bounded),
      REQUEST_TEST(no_guidance_takes_no_notice_of_the_negative_prompt), REQUEST_TEST(awkward_prompts_work),
      REQUEST_TEST(prompts_that_are_no_text_or_too_long_are_refused),   REQUEST_TEST(chat_wraps_the_text),
  };
  return cmocka_run_group_tests_name("cli.requests", tests, NULL, NULL);
}
