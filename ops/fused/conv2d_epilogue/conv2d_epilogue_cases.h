// conv2d_epilogue_cases.h — examples of graft.conv2d_epilogue.v1.
#ifndef GRAFT_OPS_FUSED_CONV2D_EPILOGUE_CONV2D_EPILOGUE_CASES_H
#define GRAFT_OPS_FUSED_CONV2D_EPILOGUE_CONV2D_EPILOGUE_CASES_H

#include "graft/op.h"

enum { GRAFT_CONV2D_EPILOGUE_N_CASES = 12 };
extern const graft_op_case graft_conv2d_epilogue_cases[GRAFT_CONV2D_EPILOGUE_N_CASES];

#endif
