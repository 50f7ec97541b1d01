// plan_page.h — the page's own text: what stands in its body, style and program (plan_page/*, embedded by the build).
#ifndef GRAFT_TOOLS_GRAFT_PLAN_PAGE_H
#define GRAFT_TOOLS_GRAFT_PLAN_PAGE_H

extern const char tool_plan_page_html[], tool_plan_page_css[], tool_plan_page_js[];

#endif
