// printer.h — text in pieces through a graft_writer; after a failure nothing more is written. Not installed.
#ifndef GRAFT_SRC_GRAPH_PRINTER_H
#define GRAFT_SRC_GRAPH_PRINTER_H

#include "graft/op.h"

typedef struct graft_printer {
  graft_writer writer;
  graft_status status;  // the first failure of the writer
} graft_printer;

void graft_print_text(graft_printer *printer, const char *text);
// For short pieces: what goes beyond 255 bytes is cut.
void graft_print_format(graft_printer *printer, const char *format, ...) GRAFT_PRINTF(2, 3);
// |text| in double quotes; quotes, backslashes and control characters are escaped, so that it stays on one line.
void graft_print_quoted(graft_printer *printer, const char *text);
// "eps=1e-05, axes=[0, 2]": the attributes of |op| as its schema describes them.
void graft_print_attrs(graft_printer *printer, const graft_op_def *op, const void *attrs);

#endif
