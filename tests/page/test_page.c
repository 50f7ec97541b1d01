// The page of `graft plan --format html` in a headless browser: it draws, answers clicks and searches, and no error
// reaches the console. Without Chromium this is skipped, with a message.
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

static const char *find_browser(void) {
  static const char *const places[] = {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; ++i)
    if (access(places[i], X_OK) == 0) return places[i];
  return NULL;
}

typedef struct fixture {
  temp_folder folder;
  char *page;
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->folder = temp_folder_create();
  const temp_path path = temp_folder_join(&f->folder, "plan.html");
  const char *const arguments[] = {"plan", "--format", "html", NULL};
  program_result made = program_run(&(program_call){.output = path.text, .arguments = arguments});
  assert_code(&made, 0);
  program_result_release(&made);
  f->page = temp_folder_read(path.text, NULL);
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  temp_folder_remove(&f->folder);
  free(f->page);
  free(f);
  return 0;
}

// Runs the browser on |name| with one more argument; the caller releases the result.
static program_result browse(const fixture *f, const char *name, const char *argument) {
  char address[TEMP_PATH_BYTES + 16], profile[TEMP_PATH_BYTES + 32];
  snprintf(address, sizeof address, "file://%s", temp_folder_join(&f->folder, name).text);
  snprintf(profile, sizeof profile, "--user-data-dir=%s", temp_folder_join(&f->folder, "profile").text);
  const char *const arguments[] = {"--headless",
                                   "--no-sandbox",
                                   "--disable-gpu",
                                   "--hide-scrollbars",
                                   "--window-size=1280,2400",
                                   "--virtual-time-budget=10000",
                                   profile,
                                   argument,
                                   address,
                                   NULL};
  return program_run(&(program_call){.path = find_browser(), .folder = f->folder.path, .arguments = arguments});
}

// What the page is asked to do, and what it has to show for it, as JSON in its title.
static const char watcher[] =
    "<script>const problems = [];"
    "window.onerror = (message, file, line) => { problems.push(message + ' in line ' + line); };"
    "console.error = (...words) => { problems.push(words.join(' ')); };</script>";
static const char examination[] =
    "<script>window.addEventListener('load', () => {"
    "const colours = id => { const c = $(id), seen = new Set();"
    "  const data = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer);"
    "  for (const pixel of data) seen.add(pixel); return seen.size; };"
    "const found = {stages: [], problems};"
    "page.stages.forEach((s, i) => { show(i); found.stages.push({stage: s.stage, steps: s.steps.length,"
    "  rows: document.querySelectorAll('#steps tbody tr').length, cards: $('cards').children.length,"
    "  timeline: colours('timeline'), memory: colours('memory'), graph: colours('graph')}); });"
    "$('search').value = 'linear avx'; $('search').dispatchEvent(new Event('input'));"
    "$('search').value = 'no such thing'; $('search').dispatchEvent(new Event('input'));"
    "found.nothing = document.querySelectorAll('#steps tbody tr').length;"
    "$('search').value = ''; $('search').dispatchEvent(new Event('input'));"
    "for (const head of [...document.querySelectorAll('#steps th')]) head.click();"
    "document.querySelector('#steps tbody tr').click();"
    "found.detail = $('detail').textContent;"
    "const send = (type, more) => $('graph').dispatchEvent(new MouseEvent(type, {bubbles: true, clientX: 300, clientY: "
    "300, ...more}));"
    "$('graph').dispatchEvent(new WheelEvent('wheel', {deltaY: 100, cancelable: true}));"
    "send('mousedown'); send('mousemove', {clientX: 340}); send('mouseup'); send('click');"
    "document.title = 'found ' + JSON.stringify(found) + ' end';"
    "});</script>";

static json_t *examine(const fixture *f) {
  static const char head[] = "<meta charset=\"utf-8\">", foot[] = "</body>";
  const char *at_head = strstr(f->page, head), *at_foot = strstr(f->page, foot);
  assert_non_null(at_head);
  assert_non_null(at_foot);
  char *watched = NULL;
  at_head += sizeof head - 1;
  assert_true(asprintf(&watched, "%.*s%s%.*s%s%s", (int)(at_head - f->page), f->page, watcher, (int)(at_foot - at_head),
                       at_head, examination, at_foot) > 0);
  temp_folder_write_text(&f->folder, "watched.html", watched);
  free(watched);
  program_result result = browse(f, "watched.html", "--dump-dom");
  assert_code(&result, 0);
  char *begin = strstr(result.output, "<title>found "), *end = begin == NULL ? NULL : strstr(begin, " end</title>");
  if (end == NULL) fail_msg("the page did not get through its examination; it begins with\n%.400s", result.output);
  *end = '\0';
  json_t *found = json_loads(begin + sizeof "<title>found " - 1, 0, NULL);
  program_result_release(&result);
  assert_non_null(found);
  return found;
}

static void assert_at_least(const json_t *object, const char *key, json_int_t least) {
  const json_int_t value = json_integer_value(json_object_get(object, key));
  if (value < least) fail_msg("%s is %lld, not %lld or more", key, (long long)value, (long long)least);
}

static void KS6_the_page_draws_without_errors(void **state) {
  const fixture *f = *state;
  if (find_browser() == NULL) {
    print_message("skipped: Chromium is not installed\n");
    skip();
  }
  json_t *found = examine(f), *stages = json_object_get(found, "stages"), *stage = NULL;
  char *problems = json_dumps(json_object_get(found, "problems"), 0);
  assert_string_equal(problems, "[]");
  free(problems);
  assert_int_equal(json_array_size(stages), 3);
  size_t i = 0;
  json_array_foreach(stages, i, stage) {
    assert_at_least(stage, "steps", 20);
    assert_at_least(stage, "cards", 7);
    assert_int_equal(json_integer_value(json_object_get(stage, "rows")),
                     json_integer_value(json_object_get(stage, "steps")));
    assert_at_least(stage, "timeline", 5);
    assert_at_least(stage, "memory", 5);
    assert_at_least(stage, "graph", 5);
  }
  assert_int_equal(json_integer_value(json_object_get(found, "nothing")), 0);
  assert_holds(json_string_value(json_object_get(found, "detail")), "why not others");
  json_decref(found);
}

static void a_screenshot_is_not_blank(void **state) {
  const fixture *f = *state;
  if (find_browser() == NULL) skip();
  program_result result = browse(f, "plan.html", "--screenshot=page.png");
  assert_code(&result, 0);
  program_result_release(&result);
  png_image image = {.version = PNG_IMAGE_VERSION};
  assert_int_equal(png_image_begin_read_from_file(&image, temp_folder_join(&f->folder, "page.png").text), 1);
  image.format = PNG_FORMAT_GRAY;
  unsigned char *pixels = malloc(PNG_IMAGE_SIZE(image));
  assert_non_null(pixels);
  assert_int_equal(png_image_finish_read(&image, NULL, pixels, 0, NULL), 1);
  assert_true(image.width >= 1200 && image.height >= 1000);
  size_t counts[256] = {0}, n_grays = 0, most = 0;
  for (size_t i = 0; i < PNG_IMAGE_SIZE(image); ++i) ++counts[pixels[i]];
  for (int gray = 0; gray < 256; ++gray) {
    n_grays += counts[gray] > 0;
    if (counts[gray] > most) most = counts[gray];
  }
  free(pixels);
  assert_true(n_grays > 100);
  assert_true(most < PNG_IMAGE_SIZE(image) / 100 * 95);
}

static void the_page_holds_its_numbers(void **state) {
  const fixture *f = *state;
  static const char *const pieces[] = {"\"stage\":\"transformer\"",
                                       "\"kernel\":\"linear_",
                                       "\"near_misses\"",
                                       "\"live_bytes\"",
                                       "\"rejected\"",
                                       "id=\"graph\""};
  for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; ++i) assert_holds(f->page, pieces[i]);
}

static void KS6_steps_can_be_measured(void **state) {
  (void)state;
  program_result result = GRAFT(NULL, "plan", "--measure", "--stage", "text_encoder", "--format", "json");
  assert_code(&result, 0);
  json_t *list = parse_json(result.output), *steps = json_object_get(json_array_get(list, 0), "steps"), *step = NULL;
  size_t i = 0;
  json_array_foreach(steps, i, step) assert_true(json_real_value(json_object_get(step, "ms")) > 0);
  assert_true(i > 10);
  json_decref(list);
  program_result_release(&result);
  assert_prints(GRAFT(NULL, "plan", "--measure", "--stage", "text_encoder", "--brief"), "Measured: ");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_page_holds_its_numbers), cmocka_unit_test(KS6_the_page_draws_without_errors),
      cmocka_unit_test(KS6_steps_can_be_measured), cmocka_unit_test(a_screenshot_is_not_blank)};
  return cmocka_run_group_tests_name("plan.page", tests, set_up, tear_down);
}
