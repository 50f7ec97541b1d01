// The page is one file whatever names stand in the plan, and needs no network.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tools/graft/plan.h"
#include "tools/graft/plan_page.h"

typedef struct sink {
  char text[1 << 17];
  size_t n;
  int n_left;  // pieces until writing fails; negative: it never does
} sink;

static graft_status take(void *user, const char *text, size_t size) {
  sink *s = user;
  if (s->n_left == 0) return GRAFT_E_IO;
  if (s->n_left > 0) --s->n_left;
  assert_true(s->n + size < sizeof s->text);
  memcpy(s->text + s->n, text, size);
  s->n += size;
  return GRAFT_OK;
}

static graft_status write_page(const char *title, const char *node, sink *s) {
  json_t *stages = json_pack("[{s:s, s:[{s:s}]}]", "stage", "decoder", "steps", "node", node);
  graft_error error = {0};
  graft_status status = tool_plan_write_html(title, stages, (graft_writer){take, s}, &error);
  json_decref(stages);
  return status;
}

static void names_stay_inside_their_element(void **state) {
  static sink page = {.n_left = -1};
  (void)state;
  assert_int_equal(write_page("a <b> & </title>", "</script><script>alert(1)</script><!--", &page), GRAFT_OK);
  assert_non_null(strstr(page.text, "<title>a &lt;b> &amp; &lt;/title></title>"));
  assert_non_null(strstr(page.text, "\\u003c/script>\\u003cscript>alert(1)"));
  assert_null(strstr(page.text, "</script><script>alert"));
}

static void nothing_is_fetched(void **state) {
  static const char *const signs[] = {"http:", "https:", "src=", "href=", "@import", "url(", "fetch(", "import("};
  (void)state;
  for (size_t i = 0; i < sizeof signs / sizeof signs[0]; ++i) {
    assert_null(strstr(tool_plan_page_html, signs[i]));
    assert_null(strstr(tool_plan_page_css, signs[i]));
    assert_null(strstr(tool_plan_page_js, signs[i]));
  }
}

static void a_failing_writer_is_reported(void **state) {
  (void)state;
  for (int n = 0; n < 8; ++n) {
    static sink page;
    page = (sink){.n_left = n};
    assert_int_equal(write_page("model", "node", &page), GRAFT_E_IO);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(names_stay_inside_their_element),
                                     cmocka_unit_test(nothing_is_fetched),
                                     cmocka_unit_test(a_failing_writer_is_reported)};
  return cmocka_run_group_tests_name("plan.page_text", tests, NULL, NULL);
}
