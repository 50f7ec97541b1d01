// pool.h — the threads of a CPU device. One task at a time is open to all of them, which share it out and steal from
// each other what is left; the calling thread is worker 0.
#ifndef GRAFT_BACKENDS_CPU_POOL_H
#define GRAFT_BACKENDS_CPU_POOL_H

#include <signal.h>

#include "backends/cpu/run.h"

typedef struct graft_cpu_pool graft_cpu_pool;

// Starts |n_threads| - 1 threads. With more threads than |n_cores| they sleep at once when idle instead of spinning.
// Errors: GRAFT_E_NO_MEMORY, GRAFT_E_DEVICE (the system refuses more threads).
GRAFT_NODISCARD graft_status graft_cpu_pool_create(int32_t n_threads, int32_t n_cores, graft_error *error,
                                                   graft_cpu_pool **out_pool);
void graft_cpu_pool_destroy(graft_cpu_pool *pool);

// Runs every item of |task| that |run| does not stop, and waits. One thread at a time per pool; allocates nothing.
void graft_cpu_pool_run(graft_cpu_pool *pool, const graft_cpu_task *task, graft_cpu_run *run);

// Whether the calling thread is one that the pool started.
bool graft_cpu_pool_is_worker(const graft_cpu_pool *pool);

// Blocks signals in the calling thread while it starts others: they are for the application's own threads. What a
// thread raises by its own instructions stays: blocked it would end the process unheard, whatever handler there is.
void graft_cpu_block_signals(sigset_t *out_before);

#endif
