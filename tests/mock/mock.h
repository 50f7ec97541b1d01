// mock.h — operators, a kernel and a backend for tests of the core, which link no operator and no backend of the
// project.
#ifndef GRAFT_TESTS_MOCK_H
#define GRAFT_TESTS_MOCK_H

#include "graft/context.h"

// mock.norm.v1: one input and an optional weight; attributes of every type; the output looks like the input.
typedef struct mock_norm_attrs {
  double eps;
  int64_t groups;
  bool affine;
  int32_t mode;  // "plain", "root"
  graft_dtype accumulate;
  int64_t axes[4];
  int32_t n_axes;
} mock_norm_attrs;

// mock.slice.v1: a view of the first dimension from |start| with |length| rows.
typedef struct mock_slice_attrs {
  int64_t start, length;
} mock_slice_attrs;

// mock.wrong.v1 (not a view) and mock.wrong_view.v1: whose inference gives what the attributes say, right or wrong.
typedef struct mock_wrong_attrs {
  int64_t shape[GRAFT_MAX_RANK];
  int32_t rank;
  int64_t strides[GRAFT_MAX_RANK];
  int32_t n_strides;
  int64_t offset;
  graft_dtype dtype;
  int64_t status;
} mock_wrong_attrs;

// Operators mock.add.v1 (broadcasting), mock.norm.v1, mock.slice.v1, mock.split.v1 (two outputs, halves of dimension
// 0), mock.wrong.v1, mock.wrong_view.v1; backend "mock" with two devices and "mock_absent" with none.
extern const graft_extension mock_extension;
extern const graft_op_def mock_ops[];
extern const graft_kernel_def mock_kernel;    // complete, for op mock.add.v1 on backend "mock"
extern const graft_backend_def mock_backend;  // complete

// Devices of "mock" that are open in all contexts together.
int mock_n_open(void);

// A context with mock_extension and nothing else. Fails the test when that cannot be made.
graft_context *mock_context(void);

// Collects printed text. |fail_after| pieces, when not 0, writing fails with GRAFT_E_IO.
typedef struct mock_text {
  char text[8192];
  size_t n;
  int fail_after, n_pieces;
} mock_text;
graft_writer mock_writer(mock_text *text);

#endif
