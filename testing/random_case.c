#include "testing/random_case.h"

#include <math.h>
#include <stdio.h>

#include "testing/random.h"

// Inputs beyond it would take longer to fill than to test.
enum { MAX_ELEMENTS = 1000000 };

enum { MAX_SIZES = GRAFT_CASE_MAX_INPUTS * GRAFT_MAX_RANK };

typedef struct mapping {
  int64_t from[MAX_SIZES], to[MAX_SIZES];
  uint32_t count;
} mapping;

// A size near vector widths and block sizes more often than not.
static int64_t draw_size(int64_t old, uint64_t seed, uint64_t stream, uint64_t counter) {
  static const int64_t favoured[] = {1,  2,  3,  5,  7,  8,  15,  16,  17,  31,  32,
                                     33, 48, 63, 64, 65, 96, 100, 127, 128, 129, 260};
  uint64_t bits = graft_testing_bits(seed, stream, counter);
  uint64_t pick = bits >> 8;
  if (old == 0) return 0;  // what is empty is there to be empty
  switch (bits % 4) {
    case 0: return old;
    case 1: return 1 + (int64_t)(pick % (uint64_t)(2 * old + 1));
    case 2: return old * (1 + (int64_t)(pick % 3));
    default: return favoured[pick % (sizeof favoured / sizeof favoured[0])];
  }
}

static int64_t mapped(mapping *sizes, int64_t old, uint64_t seed, uint64_t stream) {
  for (uint32_t i = 0; i < sizes->count; ++i) {
    if (sizes->from[i] == old) return sizes->to[i];
  }
  int64_t size = draw_size(old, seed, stream, sizes->count);
  sizes->from[sizes->count] = old;
  sizes->to[sizes->count++] = size;
  return size;
}

static double n_elements(const graft_case_input *input) {
  double n = 1;
  for (int32_t d = 0; d < input->rank; ++d) n *= (double)input->shape[d];
  return n;
}

bool graft_testing_random_case_draw(const graft_op_def *op, uint64_t seed, uint64_t round,
                                    graft_testing_random_case *out_case) {
  if (op->n_cases == 0) return false;
  uint64_t stream = graft_testing_stream(round, op->name);
  const graft_op_case *source = &op->cases[graft_testing_bits(seed, stream, 1u << 20) % op->n_cases];
  out_case->source = source;
  out_case->sample = *source;
  out_case->choice = graft_testing_bits(seed, stream, (1u << 20) + 1);
  snprintf(out_case->name, sizeof out_case->name, "%.60s #%llu", source->name, (unsigned long long)round);
  out_case->sample.name = out_case->name;
  mapping sizes = {.count = 0};
  double growth = 1;
  for (uint32_t i = 0; i < source->n_inputs; ++i) {
    graft_case_input *input = &out_case->sample.inputs[i];
    if (input->dtype == NULL) continue;
    for (int32_t d = 0; d < input->rank; ++d) input->shape[d] = mapped(&sizes, input->shape[d], seed, stream);
    if (n_elements(input) > MAX_ELEMENTS) return false;
    if (n_elements(&source->inputs[i]) > 0) {
      growth = fmax(growth, n_elements(input) / n_elements(&source->inputs[i]));
    }
  }
  for (uint32_t i = 0; i < source->n_inputs; ++i) {
    graft_case_input *input = &out_case->sample.inputs[i];
    for (uint32_t k = 0; k < sizes.count && input->fill == GRAFT_FILL_INTEGERS; ++k) {
      if (source->inputs[i].high > 2 && (int64_t)source->inputs[i].high == sizes.from[k]) {
        input->high = (double)sizes.to[k];
      }
    }
  }
  out_case->sample.reduction = (int64_t)ceil((double)source->reduction * growth);
  return true;
}
