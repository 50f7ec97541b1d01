#include <stdlib.h>
#include <string.h>

#include "graft/versioned.h"
#include "src/base/checked.h"
#include "src/run/registry_internal.h"
#include "src/run/table_check.h"

// An array of structs that begin with their size, which is also the distance from one to the next.
typedef struct source_array {
  const void *elements;
  uint32_t n;
  const char *what;
} source_array;

static graft_status copy_array(graft_arena *arena, source_array source, size_t element_bytes, graft_error *error,
                               void **out_copy) {
  if (source.n == 0) return GRAFT_OK;
  if (source.elements == NULL)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the array of %ss is NULL, its count is not 0", source.what);
  unsigned char *copy = graft_arena_alloc_array(arena, source.n, element_bytes);
  if (copy == NULL)
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a copy of %u tables", (unsigned)source.n);
  uint32_t stride;
  memcpy(&stride, source.elements, sizeof stride);
  for (uint32_t i = 0; i < source.n; ++i) {
    const unsigned char *element = (const unsigned char *)source.elements + (size_t)i * stride;
    uint32_t bytes;
    memcpy(&bytes, element, sizeof bytes);
    if (bytes != stride)
      return GRAFT_FAIL(error, GRAFT_E_INVALID, "struct_size of %s %u is %u, of the first one %u", source.what,
                        (unsigned)i, (unsigned)bytes, (unsigned)stride);
    GRAFT_TRY(graft_versioned_copy(copy + i * element_bytes, element_bytes, element, source.what, error));
  }
  *out_copy = copy;
  return GRAFT_OK;
}

static graft_status copy_tables(graft_registered *registered, graft_error *error) {
  graft_extension *t = &registered->tables;
  graft_arena *arena = &registered->arena;
  void *ops = NULL, *kernels = NULL, *fusions = NULL, *backends = NULL;
  source_array from_ops = {t->ops, t->n_ops, "graft_op_def"};
  source_array from_kernels = {t->kernels, t->n_kernels, "graft_kernel_def"};
  source_array from_fusions = {t->fusions, t->n_fusions, "graft_fusion_def"};
  source_array from_backends = {t->backends, t->n_backends, "graft_backend_def"};
  GRAFT_TRY(copy_array(arena, from_ops, sizeof *t->ops, error, &ops));
  GRAFT_TRY(copy_array(arena, from_kernels, sizeof *t->kernels, error, &kernels));
  GRAFT_TRY(copy_array(arena, from_fusions, sizeof *t->fusions, error, &fusions));
  GRAFT_TRY(copy_array(arena, from_backends, sizeof *t->backends, error, &backends));
  t->ops = ops;
  t->kernels = kernels;
  t->fusions = fusions;
  t->backends = backends;
  if (t->n_dtypes > 0 && t->dtypes == NULL)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the array of dtypes is NULL, its count is not 0");
  return GRAFT_OK;
}

static graft_status check_tables(const graft_extension *t, graft_error *error) {
  GRAFT_TRY(graft_check_extension(t, error));
  for (uint32_t i = 0; i < t->n_ops; ++i) GRAFT_TRY(graft_check_op(&t->ops[i], error));
  for (uint32_t i = 0; i < t->n_kernels; ++i) GRAFT_TRY(graft_check_kernel(&t->kernels[i], error));
  for (uint32_t i = 0; i < t->n_fusions; ++i) GRAFT_TRY(graft_check_fusion(&t->fusions[i], error));
  for (uint32_t i = 0; i < t->n_dtypes; ++i) GRAFT_TRY(graft_check_dtype(t->dtypes[i], error));
  for (uint32_t i = 0; i < t->n_backends; ++i) GRAFT_TRY(graft_check_backend(&t->backends[i], error));
  return GRAFT_OK;
}

// The version comes first: a newer extension is refused for that, not for what it looks like in old eyes.
static graft_status copy_and_check(graft_registered *registered, graft_error *error) {
  const graft_extension *source = registered->source;
  if (source->struct_size < offsetof(graft_extension, name))
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "struct_size of a graft_extension is %u; set it to sizeof the struct",
                      (unsigned)source->struct_size);
  if (source->abi_version > GRAFT_ABI_VERSION)
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                      "the extension was built for version %u of the interface and this library has %d; update graft",
                      (unsigned)source->abi_version, GRAFT_ABI_VERSION);
  if (source->abi_version == 0)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "abi_version of the extension is 0; set it to GRAFT_ABI_VERSION");
  GRAFT_TRY(graft_versioned_copy(&registered->tables, sizeof registered->tables, source, "a graft_extension", error));
  GRAFT_TRY(copy_tables(registered, error));
  return check_tables(&registered->tables, error);
}

graft_status graft_registered_create(const graft_extension *extension, graft_error *error,
                                     graft_registered **out_registered) {
  if (extension == NULL) return GRAFT_FAIL(error, GRAFT_E_INVALID, "the extension is NULL");
  graft_registered *registered = calloc(1, sizeof *registered);
  if (registered == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for an extension");
  registered->source = extension;
  graft_status status = copy_and_check(registered, error);
  if (status != GRAFT_OK) {
    if (registered->tables.name != NULL) graft_error_note(error, "registering extension %s", registered->tables.name);
    graft_registered_destroy(registered);
    return status;
  }
  *out_registered = registered;
  return GRAFT_OK;
}

void graft_registered_destroy(graft_registered *registered) {
  if (registered == NULL) return;
  graft_arena_release(&registered->arena);
  free(registered);
}
