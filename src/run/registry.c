#include "src/run/registry.h"

#include <stdlib.h>
#include <string.h>

#include "src/run/context_internal.h"

// Takes over |extensions| when an index of them can be made.
static graft_status exchange(graft_registry *registry, graft_registered **extensions, uint32_t n, graft_error *error) {
  graft_index index;
  GRAFT_TRY(graft_index_build(extensions, n, error, &index));
  graft_arena_release(&registry->index.arena);
  free(registry->extensions);
  *registry = (graft_registry){extensions, n, index};
  return GRAFT_OK;
}

graft_status graft_registry_add(graft_registry *registry, const graft_extension *const *extensions, uint32_t n,
                                graft_error *error) {
  uint32_t n_old = registry->n_extensions, n_made = 0;
  graft_status status = GRAFT_OK;
  graft_registered **all = calloc((size_t)n_old + n + 1, sizeof *all);
  if (all == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for %u extensions", (unsigned)n);
  for (uint32_t i = 0; i < n_old; ++i) all[i] = registry->extensions[i];
  for (; n_made < n; ++n_made) {
    status = graft_registered_create(extensions[n_made], error, &all[n_old + n_made]);
    if (status != GRAFT_OK) goto fail;
  }
  status = exchange(registry, all, n_old + n, error);
  if (status == GRAFT_OK) return GRAFT_OK;
fail:
  for (uint32_t i = 0; i < n_made; ++i) graft_registered_destroy(all[n_old + i]);
  free(all);
  return status;
}

static bool is_source(const graft_registered *registered, const graft_extension *const *extensions, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    if (registered->source == extensions[i]) return true;
  }
  return false;
}

bool graft_registry_has(const graft_registry *registry, const graft_extension *extension) {
  for (uint32_t i = 0; i < registry->n_extensions; ++i) {
    if (registry->extensions[i]->source == extension) return true;
  }
  return false;
}

graft_status graft_registry_remove(graft_registry *registry, const graft_extension *const *extensions, uint32_t n,
                                   graft_error *error) {
  uint32_t n_old = registry->n_extensions, n_kept = 0;
  for (uint32_t i = 0; i < n; ++i) {
    if (!graft_registry_has(registry, extensions[i]))
      return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "the extension is not registered in this context");
  }
  graft_registered **old = registry->extensions, **kept = calloc((size_t)n_old + 1, sizeof *kept);
  graft_registered **removed = calloc((size_t)n_old + 1, sizeof *removed);
  graft_status status = GRAFT_OK;
  if (kept == NULL || removed == NULL) {
    status = GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to unregister an extension");
    goto end;
  }
  for (uint32_t i = 0; i < n_old; ++i) {
    if (is_source(old[i], extensions, n)) removed[i - n_kept] = old[i];
    else kept[n_kept++] = old[i];
  }
  status = exchange(registry, kept, n_kept, error);
  if (status != GRAFT_OK) goto end;
  for (uint32_t i = 0; i < n_old - n_kept; ++i) graft_registered_destroy(removed[i]);
  kept = NULL;  // the registry's now
end:
  free(kept);
  free(removed);
  return status;
}

void graft_registry_release(graft_registry *registry) {
  for (uint32_t i = 0; i < registry->n_extensions; ++i) graft_registered_destroy(registry->extensions[i]);
  free(registry->extensions);
  graft_arena_release(&registry->index.arena);
  *registry = (graft_registry){0};
}

static uint32_t count(const graft_context *context, graft_name_kind kind) {
  const graft_index *index = &context->registry.index;
  return index->first[kind + 1] - index->first[kind];
}

static const void *at(const graft_context *context, graft_name_kind kind, uint32_t i) {
  const graft_index *index = &context->registry.index;
  return i < count(context, kind) ? index->names[index->first[kind] + i].definition : NULL;
}

static const void *find(const graft_context *context, graft_name_kind kind, const char *name) {
  if (name == NULL) return NULL;
  const graft_named *found = graft_index_find(&context->registry.index, kind, name);
  return found == NULL ? NULL : found->definition;
}

uint32_t graft_context_n_ops(const graft_context *context) {
  return count(context, GRAFT_NAME_OP);
}

const graft_op_def *graft_context_op(const graft_context *context, uint32_t index) {
  return at(context, GRAFT_NAME_OP, index);
}

const graft_op_def *graft_context_find_op(const graft_context *context, const char *name) {
  return find(context, GRAFT_NAME_OP, name);
}

uint32_t graft_context_n_kernels(const graft_context *context) {
  return count(context, GRAFT_NAME_KERNEL);
}

const graft_kernel_def *graft_context_kernel(const graft_context *context, uint32_t index) {
  return index < graft_context_n_kernels(context) ? context->registry.index.kernels[index] : NULL;
}

const graft_kernel_def *graft_context_find_kernel(const graft_context *context, const char *name) {
  return find(context, GRAFT_NAME_KERNEL, name);
}

uint32_t graft_context_n_fusions(const graft_context *context) {
  return count(context, GRAFT_NAME_FUSION);
}

const graft_fusion_def *graft_context_fusion(const graft_context *context, uint32_t index) {
  return at(context, GRAFT_NAME_FUSION, index);
}

uint32_t graft_context_n_backends(const graft_context *context) {
  return count(context, GRAFT_NAME_BACKEND);
}

const graft_backend_def *graft_context_backend(const graft_context *context, uint32_t index) {
  return at(context, GRAFT_NAME_BACKEND, index);
}

uint32_t graft_context_n_extensions(const graft_context *context) {
  return context->registry.n_extensions;
}

const graft_extension *graft_context_extension(const graft_context *context, uint32_t index) {
  return index < context->registry.n_extensions ? context->registry.extensions[index]->source : NULL;
}

const graft_extension *graft_context_kernel_origin(const graft_context *context, const graft_kernel_def *kernel) {
  const graft_named *named = graft_index_find(&context->registry.index, GRAFT_NAME_KERNEL, kernel->name);
  for (uint32_t i = 0; named != NULL && i < context->registry.n_extensions; ++i) {
    const graft_registered *registered = context->registry.extensions[i];
    if (named->extension == &registered->tables) return registered->source;
  }
  return NULL;
}

bool graft_context_kernel_is_native(const graft_context *context, const graft_kernel_def *kernel) {
  return graft_registry_is_native(context, kernel);
}

graft_dtype graft_context_find_dtype(const graft_context *context, const char *name) {
  graft_dtype built_in = graft_dtype_find(name);
  return built_in != NULL ? built_in : find(context, GRAFT_NAME_DTYPE, name);
}

const graft_backend_def *graft_registry_find_backend(const graft_context *context, const char *name) {
  return find(context, GRAFT_NAME_BACKEND, name);
}

bool graft_registry_is_native(const graft_context *context, const graft_kernel_def *kernel) {
  const graft_index *index = &context->registry.index;
  const graft_named *named = graft_index_find(index, GRAFT_NAME_KERNEL, kernel->name);
  return named != NULL && graft_index_is_native(index, named);
}

bool graft_registry_is_native_fusion(const graft_context *context, const graft_fusion_def *fusion,
                                     const char *backend) {
  const graft_index *index = &context->registry.index;
  const graft_named *rule = graft_index_find(index, GRAFT_NAME_FUSION, fusion->name);
  const graft_named *owner = graft_index_find(index, GRAFT_NAME_BACKEND, backend);
  return rule != NULL && owner != NULL && strcmp(rule->extension->vendor, owner->extension->vendor) == 0;
}

// Negative, zero, positive: |group| comes before, is, comes after the one looked for.
static int compare_candidates(const graft_candidates *group, const char *op, const char *backend) {
  int backends = strcmp(group->backend, backend);
  if (backends != 0) return backends;
  if (group->op == NULL || op == NULL) return (group->op == NULL) - (op == NULL);
  return strcmp(group->op, op);
}

static const graft_candidates *find_candidates(const graft_index *index, const char *op, const char *backend) {
  uint32_t low = 0, high = index->n_candidates;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    int order = compare_candidates(&index->candidates[middle], op, backend);
    if (order == 0) return &index->candidates[middle];
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return NULL;
}

uint32_t graft_registry_find_kernels(const graft_context *context, const char *op, const char *backend,
                                     const graft_kernel_def *const **out_kernels) {
  const graft_index *index = &context->registry.index;
  const graft_candidates *found = find_candidates(index, op, backend);
  if (found == NULL) found = find_candidates(index, NULL, backend);
  *out_kernels = found == NULL ? NULL : found->kernels;
  return found == NULL ? 0 : found->n_kernels;
}
