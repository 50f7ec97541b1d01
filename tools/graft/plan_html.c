// Plans as a page: the files of plan_page with the numbers between them. Nothing is fetched when it is opened.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/graft/plan.h"
#include "tools/graft/plan_page.h"

static graft_status write_text(graft_writer writer, const char *text) {
  return writer.write(writer.user, text, strlen(text));
}

// In text and titles.
static graft_status write_escaped(graft_writer writer, const char *text) {
  for (; *text != '\0'; ++text) {
    const char plain[2] = {*text, '\0'};
    const char *escaped = *text == '<' ? "&lt;" : *text == '&' ? "&amp;" : plain;
    GRAFT_TRY(write_text(writer, escaped));
  }
  return GRAFT_OK;
}

// JSON within a script element: "<" stands in strings only, and written so nothing in them can end the element.
static graft_status write_json(graft_writer writer, const char *json) {
  while (*json != '\0') {
    size_t n = strcspn(json, "<");
    GRAFT_TRY(writer.write(writer.user, json, n));
    json += n;
    if (*json == '\0') break;
    GRAFT_TRY(write_text(writer, "\\u003c"));
    ++json;
  }
  return GRAFT_OK;
}

static graft_status write_page(const char *title, const char *json, graft_writer writer) {
  GRAFT_TRY(write_text(writer, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>"));
  GRAFT_TRY(write_escaped(writer, title));
  GRAFT_TRY(write_text(writer, "</title>\n<style>\n"));
  GRAFT_TRY(write_text(writer, tool_plan_page_css));
  GRAFT_TRY(write_text(writer, "</style>\n</head>\n"));
  GRAFT_TRY(write_text(writer, tool_plan_page_html));
  GRAFT_TRY(write_text(writer, "<script type=\"application/json\" id=\"data\">"));
  GRAFT_TRY(write_json(writer, json));
  GRAFT_TRY(write_text(writer, "</script>\n<script>\n"));
  GRAFT_TRY(write_text(writer, tool_plan_page_js));
  return write_text(writer, "</script>\n</body>\n</html>\n");
}

graft_status tool_plan_write_html(const char *title, const json_t *stages, graft_writer writer, graft_error *error) {
  json_t *page = json_pack("{s:s, s:s, s:O}", "title", title, "version", graft_version(), "stages", stages);
  char *json = page == NULL ? NULL : json_dumps(page, JSON_COMPACT | JSON_ENSURE_ASCII);
  json_decref(page);
  if (json == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for the page of the plan");
  graft_status status = write_page(title, json, writer);
  free(json);
  return status == GRAFT_OK ? GRAFT_OK : GRAFT_FAIL(error, status, "the page could not be written");
}
