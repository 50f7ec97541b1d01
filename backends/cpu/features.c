#include "backends/cpu/features.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#if defined(__x86_64__)
typedef struct cpuid_leaf {
  uint32_t a, b, c, d;
} cpuid_leaf;

static cpuid_leaf cpuid(uint32_t leaf, uint32_t subleaf) {
  cpuid_leaf r = {0};
  if (!__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d)) return (cpuid_leaf){0};
  return r;
}

static bool has(uint32_t bits, int bit) {
  return (bits >> bit & 1) != 0;
}

// Which register state the operating system saves when it switches threads; without it the instructions fault.
static uint64_t saved_state(cpuid_leaf leaf1) {
  if (!has(leaf1.c, 27)) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

uint64_t graft_cpu_detect_features(void) {
  const uint64_t ymm_state = 0x6, zmm_state = 0xe6;
  cpuid_leaf l1 = cpuid(1, 0), l7 = cpuid(7, 0), l71 = cpuid(7, 1);
  uint64_t state = saved_state(l1), features = 0;
  bool is_avx2 = (state & ymm_state) == ymm_state && has(l1.c, 28) && has(l7.b, 5) && has(l1.c, 12) && has(l1.c, 29);
  if (!is_avx2) return 0;
  features |= GRAFT_CPU_AVX2;
  if (has(l71.a, 4)) features |= GRAFT_CPU_AVX_VNNI;
  bool is_avx512 = (state & zmm_state) == zmm_state && has(l7.b, 16) && has(l7.b, 17) && has(l7.b, 30) && has(l7.b, 31);
  if (!is_avx512) return features;
  features |= GRAFT_CPU_AVX512;
  if (has(l7.c, 11)) features |= GRAFT_CPU_AVX512_VNNI;
  if (has(l71.a, 5)) features |= GRAFT_CPU_AVX512_BF16;
  return features;
}

void graft_cpu_brand(char *name) {
  char text[49] = {0};
  for (uint32_t i = 0; i < 3; ++i) {
    cpuid_leaf leaf = cpuid(0x80000002u + i, 0);
    memcpy(text + 16 * i, &leaf, 16);
  }
  const char *begin = text + strspn(text, " ");
  size_t length = strlen(begin);
  while (length > 0 && begin[length - 1] == ' ') --length;
  snprintf(name, 64, "%.*s", (int)length, begin);
  if (length == 0) snprintf(name, 64, "x86-64 CPU");
}
#elif defined(__aarch64__) && defined(__linux__)
uint64_t graft_cpu_detect_features(void) {
  const unsigned long hwcap_asimddp = 1ul << 20, hwcap2_i8mm = 1ul << 13;  // the kernel's own numbers
  uint64_t features = 0;
  if (getauxval(AT_HWCAP) & hwcap_asimddp) features |= GRAFT_CPU_NEON_DOTPROD;
  if (getauxval(AT_HWCAP2) & hwcap2_i8mm) features |= GRAFT_CPU_NEON_I8MM;
  return features;
}

void graft_cpu_brand(char *name) {
  snprintf(name, 64, "arm64 CPU");
}
#else
uint64_t graft_cpu_detect_features(void) {
  return 0;
}

void graft_cpu_brand(char *name) {
  snprintf(name, 64, "CPU");
}
#endif

typedef struct cpu_target {
  const char *name, *label;
  uint64_t needs, allows;
} cpu_target;

static const uint64_t avx2_features = GRAFT_CPU_AVX2 | GRAFT_CPU_AVX_VNNI;
static const uint64_t avx512_features =
    GRAFT_CPU_AVX2 | GRAFT_CPU_AVX_VNNI | GRAFT_CPU_AVX512 | GRAFT_CPU_AVX512_VNNI | GRAFT_CPU_AVX512_BF16;

graft_status graft_cpu_limit_features(uint64_t available, const char *target, graft_error *error,
                                      uint64_t *out_features) {
  const cpu_target targets[] = {
      {.name = "baseline", .label = "", .needs = 0, .allows = 0},
      {.name = "avx2", .label = "AVX2 with FMA", .needs = GRAFT_CPU_AVX2, .allows = avx2_features},
      {.name = "avx512", .label = "AVX-512", .needs = GRAFT_CPU_AVX512, .allows = avx512_features},
  };
  if (target == NULL) {
    *out_features = available;
    return GRAFT_OK;
  }
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; ++i) {
    if (strcmp(target, targets[i].name) != 0) continue;
    if ((available & targets[i].needs) != targets[i].needs) {
      return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                        "CPU target \"%s\" needs a processor with %s, and this has none; "
                        "leave the target out to use the best it has",
                        target, targets[i].label);
    }
    *out_features = available & targets[i].allows;
    return GRAFT_OK;
  }
  return GRAFT_FAIL(error, GRAFT_E_INVALID, "there is no CPU target \"%s\"; choose baseline, avx2 or avx512", target);
}

const char *graft_cpu_target_label(uint64_t features) {
  if (features & GRAFT_CPU_AVX512) return "AVX-512";
  if (features & GRAFT_CPU_AVX2) return "AVX2";
  if (features & GRAFT_CPU_NEON_DOTPROD) return "NEON dotprod";
  return "baseline";
}
