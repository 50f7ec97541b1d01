// linear_epilogue_cases.h — examples of graft.linear_epilogue.v1.
#ifndef GRAFT_OPS_FUSED_LINEAR_EPILOGUE_LINEAR_EPILOGUE_CASES_H
#define GRAFT_OPS_FUSED_LINEAR_EPILOGUE_LINEAR_EPILOGUE_CASES_H

#include "graft/op.h"

enum { GRAFT_LINEAR_EPILOGUE_N_CASES = 21 };
extern const graft_op_case graft_linear_epilogue_cases[GRAFT_LINEAR_EPILOGUE_N_CASES];

#endif
