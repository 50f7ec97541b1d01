// op_checks.h — the checks of an operator itself: its reference on strided views, its decomposition, its inference.
#ifndef GRAFT_TESTING_OP_CHECKS_H
#define GRAFT_TESTING_OP_CHECKS_H

#include "testing/session.h"

// Solves |example| and checks the operator on it; failures are counted in the session. |is_required|: that the oracle
// cannot solve it is a failure; otherwise the example is silently unfit. False when there is no solution to test with.
bool graft_testing_check_op(graft_testing_session *session, graft_testing_example *example, bool is_required);

#endif
