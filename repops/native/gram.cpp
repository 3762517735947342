#include "gram.h"

#include <algorithm>

#include "gemm.h"
#include "simd.h"

namespace repops {
namespace {

// A block's sum is a chain of fmas, and few columns leave most of a vector empty. So LANES blocks lie in the lanes of a
// vector, each with its own chain. Threads take different blocks; when all have theirs, the sums are added in the order of
// the blocks, each thread adding some products. Factors commute: what is above the diagonal is written from below it.

#if defined(REPOPS_AVX512) || defined(REPOPS_NEON)
constexpr int TILE = 4;
#else
constexpr int TILE = 3;
#endif
constexpr int64_t SPAN = 128;  // terms of a block that are turned at a time: two tiles' share stays in the first cache
constexpr int64_t MOST_ROWS = 64, LEAST_TERMS = 2 * LANES * K_BLOCK;
constexpr int64_t SQUARE = TILE * TILE;

int64_t up(int64_t count, int64_t step) { return (count + step - 1) / step * step; }

// Products in the order of tiles, row after row of them up to the diagonal; the last ones are padding.
int64_t products_of(int64_t rows) {
  const int64_t tiles = up(rows, TILE) / TILE;
  return up(tiles * (tiles + 1) / 2 * SQUARE, LANES);
}

template <class Tile>
void each_tile(int64_t rows, Tile&& tile) {
  int64_t product = 0;
  for (int64_t i = 0; i < rows; i += TILE)
    for (int64_t j = 0; j <= i; j += TILE, product += SQUARE)
      tile(i, j, int(std::min<int64_t>(TILE, rows - i)), int(std::min<int64_t>(TILE, rows - j)), product);
}

// Terms k .. k + SPAN - 1 of `blocks` blocks of each row, as to[(r * SPAN + term) * LANES + block].
void turn(const Gram& g, int64_t k, int blocks, float* to) {
  for (int64_t r = 0; r < g.rows; r++) {
    const float* from = g.from + r * g.stride + k;
    const float* next = r + 1 < g.rows ? from + g.stride : g.from + k + SPAN;
    for (int t = 0; t < SPAN; t += LANES, to += LANES * LANES) {
      for (int q = 0; q < blocks; q++) prefetch(next + q * K_BLOCK + t);
      transpose(from + t, K_BLOCK, blocks, LANES, to, LANES);
    }
  }
}

// SPAN more terms of a tile's products. sum: a vector of blocks for each.
template <int ROWS, int COLUMNS>
void tile(const float* a, const float* b, float* sum) {
  Vec acc[ROWS][COLUMNS];
#pragma GCC unroll 4
  for (int i = 0; i < ROWS; i++) {
#pragma GCC unroll 4
    for (int j = 0; j < COLUMNS; j++) acc[i][j] = load(sum + (i * TILE + j) * LANES);
  }
  for (int k = 0; k < SPAN; k++, a += LANES, b += LANES) {
    Vec bv[COLUMNS];
#pragma GCC unroll 4
    for (int j = 0; j < COLUMNS; j++) bv[j] = load(b + j * SPAN * LANES);
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++) {
      const Vec av = load(a + i * SPAN * LANES);
#pragma GCC unroll 4
      for (int j = 0; j < COLUMNS; j++) acc[i][j] = fma(av, bv[j], acc[i][j]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < ROWS; i++) {
#pragma GCC unroll 4
    for (int j = 0; j < COLUMNS; j++) store(sum + (i * TILE + j) * LANES, acc[i][j]);
  }
}

template <int ROWS>
void tile_of(int columns, const float* a, const float* b, float* sum) {
  switch (columns) {
    case 1: return tile<ROWS, 1>(a, b, sum);
    case 2: return tile<ROWS, 2>(a, b, sum);
    case 3: return tile<ROWS, 3>(a, b, sum);
    default: return tile<ROWS, TILE>(a, b, sum);
  }
}

void tile_of(int rows, int columns, const float* a, const float* b, float* sum) {
  switch (rows) {
    case 1: return tile_of<1>(columns, a, b, sum);
    case 2: return tile_of<2>(columns, a, b, sum);
    case 3: return tile_of<3>(columns, a, b, sum);
    default: return tile_of<TILE>(columns, a, b, sum);
  }
}

// The sums of blocks from..to-1, a row of `products` each. room: for what is turned, and the sums as the lanes hold them.
void sum_blocks(const Gram& g, int64_t from, int64_t to, int64_t products, float* room, float* sums) {
  float* lanes = room + g.rows * SPAN * LANES;
  for (int64_t block = from; block < to; block += LANES, sums += LANES * products) {
    const int count = int(std::min<int64_t>(LANES, to - block));
    std::fill(lanes, lanes + products * LANES, 0.0f);
    for (int64_t k = 0; k < K_BLOCK; k += SPAN) {
      turn(g, block * K_BLOCK + k, count, room);
      each_tile(g.rows, [&](int64_t i, int64_t j, int height, int width, int64_t product) {
        tile_of(height, width, room + i * SPAN * LANES, room + j * SPAN * LANES, lanes + product * LANES);
      });
    }
    for (int64_t p = 0; p < products; p += LANES)
      transpose(lanes + p * LANES, LANES, LANES, count, sums + p, products);
  }
}

float product_of_rest(const Gram& g, int64_t i, int64_t j) {
  float sum = 0.0f;
  for (int64_t k = g.K / K_BLOCK * K_BLOCK; k < g.K; k++)
    sum = __builtin_fmaf(g.from[i * g.stride + k], g.from[j * g.stride + k], sum);
  return sum;
}

// Where each thread's sums lie. Calls of parallel() take turns, so there is one such team at a time.
const float* sums_of[MAX_THREADS];

}  // namespace

bool suits(const Gram& g) { return g.rows > 1 && g.rows <= MOST_ROWS && g.K >= LEAST_TERMS; }

void gram(const Gram& g, int thread, int threads, Barrier& barrier, float* room, int64_t floats) {
  const int64_t blocks = g.K / K_BLOCK, products = products_of(g.rows);
  float* total = room;
  float* sums = total + products;
  float* turned = room + floats - g.rows * SPAN * LANES - products * LANES;
  const int64_t most = (turned - sums) / products / LANES * LANES;  // blocks at a time
  const int64_t first = products / LANES * thread / threads * LANES, last = products / LANES * (thread + 1) / threads * LANES;
  const float* alone = sums;
  const float* const* all = threads == 1 ? &alone : sums_of;
  if (threads > 1) sums_of[thread] = sums;
  std::fill(total, total + products, -0.0f);  // what is added to it stays as it is, whatever its sign
  for (int64_t from = 0, share; from < blocks; from += share * threads) {
    share = std::min(most, up((blocks - from + threads - 1) / threads, LANES));
    const auto begin = [&](int t) { return std::min(blocks, from + t * share); };
    sum_blocks(g, begin(thread), begin(thread + 1), products, turned, sums);
    if (threads > 1) barrier.wait();
    for (int t = 0; t < threads; t++)
      for (int64_t block = 0; block < begin(t + 1) - begin(t); block++)
        for (int64_t p = first; p < last; p += LANES)
          store(total + p, add(load(total + p), load(all[t] + block * products + p)));
    if (threads > 1) barrier.wait();
  }
  each_tile(g.rows, [&](int64_t i0, int64_t j0, int height, int width, int64_t product) {
    for (int i = 0; i < height; i++)
      for (int j = 0; j < width && j0 + j <= i0 + i; j++) {
        const int64_t p = product + i * TILE + j, row = i0 + i, column = j0 + j;
        if (p < first || p >= last) continue;
        const float value = blocks * K_BLOCK < g.K ? total[p] + product_of_rest(g, row, column) : total[p];
        g.c[row * g.c_row + column * g.c_column] = value;
        g.c[column * g.c_row + row * g.c_column] = value;
      }
  });
}

}  // namespace repops
