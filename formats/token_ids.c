#include "formats/token_ids.h"

#include <stdlib.h>

graft_status graft_token_ids_append(graft_token_ids *list, int32_t id, graft_error *error) {
  if (list->n_ids == list->capacity) {
    size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
    int32_t *ids = capacity > SIZE_MAX / sizeof *ids ? NULL : realloc(list->ids, capacity * sizeof *ids);
    if (ids == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "out of memory for %zu token ids", capacity);
    list->ids = ids;
    list->capacity = capacity;
  }
  list->ids[list->n_ids++] = id;
  return GRAFT_OK;
}

void graft_token_ids_release(graft_token_ids *list) {
  if (list == NULL) return;
  free(list->ids);
  *list = (graft_token_ids){0};
}
