// epilogue_attrs.h — the schema of an epilogue's attributes, for the operators that have one.
#ifndef GRAFT_OPS_COMMON_EPILOGUE_ATTRS_H
#define GRAFT_OPS_COMMON_EPILOGUE_ATTRS_H

#include <stddef.h>

#include "graft/op.h"

static const char *const epilogue_activations[] = {"none", "silu", "gelu", "gelu_tanh",
                                                   NULL};  // graft_epilogue_activation

// Entries of a graft_attr_def table for the members |activation| and |dtype| of |type_name|.
#define EPILOGUE_ATTRS(type_name)                                                   \
  {.name = "activation",                                                            \
   .type = GRAFT_ATTR_ENUM,                                                         \
   .offset = offsetof(type_name, activation),                                       \
   .choices = epilogue_activations},                                                \
  {                                                                                 \
    .name = "dtype", .type = GRAFT_ATTR_DTYPE, .offset = offsetof(type_name, dtype) \
  }

#endif
