#include "backends/cpu/topology.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Reads the first line of a small system file into |text|; an empty text where there is none.
static bool read_line(const char *path, char *text, int text_bytes) {
  text[0] = 0;
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  bool is_read = fgets(text, text_bytes, file) != NULL;
  fclose(file);
  if (is_read) text[strcspn(text, "\n")] = 0;
  return is_read;
}

#if defined(__linux__)
enum { MAX_CPUS = 4096 };

typedef struct cpu_mask {
  unsigned long words[MAX_CPUS / (8 * sizeof(unsigned long))];
} cpu_mask;

static bool is_allowed(const cpu_mask *mask, size_t cpu) {
  return cpu < MAX_CPUS && CPU_ISSET_S(cpu, sizeof *mask, (const cpu_set_t *)mask) != 0;
}

// Whether |cpu| is a further hardware thread of a core of which the process may use an earlier one.
static bool is_sibling(const cpu_mask *mask, size_t cpu) {
  char path[96], text[64];
  unsigned first;
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list", cpu);
  return read_line(path, text, sizeof text) && sscanf(text, "%u", &first) == 1 && first != cpu &&
         is_allowed(mask, first);
}

static int32_t count_allowed_cores(void) {
  cpu_mask mask = {0};
  if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)&mask) != 0) return (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
  int32_t n = 0;
  for (size_t cpu = 0; cpu < MAX_CPUS; ++cpu) {
    if (is_allowed(&mask, cpu) && !is_sibling(&mask, cpu)) ++n;
  }
  return n;
}

// Cores' worth of time that the quota "<microseconds or max> <period>" in |text| grants, rounded up; 0: no limit.
static int32_t quota_cores(const char *text) {
  long long quota, period;
  if (sscanf(text, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0) return 0;
  long long cores = (quota + period - 1) / period;
  return cores < INT32_MAX ? (int32_t)cores : INT32_MAX;
}

static void tighten(int32_t *limit, int32_t cores) {
  if (cores > 0 && (*limit == 0 || cores < *limit)) *limit = cores;
}

// The second version of control groups: the quota of the process's own group and of every group around it.
static int32_t group_quota(void) {
  char line[512], path[640], text[64];
  int32_t limit = 0;
  if (!read_line("/proc/self/cgroup", line, sizeof line) || strncmp(line, "0::", 3) != 0) return 0;
  char *group = line + 3;
  for (;;) {
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
    if (read_line(path, text, sizeof text)) tighten(&limit, quota_cores(text));
    char *slash = strrchr(group, '/');
    if (slash == NULL) return limit;
    *slash = 0;
  }
}

static int32_t group_quota_v1(void) {
  char quota[32], period[32], text[80];
  if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota) ||
      !read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period)) {
    return 0;
  }
  snprintf(text, sizeof text, "%s %s", quota, period);
  return quota_cores(text);
}

int32_t graft_cpu_count_cores(void) {
  int32_t limit = count_allowed_cores();
  tighten(&limit, group_quota());
  tighten(&limit, group_quota_v1());
  return limit > 0 ? limit : 1;
}
#else
int32_t graft_cpu_count_cores(void) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (int32_t)n : 1;
}
#endif

void graft_cpu_find_caches(graft_cpu_info *info) {
  info->l1_bytes = (size_t)32 << 10;
  info->l2_bytes = (size_t)512 << 10;
  info->l3_bytes = 0;
  for (int i = 0; i < 8; ++i) {
    char path[96], text[32];
    unsigned level, kibibytes;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
    if (!read_line(path, text, sizeof text)) return;
    if (strcmp(text, "Instruction") == 0) continue;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
    if (!read_line(path, text, sizeof text) || sscanf(text, "%u", &level) != 1) continue;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
    if (!read_line(path, text, sizeof text) || sscanf(text, "%uK", &kibibytes) != 1 || kibibytes == 0) continue;
    size_t bytes = (size_t)kibibytes << 10;
    if (level == 1) info->l1_bytes = bytes;
    if (level == 2) info->l2_bytes = bytes;
    if (level == 3) info->l3_bytes = bytes;
  }
}

void graft_cpu_find_memory(uint64_t *out_total, uint64_t *out_free) {
  *out_total = *out_free = 0;
  FILE *file = fopen("/proc/meminfo", "re");
  if (file == NULL) return;
  char line[128];
  unsigned long long kibibytes;
  while (fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "MemTotal: %llu", &kibibytes) == 1) *out_total = kibibytes << 10;
    if (sscanf(line, "MemAvailable: %llu", &kibibytes) == 1) *out_free = kibibytes << 10;
  }
  fclose(file);
}
