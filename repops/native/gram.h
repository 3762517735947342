// The products of rows with each other: a matrix times its own transpose, with the bits of gemm.h.
#pragma once
#include <cstdint>

#include "threads.h"

namespace repops {

// c[i * c_row + j * c_column] = row i times row j, of K terms that lie side by side. All in floats; `stride` between rows.
struct Gram {
  int64_t rows, K;
  const float* from;
  int64_t stride;
  float* c;
  int64_t c_row, c_column;
};

// Whether it is faster than the general product: few long rows. Speed only.
bool suits(const Gram& g);

// Called by all threads of the barrier, or by one that passes threads = 1. room: floats of the thread's own, half a million or more.
void gram(const Gram& g, int thread, int threads, Barrier& barrier, float* room, int64_t floats);

}  // namespace repops
