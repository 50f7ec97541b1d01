// status.h — how graft reports failure: a code to branch on and a sentence a person can act on.
//
//   graft_error error = {0};
//   if (graft_safetensors_open(path, &error, &file) != GRAFT_OK) fprintf(stderr, "%s\n", error.message);
//
// The record has a fixed size and holds no heap memory, so that reporting "out of memory" needs none.
#ifndef GRAFT_STATUS_H
#define GRAFT_STATUS_H

#include "graft/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum graft_status {
  GRAFT_OK = 0,
  GRAFT_E_INVALID,      // an argument or an option is wrong
  GRAFT_E_SHAPE,        // shapes, strides or dtypes do not fit together
  GRAFT_E_UNSUPPORTED,  // legal, but nothing here can do it
  GRAFT_E_NOT_FOUND,    // a file, tensor, operator or device of that name does not exist
  GRAFT_E_EXISTS,       // the name is taken
  GRAFT_E_BUSY,         // in use: cannot be removed or changed now
  GRAFT_E_NO_MEMORY,    // an allocation failed, or a size overflows
  GRAFT_E_IO,           // the operating system refused to read or write
  GRAFT_E_FORMAT,       // a file's bytes are not what its format says
  GRAFT_E_CANCELLED,    // the caller asked to stop
  GRAFT_E_DEVICE,       // a device or a backend failed
} graft_status;

enum { GRAFT_ERROR_MAX_NOTES = 4 };

// Details of the last failure. Zero-initialise before the first use; every reporting function overwrites it whole.
// Frozen.
typedef struct graft_error {
  graft_status status;
  int32_t line;      // where in graft the failure was noticed; for bug reports
  const char *file;  // static storage, or NULL
  int32_t n_notes;
  char op[48];  // name of the operator concerned, or ""
  char kernel[64];
  char message[512];
  char notes[GRAFT_ERROR_MAX_NOTES][192];  // context added on the way up, innermost first
} graft_error;

// Name of |status| in lower case, for example "not found". Static storage. Thread-safe.
GRAFT_API const char *graft_status_name(graft_status status);

// Fills |error| (may be NULL) and returns |status|, so that a failing function ends in `return GRAFT_FAIL(…)`.
// The message is cut, at a character boundary, where it does not fit. Thread-safe for distinct records.
GRAFT_API graft_status graft_error_set(graft_error *error, graft_status status, const char *file, int line,
                                       const char *format, ...) GRAFT_PRINTF(5, 6);

// Adds one line of context, for example which file was being read. Beyond GRAFT_ERROR_MAX_NOTES it is dropped.
GRAFT_API void graft_error_note(graft_error *error, const char *format, ...) GRAFT_PRINTF(2, 3);

#define GRAFT_FAIL(error, status, ...) graft_error_set((error), (status), __FILE__, __LINE__, __VA_ARGS__)

// Returns from the calling function when |expression| fails. For functions that hold nothing to clean up.
#define GRAFT_TRY(expression)                      \
  do {                                             \
    graft_status graft_try_ = (expression);        \
    if (graft_try_ != GRAFT_OK) return graft_try_; \
  } while (0)

#ifdef __cplusplus
}
#endif

#endif
