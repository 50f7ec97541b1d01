// Gives one of the targets the name that libFuzzer calls; FUZZ_TARGET is set by the build.
#include "fuzz_targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return FUZZ_TARGET(data, size);
}
