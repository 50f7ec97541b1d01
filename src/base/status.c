#include "graft/status.h"

#include <stdarg.h>

#include "src/base/text.h"

const char *graft_status_name(graft_status status) {
  switch (status) {
    case GRAFT_OK: return "ok";
    case GRAFT_E_INVALID: return "invalid argument";
    case GRAFT_E_SHAPE: return "shape mismatch";
    case GRAFT_E_UNSUPPORTED: return "unsupported";
    case GRAFT_E_NOT_FOUND: return "not found";
    case GRAFT_E_EXISTS: return "already exists";
    case GRAFT_E_BUSY: return "in use";
    case GRAFT_E_NO_MEMORY: return "out of memory";
    case GRAFT_E_IO: return "input/output error";
    case GRAFT_E_FORMAT: return "malformed file";
    case GRAFT_E_CANCELLED: return "cancelled";
    case GRAFT_E_DEVICE: return "device failure";
  }
  return "unknown status";
}

graft_status graft_error_set(graft_error *error, graft_status status, const char *file, int line, const char *format,
                             ...) {
  if (error == NULL) return status;
  *error = (graft_error){.status = status, .file = file, .line = line};
  va_list arguments;
  va_start(arguments, format);
  graft_text_format(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  return status;
}

void graft_error_note(graft_error *error, const char *format, ...) {
  if (error == NULL || error->n_notes >= GRAFT_ERROR_MAX_NOTES) return;
  char *note = error->notes[error->n_notes++];
  va_list arguments;
  va_start(arguments, format);
  graft_text_format(note, sizeof error->notes[0], format, arguments);
  va_end(arguments);
}
