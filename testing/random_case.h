// random_case.h — a case with other sizes than the table's.
#ifndef GRAFT_TESTING_RANDOM_CASE_H
#define GRAFT_TESTING_RANDOM_CASE_H

#include "graft/graft.h"

typedef struct graft_testing_random_case {
  const graft_op_case *source;
  graft_op_case sample;
  char name[96];    // what |sample.name| points at once drawn: keep the struct where it is
  uint64_t choice;  // a number for the caller's further choices
} graft_testing_random_case;

// Draws a case of |op| and new sizes: equal sizes stay equal, some keep their value. Sizes in fill ranges follow, and
// the length of the reduction grows with the inputs. Whether inference takes it is for the caller to see. False when
// the operator has no case, or the drawn one would be too large. Equal arguments give equal cases. Thread-safe.
bool graft_testing_random_case_draw(const graft_op_def *op, uint64_t seed, uint64_t round,
                                    graft_testing_random_case *out_case);

#endif
