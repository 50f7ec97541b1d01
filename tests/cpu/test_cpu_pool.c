// The thread pool: every item once, on workers that exist, whatever the number of threads; stopping and failing.
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "backends/cpu/pool.h"

enum { MAX_ITEMS = 5000 };

typedef struct counts {
  atomic_int items[MAX_ITEMS];
  atomic_int n_run;
  int32_t n_threads;
  int32_t stop_at;  // this many items are run, then the caller asks to stop
} counts;

static void count_item(const void *args, int64_t item, const graft_cpu_worker *worker) {
  counts *c = *(counts *const *)args;
  if (worker->index < 0 || worker->index >= c->n_threads) graft_cpu_fail(worker, GRAFT_E_DEVICE, "no such worker");
  ++c->items[item];
  ++c->n_run;
}

static void fail_item(const void *args, int64_t item, const graft_cpu_worker *worker) {
  count_item(args, item, worker);
  if (item % 7 == 3) graft_cpu_fail(worker, GRAFT_E_INVALID, "item %d is bad", (int)item);
}

static bool stop_after_some(void *user) {
  counts *c = user;
  return c->n_run >= c->stop_at;
}

static graft_cpu_pool *make_pool(int32_t n_threads) {
  graft_cpu_pool *pool = NULL;
  assert_int_equal(graft_cpu_pool_create(n_threads, 2, NULL, &pool), GRAFT_OK);
  return pool;
}

static graft_cpu_task task_of(counts *const *c, int64_t n_items,
                              void (*run)(const void *, int64_t, const graft_cpu_worker *)) {
  return (graft_cpu_task){.run = run, .args = c, .args_bytes = sizeof *c, .n_items = n_items};
}

static graft_status run_once(graft_cpu_pool *pool, const graft_cpu_task *task, const graft_run_control *control,
                             graft_error *error) {
  graft_cpu_run run;
  graft_cpu_run_init(&run, control);
  graft_cpu_pool_run(pool, task, &run);
  graft_status status = graft_cpu_run_result(&run, error);
  graft_cpu_run_release(&run);
  return status;
}

static void every_item_runs_once(void **state) {
  (void)state;
  const int64_t sizes[] = {0, 1, 2, 3, 31, 64, 65, 1000, MAX_ITEMS};
  for (int32_t n_threads = 1; n_threads <= 7; ++n_threads) {
    graft_cpu_pool *pool = make_pool(n_threads);
    for (size_t s = 0; s < 20 * sizeof sizes / sizeof sizes[0]; ++s) {
      int64_t n = sizes[s % (sizeof sizes / sizeof sizes[0])];
      counts *c = calloc(1, sizeof *c);
      c->n_threads = n_threads;
      graft_cpu_task task = task_of(&c, n, count_item);
      assert_int_equal(run_once(pool, &task, NULL, NULL), GRAFT_OK);
      for (int64_t i = 0; i < MAX_ITEMS; ++i) assert_int_equal(c->items[i], i < n);
      free(c);
    }
    graft_cpu_pool_destroy(pool);
  }
}

typedef struct meeting {
  atomic_int n_begun, n_ended;
  int32_t n_expected;
} meeting;

static bool comes_true(const atomic_int *count, int32_t expected) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    if (*count >= expected) return true;
    sched_yield();
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - begin.tv_sec < 20);
  return false;
}

static void hold_until_all_have_begun(const void *args, int64_t item, const graft_cpu_worker *worker) {
  meeting *m = *(meeting *const *)args;
  if (worker->index != item) graft_cpu_fail(worker, GRAFT_E_DEVICE, "item %d is not its owner's", (int)item);
  ++m->n_begun;
  if (!comes_true(&m->n_begun, m->n_expected)) graft_cpu_fail(worker, GRAFT_E_DEVICE, "a thread got no item");
}

// Nobody is through with its own share before all have begun theirs, so that nothing can be stolen.
static void each_thread_begins_with_its_own_share(void **state) {
  (void)state;
  for (int32_t n_threads = 2; n_threads <= 6; ++n_threads) {
    graft_cpu_pool *pool = make_pool(n_threads);
    for (int round = 0; round < 50; ++round) {
      meeting now = {.n_expected = n_threads}, *m = &now;
      const graft_cpu_task task = {
          .run = hold_until_all_have_begun, .args = &m, .args_bytes = sizeof m, .n_items = n_threads};
      graft_error error = {0};
      if (run_once(pool, &task, NULL, &error) != GRAFT_OK) fail_msg("%s", error.message);
    }
    graft_cpu_pool_destroy(pool);
  }
}

static void hold_the_first(const void *args, int64_t item, const graft_cpu_worker *worker) {
  meeting *m = *(meeting *const *)args;
  if (item == 0 && !comes_true(&m->n_ended, m->n_expected)) {
    graft_cpu_fail(worker, GRAFT_E_DEVICE, "%d items ended beside a slow one", (int)m->n_ended);
  }
  ++m->n_ended;
}

static void a_share_whose_owner_is_slow_is_taken_over(void **state) {
  (void)state;
  for (int32_t n_threads = 2; n_threads <= 6; ++n_threads) {
    graft_cpu_pool *pool = make_pool(n_threads);
    for (int32_t n = 2; n <= 60; ++n) {
      meeting now = {.n_expected = n - 1}, *m = &now;
      const graft_cpu_task task = {.run = hold_the_first, .args = &m, .args_bytes = sizeof m, .n_items = n};
      graft_error error = {0};
      if (run_once(pool, &task, NULL, &error) != GRAFT_OK) fail_msg("%s", error.message);
    }
    graft_cpu_pool_destroy(pool);
  }
}

static void add_item(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  atomic_fetch_add(*(atomic_llong *const *)args, item + 1);
}

// What describes a task is gone as soon as it is done: a thread that looked at it later would read freed memory.
static void late_threads_leave_a_closed_task_alone(void **state) {
  (void)state;
  for (int32_t n_threads = 2; n_threads <= 8; n_threads *= 2) {
    graft_cpu_pool *pool = make_pool(n_threads);
    for (int64_t round = 0; round < 3000; ++round) {
      const int64_t n = round % 90;
      atomic_llong *sum = calloc(1, sizeof *sum), **args = malloc(sizeof *args);
      graft_cpu_task *task = malloc(sizeof *task);
      *args = sum;
      *task = (graft_cpu_task){.run = add_item, .args = args, .args_bytes = sizeof *args, .n_items = n};
      assert_int_equal(run_once(pool, task, NULL, NULL), GRAFT_OK);
      assert_int_equal(*sum, n * (n + 1) / 2);
      free(task);
      free(args);
      free(sum);
    }
    graft_cpu_pool_destroy(pool);
  }
}

static void SC7_stopping_skips_the_rest_and_the_pool_runs_again(void **state) {
  (void)state;
  for (int32_t n_threads = 1; n_threads <= 5; n_threads += 2) {
    graft_cpu_pool *pool = make_pool(n_threads);
    counts *c = calloc(1, sizeof *c);
    c->n_threads = n_threads;
    c->stop_at = 100;
    graft_cpu_task task = task_of(&c, MAX_ITEMS, count_item);
    const graft_run_control control = {.struct_size = sizeof control, .abort = stop_after_some, .abort_user = c};
    graft_error error = {0};
    assert_int_equal(run_once(pool, &task, &control, &error), GRAFT_E_CANCELLED);
    assert_string_equal(error.message, "the run was cancelled");
    assert_in_range(c->n_run, 100, 100 + n_threads);
    assert_int_equal(run_once(pool, &task, NULL, NULL), GRAFT_OK);
    assert_in_range(c->n_run, 100 + MAX_ITEMS, 100 + n_threads + MAX_ITEMS);
    free(c);
    graft_cpu_pool_destroy(pool);
  }
}

static void the_first_failure_is_kept(void **state) {
  (void)state;
  for (int32_t n_threads = 1; n_threads <= 3; n_threads += 2) {
    graft_cpu_pool *pool = make_pool(n_threads);
    counts *c = calloc(1, sizeof *c);
    c->n_threads = n_threads;
    graft_cpu_task task = task_of(&c, MAX_ITEMS, fail_item);
    graft_error error = {0};
    assert_int_equal(run_once(pool, &task, NULL, &error), GRAFT_E_INVALID);
    assert_non_null(strstr(error.message, "is bad"));
    if (n_threads == 1) assert_string_equal(error.message, "item 3 is bad");
    assert_true(c->n_run < MAX_ITEMS);
    free(c);
    graft_cpu_pool_destroy(pool);
  }
}

static void too_many_threads_are_a_status(void **state) {
  (void)state;
  graft_cpu_pool *pool = NULL;
  // A pool that starts is destroyed again: how many threads a system grants is its own business.
  graft_status status = graft_cpu_pool_create(1024, 2, NULL, &pool);
  assert_true(status == GRAFT_OK || status == GRAFT_E_DEVICE);
  graft_cpu_pool_destroy(pool);
}

static void do_nothing(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)args;
  (void)item;
  (void)worker;
}

static double microseconds_per_task(graft_cpu_pool *pool, int64_t n_items) {
  enum { N = 20000 };
  const graft_cpu_task task = {.run = do_nothing, .n_items = n_items};
  graft_cpu_run run;
  graft_cpu_run_init(&run, NULL);
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < N; ++i) graft_cpu_pool_run(pool, &task, &run);
  clock_gettime(CLOCK_MONOTONIC, &end);
  graft_cpu_run_release(&run);
  return ((double)(end.tv_sec - begin.tv_sec) * 1e6 + (double)(end.tv_nsec - begin.tv_nsec) * 1e-3) / N;
}

// Prints figures; only a lost wake-up (which would hang) or absurd overhead fails.
static void empty_tasks_cost_little(void **state) {
  (void)state;
  for (int32_t n_threads = 1; n_threads <= 2; ++n_threads) {
    graft_cpu_pool *pool = make_pool(n_threads);
    double one = microseconds_per_task(pool, 1), many = microseconds_per_task(pool, 2 * n_threads);
    printf("%d thread(s): %.3f us per task of one item, %.3f us of %d\n", (int)n_threads, one, many,
           2 * (int)n_threads);
    assert_true(one < 100);
    graft_cpu_pool_destroy(pool);
  }
}

static void check_signals(const void *args, int64_t item, const graft_cpu_worker *worker) {
  if (worker->index == 0) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return;
  }
  count_item(args, item, worker);
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, NULL, &blocked);
  if (sigismember(&blocked, SIGBUS) || sigismember(&blocked, SIGSEGV))
    graft_cpu_fail(worker, GRAFT_E_DEVICE, "a fault would not reach its handler");
  if (!sigismember(&blocked, SIGINT)) graft_cpu_fail(worker, GRAFT_E_DEVICE, "takes the application's signals");
}

static void threads_leave_all_signals_but_their_own_faults(void **state) {
  (void)state;
  graft_cpu_pool *pool = make_pool(3);
  counts *c = calloc(1, sizeof *c);
  c->n_threads = 3;
  graft_cpu_task task = task_of(&c, 300, check_signals);
  graft_error error = {0};
  if (run_once(pool, &task, NULL, &error) != GRAFT_OK) fail_msg("%s", error.message);
  assert_true(c->n_run > 0);
  free(c);
  graft_cpu_pool_destroy(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_item_runs_once),
      cmocka_unit_test(each_thread_begins_with_its_own_share),
      cmocka_unit_test(a_share_whose_owner_is_slow_is_taken_over),
      cmocka_unit_test(late_threads_leave_a_closed_task_alone),
      cmocka_unit_test(SC7_stopping_skips_the_rest_and_the_pool_runs_again),
      cmocka_unit_test(the_first_failure_is_kept),
      cmocka_unit_test(too_many_threads_are_a_status),
      cmocka_unit_test(threads_leave_all_signals_but_their_own_faults),
      cmocka_unit_test(empty_tasks_cost_little),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
