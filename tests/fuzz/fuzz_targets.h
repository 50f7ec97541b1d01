// fuzz_targets.h — entry points that must survive any bytes. Each is a libFuzzer target when GRAFT_FUZZ is on, and is
// run on the files of corpus/<name>/ by the test fuzz.replay in every build.
//
//   cmake -B build-fuzz -DCMAKE_C_COMPILER=clang -DGRAFT_FUZZ=ON
//   build-fuzz/tests/fuzz/fuzz_safetensors -max_total_time=60 -dict=tests/fuzz/json.dict NEW
//   tests/fuzz/corpus/safetensors
//
// Inputs that found a fault stay in the corpus.
#ifndef GRAFT_TESTS_FUZZ_TARGETS_H
#define GRAFT_TESTS_FUZZ_TARGETS_H

#include <stddef.h>
#include <stdint.h>

typedef int (*fuzz_target)(const uint8_t *data, size_t size);

// The input is a safetensors file.
int fuzz_safetensors(const uint8_t *data, size_t size);

// The input is a safetensors file whose layers may be quantised.
int fuzz_quantized(const uint8_t *data, size_t size);

// The input is a whole tokenizer.json when it begins with "{". Otherwise its lines are put into one that is right: text
// to encode, more vocabulary, merges, added tokens, the regular expression, more members of the model; a missing line
// leaves the default.
int fuzz_tokenizer_json(const uint8_t *data, size_t size);

// The input's lines up to an empty one are merges.txt; then come a line with more members of vocab.json, one with the
// contents of added_tokens.json, one with those of tokenizer_config.json, and the text to encode.
int fuzz_tokenizer_vocabulary(const uint8_t *data, size_t size);

// The input is a configuration file, and an index of shards.
int fuzz_json(const uint8_t *data, size_t size);

// The input is a graph as text: read, checked, written and read again, and planned.
int fuzz_graph(const uint8_t *data, size_t size);

// The input fills the tables of an extension: registered, used and unregistered.
int fuzz_extension(const uint8_t *data, size_t size);

#endif
