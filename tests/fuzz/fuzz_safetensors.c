#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"
#include "fuzz_folder.h"
#include "fuzz_targets.h"

// What a user of the file relies on: every byte that a tensor claims is there.
static void use(const graft_safetensors *file) {
  unsigned sum = 0;
  for (size_t i = 0; i < graft_safetensors_count(file); ++i) {
    const graft_safetensors_tensor *tensor = graft_safetensors_at(file, i), *found = NULL;
    for (size_t k = 0; k < tensor->bytes; ++k) sum += ((const unsigned char *)tensor->data)[k];
    if (graft_safetensors_find(file, tensor->name) != tensor) abort();
    graft_status status = graft_safetensors_require(file, tensor->name, NULL, &found);
    if ((status == GRAFT_OK) != (tensor->dtype != NULL)) abort();
    if (graft_safetensors_advise(file, tensor->data, tensor->bytes, GRAFT_SAFETENSORS_DISCARD, NULL) != GRAFT_OK)
      abort();
  }
  const char *value = graft_safetensors_metadata(file, "format");
  volatile size_t used = sum + (value == NULL ? 0 : strlen(value));
  (void)used;
}

int fuzz_safetensors(const uint8_t *data, size_t size) {
  temp_path path = temp_folder_write(fuzz_folder(), "fuzz.safetensors", data, size);
  graft_status statuses[2];
  for (int access = GRAFT_SAFETENSORS_MAP; access <= GRAFT_SAFETENSORS_READ; ++access) {
    graft_error error = {0};
    graft_safetensors *file = NULL;
    statuses[access] = graft_safetensors_open(path.text, (graft_safetensors_access)access, &error, &file);
    if (statuses[access] == GRAFT_OK) use(file);
    if (statuses[access] != GRAFT_OK && strstr(error.message, "fuzz.safetensors") == NULL) abort();
    graft_safetensors_close(file);
  }
  if (statuses[0] != statuses[1]) abort();
  return 0;
}
