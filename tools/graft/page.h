// page.h — results as one HTML file: what stands in its body, style and program, with numbers between them. Nothing is
// fetched when it is opened.
#ifndef GRAFT_TOOLS_GRAFT_PAGE_H
#define GRAFT_TOOLS_GRAFT_PAGE_H

#include <jansson.h>

#include "tools/graft/tool.h"

typedef struct tool_page {
  const char *html, *css, *js;  // the program finds |data| as JSON in the element "data"
} tool_page;

// Writes |page|. |title| need not be HTML. Errors: GRAFT_E_NO_MEMORY, what |writer| says.
GRAFT_NODISCARD graft_status tool_write_page(const tool_page *page, const char *title, const json_t *data,
                                             graft_writer writer, graft_error *error);

#endif
