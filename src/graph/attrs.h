// attrs.h — attribute structs of operators, as their schemas describe them. Not installed.
#ifndef GRAFT_SRC_GRAPH_ATTRS_H
#define GRAFT_SRC_GRAPH_ATTRS_H

#include "graft/op.h"

// Bytes of the member that |attr| describes; 0 for an unknown type.
size_t graft_attr_bytes(const graft_attr_def *attr);

// Number of names in |attr->choices|.
uint32_t graft_attr_n_choices(const graft_attr_def *attr);

// The used entries of an I64S member.
int32_t graft_attr_count(const graft_attr_def *attr, const void *attrs);

// Checks what the schema of |op| limits: choices, counts, booleans. GRAFT_E_INVALID names the attribute.
graft_status graft_attrs_check(const graft_op_def *op, const void *attrs, graft_error *error);

// Whether two attribute structs of |op| have the same values, as its schema describes them.
bool graft_attrs_equal(const graft_op_def *op, const void *a, const void *b);

#endif
