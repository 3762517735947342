#include "gemm.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "gram.h"
#include "simd.h"

namespace repops {
namespace {

// The register tile (MR rows, NV vectors of columns) and the cache blocks. Speed only: no bit depends on them.
#if defined(REPOPS_AVX512)
constexpr int MR = 9, NV = 3;
#elif defined(REPOPS_AVX2)
constexpr int MR = 6, NV = 2;
#elif defined(REPOPS_NEON)
constexpr int MR = 8, NV = 3;
#else
constexpr int MR = 4, NV = 2;
#endif
constexpr int NR = NV * LANES;
constexpr int64_t MC = 243 / MR * MR;   // rows of packed A: a quarter of a 1 MiB L2
constexpr int64_t NC = 4096 / NR * NR;  // columns of packed B: A is packed once for most shapes
constexpr int B_AHEAD = 384;            // floats of packed B to prefetch ahead
constexpr int A_AHEAD = 8;              // terms of a to prefetch ahead: a whole panel ahead is evicted before its turn
constexpr int64_t C_AHEAD = 20;         // terms before the end at which c is prefetched: earlier, it is evicted again
constexpr int64_t SMALL = 1 << 16;      // terms below which another thread costs more than it helps

// Offsets along one index: a table, or a stride.
struct Axis {
  const int32_t* table;
  int64_t stride;
  int64_t at(int64_t i) const { return table ? table[i] : i * stride; }
  bool unit() const { return !table && stride == 1; }
};

// a or b: `lanes` is the index it shares with c (a's rows, b's columns), `terms` the summed one.
struct Side {
  const float* p;
  Axis batch, lanes, terms;
};

struct Output {
  float* p;
  Axis batch, rows, columns;
};

struct Problem {
  int64_t batches, M, N, K;
  Side a, b;
  Output c;
};

struct Range {
  int64_t from, to;
  int64_t size() const { return to - from; }
};

Range share(int64_t count, int64_t part, int64_t parts) { return {count * part / parts, count * (part + 1) / parts}; }

// ---- Register tiles

// One tile over `kc` terms of one block: rows of a against NV vectors of b. a is [k * a_step + i] (PACKED, or stored that
// way) or [i * a_row + k * a_step]; b is [k * b_step + lane], full vectors; only the lanes of `last` are written in the
// last vector. The first block stores, later ones add.
template <int ROWS, int VECS, bool PACKED>
void kernel(int64_t kc, const float* a, int64_t a_row, int64_t a_step, const float* b, int64_t b_step, float* c,
            int64_t c_row, Mask last, bool partial, bool first) {
  Vec sum[ROWS][VECS];
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; i++) {
#pragma GCC unroll 4
    for (int v = 0; v < VECS; v++) sum[i][v] = zero();
  }
  const int64_t b_ahead = b_step == VECS * LANES ? B_AHEAD : 8 * b_step;
  const int64_t row3 = 3 * a_row;
  int64_t a_ahead = A_AHEAD * a_step;
  asm("" : "+r"(a_ahead));  // in a register: otherwise every broadcast carries a long displacement
  const auto step = [&](const float* a_k, const float* b_k) __attribute__((always_inline)) {
    Vec bv[VECS];
#pragma GCC unroll 4
    for (int v = 0; v < VECS; v++) {
      bv[v] = load(b_k + v * LANES);
      prefetch(b_k + b_ahead + v * LANES);
    }
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++) {
      const Vec av = splat(PACKED ? a_k[i] : a_k[i % 3 * a_row]);
      if (!PACKED && i % 3 == 2) a_k += row3;
#pragma GCC unroll 4
      for (int v = 0; v < VECS; v++) sum[i][v] = fma(av, bv[v], sum[i][v]);
    }
  };
  const auto run = [&](int64_t count) __attribute__((always_inline)) {
#pragma GCC unroll 2
    for (; count > 0; count--) {
      if (PACKED) prefetch(a + a_ahead);
      step(a, b);
      a += a_step;
      b += b_step;
    }
  };
  const int64_t most = kc > 2 * C_AHEAD ? kc - C_AHEAD : 0;
  // c comes from memory or the last cache. A row of it at a time: all at once would hold up b's lines in the same queue.
  // What this brings may be evicted to the second level before its use, so it is asked for once more near the end.
  for (int i = 0; most > 0 && i < ROWS; i++) {
#pragma GCC unroll 4
    for (int v = 0; v < VECS; v++) prefetch(c + i * c_row + v * LANES);
    run(most * (i + 1) / ROWS - most * i / ROWS);
  }
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; i++) {
#pragma GCC unroll 4
    for (int v = 0; v < VECS; v++) prefetch(c + i * c_row + v * LANES);
  }
  run(kc - most);
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; i++) {
    float* to = c + i * c_row;
#pragma GCC unroll 4
    for (int v = 0; v < VECS; v++, to += LANES) {
      if (v == VECS - 1 && partial)
        store(to, first ? sum[i][v] : add(load(to, last), sum[i][v]), last);
      else
        store(to, first ? sum[i][v] : add(load(to), sum[i][v]));
    }
  }
}

using Kernel = void (*)(int64_t, const float*, int64_t, int64_t, const float*, int64_t, float*, int64_t, Mask, bool, bool);

template <bool PACKED, int VECS, int... I>
Kernel pick(int rows, std::integer_sequence<int, I...>) {
  static constexpr Kernel table[] = {kernel<I + 1, VECS, PACKED>...};
  return table[rows - 1];
}

Kernel kernel_for(int rows, int vecs, bool packed) {
  constexpr auto all = std::make_integer_sequence<int, MR>{};
  switch (vecs) {
    case 1: return packed ? pick<true, 1>(rows, all) : pick<false, 1>(rows, all);
#if !defined(REPOPS_PORTABLE)
    case 3: if constexpr (NV >= 3) return packed ? pick<true, 3>(rows, all) : pick<false, 3>(rows, all); [[fallthrough]];
#endif
    default: return packed ? pick<true, 2>(rows, all) : pick<false, 2>(rows, all);
  }
}

// ---- Packing

// A panel: `width` lanes of one side, `kc` terms from `k0` on, as to[k * width + lane]; lanes from `count` on are zero
// (or rubbish when width is no multiple of LANES: then nothing reads them). Stores are whole vectors and run up to LANES - 1
// floats past the panel, so panels are packed in ascending order and the buffer has slack.
void pack(const Side& s, int64_t lane0, int count, int width, int64_t k0, int64_t kc, float* to) {
  const float* from = s.p + s.lanes.at(lane0) + (s.terms.table ? 0 : k0 * s.terms.stride);
  if (s.lanes.unit()) {
    for (int64_t k = 0; k < kc; k++, to += width) {
      const float* row = s.terms.table ? from + s.terms.table[k0 + k] : from + k * s.terms.stride;
      for (int j = 0; j < width; j += LANES) prefetch(row + 8 * s.terms.stride + j);
      for (int j = 0; j < width; j += LANES) {
        if (count - j >= LANES) store(to + j, load(row + j));
        else store(to + j, load(row + j, first_lanes(count - j)));
      }
    }
    return;
  }
  if (s.terms.unit() && !s.lanes.table) {
    for (int64_t k = 0; k < kc; k += LANES) {
      // From the last tile to the first: what a tile spills into the next row is then overwritten.
      for (int j = (width - 1) / LANES * LANES; j >= 0; j -= LANES) {
        const float* tile = from + j * s.lanes.stride + k;
        const int rows = std::max(0, std::min(LANES, count - j));
        for (int i = 0; i < rows; i++) prefetch(tile + (width + i) * s.lanes.stride);  // the next panel
        transpose(tile, s.lanes.stride, rows, int(std::min<int64_t>(LANES, kc - k)), to + k * width + j, width);
      }
    }
    return;
  }
  for (int64_t k = 0; k < kc; k++, to += width) {
    const float* base = s.p + s.terms.at(k0 + k);
    for (int j = 0; j < count; j++) to[j] = base[s.lanes.at(lane0 + j)];
    for (int j = count; j < width; j++) to[j] = 0.0f;
  }
}

// Packing buffers of one thread, kept until the thread ends; in huge pages where the system has them.
class Scratch {
 public:
  Scratch() {
    constexpr int64_t HUGE = 2 << 20;
    void* mapped = mmap(nullptr, BYTES + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) std::abort();
    mapped_ = mapped;
    const uintptr_t aligned = (reinterpret_cast<uintptr_t>(mapped) + HUGE - 1) / HUGE * HUGE;
#if defined(MADV_HUGEPAGE)
    madvise(reinterpret_cast<void*>(aligned), BYTES, MADV_HUGEPAGE);
#endif
    a = reinterpret_cast<float*>(aligned);
    b = a + A_FLOATS;
  }
  ~Scratch() { munmap(mapped_, BYTES + (2 << 20)); }
  float *a, *b;
  static constexpr int64_t A_FLOATS = MC * K_BLOCK + 4 * LANES, B_FLOATS = NC * K_BLOCK + 4 * LANES;

 private:
  static constexpr int64_t BYTES = (4 * (A_FLOATS + B_FLOATS) + (2 << 20) - 1) / (2 << 20) * (2 << 20);
  void* mapped_;
};

// ---- One product

// Adds (or stores) a finished tile where c's columns do not lie side by side.
void scatter(const float* tile, const Output& c, int64_t i0, int rows, int64_t j0, int columns, bool first) {
  for (int i = 0; i < rows; i++, tile += NR) {
    float* row = c.p + c.rows.at(i0 + i);
    for (int j = 0; j < columns; j++) {
      float* to = row + c.columns.at(j0 + j);
      *to = first ? tile[j] : *to + tile[j];
    }
  }
}

// Reading an operand where it lies saves the copy; it pays when few tiles read it or its rows do not collide in cache.
bool read_a_rows(const Side& a, int64_t N) {
  if (!a.terms.unit() || a.lanes.table) return false;
  const int64_t stride = std::abs(a.lanes.stride);
  return N <= 2 * NR || (stride <= 1024 && stride % 1024 != 0);
}
bool read_a_columns(const Side& a, int64_t N) { return a.lanes.unit() && !a.terms.table && N <= 4 * NR; }
bool read_b(const Side& b, int64_t M) { return b.lanes.unit() && !b.terms.table && M <= 2 * MR; }

// c[rows, columns] of one batch, whose pointers are in p.
void multiply(const Problem& p, Range rows, Range columns, Scratch& scratch) {
  const bool a_rows = read_a_rows(p.a, columns.size()), a_columns = !a_rows && read_a_columns(p.a, columns.size());
  const bool b_direct = read_b(p.b, rows.size());
  const bool in_place = p.c.columns.unit() && !p.c.rows.table;
  alignas(64) float tile[MR * NR];
  const int64_t blocks = (rows.size() + MC - 1) / MC;
  const int64_t block_rows = blocks == 0 ? 1 : (rows.size() + blocks * MR - 1) / (blocks * MR) * MR;
  const bool again = blocks > 1;  // each panel of b serves several blocks; else the next one may lie where it was, in cache
  for (int64_t jc = columns.from; jc < columns.to; jc += NC) {
    const int64_t nc = std::min<int64_t>(NC, columns.to - jc);
    for (int64_t pc = 0; pc < p.K || pc == 0; pc += K_BLOCK) {
      const int64_t kc = std::min<int64_t>(K_BLOCK, p.K - pc);
      for (int64_t ic = rows.from; ic < rows.to; ic += block_rows) {
        const int64_t mc = std::min(block_rows, rows.to - ic), tiles = (mc + MR - 1) / MR;
        const int height = int((mc + tiles - 1) / tiles);
        for (int64_t jr = 0; jr < nc; jr += NR) {
          const int n = int(std::min<int64_t>(NR, nc - jr)), vecs = (n + LANES - 1) / LANES, width = vecs * LANES;
          const bool direct = b_direct && n == width;
          const float* b = direct ? p.b.p + (jc + jr) + pc * p.b.terms.stride : scratch.b + again * jr * kc;
          if (!direct && ic == rows.from) pack(p.b, jc + jr, n, width, pc, kc, scratch.b + again * jr * kc);
          for (int64_t ir = 0; ir < mc; ir += height) {
            const int m = int(std::min<int64_t>(height, mc - ir));
            const float* a = scratch.a + ir * kc;
            int64_t a_step = m;
            if (a_rows || a_columns) {
              a = p.a.p + (ic + ir) * p.a.lanes.stride + pc * p.a.terms.stride;
              a_step = p.a.terms.stride;
            } else if (jr == 0) {
              pack(p.a, ic + ir, m, m, pc, kc, scratch.a + ir * kc);
            }
            float* c = in_place ? p.c.p + (ic + ir) * p.c.rows.stride + jc + jr : tile;
            kernel_for(m, vecs, !a_rows)(
                kc, a, p.a.lanes.stride, a_step, b, direct ? p.b.terms.stride : width, c,
                in_place ? p.c.rows.stride : NR, first_lanes(n - (vecs - 1) * LANES), n != width, pc == 0 || !in_place);
            if (!in_place) scatter(tile, p.c, ic + ir, m, jc + jr, n, pc == 0);
          }
        }
      }
    }
  }
}

// ---- The whole call

// A table that is a stride becomes one. A single index has any stride: 1 suits the fast paths.
template <class Pointer>
void simplify(Axis& axis, int64_t count, Pointer& p) {
  if (axis.table && count > 0) {
    const int64_t stride = count > 1 ? int64_t(axis.table[1]) - axis.table[0] : 1;
    for (int64_t i = 2; i < count; i++)
      if (int64_t(axis.table[i]) - axis.table[i - 1] != stride) return;
    p += axis.table[0];
    axis = {nullptr, stride};
  }
  if (count == 1) axis.stride = 1;
}

Problem understand(const Gemm& g) {
  Problem p{g.batches, g.M, g.N, g.K,
            {g.a, {g.a_batch, g.a_batch_stride}, {g.a_rows, g.a_row_stride}, {g.a_cols, g.a_col_stride}},
            {g.b, {g.b_batch, g.b_batch_stride}, {g.b_cols, g.b_col_stride}, {g.b_rows, g.b_row_stride}},
            {g.c, {g.c_batch, g.c_batch_stride}, {g.c_rows, g.c_row_stride}, {g.c_cols, g.c_col_stride}}};
  simplify(p.a.lanes, p.M, p.a.p);
  simplify(p.a.terms, p.K, p.a.p);
  simplify(p.b.lanes, p.N, p.b.p);
  simplify(p.b.terms, p.K, p.b.p);
  simplify(p.c.rows, p.M, p.c.p);
  simplify(p.c.columns, p.N, p.c.p);
  // fma's factors commute, so c's transpose is the product of the transposes, bit for bit.
  const bool better_transposed = p.c.rows.unit() && !p.c.columns.unit();
  const bool narrow = p.N <= LANES / 4 && p.M >= LANES;
  if (better_transposed || narrow) {
    std::swap(p.M, p.N);
    std::swap(p.a, p.b);
    std::swap(p.c.rows, p.c.columns);
  }
  // One b for all batches, and rows that go on from batch to batch: one tall product.
  const bool tables = p.a.batch.table || p.b.batch.table || p.c.batch.table || p.a.lanes.table || p.c.rows.table;
  if (p.batches > 1 && !tables && p.b.batch.stride == 0 && p.a.batch.stride == p.M * p.a.lanes.stride &&
      p.c.batch.stride == p.M * p.c.rows.stride) {
    p.M *= p.batches;
    p.batches = 1;
  }
  return p;
}

// Whether this is a product of rows with themselves, judged by pointers and strides.
bool is_gram(const Problem& p, Gram& g) {
  const auto plain = [](const Side& s) { return !s.lanes.table && s.terms.unit(); };
  const bool same = p.a.p == p.b.p && p.M == p.N && plain(p.a) && plain(p.b) && p.a.lanes.stride == p.b.lanes.stride;
  if (p.batches != 1 || !same || p.c.rows.table || p.c.columns.table) return false;
  g = {p.M, p.K, p.a.p, p.a.lanes.stride, p.c.p, p.c.rows.stride, p.c.columns.stride};
  return suits(g);
}

// How `threads` share an M x N product: a grid of whole register tiles with the least work for the busiest one.
struct Grid {
  int rows, columns;
};

Grid grid_for(const Problem& p, int threads) {
  const int64_t tall = (p.M + MR - 1) / MR, wide = (p.N + NR - 1) / NR;
  Grid best{1, 1};
  int64_t least = INT64_MAX;
  for (int r = 1; r <= threads && r <= tall; r++) {
    const int c = int(std::min<int64_t>(threads / r, wide));
    const int64_t height = (tall + r - 1) / r * MR, width = (wide + c - 1) / c * NR;
    const int64_t cost = height * width + 8 * (height + width);  // terms, and what packing costs
    if (cost < least) {
      least = cost;
      best = {r, c};
    }
  }
  return best;
}

}  // namespace

void gemm(const Gemm& g, int thread, int threads, Barrier& barrier) {
  if (g.batches <= 0 || g.M <= 0 || g.N <= 0) return;
  const Problem whole = understand(g);
  static thread_local Scratch scratch;
  if (Gram products; is_gram(whole, products))
    return gram(products, thread, threads, barrier, scratch.b, Scratch::B_FLOATS);
  const double terms = double(whole.batches) * double(whole.M) * double(whole.N) * double(std::max<int64_t>(whole.K, 8));
  const int useful = int(std::min<double>(threads, std::max(1.0, terms / SMALL)));
  if (thread >= useful) return;
  Range batches{0, whole.batches}, rows{0, whole.M}, columns{0, whole.N};
  if (whole.batches % useful == 0 || whole.batches >= 4 * useful) {
    batches = share(whole.batches, thread, useful);
  } else {
    const Grid grid = grid_for(whole, useful);
    if (thread >= grid.rows * grid.columns) return;
    rows = share((whole.M + MR - 1) / MR, thread / grid.columns, grid.rows);
    columns = share((whole.N + NR - 1) / NR, thread % grid.columns, grid.columns);
    rows = {rows.from * MR, std::min(whole.M, rows.to * MR)};
    columns = {columns.from * NR, std::min(whole.N, columns.to * NR)};
  }
  for (int64_t q = batches.from; q < batches.to; q++) {
    Problem one = whole;
    one.a.p += whole.a.batch.at(q);
    one.b.p += whole.b.batch.at(q);
    one.c.p += whole.c.batch.at(q);
    multiply(one, rows, columns, scratch);
  }
}

}  // namespace repops

int repops_gemm(const repops::Gemm* g, int threads) {
  threads = std::clamp(threads, 1, repops::MAX_THREADS);
  repops::Barrier barrier(threads);
  repops::parallel(threads, [&](int thread, int count) { repops::gemm(*g, thread, count, barrier); });
  return 0;
}
