// registry_internal.h — how a context keeps what was registered. Not installed.
#ifndef GRAFT_SRC_RUN_REGISTRY_INTERNAL_H
#define GRAFT_SRC_RUN_REGISTRY_INTERNAL_H

#include "graft/extension.h"
#include "src/base/arena.h"

// One registered extension. |tables| and what it points at are copies of full size, whatever age the original has.
typedef struct graft_registered {
  const graft_extension *source;
  graft_extension tables;
  graft_arena arena;
} graft_registered;

typedef enum graft_name_kind {
  GRAFT_NAME_EXTENSION,
  GRAFT_NAME_OP,
  GRAFT_NAME_KERNEL,
  GRAFT_NAME_FUSION,
  GRAFT_NAME_DTYPE,
  GRAFT_NAME_BACKEND,
  GRAFT_N_NAME_KINDS,
} graft_name_kind;

typedef struct graft_named {
  graft_name_kind kind;
  const char *name;
  const void *definition;
  const graft_extension *extension;
  uint32_t order;  // of registration, over all kinds
} graft_named;

// The kernels of one backend for one operator, in order of choice.
typedef struct graft_candidates {
  const char *op;  // NULL: only the catch-alls
  const char *backend;
  const graft_kernel_def **kernels;
  uint32_t n_kernels;
} graft_candidates;

// Everything that can be looked up. Made whole for every change and then exchanged, so that a change that fails leaves
// the old one as it was.
typedef struct graft_index {
  graft_arena arena;
  graft_named *names;  // by kind, then name
  uint32_t first[GRAFT_N_NAME_KINDS + 1];
  const graft_kernel_def **kernels;  // by operator (catch-alls last), then in order of choice
  graft_candidates *candidates;      // by backend, then operator (NULL last)
  uint32_t n_candidates;
} graft_index;

typedef struct graft_registry {
  graft_registered **extensions;  // in order of registration
  uint32_t n_extensions;
  graft_index index;
} graft_registry;

// Copies and checks the tables of |extension|.
graft_status graft_registered_create(const graft_extension *extension, graft_error *error,
                                     graft_registered **out_registered);
void graft_registered_destroy(graft_registered *registered);

// Errors: GRAFT_E_EXISTS (a name is there twice), GRAFT_E_NO_MEMORY.
graft_status graft_index_build(graft_registered *const *extensions, uint32_t n, graft_error *error,
                               graft_index *out_index);
// NULL where nothing of that kind has that name.
const graft_named *graft_index_find(const graft_index *index, graft_name_kind kind, const char *name);
// Whether the vendor of |kernel| provides its backend.
bool graft_index_is_native(const graft_index *index, const graft_named *kernel);

// Adds all of |extensions| or none.
graft_status graft_registry_add(graft_registry *registry, const graft_extension *const *extensions, uint32_t n,
                                graft_error *error);
// Removes all of |extensions| or none. Errors: GRAFT_E_NOT_FOUND, GRAFT_E_NO_MEMORY.
graft_status graft_registry_remove(graft_registry *registry, const graft_extension *const *extensions, uint32_t n,
                                   graft_error *error);
bool graft_registry_has(const graft_registry *registry, const graft_extension *extension);
void graft_registry_release(graft_registry *registry);

#endif
