// bench_page.h — the page's own text (bench_page/*, embedded by the build).
#ifndef GRAFT_TOOLS_GRAFT_BENCH_PAGE_H
#define GRAFT_TOOLS_GRAFT_BENCH_PAGE_H

extern const char tool_bench_page_html[], tool_bench_page_js[];

#endif
