// Random small graphs that write over storage: whatever devices lack, however memory is cut, a plan gives, bit for bit,
// what doing the nodes one after another gives. GRAFT_TEST_SEED chooses other graphs, GRAFT_TEST_COUNT how many.
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schedule_support.h"

enum { MAX_VALUES = 48, MAX_ELEMENTS = 256, MAX_OUTPUTS = 6, MAX_STORAGES = 64 };

// A tensor: which elements of which storage it shows, in its order.
typedef struct value {
  graft_tensor *tensor;
  int64_t rows, columns;
  int storage;
  int elements[MAX_ELEMENTS];
  bool is_constant;
} value;

typedef struct world {
  uint64_t state;
  schedule *s;
  value values[MAX_VALUES];
  uint32_t n_values, n_inputs;
  int input_storages[8];
  float storages[MAX_STORAGES][MAX_ELEMENTS];
  float constants[MAX_STORAGES][MAX_ELEMENTS];
  int n_storages;
  uint32_t outputs[MAX_OUTPUTS];
  uint32_t n_outputs;
  float first[8][MAX_ELEMENTS];  // what the inputs begin with
  int trace[128][5];             // node: kind, y, a, b, c
  int n_trace;
  float factors[128];
} world;

static uint64_t next_random(world *w) {
  w->state += 0x9e3779b97f4a7c15u;
  uint64_t z = w->state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static uint32_t below(world *w, uint32_t n) {
  return (uint32_t)(next_random(w) % n);
}

static value *add_value(world *w, int64_t rows, int64_t columns, int storage) {
  value *v = &w->values[w->n_values++];
  *v = (value){.rows = rows, .columns = columns, .storage = storage};
  for (int i = 0; i < rows * columns; ++i) v->elements[i] = i;
  return v;
}

static void add_leaf(world *w, bool is_constant) {
  int64_t rows = 2 * (1 + below(w, 4)), columns = below(w, 2) ? 16 : 1 + below(w, 8);
  char name[16];
  snprintf(name, sizeof name, "leaf%u", (unsigned)w->n_values);
  int storage = w->n_storages++;
  value *v = add_value(w, rows, columns, storage);
  for (int i = 0; i < rows * columns; ++i) w->storages[storage][i] = (float)((int)below(w, 401) - 200) / 16;
  v->is_constant = is_constant;
  if (is_constant) {
    memcpy(w->constants[storage], w->storages[storage], sizeof w->storages[storage]);
    v->tensor = plan_constant(w->s->graph, name, rows, columns, w->constants[storage]);
    return;
  }
  v->tensor = plan_input(w->s->graph, name, rows, columns);
  memcpy(w->first[w->n_inputs], w->storages[storage], sizeof w->storages[storage]);
  w->input_storages[w->n_inputs++] = storage;
}

static value *find_same(world *w, const value *like, bool is_writable) {
  uint32_t start = below(w, w->n_values);
  for (uint32_t i = 0; i < w->n_values; ++i) {
    value *v = &w->values[(start + i) % w->n_values];
    if (v->rows == like->rows && v->columns == like->columns && !(is_writable && v->is_constant)) return v;
  }
  return NULL;
}

static int index_of(const world *w, const value *v) {
  return v != NULL ? (int)(v - w->values) : -1;
}

static void note(world *w, int kind, const value *y, const value *a, const value *b) {
  int *t = w->trace[w->n_trace++];
  t[0] = kind;
  t[1] = index_of(w, y);
  t[2] = index_of(w, a);
  t[3] = index_of(w, b);
}

enum { JOIN = 7 };

static const char *const ops[] = {"plan.add.v1",       "plan.packed.v1", "plan.scale.v1",  "plan.copy.v1",
                                  "plan.reference.v1", "plan.twice.v1",  "plan.nested.v1", "plan.join.v1"};

// Every second node writes over a value of its shape, often over one of its inputs.
static void add_computation(world *w, value *a, int kind) {
  value *b = kind < 2 ? find_same(w, a, false) : NULL, *into = NULL;
  if (below(w, 2) == 0) into = below(w, 2) == 0 && !a->is_constant ? a : find_same(w, a, true);
  w->factors[w->n_trace] = (float)((double)below(w, 5) / 4 - 0.5);
  const plan_attrs attrs = {.factor = (double)w->factors[w->n_trace]};
  value *y;
  if (into != NULL) {
    y = &w->values[w->n_values++];
    *y = *into;
  } else {
    y = add_value(w, a->rows, a->columns, w->n_storages++);
  }
  if (into != NULL) {
    y->tensor = schedule_write(w->s->graph, ops[kind], attrs, a->tensor, b != NULL ? b->tensor : NULL, into->tensor);
  } else {
    graft_tensor *inputs[] = {a->tensor, b != NULL ? b->tensor : NULL}, *out[GRAFT_MAX_OUTPUTS];
    graft_graph_apply(w->s->graph, ops[kind], &attrs, sizeof attrs, inputs, b != NULL ? 2 : 1, out);
    y->tensor = out[0];
  }
  note(w, kind, y, a, b);
}

// Rows of two values, often of the same one, often over a value of that shape.
static void add_join(world *w, value *a) {
  uint32_t start = below(w, w->n_values);
  value *b = a;
  for (uint32_t i = 0; i < w->n_values && b == a; ++i) {
    value *v = &w->values[(start + i) % w->n_values];
    if (v->columns == a->columns) b = v;
  }
  if (below(w, 2) == 0) b = below(w, 2) == 0 ? a : b;
  if ((a->rows + b->rows) * a->columns > MAX_ELEMENTS) return;
  const value shape = {.rows = a->rows + b->rows, .columns = a->columns};
  value *into = below(w, 4) == 0 ? find_same(w, &shape, true) : NULL;
  value *y = into != NULL ? &w->values[w->n_values++] : add_value(w, shape.rows, shape.columns, w->n_storages++);
  graft_tensor *inputs[] = {a->tensor, b->tensor};
  if (into != NULL) {
    *y = *into;
    y->tensor = schedule_write(w->s->graph, ops[JOIN], (plan_attrs){0}, a->tensor, b->tensor, into->tensor);
  } else {
    y->tensor = plan_join(w->s->graph, ops[JOIN], inputs, 2);
  }
  note(w, JOIN, y, a, b);
}

static void add_view(world *w, value *x) {
  if (below(w, 3) == 0) {
    value *y = add_value(w, x->columns, x->rows, x->storage);
    y->is_constant = x->is_constant;
    y->tensor = plan_apply1(w->s->graph, "plan.transpose.v1", (plan_attrs){0}, x->tensor);
    for (int i = 0; i < y->rows; ++i) {
      for (int j = 0; j < y->columns; ++j) y->elements[i * y->columns + j] = x->elements[j * x->columns + i];
    }
    return;
  }
  int64_t first = below(w, (uint32_t)x->rows), n = 1 + below(w, (uint32_t)(x->rows - first));
  value *y = add_value(w, n, x->columns, x->storage);
  y->is_constant = x->is_constant;
  y->tensor = schedule_slice(w->s->graph, x->tensor, first, n);
  memcpy(y->elements, x->elements + first * x->columns, (size_t)(n * x->columns) * sizeof(int));
}

static void make_world(world *w, schedule *s, uint64_t seed) {
  memset(w, 0, sizeof *w);
  w->state = seed;
  w->s = s;
  graft_graph_destroy(s->graph);
  assert_int_equal(graft_graph_create(s->context, &s->graph), GRAFT_OK);
  uint32_t n_leaves = 1 + below(w, 3), n_constants = below(w, 3), n_nodes = 2 + below(w, 24);
  for (uint32_t i = 0; i < n_leaves; ++i) add_leaf(w, false);
  for (uint32_t i = 0; i < n_constants; ++i) add_leaf(w, true);
  for (uint32_t i = 0; i < n_nodes && w->n_values < MAX_VALUES - 2; ++i) {
    uint32_t back = below(w, 3) != 0 ? below(w, w->n_values < 4 ? w->n_values : 4) : below(w, w->n_values);
    value *x = &w->values[w->n_values - 1 - back];
    const uint32_t choice = below(w, 6);
    if (choice == 0) {
      add_view(w, x);
    } else if (choice == 1) {
      add_join(w, x);
    } else {
      add_computation(w, x, (int)below(w, 7));
    }
  }
  w->n_outputs = 1 + below(w, MAX_OUTPUTS);
  for (uint32_t i = 0; i < w->n_outputs; ++i) {
    char name[16];
    snprintf(name, sizeof name, "out%u", (unsigned)i);
    w->outputs[i] = i == 0 ? w->n_values - 1 : below(w, w->n_values);
    graft_graph_output(s->graph, w->values[w->outputs[i]].tensor, name);
  }
  assert_int_equal(graft_graph_status(s->graph), GRAFT_OK);
  assert_int_equal(graft_graph_verify(s->graph, NULL), GRAFT_OK);
}

// Does the nodes one after another, in storages that go on from run to run.
static void evaluate(world *w) {
  for (int t = 0; t < w->n_trace; ++t) {
    const int *n = w->trace[t];
    const value *y = &w->values[n[1]], *a = &w->values[n[2]], *b = n[3] >= 0 ? &w->values[n[3]] : a;
    float result[MAX_ELEMENTS];
    const int n_first = (int)(a->rows * a->columns);
    for (int i = 0; i < y->rows * y->columns; ++i) {
      if (n[0] == JOIN) {
        result[i] =
            i < n_first ? w->storages[a->storage][a->elements[i]] : w->storages[b->storage][b->elements[i - n_first]];
        continue;
      }
      float u = w->storages[a->storage][a->elements[i]], v = w->storages[b->storage][b->elements[i]];
      float scaled = w->factors[t] * u + 1;
      const float results[] = {u + v, u + v, scaled, u, 3 * u, u + u, scaled + scaled};
      result[i] = results[n[0]];
    }
    for (int i = 0; i < y->rows * y->columns; ++i) w->storages[y->storage][y->elements[i]] = result[i];
  }
}

static graft_status write_out(void *user, const char *text, size_t size) {
  (void)user;
  return fwrite(text, 1, size, stdout) == size ? GRAFT_OK : GRAFT_E_IO;
}

static void print_all(const world *w, const graft_plan *plan) {
  const graft_writer writer = {write_out, NULL};
  if (graft_graph_print(w->s->graph, writer) == GRAFT_OK && graft_plan_print(plan, writer) == GRAFT_OK) return;
  printf("(printing failed)\n");
}

static void check(world *w, graft_plan *plan, uint64_t seed, const char *what) {
  for (uint32_t i = 0; i < w->n_inputs; ++i) {
    memcpy(w->storages[w->input_storages[i]], w->first[i], sizeof w->first[i]);
    const value *v = &w->values[i];
    schedule_put(plan, i, w->first[i], (size_t)(v->rows * v->columns));
  }
  for (int run = 0; run < 2; ++run) {
    evaluate(w);
    if (graft_plan_run(plan, NULL) != GRAFT_OK) {
      fail_msg("seed %" PRIu64 ", %s: %s", seed, what, graft_context_error(w->s->context)->message);
    }
    for (uint32_t i = 0; i < w->n_outputs; ++i) {
      const value *v = &w->values[w->outputs[i]];
      float got[MAX_ELEMENTS];
      size_t n = (size_t)(v->rows * v->columns);
      assert_int_equal(graft_plan_read(plan, i, got, n * sizeof *got), GRAFT_OK);
      for (size_t e = 0; e < n; ++e) {
        float wanted = w->storages[v->storage][v->elements[e]];
        if (memcmp(&got[e], &wanted, sizeof wanted) == 0) continue;
        print_all(w, plan);
        fail_msg("seed %" PRIu64 ", %s, run %d: output %u, element %zu is %g, not %g", seed, what, run, (unsigned)i, e,
                 (double)got[e], (double)wanted);
      }
    }
  }
  graft_plan_destroy(plan);
}

static uint32_t n_placed;  // parts, in all plans

static void count_placed(const graft_plan *plan) {
  for (uint32_t s = 0; s < graft_plan_n_steps(plan); ++s) {
    graft_step_info info = {.struct_size = sizeof info};
    graft_plan_step(plan, s, &info);
    n_placed += (uint32_t)__builtin_popcount(info.placed_inputs);
  }
}

static graft_plan *plan_devices(world *w, graft_device *const *devices, uint32_t n, size_t budget, uint64_t seed) {
  const graft_plan_options options = {
      .struct_size = sizeof options, .devices = devices, .n_devices = n, .memory_budget = budget, .flags = 1u << 30};
  graft_plan *plan = NULL;
  if (graft_plan_create(w->s->graph, &options, &plan) == GRAFT_OK) {
    count_placed(plan);
    return plan;
  }
  const graft_error *error = graft_context_error(w->s->context);
  if (budget == 0) fail_msg("seed %" PRIu64 ": %s (%s:%d)", seed, error->message, error->file, (int)error->line);
  assert_non_null(strstr(error->message, "the memory budget is"));
  return NULL;
}

static void check_graph(world *w, schedule *s, uint64_t seed) {
  make_world(w, s, seed);
  check(w, plan_make(s->graph, s->cpu, 0), seed, "one device");
  check(w, plan_make(s->graph, s->cpu, GRAFT_PLAN_NO_REUSE), seed, "no reuse");
  graft_device *const all[] = {s->first, s->second, s->cpu}, *const two[] = {s->first, s->cpu};
  graft_memory_report report = {.struct_size = sizeof report};
  graft_plan *plan = plan_devices(w, all, 3, 0, seed);
  graft_plan_memory(plan, &report);
  check(w, plan, seed, "three devices");
  check(w, plan_devices(w, two, 2, 0, seed), seed, "two devices");
  graft_plan *cut = plan_devices(w, all, 3, report.peak_bytes / 2 + 1, seed);
  if (cut != NULL) check(w, cut, seed, "three devices with a budget");
  assert_int_equal(plan_mock_n_states(), 0);
}

// What private devices lack differs from context to context: any set of operators, a decomposition's parts included.
static schedule *open_with_lacks(uint64_t seed, char *words) {
  uint64_t bits = seed * 0x9e3779b97f4a7c15u >> 40;
  size_t n = 0;
  words[0] = '\0';
  for (int d = 0; d < 2; ++d) {
    n += (size_t)sprintf(words + n, "%sprivate:%d", d > 0 ? "; " : "", d);
    for (int i = 0; i <= JOIN; ++i) {
      if (bits >> (8 * d + i) & 1) n += (size_t)sprintf(words + n, " lacks=%s", ops[i]);
    }
  }
  return schedule_open(1 + (int32_t)(seed % 2), words);
}

static uint64_t number(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void SC1_random_graphs_on_devices_that_lack_operators(void **state) {
  (void)state;
  static world w;
  uint64_t first = number("GRAFT_TEST_SEED", 1), count = number("GRAFT_TEST_COUNT", 400), left = count;
  printf("seeds %" PRIu64 " to %" PRIu64 "\n", first, first + count - 1);
  for (uint64_t seed = first; left > 0;) {
    char words[512];
    schedule *s = open_with_lacks(seed, words);
    for (int i = 0; i < 20 && left > 0; ++i, ++seed, --left) check_graph(&w, s, seed);
    schedule_close(s);
  }
  printf("%u values made as parts of others\n", (unsigned)n_placed);
  assert_true(n_placed > count / 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(SC1_random_graphs_on_devices_that_lack_operators)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
