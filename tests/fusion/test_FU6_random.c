// FU6: random graphs with views, values in several places, writes over existing storage and outputs anywhere give the
// same bytes with fusion and without.
//
//   test_FU6_random [GRAPHS [SEED]]     300 graphs by default
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fusion_mock.h"

enum { MAX_VALUES = 40 };

static uint32_t n_graphs = 300;
static uint64_t first_seed = 1;

typedef struct maker {
  graft_graph *graph;
  uint64_t state;
  graft_tensor *values[MAX_VALUES];  // of FUSION_N elements
  uint32_t n;
} maker;

static uint32_t draw(maker *m, uint32_t below) {
  m->state = m->state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(m->state >> 33) % below;
}

// Newer values more often, so that chains grow.
static graft_tensor *pick(maker *m) {
  const uint32_t a = draw(m, m->n), b = draw(m, m->n);
  return m->values[a > b ? a : b];
}

static double factor(maker *m) {
  static const double factors[] = {3, 5, 1, -1, 0, 2, 13, 14, 3, 5};
  return factors[draw(m, 10)];
}

static graft_tensor *grow(maker *m) {
  graft_graph *g = m->graph;
  switch (draw(m, 12)) {
    case 0:
    case 1:
    case 2:
    case 3: return fusion_scale(g, factor(m), pick(m));
    case 4:
    case 5: return fusion_apply2(g, "fuse.add.v1", pick(m), pick(m));
    case 6: return fusion_apply2(g, "fuse.sub.v1", pick(m), pick(m));
    case 7: return fusion_apply1(g, "fuse.copy.v1", 0, pick(m));
    case 8: return fusion_apply1(g, "fuse.split.v1", 0, pick(m));
    case 9: return fusion_slice(g, 0, FUSION_N, pick(m));
    case 10: {
      graft_tensor *x = pick(m);
      return draw(m, 2) ? fusion_scale_into(g, factor(m), x, x) : fusion_copy_into(g, x, pick(m));
    }
    default: return fusion_add_into(g, pick(m), pick(m), pick(m));
  }
}

static void build(maker *m) {
  m->values[m->n++] = fusion_input(m->graph, "a");
  m->values[m->n++] = fusion_input(m->graph, "b");
  const uint32_t n = 4 + draw(m, 14);
  for (uint32_t i = 0; i < n; ++i) {
    graft_tensor *value = grow(m);
    m->values[m->n++] = value;
  }
  graft_graph_output(m->graph, m->values[m->n - 1], "last");
  for (uint32_t i = draw(m, 3); i > 0; --i) {
    char name[8];
    snprintf(name, sizeof name, "y%u", (unsigned)i);
    graft_graph_output(m->graph, pick(m), name);
  }
}

static graft_status print(void *user, const char *text, size_t size) {
  (void)user;
  return fwrite(text, 1, size, stderr) == size ? GRAFT_OK : GRAFT_E_IO;
}

static void FU6_random_graphs_change_nothing(void **state) {
  (void)state;
  const graft_extension *const extensions[] = {&fusion_extension, &fusion_rival};
  graft_context *context = fusion_context(extensions, 2);
  uint32_t n_fused = 0;
  for (uint32_t i = 0; i < n_graphs; ++i) {
    maker m = {.state = first_seed + i};
    assert_int_equal(graft_graph_create(context, &m.graph), GRAFT_OK);
    for (int k = 0; k < 4; ++k) (void)draw(&m, 2);
    build(&m);
    if (graft_graph_status(m.graph) != GRAFT_OK)
      fail_msg("seed %llu: %s", (unsigned long long)(first_seed + i), graft_graph_error(m.graph)->message);
    graft_plan *plan = fusion_try(m.graph, fusion_device(context), i % 3 == 1 ? GRAFT_PLAN_NO_REUSE : 0);
    if (plan == NULL) {
      (void)!graft_graph_print(m.graph, (graft_writer){.write = print});
      fail_msg("seed %llu differs", (unsigned long long)(first_seed + i));
    }
    for (uint32_t g = 0; g < graft_plan_n_fusion_groups(plan); ++g) {
      graft_fusion_group group = {.struct_size = sizeof group};
      graft_plan_fusion_group(plan, g, &group);
      n_fused += group.obstacle == NULL;
    }
    graft_plan_destroy(plan);
    graft_graph_destroy(m.graph);
  }
  graft_context_destroy(context);
  assert_true(n_fused > n_graphs / 4);
}

int main(int argc, char **argv) {
  if (argc > 1) n_graphs = (uint32_t)strtoul(argv[1], NULL, 10);
  if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
  const struct CMUnitTest tests[] = {cmocka_unit_test(FU6_random_graphs_change_nothing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
