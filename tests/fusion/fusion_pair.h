// fusion_pair.h — one use of a fused operator, written as the group of plain operators that it stands for, and planned
// twice: with and without fusion.
#ifndef GRAFT_TESTS_FUSION_PAIR_H
#define GRAFT_TESTS_FUSION_PAIR_H

#include "testing/example.h"

// Beside graft_plan_flags: inputs that are no constants pass an identity first (testing/helper_ops.h, which the context
// must have), so that their storage may be taken over.
enum { FUSION_PAIR_INTERMEDIATES = 1 << 29 };

typedef struct fusion_pair {
  graft_testing_example *example;
  graft_graph *graph;
  graft_plan *fused, *plain;
  void *got, *want;  // what the two gave, contiguous
} fusion_pair;

// Makes the pair for |sample| of |rule|'s operator with values from |seed|, and writes them into both plans.
// |flags| are graft_plan_flags of the fused plan. Fails the test when that cannot be done.
void fusion_pair_create(graft_context *context, const graft_fusion_def *rule, const graft_op_case *sample,
                        uint64_t seed, uint32_t flags, fusion_pair *out_pair);
void fusion_pair_destroy(fusion_pair *pair);

// Plans the second one anew, with |fusion| (graft_plan_options.fusion) instead of without fusion.
void fusion_pair_compare_with(fusion_pair *pair, const char *fusion);

// A further plan of the group, with |fusion|. The caller destroys it before the pair.
graft_plan *fusion_pair_plan(fusion_pair *pair, const char *fusion);

// Runs both and reads |got| and |want|.
void fusion_pair_run(fusion_pair *pair);

// Largest difference of |got| and |want| as a fraction of the bound: the rounding of the group's nodes, each of which
// may be as far from the truth as its operator's tolerance says, in the coarser of the result's and the first input's
// dtype.
double fusion_pair_difference(const fusion_pair *pair);

// How many groups |rule| replaced in |plan|.
uint32_t fusion_count(const graft_plan *plan, const char *rule);

// Whether a group stayed apart because weights or rows have no room in a core's cache, as on some processors.
bool fusion_has_no_room(const graft_plan *plan);

// The rule called |name|; fails the test when there is none.
const graft_fusion_def *fusion_rule(const graft_context *context, const char *name);

#endif
