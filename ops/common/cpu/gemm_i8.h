// gemm_i8.h — product of int8 matrices on the CPU: C = epilogue(A · Bᵀ) with exact integer sums.
//
// The scheme is that of gemm.h: a strip of a few rows of A stays in the L1 cache, B lies packed in panels, a
// micro-kernel keeps a tile of sums in registers. Terms are taken four at a time, as the instructions do that multiply
// bytes (VNNI, dot products): a panel is [k / 4][panel][4], so that one vector holds four terms of several columns, and
// one 32-bit broadcast holds four terms of a row. Where instructions take eight, so do groups.
//
// Instructions that take one operand unsigned get A + 128; what that adds to a sum, 128 · (column sum of B), is taken
// off again by starting each sum at -128 · (column sum). Sums wrap modulo 2^32 on the way, which is harmless: up to
// GRAFT_GEMM_I8_CHUNK terms the result itself fits in 32 bits, whatever bytes occur. Longer sums are made of such
// chunks, added in 64 bits.
//
// Rules for cores are those of gemm.h: nothing allocates, items depend on shapes alone, each has scratch of its own.
#ifndef GRAFT_OPS_COMMON_CPU_GEMM_I8_H
#define GRAFT_OPS_COMMON_CPU_GEMM_I8_H

#include "ops/common/cpu/gemm.h"

enum {
  GRAFT_GEMM_I8_K = 512,                          // terms per block: strip and panel share the L1 cache
  GRAFT_GEMM_I8_A_STRIDE = GRAFT_GEMM_I8_K + 64,  // elements between rows of a strip
  GRAFT_GEMM_I8_CHUNK = 254 * GRAFT_GEMM_I8_K,    // terms whose sum cannot leave 32 bits: at most 131,071
};

// A float32 at any address: packed activations carry their scales behind bytes.
typedef float graft_gemm_i8_scale __attribute__((aligned(1)));

// How a strip's finished sums become float32 results without passing through memory: y = float(sum) · x · w + bias.
typedef struct graft_gemm_i8_direct {
  float *out;  // of the strip's first row and column; NULL: sums go to |c|
  size_t out_stride;
  const graft_gemm_i8_scale *x;  // of rows, |x_step| elements apart
  int64_t x_step;
  const float *w, *bias;  // of columns; bias NULL: none
} graft_gemm_i8_direct;

// One call of the micro-kernel: a strip of rows times a block of panels.
typedef struct graft_gemm_i8_strip {
  const void *a;         // as load_rows laid it out
  const int8_t *b;       // panels [groups][panel][group]
  int32_t rows, groups;  // 1 ≤ rows ≤ rows_max; groups of terms, 0 … GRAFT_GEMM_I8_K / group
  int64_t columns;
  size_t panel_stride;   // bytes from panel to panel
  const int32_t *start;  // what each column's sums begin with; NULL: 0
  int32_t *c;            // [rows][c_stride]; up to |columns| rounded up to whole panels is written
  size_t c_stride;
  bool accumulate;              // c += a·b instead of c = start + a·b
  graft_gemm_i8_direct direct;  // of whole panels; those of a ragged one go to |c|
  // What will be wanted next: the block of B after this one, if this is the first strip to read this one from far away,
  // fetched line by line in step with the products; the next strip of A and the lines that results go to.
  const int8_t *next_b;  // NULL: B is near
  graft_gemm_ahead ahead[2];
} graft_gemm_i8_strip;

// From sums to numbers: y = float(sum) · x · w, in this order, rounded to float32 after each product.
typedef struct graft_gemm_i8_scales {
  const graft_gemm_i8_scale *x;  // of rows, |x_step| elements apart; a step of 0 repeats one
  int64_t x_step;
  const float *w;  // of columns; NULL: 1. Steps are 0 or 1.
  int64_t w_step;
  // ComfyUI's order: y = float(sum) · (x · w), rounded to |rounding|, then + bias, itself so rounded.
  bool is_comfy;
  graft_dtype_code rounding;
  graft_gemm_matrix bias;  // of that order only; no data: none
} graft_gemm_i8_scales;

// What is compiled once per target. Constant; all functions are thread-safe.
typedef struct graft_gemm_i8_core {
  const char *layout;                       // of packed weights; cores of one layout may share them
  uint64_t required_features;               // graft_cpu_feature bits
  const struct graft_gemm_i8_core *better;  // of the same target, for processors that have more; or NULL
  const graft_gemm_core *floats;            // converts and stores numbers
  int32_t rows_max, panel, group;           // rows of a strip, columns of a panel, terms of a group
  int32_t block_columns;                    // columns of B that are worked on together
  int32_t a_bytes;                          // of one element of a strip
  bool is_unsigned;                         // takes A + 128: sums begin with start values

  void (*multiply)(const graft_gemm_i8_strip *strip);
  // Copies a strip of A, |block|'s columns dense and |a_stride| bytes from row to row, for `multiply`; the last group
  // of four is completed with any values.
  void (*load_rows)(const int8_t *a, int64_t a_stride, const graft_gemm_block *block, void *out);
  // Turns sums c [rows][c_stride] of |block| into results and stores them; |wide| sums, where given, are used instead.
  // Overwrites c.
  void (*store)(const graft_gemm_i8_scales *scales, const graft_gemm_output *out, const graft_gemm_block *block,
                const int64_t *wide, int32_t *c, size_t c_stride);
} graft_gemm_i8_core;

extern const graft_gemm_i8_core graft_gemm_i8_core__baseline;
extern const graft_gemm_i8_core graft_gemm_i8_core__avx2;
extern const graft_gemm_i8_core graft_gemm_i8_core__avx512;
extern const graft_gemm_i8_core graft_gemm_i8_core__avx_vnni;                           // better than AVX2
extern const graft_gemm_i8_core graft_gemm_i8_core__dotprod, graft_gemm_i8_core__i8mm;  // better than baseline, arm64

// The best core of |core|'s target for a processor with |features|. Thread-safe.
const graft_gemm_i8_core *graft_gemm_i8_core_for(const graft_gemm_i8_core *core, uint64_t features);

// graft_gemm_i8_core.store of each target.
typedef void graft_gemm_i8_store(const graft_gemm_i8_scales *scales, const graft_gemm_output *out,
                                 const graft_gemm_block *block, const int64_t *wide, int32_t *c, size_t c_stride);
extern graft_gemm_i8_store graft_gemm_i8_store__baseline, graft_gemm_i8_store__avx2, graft_gemm_i8_store__avx512;

// A product: [m, k] times the transposed [n, k].
typedef struct graft_gemm_i8 {
  const graft_gemm_i8_core *core;
  int64_t m, n, k;  // each may be 0; a sum over no terms is 0
  const int8_t *a;  // rows are dense
  int64_t a_stride;
  const void *b;  // made by graft_gemm_i8_pack
  graft_gemm_i8_scales scales;
  graft_gemm_output out;  // its bias, activation and residual follow the scales
} graft_gemm_i8;

// A weight [n, k] of int8 in memory, with dense rows.
typedef struct graft_gemm_i8_weight {
  const int8_t *data;
  int64_t n, k, row_stride;
  int64_t first_row;  // that |data| begins with
} graft_gemm_i8_weight;

// Bytes of a packed weight: panels, then start values [chunks][whole panels of columns] where the core wants them. The
// weight itself fits in memory with room to spare. Thread-safe.
size_t graft_gemm_i8_packed_bytes(const graft_gemm_i8_core *core, int64_t n, int64_t k);

// Packs panel |panel| of graft_gemm_i8_panels, or all of them. Thread-safe for distinct panels.
int64_t graft_gemm_i8_panels(const graft_gemm_i8_core *core, int64_t n);
void graft_gemm_i8_pack_panel(const graft_gemm_i8_core *core, const graft_gemm_i8_weight *weight, int64_t panel,
                              void *out);
void graft_gemm_i8_pack(const graft_gemm_i8_core *core, const graft_gemm_i8_weight *weight, void *out);

// As in gemm.h.
int64_t graft_gemm_i8_items(const graft_gemm_i8 *gemm);
size_t graft_gemm_i8_scratch_bytes(const graft_gemm_i8 *gemm);
void graft_gemm_i8_run(const graft_gemm_i8 *gemm, int64_t item, void *scratch);

// For kernels that go on with rows while they are near: a product of few rows, graft_gemm_i8_few_rows of them or less,
// as a whole or columns |column| … |end| - 1 of it, |column| where a panel begins. |has_a|: the last call with this
// scratch was for the same rows of A. Bytes of scratch and work. Thread-safe for distinct scratch and results.
enum { GRAFT_GEMM_I8_MOST_FEW_ROWS = 16 };
int64_t graft_gemm_i8_few_rows(const graft_gemm_i8_core *core);
size_t graft_gemm_i8_few_scratch_bytes(const graft_gemm_i8_core *core, int64_t k);
void graft_gemm_i8_run_few(const graft_gemm_i8 *gemm, int64_t column, int64_t end, bool has_a, void *scratch);

#endif
