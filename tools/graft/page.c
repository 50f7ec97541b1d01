#include "tools/graft/page.h"

#include <stdlib.h>
#include <string.h>

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

static graft_status write_all(const tool_page *page, const char *title, const char *json, graft_writer writer) {
  GRAFT_TRY(write_text(writer, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>"));
  GRAFT_TRY(write_escaped(writer, title));
  GRAFT_TRY(write_text(writer, "</title>\n<style>\n"));
  GRAFT_TRY(write_text(writer, page->css));
  GRAFT_TRY(write_text(writer, "</style>\n</head>\n"));
  GRAFT_TRY(write_text(writer, page->html));
  GRAFT_TRY(write_text(writer, "<script type=\"application/json\" id=\"data\">"));
  GRAFT_TRY(write_json(writer, json));
  GRAFT_TRY(write_text(writer, "</script>\n<script>\n"));
  GRAFT_TRY(write_text(writer, page->js));
  return write_text(writer, "</script>\n</body>\n</html>\n");
}

graft_status tool_write_page(const tool_page *page, const char *title, const json_t *data, graft_writer writer,
                             graft_error *error) {
  char *json = data == NULL ? NULL : json_dumps(data, JSON_COMPACT | JSON_ENSURE_ASCII);
  if (json == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for the page");
  graft_status status = write_all(page, title, json, writer);
  free(json);
  return status == GRAFT_OK ? GRAFT_OK : GRAFT_FAIL(error, status, "the page could not be written");
}
