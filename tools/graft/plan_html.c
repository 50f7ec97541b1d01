// Plans as a page: the files of plan_page.
#include <jansson.h>

#include "tools/graft/page.h"
#include "tools/graft/plan.h"
#include "tools/graft/plan_page.h"

graft_status tool_plan_write_html(const char *title, const json_t *stages, graft_writer writer, graft_error *error) {
  const tool_page page = {tool_plan_page_html, tool_plan_page_css, tool_plan_page_js};
  json_t *data = json_pack("{s:s, s:s, s:O}", "title", title, "version", graft_version(), "stages", stages);
  graft_status status = tool_write_page(&page, title, data, writer, error);
  json_decref(data);
  return status;
}
