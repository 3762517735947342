// Reproducible matrix products: one definition of every bit, whatever the machine.
//
// C[q,i,j] over K terms: K is cut in blocks of 256; inside a block acc = +0, then acc = fma(a[k], b[k], acc) for k
// ascending; the block sums are added in order: c = block0, c = c + block1, ... K == 0 gives +0.
// Instruction set, thread count and blocking do not show in the result. (NaN is NaN: its sign and payload are free.)
#pragma once
#include <cstdint>

#include "threads.h"

namespace repops {

constexpr int K_BLOCK = 256;  // part of the definition: never a tuning knob

// One batch of products. All offsets and strides are in floats and may be negative or zero (c's outputs must be
// distinct, and overlap neither a nor b). Element (q, i, k) of `a` is a[batch(q) + row(i) + col(k)]; each of the three is
// the table's entry where there is a table, index * stride where it is null. The same for b (q, k, j) and c (q, i, j).
struct Gemm {
  int64_t batches, M, N, K;
  const float* a;
  const int32_t* a_batch;  // batches entries, or null
  int64_t a_batch_stride;
  const int32_t* a_rows;  // M
  int64_t a_row_stride;
  const int32_t* a_cols;  // K
  int64_t a_col_stride;
  const float* b;
  const int32_t* b_batch;
  int64_t b_batch_stride;
  const int32_t* b_rows;  // K
  int64_t b_row_stride;
  const int32_t* b_cols;  // N
  int64_t b_col_stride;
  float* c;
  const int32_t* c_batch;
  int64_t c_batch_stride;
  const int32_t* c_rows;  // M
  int64_t c_row_stride;
  const int32_t* c_cols;  // N
  int64_t c_col_stride;
};

// Called by every thread of a parallel region (threads.h), whose barrier they share, or by one alone with threads = 1.
// Threads write disjoint outputs; the caller puts a barrier before anybody reads c.
void gemm(const Gemm& g, int thread, int threads, Barrier& barrier);

}  // namespace repops

// For tests and benchmarks: runs the product on a pool of `threads`. Returns 0.
REPOPS_EXPORT int repops_gemm(const repops::Gemm* g, int threads);
