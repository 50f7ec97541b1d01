// rms_norm_rotary_attrs.h — the schema of graft_rms_norm_rotary_attrs, for the operators that have it.
#ifndef GRAFT_OPS_FUSED_RMS_NORM_ROTARY_RMS_NORM_ROTARY_ATTRS_H
#define GRAFT_OPS_FUSED_RMS_NORM_ROTARY_RMS_NORM_ROTARY_ATTRS_H

#include <stddef.h>

#include "graft/op.h"
#include "ops/fused/rms_norm_rotary/rms_norm_rotary.h"

static const char *const rms_norm_rotary_styles[] = {"interleaved", "half", NULL};  // graft_rotary_style

// Entries of a graft_attr_def table; the attributes lie |base| bytes from the beginning of the operator's.
#define RMS_NORM_ROTARY_ATTRS(base)                                                                            \
  {.name = "eps",                                                                                              \
   .type = GRAFT_ATTR_F64,                                                                                     \
   .offset = (base) + offsetof(graft_rms_norm_rotary_attrs, eps),                                              \
   .default_f64 = 1e-5},                                                                                       \
      {.name = "style",                                                                                        \
       .type = GRAFT_ATTR_ENUM,                                                                                \
       .offset = (base) + offsetof(graft_rms_norm_rotary_attrs, style),                                        \
       .choices = rms_norm_rotary_styles},                                                                     \
      {.name = "scale",                                                                                        \
       .type = GRAFT_ATTR_F64,                                                                                 \
       .offset = (base) + offsetof(graft_rms_norm_rotary_attrs, scale),                                        \
       .default_f64 = 1},                                                                                      \
  {                                                                                                            \
    .name = "dtype", .type = GRAFT_ATTR_DTYPE, .offset = (base) + offsetof(graft_rms_norm_rotary_attrs, dtype) \
  }

#endif
