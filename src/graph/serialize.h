// serialize.h — what writing and reading graphs as text share. Not installed.
#ifndef GRAFT_SRC_GRAPH_SERIALIZE_H
#define GRAFT_SRC_GRAPH_SERIALIZE_H

#include "graft/op.h"
#include "src/graph/graph_internal.h"
#include "src/graph/printer.h"

#define GRAFT_SERIALIZE_MAGIC "graft-graph"

// "%3 f32[2, 4]"
void graft_serialize_value(graft_printer *printer, const graft_tensor *tensor);
// The same for all outputs of |node|, joined by commas: what stands left of its "=".
void graft_serialize_results(graft_printer *printer, const graft_node *node);

// A place in a text that ends with a zero byte; quoted strings are unescaped where they stand.
typedef struct graft_text_reader {
  char *at;
  uint32_t line;  // counted from 1
  graft_error *error;
} graft_text_reader;

// Reports GRAFT_E_FORMAT or |status|, "line 7: " before the sentence.
graft_status graft_text_fail(graft_text_reader *reader, graft_status status, const char *format, ...)
    GRAFT_PRINTF(3, 4);
void graft_text_skip_spaces(graft_text_reader *reader);
// Steps over |token| if it stands here, spaces before it included.
bool graft_text_take(graft_text_reader *reader, const char *token);
// The same, or a failure that says what was expected.
graft_status graft_text_expect(graft_text_reader *reader, const char *token);
// Steps over spaces and letters, digits, '_', '.', '-'; returns their number. |*out_word| is not terminated.
size_t graft_text_word(graft_text_reader *reader, const char **out_word);
graft_status graft_text_i64(graft_text_reader *reader, int64_t *out_value);
graft_status graft_text_f64(graft_text_reader *reader, double *out_value);
// A string in quotes, unescaped and terminated in place.
graft_status graft_text_quoted(graft_text_reader *reader, char **out_text);
// The name that stands here, as a dtype of |context|.
graft_status graft_text_dtype(graft_text_reader *reader, const graft_context *context, graft_dtype *out_dtype);

// Reads "{eps=1e-05, axes=[0, 2]}" over the defaults in |attrs|. Errors also GRAFT_E_NOT_FOUND.
graft_status graft_text_attrs(graft_text_reader *reader, const graft_context *context, const graft_op_def *op,
                              void *attrs);

#endif
