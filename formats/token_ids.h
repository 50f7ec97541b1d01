// token_ids.h — a growing list of token ids.
#ifndef GRAFT_FORMATS_TOKEN_IDS_H
#define GRAFT_FORMATS_TOKEN_IDS_H

#include "graft/status.h"

// Zero-initialise; release with graft_token_ids_release. |capacity| is for the functions below.
typedef struct graft_token_ids {
  int32_t *ids;
  size_t n_ids;
  size_t capacity;
} graft_token_ids;

// Appends one id. Errors: GRAFT_E_NO_MEMORY; the list is unchanged then.
GRAFT_NODISCARD graft_status graft_token_ids_append(graft_token_ids *list, int32_t id, graft_error *error);

void graft_token_ids_release(graft_token_ids *list);

#endif
