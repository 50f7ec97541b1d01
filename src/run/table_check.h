// table_check.h — the rules that the public headers set for definitions, checked one table at a time. Not installed.
#ifndef GRAFT_SRC_RUN_TABLE_CHECK_H
#define GRAFT_SRC_RUN_TABLE_CHECK_H

#include "graft/extension.h"

// Each returns GRAFT_E_INVALID with a sentence that names the definition and the rule it breaks.
graft_status graft_check_extension(const graft_extension *extension, graft_error *error);
graft_status graft_check_op(const graft_op_def *op, graft_error *error);
graft_status graft_check_kernel(const graft_kernel_def *kernel, graft_error *error);
graft_status graft_check_fusion(const graft_fusion_def *fusion, graft_error *error);
graft_status graft_check_dtype(graft_dtype dtype, graft_error *error);  // also GRAFT_E_EXISTS: a built-in's name
graft_status graft_check_backend(const graft_backend_def *backend, graft_error *error);

#endif
