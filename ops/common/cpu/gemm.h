// gemm.h — matrix product on the CPU: C = epilogue(A · B), in float32 arithmetic for every storage type.
//
// One idea carries linear, matmul, convolution and attention. A strip of a few rows of A, copied as float32 rows of a
// fixed stride, stays in the L1 cache; a block of B, laid out in panels a few vectors wide, stays in L2; the
// micro-kernel broadcasts elements of A and streams B. The core is one source, compiled once per target (baseline,
// AVX2, AVX-512).
//
// Order of summation: terms are added in ascending k, by fused multiply-adds where the target has them, within blocks
// of GRAFT_GEMM_K terms, and the blocks in ascending order. It depends on nothing else: neither on the tiling of rows
// and columns, nor on how many rows are computed together, on storage layout or on threads.
//
// Nothing here allocates. Work is split into items from shapes alone; items of one product run on any threads, each
// with a scratch area of its own, aligned to 64 bytes.
#ifndef GRAFT_OPS_COMMON_CPU_GEMM_H
#define GRAFT_OPS_COMMON_CPU_GEMM_H

#include "graft/dtype.h"
#include "ops/common/cpu/target.h"

enum {
  GRAFT_GEMM_K = 256,                       // terms per block
  GRAFT_GEMM_N_AHEAD = 5,                   // what a strip fetches: A, B, output, gate, residual
  GRAFT_GEMM_A_STRIDE = GRAFT_GEMM_K + 16,  // floats between rows of a strip: keeps rows in cache sets of their own
};

// A matrix of f32, bf16 or f16 elements in memory. Fast where one of the strides is 1.
typedef struct graft_gemm_matrix {
  const void *data;
  graft_dtype_code type;
  int64_t row_stride, column_stride;  // in elements
} graft_gemm_matrix;

// Bytes of one element of a type that matrices have.
static inline int64_t graft_gemm_element_bytes(graft_dtype_code type) {
  return type == GRAFT_DTYPE_F32 ? 4 : 2;
}

// The same matrix from element (row, column) on.
static inline graft_gemm_matrix graft_gemm_matrix_at(graft_gemm_matrix matrix, int64_t row, int64_t column) {
  const int64_t offset = row * matrix.row_stride + column * matrix.column_stride;
  matrix.data = (const char *)matrix.data + offset * graft_gemm_element_bytes(matrix.type);
  return matrix;
}

// A rectangle within a matrix.
typedef struct graft_gemm_block {
  int64_t row, rows, column, columns;
} graft_gemm_block;

// Memory that will be wanted soon: |rows| runs of |row_bytes|, |stride| bytes apart. Fetched while the micro-kernel
// works.
typedef struct graft_gemm_ahead {
  const char *data;
  int64_t rows, row_bytes, stride;
} graft_gemm_ahead;

// Asks for part |i| of |parts| of it.
static inline void graft_gemm_fetch_ahead(const graft_gemm_ahead *ahead, int64_t i, int64_t parts) {
  for (int64_t row = i; row < ahead->rows; row += parts) {
    const char *run = ahead->data + row * ahead->stride;
    for (int64_t byte = 0; byte < ahead->row_bytes; byte += 64) __builtin_prefetch(run + byte, 0, 2);
  }
}

// One call of the micro-kernel: a strip of rows times a block of panels, into float32 scratch.
typedef struct graft_gemm_strip {
  const float *a;           // [rows][a_stride]; of narrower elements twice as many
  int64_t a_stride;         // GRAFT_GEMM_A_STRIDE but where A is read in place
  const void *b;            // panels [k][panel]
  graft_dtype_code b_type;  // bf16 and f16 only for at most |direct_rows_max| rows
  int32_t rows, k;          // 1 ≤ rows ≤ rows_max, 0 ≤ k ≤ GRAFT_GEMM_K
  int64_t columns;
  size_t panel_stride;  // elements from panel to panel
  float *c;             // [rows][c_stride]; up to |columns| rounded up to whole panels is written
  size_t c_stride;
  bool accumulate;  // c += a·b instead of c = a·b
  graft_gemm_ahead ahead[GRAFT_GEMM_N_AHEAD];
} graft_gemm_strip;

typedef enum graft_gemm_activation {
  GRAFT_GEMM_LINEAR = 0,
  GRAFT_GEMM_SILU,
  GRAFT_GEMM_GELU,  // by the error function
  GRAFT_GEMM_GELU_TANH,
} graft_gemm_activation;

// Where finished sums go, and what happens to them on the way: + bias, activation, · gate, + residual, rounding to
// |type|.
typedef struct graft_gemm_output {
  void *data;  // columns are dense
  graft_dtype_code type;
  int64_t row_stride;                // elements
  graft_gemm_matrix bias;            // element (i, j) is added to (i, j); a stride of 0 repeats it; no data: none.
  graft_gemm_matrix gate, residual;  // likewise; may be |data| itself. All: column_stride 0 or 1.
  graft_gemm_activation activation;
} graft_gemm_output;

// What is compiled once per target. Constant; all functions are thread-safe.
typedef struct graft_gemm_core {
  const char *target;
  uint64_t required_features;  // graft_cpu_feature bits
  int32_t rows_max;            // rows of a strip
  int32_t direct_rows_max;     // up to this many rows, bf16 and f16 panels are expanded in registers
  int32_t panel;               // columns of a panel
  int32_t block_columns;       // columns of B that are worked on together, sized for the L2 cache
  int32_t terms;               // of a block; GRAFT_GEMM_K unless strips and panels have smaller elements than float32
  int32_t group;               // terms that one instruction takes; columns of panels are filled up to whole groups
  graft_dtype_code a_type;     // of strips: an A of this type may be read in place

  void (*multiply)(const graft_gemm_strip *strip);
  // Copies a block of A as float32 to |out| [rows][GRAFT_GEMM_A_STRIDE].
  void (*load_rows)(const graft_gemm_matrix *a, const graft_gemm_block *block, float *out);
  // Lays a block of B out in float32 panels [rows][panel], missing columns as zeros.
  void (*load_panels)(const graft_gemm_matrix *b, const graft_gemm_block *block, float *out);
  // The same without changing the type: how weights are packed.
  void (*pack_panels)(const graft_gemm_matrix *b, const graft_gemm_block *block, void *out);
  // Converts |n| elements to float32.
  void (*expand)(const void *source, graft_dtype_code type, size_t n, float *out);
  // Applies the epilogue to |block| of the output, whose sums are c [rows][c_stride], and stores it.
  void (*store)(const graft_gemm_output *out, const graft_gemm_block *block, const float *c, size_t c_stride);
} graft_gemm_core;

extern const graft_gemm_core graft_gemm_core__baseline;
extern const graft_gemm_core graft_gemm_core__avx2;    // x86-64 with AVX2, FMA and F16C
extern const graft_gemm_core graft_gemm_core__avx512;  // x86-64 with AVX-512 F, BW, DQ and VL

// Multiplies bf16 by bf16 without widening them: A and B must be bf16, and B in memory (no load_b). Adds pairs of
// terms, in no promised order, and takes subnormal numbers for 0. x86-64 with AVX512-BF16.
extern const graft_gemm_core graft_gemm_core__avx512_bf16;

// A product: [m, k] times [k, n].
typedef struct graft_gemm {
  const graft_gemm_core *core;
  int64_t m, n, k;  // each may be 0; a sum over no terms is 0
  graft_gemm_matrix a;
  graft_gemm_matrix b;  // ignored but for data and type when packed, wholly when load_b is set
  bool b_is_packed;     // data was made by graft_gemm_pack
  // For a B that is nowhere in memory: lays out a block of it as |core->load_panels| would, and tells what memory part
  // |part| of |n_parts| of that needs. |b_context| is theirs.
  void (*load_b)(const graft_gemm_core *core, const void *b_context, const graft_gemm_block *block, float *out);
  graft_gemm_ahead (*b_ahead)(const void *b_context, const graft_gemm_block *block, int64_t part, int64_t n_parts);
  const void *b_context;
  graft_gemm_output out;
  // For sums that need their neighbours before they can be stored: takes |block| of the output instead of |out|, which
  // then only says what to fetch for it (no data: nothing). Blocks are whole groups of |finish_columns|, so that
  // graft_gemm_can_finish must say that there are such; sums are c [rows][c_stride], to be worked on in place.
  void (*finish)(const void *finish_context, const graft_gemm_block *block, float *c, size_t c_stride);
  const void *finish_context;
  int64_t finish_columns;
} graft_gemm;

// Whether blocks of an output of |n| columns can be whole groups of |columns| ≥ 1, of which |n| is a multiple.
// Thread-safe.
bool graft_gemm_can_finish(const graft_gemm_core *core, int64_t n, int64_t columns);

// Bytes of a packed B of |k| × |n| elements of |type|. The caller has checked that the matrix itself fits in memory
// with room to spare: columns are rounded up to whole panels. Thread-safe.
size_t graft_gemm_packed_bytes(const graft_gemm_core *core, graft_dtype_code type, int64_t n, int64_t k);

// Packs |b| into |out|. Thread-safe.
void graft_gemm_pack(const graft_gemm_core *core, const graft_gemm_matrix *b, int64_t n, int64_t k, void *out);

// Number of items that the product is split into; depends on m, n, k, finish_columns and the core only. Thread-safe.
int64_t graft_gemm_items(const graft_gemm *gemm);

// Bytes of scratch that each thread needs, a multiple of 64. Thread-safe.
size_t graft_gemm_scratch_bytes(const graft_gemm *gemm);

// Computes one item: a rectangle of the output. Thread-safe for distinct scratch.
void graft_gemm_run(const graft_gemm *gemm, int64_t item, void *scratch);

#endif
