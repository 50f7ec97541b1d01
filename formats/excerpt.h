// excerpt.h — names and paths from outside, made fit for an error sentence.
//
// A tensor name can be a megabyte long or hold terminal control codes, and a path can fill the whole message. An
// excerpt is short, valid UTF-8 when its source is, and free of control characters. It is a value, so it lives until
// the end of the full expression:  GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: …", graft_excerpt_path(path).text)
#ifndef GRAFT_FORMATS_EXCERPT_H
#define GRAFT_FORMATS_EXCERPT_H

#include "graft/base.h"

enum { GRAFT_EXCERPT_BYTES = 168 };

typedef struct graft_excerpt {
  char text[GRAFT_EXCERPT_BYTES];
} graft_excerpt;

// The beginning of |name|; "…" marks a cut. NULL gives "(none)". Thread-safe.
graft_excerpt graft_excerpt_name(const char *name);

// The end of |path|, which tells more than its beginning; "…" marks a cut. NULL gives "(none)". Thread-safe.
graft_excerpt graft_excerpt_path(const char *path);

#endif
