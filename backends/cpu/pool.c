#include "backends/cpu/pool.h"

#include <signal.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

// A task is cut into chunks of items. One 64-bit word says which task is open (its number, in the high half) and how
// many of its chunks nobody has claimed yet (low half). A thread claims a chunk by lowering the word with
// compare-and-swap. What describes the task is stable for whoever holds a claim, because the caller changes it only
// when every chunk has been reported done; a thread that comes late finds an empty or a different word and touches
// nothing.

enum {
  CACHE_LINE = 64,
  CHUNKS_PER_THREAD = 32,  // small enough that the last chunks even out, large enough that claims cost nothing
  SPINS = 1500,            // some tens of microseconds: longer than the gap between two steps
};

struct graft_cpu_pool {
  alignas(CACHE_LINE) _Atomic uint64_t open;
  alignas(CACHE_LINE) _Atomic uint32_t n_done;
  alignas(CACHE_LINE) const graft_cpu_task *task;
  graft_cpu_run *run;
  int64_t chunk_items;
  uint32_t n_chunks;
  uint32_t n_opened;
  int32_t n_threads, n_started, n_spins;
  alignas(CACHE_LINE) atomic_int n_sleeping;  // workers that wait for a task
  atomic_bool is_caller_sleeping;             // until the task is done
  atomic_bool is_closing;
  pthread_mutex_t lock;
  pthread_cond_t opened, done;
  struct cpu_thread {
    graft_cpu_pool *pool;
    pthread_t id;
    int32_t index;
  } threads[];
};

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static uint32_t unclaimed(uint64_t open) {
  return (uint32_t)open;
}

static void run_items(const graft_cpu_task *task, int64_t first, int64_t end, const graft_cpu_worker *worker) {
  for (int64_t item = first; item < end; ++item) {
    if (graft_cpu_run_should_stop(worker->run)) return;
    task->run(task->args, item, worker);
  }
}

static void run_chunk(graft_cpu_pool *pool, uint32_t chunk, int32_t index) {
  const graft_cpu_worker worker = {.index = index, .run = pool->run};
  uint32_t n_chunks = pool->n_chunks;
  int64_t first = (int64_t)chunk * pool->chunk_items;
  int64_t left = pool->task->n_items - first;
  run_items(pool->task, first, first + (left < pool->chunk_items ? left : pool->chunk_items), &worker);
  // From here on the task may be replaced.
  if (atomic_fetch_add(&pool->n_done, 1) + 1 < n_chunks || !atomic_load(&pool->is_caller_sleeping)) return;
  pthread_mutex_lock(&pool->lock);
  pthread_cond_signal(&pool->done);
  pthread_mutex_unlock(&pool->lock);
}

// Claims and runs chunks until none is left.
static void work(graft_cpu_pool *pool, int32_t index) {
  uint64_t open = atomic_load_explicit(&pool->open, memory_order_acquire);
  while (unclaimed(open) != 0) {
    if (!atomic_compare_exchange_weak_explicit(&pool->open, &open, open - 1, memory_order_acq_rel,
                                               memory_order_acquire)) {
      continue;
    }
    run_chunk(pool, pool->n_chunks - unclaimed(open), index);
    open = atomic_load_explicit(&pool->open, memory_order_acquire);
  }
}

static bool has_work(graft_cpu_pool *pool) {
  return unclaimed(atomic_load(&pool->open)) != 0 || atomic_load(&pool->is_closing);
}

// Waits for a task. Counting oneself as sleeping before looking again, and the caller opening a task before counting
// sleepers, in sequentially consistent order, is what no wake-up can fall between.
static void wait_for_work(graft_cpu_pool *pool) {
  for (int32_t i = 0; i < pool->n_spins; ++i) {
    if (has_work(pool)) return;
    relax();
  }
  pthread_mutex_lock(&pool->lock);
  atomic_fetch_add(&pool->n_sleeping, 1);
  while (!has_work(pool)) pthread_cond_wait(&pool->opened, &pool->lock);
  atomic_fetch_sub(&pool->n_sleeping, 1);
  pthread_mutex_unlock(&pool->lock);
}

static void *thread_main(void *arg) {
  struct cpu_thread *thread = arg;
  graft_cpu_pool *pool = thread->pool;
  for (;;) {
    wait_for_work(pool);
    if (atomic_load(&pool->is_closing)) return NULL;
    work(pool, thread->index);
  }
}

static void wake_workers(graft_cpu_pool *pool) {
  if (atomic_load(&pool->n_sleeping) == 0) return;
  pthread_mutex_lock(&pool->lock);
  pthread_cond_broadcast(&pool->opened);
  pthread_mutex_unlock(&pool->lock);
}

static bool is_done(graft_cpu_pool *pool) {
  return atomic_load(&pool->n_done) == pool->n_chunks;
}

static void wait_until_done(graft_cpu_pool *pool) {
  for (int32_t i = 0; i < pool->n_spins; ++i) {
    if (is_done(pool)) return;
    relax();
  }
  pthread_mutex_lock(&pool->lock);
  atomic_store(&pool->is_caller_sleeping, true);
  while (!is_done(pool)) pthread_cond_wait(&pool->done, &pool->lock);
  atomic_store(&pool->is_caller_sleeping, false);
  pthread_mutex_unlock(&pool->lock);
}

void graft_cpu_pool_run(graft_cpu_pool *pool, const graft_cpu_task *task, graft_cpu_run *run) {
  if (pool->n_threads == 1 || task->n_items <= 1) {
    const graft_cpu_worker worker = {.index = 0, .run = run};
    run_items(task, 0, task->n_items, &worker);
    return;
  }
  int64_t most = (int64_t)pool->n_threads * CHUNKS_PER_THREAD;
  pool->chunk_items = (task->n_items - 1) / most + 1;
  pool->n_chunks = (uint32_t)((task->n_items - 1) / pool->chunk_items + 1);
  pool->task = task;
  pool->run = run;
  atomic_store_explicit(&pool->n_done, 0, memory_order_relaxed);
  atomic_store(&pool->open, (uint64_t)++pool->n_opened << 32 | pool->n_chunks);
  wake_workers(pool);
  work(pool, 0);
  wait_until_done(pool);
}

static graft_status start_threads(graft_cpu_pool *pool, graft_error *error) {
  // Signals are for the application's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int result = 0;
  for (int32_t i = 1; i < pool->n_threads && result == 0; ++i) {
    struct cpu_thread *thread = &pool->threads[i - 1];
    *thread = (struct cpu_thread){.pool = pool, .index = i};
    result = pthread_create(&thread->id, NULL, thread_main, thread);
    if (result == 0) ++pool->n_started;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (result == 0) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_DEVICE, "the system refuses to start thread %d of %d (%s); ask for fewer threads",
                    (int)pool->n_started + 2, (int)pool->n_threads, strerror(result));
}

graft_status graft_cpu_pool_create(int32_t n_threads, int32_t n_cores, graft_error *error, graft_cpu_pool **out_pool) {
  size_t bytes = sizeof(graft_cpu_pool) + (size_t)(n_threads - 1) * sizeof(struct cpu_thread);
  graft_cpu_pool *pool = aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
  if (pool == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for %d threads", (int)n_threads);
  memset(pool, 0, bytes);
  pool->n_threads = n_threads;
  pool->n_spins = n_threads <= n_cores ? SPINS : 0;
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->opened, NULL);
  pthread_cond_init(&pool->done, NULL);
  graft_status status = start_threads(pool, error);
  if (status != GRAFT_OK) {
    graft_cpu_pool_destroy(pool);
    return status;
  }
  *out_pool = pool;
  return GRAFT_OK;
}

void graft_cpu_pool_destroy(graft_cpu_pool *pool) {
  if (pool == NULL) return;
  atomic_store(&pool->is_closing, true);
  wake_workers(pool);
  for (int32_t i = 0; i < pool->n_started; ++i) pthread_join(pool->threads[i].id, NULL);
  pthread_cond_destroy(&pool->done);
  pthread_cond_destroy(&pool->opened);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

bool graft_cpu_pool_is_worker(const graft_cpu_pool *pool) {
  for (int32_t i = 0; i < pool->n_started; ++i) {
    if (pthread_equal(pool->threads[i].id, pthread_self())) return true;
  }
  return false;
}
