#include <stdlib.h>
#include <string.h>

#include "formats/quantized.h"
#include "fuzz_folder.h"
#include "fuzz_targets.h"

// What loading relies on: weights and scales are there in full, and groups divide rows.
static void use(const graft_quantized *quantized) {
  unsigned sum = 0;
  for (size_t i = 0; i < graft_quantized_count(quantized); ++i) {
    const graft_quantized_layer *layer = graft_quantized_at(quantized, i);
    if (graft_quantized_find(quantized, layer->name) != layer || layer->weight == NULL) abort();
    if (layer->scale != NULL && layer->scale->bytes < sizeof(float)) abort();
    if (layer->format == GRAFT_QUANTIZED_INT8 && layer->weight->shape[1] % layer->group != 0) abort();
    for (size_t k = 0; k < layer->weight->bytes; ++k) sum += ((const unsigned char *)layer->weight->data)[k];
  }
  volatile unsigned used = sum;
  (void)used;
}

int fuzz_quantized(const uint8_t *data, size_t size) {
  const temp_path path = temp_folder_write(fuzz_folder(), "fuzz.safetensors", data, size);
  graft_error error = {0};
  graft_weights *weights = NULL;
  graft_quantized *quantized = NULL;
  if (graft_weights_open(path.text, GRAFT_SAFETENSORS_READ, &error, &weights) != GRAFT_OK) return 0;
  if (graft_quantized_read(weights, &error, &quantized) == GRAFT_OK) use(quantized);
  else if (error.message[0] == '\0') abort();
  graft_quantized_free(quantized);
  graft_weights_close(weights);
  return 0;
}
