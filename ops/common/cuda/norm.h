// norm.h — normalising rows on a CUDA device, with what may follow in the same kernel: y = norm(x) · weight + bias,
// then · (1 + scale) + shift, or addend + that · tanh(gate). Shared by host and device code.
#ifndef GRAFT_OPS_COMMON_CUDA_NORM_H
#define GRAFT_OPS_COMMON_CUDA_NORM_H

#include "ops/common/cuda/walk.h"

// Operands that vary by row; weight and bias are the same for all.
enum {
  GRAFT_NORM_Y,
  GRAFT_NORM_X,
  GRAFT_NORM_ADDEND,
  GRAFT_NORM_SCALE,
  GRAFT_NORM_SHIFT,
  GRAFT_NORM_GATE,
  GRAFT_NORM_N_OPERANDS
};

typedef struct graft_norm_params {
  graft_walk walk;       // over rows
  graft_walk held_walk;  // the same, of the first three operands alone
  graft_cuda_operand operands[GRAFT_WALK_MAX_OPERANDS];
  graft_cuda_operand weight, bias;
  int64_t steps[GRAFT_WALK_MAX_OPERANDS];  // bytes between elements of a row
  int64_t weight_step, bias_step;
  int64_t n;             // elements of a row
  int64_t n_same_sides;  // rows that follow each other and have scale, shift and gate in common
  int32_t is_centred;    // the mean is taken away: layer norm
  int32_t is_wide;       // rows are taken eight elements at a time
  // Where rows are held in registers: threads for a row, a power of two, and how many times a block takes the next
  // rows.
  int32_t n_lanes;  // 0: rows are read several times
  uint32_t n_turns;
  float eps, per_element;  // 1 / n
} graft_norm_params;

enum { GRAFT_NORM_HELD_THREADS = 256, GRAFT_NORM_MOST_LANES = 512, GRAFT_NORM_LEAST_LANES = 8 };
enum { GRAFT_NORM_HELD_BYTES = 32 };                          // of a row in each of its threads
enum { GRAFT_NORM_N_SUMS = 2 * GRAFT_NORM_MOST_LANES / 32 };  // floats that a block shares beside what it asks for

#ifdef __cplusplus
extern "C" {
#endif

// A node's norm by the places of its inputs; -1 where the operator has no such input.
typedef struct graft_norm_node {
  int32_t x, weight, bias, scale, shift, addend, gate;
  bool is_centred;
  double eps;
} graft_norm_node;

// Members of a kernel that are the same for all: its state is the function.
bool graft_norm_supports(const graft_node_info *node, graft_reason *why);
graft_status graft_norm_prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared);
graft_status graft_norm_encode(graft_encoder *encoder, const graft_encode_args *args, const graft_norm_node *norm);

#ifdef __cplusplus
}
#endif

#endif
