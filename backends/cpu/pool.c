#include "backends/cpu/pool.h"

#include <signal.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

// A task is cut into chunks of items, and the chunks are shared out: thread i has the i-th run of neighbours, so that
// operators that split their work alike find on a core what the one before left in its cache. A thread takes chunks
// from the front of its own share and, when that is empty, from the back of the others'.
//
// What is left of a share is one word, begin and end. Taking a chunk is a compare-and-swap that makes it shorter; only
// opening a task makes it longer. Why that is enough:
//
// - A chunk is run once: it leaves the word of its share in one exchange, which one thread makes.
// - Who holds a chunk may read what describes the task. The caller replaces that only when all chunks were reported
//   done, and a thread reports its chunks when it is through with them. The exchange acquires what opening the task
//   released: the description, and all that earlier tasks wrote. What the thread knew before does not matter, for an
//   exchange that succeeds takes a chunk of the task that is open.
// - A thread that comes late finds empty shares, or those of a later task, and touches nothing of the earlier one.
// - Shares only get shorter while a task is open. A thread that has found each of them empty once is through.
// - A task ends even if all other threads sleep: the caller takes every chunk that nobody else has taken.

enum {
  CACHE_LINE = 64,
  CHUNKS_PER_THREAD = 32,  // small enough that the last chunks even out, large enough that claims cost nothing
  SPINS = 1500,            // some tens of microseconds: longer than the gap between two steps
};

typedef struct cpu_thread {
  alignas(CACHE_LINE) _Atomic uint64_t share;  // chunks that nobody has taken: begin in the high half, end in the low
  graft_cpu_pool *pool;
  pthread_t id;  // not of the first, which is the caller's
  int32_t index;
} cpu_thread;

struct graft_cpu_pool {
  alignas(CACHE_LINE) _Atomic uint32_t n_opened;  // tasks; it changes when there is something to look for
  alignas(CACHE_LINE) _Atomic uint32_t n_done;    // chunks of the open task
  alignas(CACHE_LINE) const graft_cpu_task *task;
  graft_cpu_run *run;
  int64_t chunk_items;
  uint32_t n_chunks;
  int32_t n_threads, n_started, n_spins;
  alignas(CACHE_LINE) atomic_int n_sleeping;  // workers that wait for a task
  atomic_bool is_caller_sleeping;             // until the task is done
  atomic_bool is_closing;
  pthread_mutex_t lock;
  pthread_cond_t opened, done;
  cpu_thread threads[];
};

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void run_items(const graft_cpu_task *task, int64_t first, int64_t end, const graft_cpu_worker *worker) {
  for (int64_t item = first; item < end; ++item) {
    if (graft_cpu_run_should_stop(worker->run)) return;
    task->run(task->args, item, worker);
  }
}

static void run_chunk(graft_cpu_pool *pool, uint32_t chunk, int32_t index) {
  const graft_cpu_worker worker = {.index = index, .run = pool->run};
  int64_t first = (int64_t)chunk * pool->chunk_items;
  int64_t left = pool->task->n_items - first;
  run_items(pool->task, first, first + (left < pool->chunk_items ? left : pool->chunk_items), &worker);
}

// Takes a chunk of |share|, unless it is empty: its owner the first, others the last.
static bool take_chunk(_Atomic uint64_t *share, bool is_owner, uint32_t *out_chunk) {
  uint64_t left = atomic_load_explicit(share, memory_order_relaxed), rest;
  do {
    const uint32_t begin = (uint32_t)(left >> 32), end = (uint32_t)left;
    if (begin == end) return false;
    *out_chunk = is_owner ? begin : end - 1;
    rest = is_owner ? left + ((uint64_t)1 << 32) : left - 1;
  } while (!atomic_compare_exchange_weak_explicit(share, &left, rest, memory_order_acq_rel, memory_order_relaxed));
  return true;
}

// From here on the task may be replaced.
static void report_done(graft_cpu_pool *pool, uint32_t n) {
  const uint32_t n_chunks = pool->n_chunks;
  if (atomic_fetch_add(&pool->n_done, n) + n < n_chunks || !atomic_load(&pool->is_caller_sleeping)) return;
  pthread_mutex_lock(&pool->lock);
  pthread_cond_signal(&pool->done);
  pthread_mutex_unlock(&pool->lock);
}

// Takes and runs chunks until none is left. As long as they are not reported, no other task can be opened.
static void work(graft_cpu_pool *pool, int32_t index) {
  uint32_t n_run = 0, chunk;
  for (int32_t i = 0; i < pool->n_threads; ++i) {
    const int32_t owner = index + i < pool->n_threads ? index + i : index + i - pool->n_threads;
    for (; take_chunk(&pool->threads[owner].share, i == 0, &chunk); ++n_run) run_chunk(pool, chunk, index);
  }
  if (n_run > 0) report_done(pool, n_run);
}

static bool has_news(graft_cpu_pool *pool, uint32_t n_seen) {
  return atomic_load(&pool->n_opened) != n_seen || atomic_load(&pool->is_closing);
}

// Waits until more than |n_seen| tasks have been opened. Counting oneself as sleeping before looking again, and the
// caller opening a task before counting sleepers, in sequentially consistent order, is what no wake-up can fall
// between.
static void wait_for_task(graft_cpu_pool *pool, uint32_t n_seen) {
  for (int32_t i = 0; i < pool->n_spins; ++i) {
    if (has_news(pool, n_seen)) return;
    relax();
  }
  pthread_mutex_lock(&pool->lock);
  atomic_fetch_add(&pool->n_sleeping, 1);
  while (!has_news(pool, n_seen)) pthread_cond_wait(&pool->opened, &pool->lock);
  atomic_fetch_sub(&pool->n_sleeping, 1);
  pthread_mutex_unlock(&pool->lock);
}

static void *thread_main(void *arg) {
  const cpu_thread *thread = arg;
  graft_cpu_pool *pool = thread->pool;
  for (uint32_t n_seen = 0;;) {
    wait_for_task(pool, n_seen);
    if (atomic_load(&pool->is_closing)) return NULL;
    n_seen = atomic_load(&pool->n_opened);
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

// Cuts |task| up and shares it out.
static void open_task(graft_cpu_pool *pool, const graft_cpu_task *task, graft_cpu_run *run) {
  const int64_t n_threads = pool->n_threads;
  pool->chunk_items = (task->n_items - 1) / (n_threads * CHUNKS_PER_THREAD) + 1;
  pool->n_chunks = (uint32_t)((task->n_items - 1) / pool->chunk_items + 1);
  pool->task = task;
  pool->run = run;
  atomic_store_explicit(&pool->n_done, 0, memory_order_relaxed);
  for (int64_t i = 0; i < n_threads; ++i) {
    const uint64_t begin = (uint64_t)(pool->n_chunks * i / n_threads),
                   end = (uint64_t)(pool->n_chunks * (i + 1) / n_threads);
    atomic_store_explicit(&pool->threads[i].share, begin << 32 | end, memory_order_release);
  }
  // Last, so that who sees that it was opened sees all shares.
  atomic_fetch_add(&pool->n_opened, 1);
}

void graft_cpu_pool_run(graft_cpu_pool *pool, const graft_cpu_task *task, graft_cpu_run *run) {
  if (pool->n_threads == 1 || task->n_items <= 1) {
    const graft_cpu_worker worker = {.index = 0, .run = run};
    run_items(task, 0, task->n_items, &worker);
    return;
  }
  open_task(pool, task, run);
  wake_workers(pool);
  work(pool, 0);
  wait_until_done(pool);
}

void graft_cpu_block_signals(sigset_t *out_before) {
  static const int own[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV};
  sigset_t others;
  sigfillset(&others);
  for (size_t i = 0; i < sizeof own / sizeof own[0]; ++i) sigdelset(&others, own[i]);
  pthread_sigmask(SIG_SETMASK, &others, out_before);
}

static graft_status start_threads(graft_cpu_pool *pool, graft_error *error) {
  sigset_t before;
  graft_cpu_block_signals(&before);
  int result = 0;
  for (int32_t i = 1; i < pool->n_threads && result == 0; ++i) {
    cpu_thread *thread = &pool->threads[i];
    thread->pool = pool;
    thread->index = i;
    result = pthread_create(&thread->id, NULL, thread_main, thread);
    if (result == 0) ++pool->n_started;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (result == 0) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_DEVICE, "the system refuses to start thread %d of %d (%s); ask for fewer threads",
                    (int)pool->n_started + 2, (int)pool->n_threads, strerror(result));
}

graft_status graft_cpu_pool_create(int32_t n_threads, int32_t n_cores, graft_error *error, graft_cpu_pool **out_pool) {
  size_t bytes = sizeof(graft_cpu_pool) + (size_t)n_threads * sizeof(cpu_thread);
  graft_cpu_pool *pool = aligned_alloc(CACHE_LINE, bytes);
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
  for (int32_t i = 0; i < pool->n_started; ++i) pthread_join(pool->threads[i + 1].id, NULL);
  pthread_cond_destroy(&pool->done);
  pthread_cond_destroy(&pool->opened);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

bool graft_cpu_pool_is_worker(const graft_cpu_pool *pool) {
  for (int32_t i = 0; i < pool->n_started; ++i) {
    if (pthread_equal(pool->threads[i + 1].id, pthread_self())) return true;
  }
  return false;
}
