// What a plan is made of, as the planner (repops/plan/items.py) lays it out in memory: every field is 8 bytes wide.
//
// A plan is a list of items; all threads of one parallel region walk through it, with a barrier in front of each item
// that needs one. A GROUP is a chain of instructions over a domain of rows x columns, done tile by tile: values that stay
// inside live in slots, one tile large. An element (r, c) of a memory operand is base[row(r) + column(c)].
#pragma once
#include <cstdint>
#include <cstring>

#include "gemm.h"
#include "simd.h"

namespace repops {

// Words are read and written as integers whatever they hold; gemm writes the same memory as floats.
using Word = uint32_t __attribute__((may_alias));

REPOPS_INLINE float as_float(uint32_t word) {
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}
REPOPS_INLINE uint32_t as_word(float value) {
  uint32_t word;
  std::memcpy(&word, &value, 4);
  return word;
}

// Offsets along one index: table[i] where there is a table, else i * stride.
struct Steps {
  int64_t stride;
  const int32_t* table;
  REPOPS_INLINE int64_t at(int64_t i) const { return table ? table[i] : i * stride; }
};

enum Where : int64_t { NOWHERE, MEMORY, SLOT, ROW_SLOT, LITERAL };

// SLOT holds a tile, ROW_SLOT one word per row of it, LITERAL is `word`.
struct Operand {
  int64_t where;
  Word* base;
  Steps rows, columns;
  int64_t slot;
  uint64_t word;
};

// Codes of the operator table's elementwise rows, and these. LOAD and STORE move words between a slot and memory of any
// strides; ADDRESS gives row(r) + column(c) itself; SUM_ROW is `sum`; FOLD_ROW and FOLD_COLUMNS are the fold `extent`.
enum Code : int64_t { LOAD = 200, STORE, TAKE, ADDRESS, SUM_ROW, FOLD_ROW, FOLD_COLUMNS };

// per_row: works on one word per row. last: only in the tile that ends the row, being made from a whole row's reduction.
struct Instruction {
  int64_t code, per_row, last;
  Operand out, in[3];
  int64_t extent, stride;  // TAKE: of the indexed axis; FOLD_*: the operator's code; reductions: stride numbers them
};

enum Kind : int64_t { GROUP, COLUMNS, PRODUCT, SCATTER, RANK };

struct Item {
  int64_t kind, barrier, owner;  // owner: the thread that does all of it, or -1 for all threads together
  int64_t rows, columns, tile_rows, tile_columns;
  int64_t in_order;  // the tiles of a row belong to one thread and come in order: something is carried along them
  int64_t slots, count;
  const Instruction* instructions;
  const void* detail;  // of a PRODUCT, SCATTER or RANK
};

// out[o] for o over `others`: terms k in order; where index(o, k) is in 0..extent-1, that row takes (or is added) term(o, k).
struct Scatter {
  int64_t others, terms, extent, row_stride, adds, same_index;  // same_index: it does not depend on o
  Word* out;
  Steps out_others;
  const Word* index;
  Steps index_others, index_terms;
  const Word* source;
  Steps source_others, source_terms;
};

// For each of `others`, the places of `own` among `rivals` along an axis of `extent`.
struct Rank {
  int64_t others, extent, same_rivals;  // same_rivals: the rivals do not depend on the place along the axis
  const Word* own;
  Steps own_others;
  int64_t own_stride;
  const Word* rivals;
  Steps rivals_others;
  int64_t rivals_own_stride, rivals_stride;
  Word* out;
  Steps out_others;
  int64_t out_stride;
};

// One kernel call: rows x columns, operand addresses with row strides; a scalar operand has one word per row.
using Kernel = void (*)(int64_t rows, int64_t columns, Word* out, int64_t out_stride, const Word* a, int64_t a_stride,
                        const Word* b, int64_t b_stride, const Word* c, int64_t c_stride);

// scalars: bit i is set when operand i is a scalar. Null for a code that is no elementwise operator.
Kernel map_kernel(int64_t code, int scalars);

// A reduction that joins terms in order: `fold_row` goes on from `carried` over a row; `fold_column` joins one row of
// terms into accumulators. fold_start is what the carried word begins as.
uint32_t fold_start(int64_t code);
uint32_t fold_row(int64_t code, uint32_t carried, const Word* terms, int64_t count, int64_t step);
Kernel fold_column(int64_t code, bool scalar);

// Adds terms to 32 lanes; `sum_lanes` joins them. A row's pieces but the last are multiples of 32 long.
void add_to_lanes(float* lanes, const float* terms, int64_t count);
float sum_lanes(const float* lanes);

void run_tiles(const Item& item, int thread, int threads);
void run_scatter(const Scatter& scatter, int thread, int threads);
void run_rank(const Rank& rank, int thread, int threads);

}  // namespace repops
