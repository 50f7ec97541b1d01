#include "formats/safetensors_dtype.h"

#include <string.h>

// In the order in which the reference implementation declares them; writers sort by it, last first.
static const graft_safetensors_dtype dtypes[] = {
    {"BOOL", 8, GRAFT_BOOL},
    {"F4", 4, NULL},
    {"F6_E2M3", 6, NULL},
    {"F6_E3M2", 6, NULL},
    {"U8", 8, GRAFT_U8},
    {"I8", 8, GRAFT_I8},
    {"F8_E5M2", 8, GRAFT_F8_E5M2},
    {"F8_E4M3", 8, GRAFT_F8_E4M3},
    {"F8_E8M0", 8, NULL},
    {"F8_E4M3FNUZ", 8, NULL},
    {"F8_E5M2FNUZ", 8, NULL},
    {"I16", 16, NULL},
    {"U16", 16, NULL},
    {"F16", 16, GRAFT_F16},
    {"BF16", 16, GRAFT_BF16},
    {"I32", 32, GRAFT_I32},
    {"U32", 32, NULL},
    {"F32", 32, GRAFT_F32},
    {"C64", 64, NULL},
    {"F64", 64, NULL},
    {"I64", 64, GRAFT_I64},
    {"U64", 64, NULL},
};

enum { N_DTYPES = sizeof dtypes / sizeof dtypes[0] };

const graft_safetensors_dtype *graft_safetensors_dtype_find(const char *name) {
  for (int i = 0; i < N_DTYPES; ++i)
    if (strcmp(dtypes[i].name, name) == 0) return &dtypes[i];
  return NULL;
}

const graft_safetensors_dtype *graft_safetensors_dtype_of(graft_dtype dtype) {
  for (int i = 0; dtype != NULL && i < N_DTYPES; ++i)
    if (dtypes[i].dtype == dtype) return &dtypes[i];
  return NULL;
}
