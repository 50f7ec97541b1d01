#include <stdlib.h>
#include <string.h>

#include "src/run/registry_internal.h"

// A kernel with what decides its place among others.
typedef struct ranked {
  const graft_kernel_def *kernel;
  const char *backend;  // that runs it: the kernel's own or one that takes the kernels of that
  bool is_native;
  uint32_t order;
} ranked;

static int compare_numbers(int64_t a, int64_t b) {
  return (a > b) - (a < b);
}

// NULL is the last of all operators.
static int compare_ops(const char *a, const char *b) {
  if (a == NULL || b == NULL) return (a == NULL) - (b == NULL);
  return strcmp(a, b);
}

static int compare_names(const void *left, const void *right) {
  const graft_named *a = left, *b = right;
  if (a->kind != b->kind) return compare_numbers(a->kind, b->kind);
  int names = strcmp(a->name, b->name);
  return names != 0 ? names : compare_numbers(a->order, b->order);
}

static int compare_choice(const ranked *a, const ranked *b) {
  if (a->kernel->priority != b->kernel->priority) return compare_numbers(b->kernel->priority, a->kernel->priority);
  if (a->is_native != b->is_native) return compare_numbers(a->is_native, b->is_native);
  return compare_numbers(a->order, b->order);
}

static int compare_by_op(const void *left, const void *right) {
  const ranked *a = left, *b = right;
  int ops = compare_ops(a->kernel->op, b->kernel->op);
  return ops != 0 ? ops : compare_choice(a, b);
}

static int compare_by_backend(const void *left, const void *right) {
  const ranked *a = left, *b = right;
  int backends = strcmp(a->backend, b->backend);
  return backends != 0 ? backends : compare_by_op(a, b);
}

static const char *const kind_names[GRAFT_N_NAME_KINDS] = {"extension",   "operator", "kernel",
                                                           "fusion rule", "dtype",    "backend"};

static size_t count_names(const graft_extension *t) {
  return (size_t)1 + t->n_ops + t->n_kernels + t->n_fusions + t->n_dtypes + t->n_backends;
}

// Where the next name goes while they are collected.
typedef struct collector {
  graft_named *names;
  uint32_t n;
} collector;

static void collect(collector *to, graft_name_kind kind, const char *name, const void *definition,
                    const graft_extension *extension) {
  to->names[to->n] = (graft_named){kind, name, definition, extension, to->n};
  ++to->n;
}

static void collect_extension(collector *to, const graft_extension *t) {
  collect(to, GRAFT_NAME_EXTENSION, t->name, t, t);
  for (uint32_t i = 0; i < t->n_ops; ++i) collect(to, GRAFT_NAME_OP, t->ops[i].name, &t->ops[i], t);
  for (uint32_t i = 0; i < t->n_kernels; ++i) collect(to, GRAFT_NAME_KERNEL, t->kernels[i].name, &t->kernels[i], t);
  for (uint32_t i = 0; i < t->n_fusions; ++i) collect(to, GRAFT_NAME_FUSION, t->fusions[i].name, &t->fusions[i], t);
  for (uint32_t i = 0; i < t->n_dtypes; ++i) collect(to, GRAFT_NAME_DTYPE, t->dtypes[i]->name, t->dtypes[i], t);
  for (uint32_t i = 0; i < t->n_backends; ++i) collect(to, GRAFT_NAME_BACKEND, t->backends[i].name, &t->backends[i], t);
}

static graft_status index_names(graft_index *index, graft_registered *const *extensions, uint32_t n_extensions,
                                graft_error *error) {
  size_t n = 0;
  for (uint32_t i = 0; i < n_extensions; ++i) n += count_names(&extensions[i]->tables);
  collector all = {graft_arena_alloc_array(&index->arena, n, sizeof *all.names), 0};
  if (all.names == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for the registry");
  for (uint32_t i = 0; i < n_extensions; ++i) collect_extension(&all, &extensions[i]->tables);
  index->names = all.names;
  qsort(all.names, all.n, sizeof *all.names, compare_names);
  for (uint32_t i = 1; i < all.n; ++i) {
    const graft_named *a = &all.names[i - 1], *b = &all.names[i];
    if (a->kind == b->kind && strcmp(a->name, b->name) == 0)
      return GRAFT_FAIL(error, GRAFT_E_EXISTS, "the %s %s of extension %s exists already, from extension %s",
                        kind_names[b->kind], b->name, b->extension->name, a->extension->name);
  }
  for (uint32_t i = 0; i < all.n; ++i) ++index->first[all.names[i].kind + 1];
  for (uint32_t kind = 0; kind < GRAFT_N_NAME_KINDS; ++kind) index->first[kind + 1] += index->first[kind];
  return GRAFT_OK;
}

bool graft_index_is_native(const graft_index *index, const graft_named *kernel) {
  const graft_kernel_def *definition = kernel->definition;
  const graft_named *backend = graft_index_find(index, GRAFT_NAME_BACKEND, definition->backend);
  return backend != NULL && strcmp(backend->extension->vendor, kernel->extension->vendor) == 0;
}

// Writes the kernels whose backend is |backend| (NULL: all) as kernels of |runner| (NULL: their own).
static uint32_t rank_kernels(const graft_index *index, const char *backend, const char *runner, ranked *kernels) {
  uint32_t n = 0;
  for (uint32_t i = index->first[GRAFT_NAME_KERNEL]; i < index->first[GRAFT_NAME_KERNEL + 1]; ++i) {
    const graft_named *name = &index->names[i];
    const graft_kernel_def *kernel = name->definition;
    if (backend != NULL && strcmp(kernel->backend, backend) != 0) continue;
    kernels[n++] =
        (ranked){kernel, runner != NULL ? runner : kernel->backend, graft_index_is_native(index, name), name->order};
  }
  return n;
}

static const graft_backend_def *borrower_at(const graft_index *index, uint32_t i) {
  const graft_backend_def *backend = index->names[index->first[GRAFT_NAME_BACKEND] + i].definition;
  return backend->kernels_of != NULL ? backend : NULL;
}

static uint32_t count_of(const graft_index *index, graft_name_kind kind) {
  return index->first[kind + 1] - index->first[kind];
}

// End of the run of kernels, sorted by backend and operator, that agree with the first of it.
static uint32_t run_end(const ranked *kernels, uint32_t n, uint32_t first, bool same_op) {
  const graft_kernel_def *a = kernels[first].kernel;
  uint32_t end = first + 1;
  while (end < n && strcmp(kernels[first].backend, kernels[end].backend) == 0 &&
         (!same_op || compare_ops(a->op, kernels[end].kernel->op) == 0))
    ++end;
  return end;
}

static bool fill_candidates(graft_index *index, const ranked *own, uint32_t n_own, const ranked *any, uint32_t n_any) {
  const graft_kernel_def **list = graft_arena_alloc_array(&index->arena, (size_t)n_own + n_any, sizeof *list);
  if (list == NULL) return false;
  for (uint32_t i = 0; i < n_own; ++i) list[i] = own[i].kernel;
  for (uint32_t i = 0; i < n_any; ++i) list[n_own + i] = any[i].kernel;
  index->candidates[index->n_candidates++] = (graft_candidates){own[0].kernel->op, own[0].backend, list, n_own + n_any};
  return true;
}

// |kernels| are those of one backend, catch-alls at the end.
static bool index_backend(graft_index *index, const ranked *kernels, uint32_t n) {
  uint32_t n_own = n;
  while (n_own > 0 && kernels[n_own - 1].kernel->op == NULL) --n_own;
  for (uint32_t first = 0; first < n_own;) {
    uint32_t end = run_end(kernels, n_own, first, true);
    if (!fill_candidates(index, kernels + first, end - first, kernels + n_own, n - n_own)) return false;
    first = end;
  }
  return n_own == n || fill_candidates(index, kernels + n_own, n - n_own, NULL, 0);
}

// |kernels| has room for |capacity|.
static bool index_kernels(graft_index *index, ranked *kernels, size_t capacity) {
  uint32_t n = count_of(index, GRAFT_NAME_KERNEL);
  index->kernels = graft_arena_alloc_array(&index->arena, n, sizeof *index->kernels);
  index->candidates = graft_arena_alloc_array(&index->arena, capacity, sizeof *index->candidates);
  if (index->kernels == NULL || index->candidates == NULL) return false;
  (void)rank_kernels(index, NULL, NULL, kernels);
  qsort(kernels, n, sizeof *kernels, compare_by_op);
  for (uint32_t i = 0; i < n; ++i) index->kernels[i] = kernels[i].kernel;
  for (uint32_t i = 0; i < count_of(index, GRAFT_NAME_BACKEND); ++i) {
    const graft_backend_def *borrower = borrower_at(index, i);
    if (borrower != NULL) n += rank_kernels(index, borrower->kernels_of, borrower->name, kernels + n);
  }
  qsort(kernels, n, sizeof *kernels, compare_by_backend);
  for (uint32_t first = 0; first < n;) {
    uint32_t end = run_end(kernels, n, first, false);
    if (!index_backend(index, kernels + first, end - first)) return false;
    first = end;
  }
  return true;
}

graft_status graft_index_build(graft_registered *const *extensions, uint32_t n, graft_error *error,
                               graft_index *out_index) {
  graft_index index = {0};
  graft_status status = index_names(&index, extensions, n, error);
  if (status == GRAFT_OK) {
    // Kernels count once for their own backend and once for every one that takes them.
    size_t capacity = count_of(&index, GRAFT_NAME_KERNEL), n_lists = 1;
    for (uint32_t i = 0; i < count_of(&index, GRAFT_NAME_BACKEND); ++i) n_lists += borrower_at(&index, i) != NULL;
    capacity *= n_lists;
    ranked *scratch = calloc(capacity + 1, sizeof *scratch);
    if (scratch == NULL || !index_kernels(&index, scratch, capacity))
      status = GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for the registry");
    free(scratch);
  }
  if (status == GRAFT_OK) {
    *out_index = index;
  } else {
    graft_arena_release(&index.arena);
  }
  return status;
}

const graft_named *graft_index_find(const graft_index *index, graft_name_kind kind, const char *name) {
  uint32_t low = index->first[kind], high = index->first[kind + 1];
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    int order = strcmp(index->names[middle].name, name);
    if (order == 0) return &index->names[middle];
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return NULL;
}
