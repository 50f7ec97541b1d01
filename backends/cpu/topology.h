// topology.h — how much of the machine this process may use.
#ifndef GRAFT_BACKENDS_CPU_TOPOLOGY_H
#define GRAFT_BACKENDS_CPU_TOPOLOGY_H

#include "graft/cpu.h"

// Cores that this process may run on: the affinity mask without second hardware threads of a core, limited by the
// quota of its control group. At least 1.
int32_t graft_cpu_count_cores(void);

// Fills the cache sizes of |info|; guesses where the system does not say.
void graft_cpu_find_caches(graft_cpu_info *info);

// Memory of the machine, all and available, in bytes; 0 where unknown.
void graft_cpu_find_memory(uint64_t *out_total, uint64_t *out_free);

#endif
