// node.h — runs one kernel on one node without a planner: every address, layout and alias is chosen by the test, and
// every buffer is guarded.
#ifndef GRAFT_TESTING_NODE_H
#define GRAFT_TESTING_NODE_H

#include "testing/example.h"
#include "testing/layout.h"

// How the node is to be run. Zero-initialise, set kernel, device, constants, and in_place to -1.
typedef struct graft_testing_setup {
  const graft_kernel_def *kernel;
  graft_device *device;
  graft_testing_layout layouts[GRAFT_CASE_MAX_INPUTS];
  uint32_t constants;  // bit i: the kernel is told that input i is a constant (contiguous then)
  int32_t in_place;    // input whose storage output 0 takes over; -1: none
  uint32_t placed;     // bit i: input i, a contiguous one, lies in output 0 already, where the operator's |part| says
} graft_testing_setup;

typedef struct graft_testing_node graft_testing_node;

// What became of an attempt that is not a failure of the machinery.
typedef enum graft_testing_outcome {
  GRAFT_TESTING_READY,
  GRAFT_TESTING_NOT_APPLICABLE,  // the layout changes nothing here, or inference refuses it
  GRAFT_TESTING_REFUSED,         // the kernel does not support the node
} graft_testing_outcome;

// Decides, prepares, packs and encodes. On GRAFT_OK with GRAFT_TESTING_READY the node can be run; otherwise |*out_node|
// is NULL and |out_reason| says why. A status other than GRAFT_OK is a fault of the kernel (or no memory).
GRAFT_NODISCARD graft_status graft_testing_node_create(const graft_testing_example *example,
                                                       const graft_testing_setup *setup, graft_error *error,
                                                       graft_reason *out_reason, graft_testing_outcome *out_outcome,
                                                       graft_testing_node **out_node);
void graft_testing_node_destroy(graft_testing_node *node);

// Fills all buffers anew with |poison| around the inputs' values, runs, fetches the outputs and checks guards and
// inputs. A fault found by the checks is GRAFT_E_DEVICE with a sentence. |control| may be NULL.
GRAFT_NODISCARD graft_status graft_testing_node_run(graft_testing_node *node, unsigned char poison,
                                                    const graft_run_control *control, graft_error *error);

// Output |index| of the last completed run, contiguous. Borrowed.
const void *graft_testing_node_output(const graft_testing_node *node, uint32_t index);

#endif
