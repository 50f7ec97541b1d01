// Measurements of kernels as a page with their roofline: the files of bench_page, in the style of plan_page.
#include <jansson.h>

#include "tools/graft/bench.h"
#include "tools/graft/bench_page.h"
#include "tools/graft/page.h"
#include "tools/graft/plan_page.h"

graft_status tool_bench_write_html(const char *title, const tool_peaks *peaks, const json_t *results,
                                   graft_writer writer, graft_error *error) {
  const tool_page page = {tool_bench_page_html, tool_plan_page_css, tool_bench_page_js};
  json_t *data = json_pack("{s:s, s:s, s:o, s:O}", "title", title, "version", graft_version(), "peaks",
                           tool_peaks_describe(peaks), "results", results);
  graft_status status = tool_write_page(&page, title, data, writer, error);
  json_decref(data);
  return status;
}
