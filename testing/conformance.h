// conformance.h — holds every registered kernel of a backend to its operator's reference. Everything is made from the
// registry: each kernel × its operator's cases × dtypes, omitted inputs, layouts, constants, aliasing and threads. It
// uses only graft's public interface, so an application's own operators are tested the same way as built-in ones.
//
//   graft_conformance_options options = {.struct_size = sizeof options, .op = "acme.*", .writer = writer,
//                                        .extensions = extensions, .n_extensions = n};
//   graft_conformance_report report;
//   if (graft_conformance_run(&options, &error, &report) != GRAFT_OK || report.n_failures > 0) …
#ifndef GRAFT_TESTING_CONFORMANCE_H
#define GRAFT_TESTING_CONFORMANCE_H

#include "graft/graft.h"

// Zero-initialise, set struct_size and what differs from the defaults. Patterns are a shell's (`*`, `?`, `[…]`); NULL
// takes everything.
typedef struct graft_conformance_options {
  uint32_t struct_size;
  const graft_extension *const *extensions;  // all that is registered, backends included; NULL: graft's own
  uint32_t n_extensions;
  const char *cpu_target;  // as in graft_context_options; NULL: the best that the CPU has
  const char *op;          // pattern of full operator names
  const char *kernel;      // pattern of kernel names
  const char *case_name;   // pattern
  const char *form;        // pattern: "declared", "floats bf16", "input 0 repeated along 1", …
  uint64_t seed;           // of the inputs' values
  bool is_quick;           // leave out what is large, and most combinations
  double random_seconds;   // > 0: instead of the cases as they are, cases with other sizes for so long
  graft_writer writer;     // write NULL: nothing is printed
  const char *device;      // whose kernels are tested: "cuda:0"; NULL: "cpu". References always run on the CPU
} graft_conformance_options;

typedef struct graft_conformance_report {
  uint32_t n_ops;              // looked at
  uint32_t n_kernels;          // tested
  uint32_t n_skipped_kernels;  // whose features the device lacks
  uint32_t n_failed_kernels;   // with at least one failure, or not exercised by any case
  uint64_t n_runs;             // of kernels, by the harness itself or in a plan
  uint64_t n_refused;          // uses that a kernel said it does not support
  uint64_t n_failures;         // all of them, also those of references and decompositions
  double worst;                // largest error as a fraction of the bound
} graft_conformance_report;

// Tests the kernels of the device's backend and prints one line per kernel, and one per failure with everything that is
// needed to see it again. Returns GRAFT_OK when testing was possible, whatever it found.
// Errors: GRAFT_E_NOT_FOUND (no operator has such a name, with such a kernel and such a case), GRAFT_E_NO_MEMORY, what
// contexts report.
GRAFT_NODISCARD graft_status graft_conformance_run(const graft_conformance_options *options, graft_error *error,
                                                   graft_conformance_report *out_report);

#endif
