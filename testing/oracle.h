// oracle.h — what an example's outputs should be, and how far from it a result may lie.
#ifndef GRAFT_TESTING_ORACLE_H
#define GRAFT_TESTING_ORACLE_H

#include "testing/example.h"

// Fills |example->wants| by the operator's reference or, where it has none, by its decomposition run by references on
// |device|. Floating-point inputs are widened to f32 first (which changes no value), so that wanted outputs carry no
// rounding of a narrower dtype; exact cases keep their dtypes. Errors: what the reference or the decomposition reports.
GRAFT_NODISCARD graft_status graft_testing_solve(graft_testing_example *example, graft_device *device,
                                                 graft_context *context, graft_error *error);

// Whether an operator's decomposition gives what its reference gave: fills |out_values| (n_outputs blocks, to be freed)
// like graft_testing_solve, but always by the decomposition.
GRAFT_NODISCARD graft_status graft_testing_decompose(const graft_testing_example *example, graft_device *device,
                                                     graft_context *context, graft_error *error, void **out_values);

// Where and how far a result lies from the wanted one.
typedef struct graft_testing_difference {
  bool is_wrong;
  int64_t element;   // row-major number of the first wrong element
  double got, want;  // there
  double worst;      // largest error as a fraction of the bound, over all elements
} graft_testing_difference;

// Compares output |index| of |example| with |got|, contiguous and of dtype |dtype|.
graft_testing_difference graft_testing_compare(const graft_testing_example *example, uint32_t index, graft_dtype dtype,
                                               const void *got);

// Writes the coordinates of row-major element |element| as "[1, 0, 3]"; returns |text|.
const char *graft_testing_coordinates(const graft_tensor_desc *desc, int64_t element, char *text, size_t text_bytes);

#endif
