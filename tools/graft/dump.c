#include "tools/graft/dump.h"

#include <stdlib.h>
#include <string.h>

#include "formats/safetensors_writer.h"

typedef struct tool_dump_entry {
  char name[96];
  graft_tensor_desc desc;
  void *data;
} tool_dump_entry;

static graft_status grow(tool_dump *dump, graft_error *error) {
  size_t capacity = dump->capacity == 0 ? 32 : 2 * dump->capacity;
  tool_dump_entry *entries = realloc(dump->entries, capacity * sizeof *entries);
  if (entries == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for the dump");
  dump->entries = entries;
  dump->capacity = capacity;
  return GRAFT_OK;
}

graft_status tool_dump_add(tool_dump *dump, const char *name, const graft_tensor_desc *desc, const void *data,
                           graft_error *error) {
  if (dump->n_entries == dump->capacity) GRAFT_TRY(grow(dump, error));
  tool_dump_entry *entry = &dump->entries[dump->n_entries];
  size_t n = strlen(name), bytes = graft_tensor_desc_bytes(desc);
  if (n >= sizeof entry->name) return GRAFT_FAIL(error, GRAFT_E_INVALID, "the tensor name '%s' is too long", name);
  void *copy = malloc(bytes > 0 ? bytes : 1);
  if (copy == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to keep %s for the dump", name);
  if (bytes > 0) memcpy(copy, data, bytes);
  memcpy(entry->name, name, n + 1);
  entry->desc = *desc;
  entry->data = copy;
  ++dump->n_entries;
  return GRAFT_OK;
}

graft_status tool_dump_write(const tool_dump *dump, const char *path, graft_error *error) {
  graft_safetensors_source *sources = calloc(dump->n_entries + 1, sizeof *sources);
  if (sources == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for the dump");
  for (size_t i = 0; i < dump->n_entries; ++i) {
    const tool_dump_entry *entry = &dump->entries[i];
    sources[i] = (graft_safetensors_source){
        .name = entry->name, .dtype = entry->desc.dtype, .rank = entry->desc.rank, .data = entry->data};
    memcpy(sources[i].shape, entry->desc.shape, sizeof sources[i].shape);
  }
  graft_safetensors_contents contents = {.tensors = sources, .n_tensors = dump->n_entries};
  graft_status status = graft_safetensors_write(path, &contents, error);
  free(sources);
  return status;
}

void tool_dump_release(tool_dump *dump) {
  for (size_t i = 0; i < dump->n_entries; ++i) free(dump->entries[i].data);
  free(dump->entries);
  *dump = (tool_dump){0};
}
