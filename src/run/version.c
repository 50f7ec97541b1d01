#include "graft/base.h"

const char *graft_version(void) {
  return GRAFT_VERSION;
}
