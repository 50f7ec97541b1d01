// hopper.cuh — instructions of compute capability 9.0a: barriers in shared memory that count bytes, the copy engine,
// and products of matrices by warpgroups.
//
// Tiles are rows of 128 bytes, 64 numbers of 16 bits, whose pieces of 16 bytes are exchanged by the copy engine (the
// piece's number xor the row's, modulo 8), at multiples of 1024 bytes.
#ifndef GRAFT_OPS_COMMON_CUDA_HOPPER_CUH
#define GRAFT_OPS_COMMON_CUDA_HOPPER_CUH

#include <stdint.h>

#include "ops/common/cuda/hopper.h"

__device__ __forceinline__ uint32_t graft_shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

// The dynamic shared memory from its first multiple of 1024 bytes on.
__device__ __forceinline__ uint32_t graft_hopper_memory(const void *memory) {
  return (graft_shared_address(memory) + GRAFT_HOPPER_ALIGNMENT - 1) / GRAFT_HOPPER_ALIGNMENT * GRAFT_HOPPER_ALIGNMENT;
}

__device__ __forceinline__ void graft_barrier_init(uint32_t barrier, int n_arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(n_arrivals) : "memory");
}

// Makes initialised barriers known to the copy engine.
__device__ __forceinline__ void graft_barrier_publish() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

__device__ __forceinline__ void graft_barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

// Arrives, and lets the phase end only when |bytes| more bytes have come.
__device__ __forceinline__ void graft_barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes) : "memory");
}

// Waits until phase |turn| of the barrier (0, 1, …) has ended; -1 has always.
__device__ __forceinline__ void graft_barrier_wait(uint32_t barrier, uint32_t turn) {
  uint32_t is_done = 0;
  while (!is_done) {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
                 : "=r"(is_done)
                 : "r"(barrier), "r"(turn & 1)
                 : "memory");
  }
}

// Barriers of whole warps, by number: two warpgroups that take turns.
__device__ __forceinline__ void graft_turn_wait(int number) {
  asm volatile("bar.sync %0, 256;\n" ::"r"(number) : "memory");
}

__device__ __forceinline__ void graft_turn_give(int number) {
  asm volatile("bar.arrive %0, 256;\n" ::"r"(number) : "memory");
}

// Fetches a box; |barrier| counts its bytes.
__device__ __forceinline__ void graft_fetch_box(uint32_t to, const graft_cuda_tensor_map &map, uint32_t barrier, int x0,
                                                int x1, int x2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];\n" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2)
      : "memory");
}

__device__ __forceinline__ void graft_fetch_box(uint32_t to, const graft_cuda_tensor_map &map, uint32_t barrier, int x0,
                                                int x1, int x2, int x3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];\n" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
      : "memory");
}

__device__ __forceinline__ void graft_prefetch_map(const graft_cuda_tensor_map &map) {
  asm volatile("prefetch.tensormap [%0];\n" ::"l"(&map) : "memory");
}

// Registers per thread of a warpgroup from here on; all of its warps come by.
template <int N>
__device__ __forceinline__ void graft_registers_give() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(N));
}

template <int N>
__device__ __forceinline__ void graft_registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(N));
}

// How a product finds a tile: groups of eight rows lie 1024 bytes apart. With rows that run along the product's depth
// |panel_bytes| is not used; with rows that run across it, it is the distance to the next 64 columns.
__device__ __forceinline__ uint64_t graft_tile_at(uint32_t address, uint32_t panel_bytes) {
  return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(panel_bytes >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 |
         (uint64_t)1 << 62;
}

__device__ __forceinline__ void graft_products_begin() {
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}

__device__ __forceinline__ void graft_products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

// Waits until at most N groups of products are under way.
template <int N>
__device__ __forceinline__ void graft_products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory");
}

// Keeps the compiler from moving what is done with registers over what stands before or after.
template <int N>
__device__ __forceinline__ void graft_hold(float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i])::"memory");
}

template <int N>
__device__ __forceinline__ void graft_hold(uint32_t (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(x[i])::"memory");
}

// clang-format off
#define GRAFT_SUMS_8(d, i) \
  "+f"(d[(i)]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]), "+f"(d[(i) + 4]), "+f"(d[(i) + 5]), "+f"(d[(i) + 6]), "+f"(d[(i) + 7])
#define GRAFT_SUMS_32(d, i) GRAFT_SUMS_8(d, i), GRAFT_SUMS_8(d, (i) + 8), GRAFT_SUMS_8(d, (i) + 16), GRAFT_SUMS_8(d, (i) + 24)
#define GRAFT_NAMES_32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define GRAFT_NAMES_64 GRAFT_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define GRAFT_NAMES_96 GRAFT_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define GRAFT_NAMES_128 GRAFT_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define GRAFT_SUMS_64(d) GRAFT_SUMS_32(d, 0), GRAFT_SUMS_32(d, 32)
#define GRAFT_SUMS_128(d) GRAFT_SUMS_64(d), GRAFT_SUMS_32(d, 64), GRAFT_SUMS_32(d, 96)
// clang-format on

// Both factors from shared memory, rows along the depth.
#define GRAFT_PRODUCT(shape, type, names, a, b, adds, ...)                                                          \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds ", 0;\nwgmma.mma_async.sync.aligned." shape "k16.f32." type \
               "." type " {" names "}, " a ", " b ", p, 1, 1, 0, 0;\n}\n"                                           \
               : __VA_ARGS__                                                                                        \
               : "l"(a_tile), "l"(b_tile), "r"(is_sum))

// The first factor from registers, rows of the second across the depth; added to the sums.
#define GRAFT_PRODUCT_HELD(shape, type, names, held, b, ...)                                                          \
  asm volatile("{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\nwgmma.mma_async.sync.aligned." shape "k16.f32." type "." type \
               " {" names "}, {" held "}, " b ", p, 1, 1, 1;\n}\n"                                                    \
               : __VA_ARGS__                                                                                          \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_tile))

// sums = a · bᵀ, or sums + a · bᵀ: 64 rows of a by 64, 128 or 256 of b, 16 numbers deep. Sums lie as those of
// mma.m16n8k16 do, 16 rows for each warp.
template <bool IS_BF16>
__device__ __forceinline__ void graft_multiply(float (&sums)[32], uint64_t a_tile, uint64_t b_tile, int is_sum) {
  if (IS_BF16) {
    GRAFT_PRODUCT("m64n64", "bf16", GRAFT_NAMES_32, "%32", "%33", "%34", GRAFT_SUMS_32(sums, 0));
  } else {
    GRAFT_PRODUCT("m64n64", "f16", GRAFT_NAMES_32, "%32", "%33", "%34", GRAFT_SUMS_32(sums, 0));
  }
}

template <bool IS_BF16>
__device__ __forceinline__ void graft_multiply(float (&sums)[64], uint64_t a_tile, uint64_t b_tile, int is_sum) {
  if (IS_BF16) {
    GRAFT_PRODUCT("m64n128", "bf16", GRAFT_NAMES_64, "%64", "%65", "%66", GRAFT_SUMS_64(sums));
  } else {
    GRAFT_PRODUCT("m64n128", "f16", GRAFT_NAMES_64, "%64", "%65", "%66", GRAFT_SUMS_64(sums));
  }
}

template <bool IS_BF16>
__device__ __forceinline__ void graft_multiply(float (&sums)[128], uint64_t a_tile, uint64_t b_tile, int is_sum) {
  if (IS_BF16) {
    GRAFT_PRODUCT("m64n256", "bf16", GRAFT_NAMES_128, "%128", "%129", "%130", GRAFT_SUMS_128(sums));
  } else {
    GRAFT_PRODUCT("m64n256", "f16", GRAFT_NAMES_128, "%128", "%129", "%130", GRAFT_SUMS_128(sums));
  }
}

// sums += a · b: 64 rows, 16 numbers of each held as operands of mma.m16n8k16, by 64 or 128 columns of b.
template <bool IS_BF16>
__device__ __forceinline__ void graft_multiply_held(float (&sums)[32], const uint32_t *a, uint64_t b_tile) {
  if (IS_BF16) {
    GRAFT_PRODUCT_HELD("m64n64", "bf16", GRAFT_NAMES_32, "%32, %33, %34, %35", "%36", GRAFT_SUMS_32(sums, 0));
  } else {
    GRAFT_PRODUCT_HELD("m64n64", "f16", GRAFT_NAMES_32, "%32, %33, %34, %35", "%36", GRAFT_SUMS_32(sums, 0));
  }
}

template <bool IS_BF16>
__device__ __forceinline__ void graft_multiply_held(float (&sums)[64], const uint32_t *a, uint64_t b_tile) {
  if (IS_BF16) {
    GRAFT_PRODUCT_HELD("m64n128", "bf16", GRAFT_NAMES_64, "%64, %65, %66, %67", "%68", GRAFT_SUMS_64(sums));
  } else {
    GRAFT_PRODUCT_HELD("m64n128", "f16", GRAFT_NAMES_64, "%64, %65, %66, %67", "%68", GRAFT_SUMS_64(sums));
  }
}

#endif
