// Kernels of the elementwise operators and of folds, instantiated from the recipes of the operator table.
#include <algorithm>
#include <utility>

#include "vm.h"

namespace repops {
namespace {

REPOPS_INLINE uint32_t floor_divide(uint32_t a, uint32_t b) {
  if (b == 0) return 0;
  const int64_t x = int32_t(a), y = int32_t(b), quotient = x / y;  // 64 bits: -2^31 / -1 fits
  return uint32_t(quotient - (x % y != 0 && (x < 0) != (y < 0)));
}

REPOPS_INLINE uint32_t to_integer(float x) {
  const bool fits = x > -2147483648.0f && x < 2147483648.0f;
  const int32_t whole = int32_t(fits ? x : 0.0f);
  return x >= 2147483648.0f ? 0x7fffffffu : x <= -2147483648.0f ? 0x80000000u : uint32_t(whole);
}

#include "recipes.inc"

// SCALARS is a template argument so that each form has its own loop, which the compiler turns into vectors. Tiles never
// overlap other than exactly (a slot written over itself), hence ivdep.
template <class Op, int SCALARS>
void map_rows(int64_t rows, int64_t columns, Word* out, int64_t out_stride, const Word* a, int64_t a_stride, const Word* b,
              int64_t b_stride, const Word* c, int64_t c_stride) {
  constexpr bool A = SCALARS & 1, B = SCALARS & 2, C = SCALARS & 4;
  for (int64_t r = 0; r < rows; r++, out += out_stride, a += a_stride, b += b_stride, c += c_stride) {
    const uint32_t a0 = A ? a[0] : 0, b0 = B ? b[0] : 0, c0 = C ? c[0] : 0;
#pragma GCC ivdep
    for (int64_t i = 0; i < columns; i++) {
      if constexpr (Op::INPUTS == 1) out[i] = Op::run(A ? a0 : a[i]);
      if constexpr (Op::INPUTS == 2) out[i] = Op::run(A ? a0 : a[i], B ? b0 : b[i]);
      if constexpr (Op::INPUTS == 3) out[i] = Op::run(A ? a0 : a[i], B ? b0 : b[i], C ? c0 : c[i]);
    }
  }
}

template <class Op, int... SCALARS>
Kernel pick(int scalars, std::integer_sequence<int, SCALARS...>) {
  static constexpr Kernel table[] = {map_rows<Op, SCALARS>...};
  return table[scalars];
}

template <class Op>
uint32_t fold_in_order(uint32_t carried, const Word* terms, int64_t count, int64_t step) {
  for (int64_t i = 0; i < count; i++) carried = Op::run(carried, terms[i * step]);
  return carried;
}

// Where the order does not matter: 64 independent lanes.
template <class Op>
uint32_t fold_any_order(uint32_t carried, const Word* terms, int64_t count, int64_t step) {
  constexpr int64_t WIDTH = 64;
  if (step != 1 || count < WIDTH) return fold_in_order<Op>(carried, terms, count, step);
  uint32_t lanes[WIDTH];
  for (int64_t l = 0; l < WIDTH; l++) lanes[l] = terms[l];
  int64_t i = WIDTH;
  for (; i + WIDTH <= count; i += WIDTH)
    for (int64_t l = 0; l < WIDTH; l++) lanes[l] = Op::run(lanes[l], terms[i + l]);
  for (int64_t half = WIDTH / 2; half > 0; half /= 2)
    for (int64_t l = 0; l < half; l++) lanes[l] = Op::run(lanes[l], lanes[l + half]);
  return fold_in_order<Op>(Op::run(carried, lanes[0]), terms + i, count - i, 1);
}

}  // namespace

Kernel map_kernel(int64_t code, int scalars) {
  switch (code) {
#define REPOPS_CASE(code, op) \
  case code: return pick<op>(scalars, std::make_integer_sequence<int, 1 << op::INPUTS>{});
    REPOPS_MAPS(REPOPS_CASE)
#undef REPOPS_CASE
    default: return nullptr;
  }
}

uint32_t fold_start(int64_t code) {
  switch (code) {
#define REPOPS_CASE(code, op, start) \
  case code: return start;
    REPOPS_FOLDS(REPOPS_CASE)
#undef REPOPS_CASE
    default: return 0;
  }
}

uint32_t fold_row(int64_t code, uint32_t carried, const Word* terms, int64_t count, int64_t step) {
  switch (code) {
#define REPOPS_CASE(code, op, start)                                               \
  case code:                                                                       \
    if (code == CODE_SUM_SEQUENTIAL) return fold_in_order<op>(carried, terms, count, step); \
    return fold_any_order<op>(carried, terms, count, step);
    REPOPS_FOLDS(REPOPS_CASE)
#undef REPOPS_CASE
    default: return carried;
  }
}

Kernel fold_column(int64_t code, bool scalar) {
  switch (code) {
#define REPOPS_CASE(code, op, start) \
  case code: return scalar ? map_rows<op, 2> : map_rows<op, 0>;
    REPOPS_FOLDS(REPOPS_CASE)
#undef REPOPS_CASE
    default: return nullptr;
  }
}

void add_to_lanes(float* lanes, const float* terms, int64_t count) {
  constexpr int VECTORS = 32 / LANES;
  Vec sum[VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; v++) sum[v] = load(lanes + v * LANES);
  int64_t i = 0;
  for (; i + 32 <= count; i += 32)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) sum[v] = add(sum[v], load(terms + i + v * LANES));
  // A lane is never -0, so adding +0 to those past the end changes nothing.
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; v++) {
    const int64_t left = count - i - v * LANES;
    if (left > 0) sum[v] = add(sum[v], load(terms + i + v * LANES, first_lanes(left)));
    store(lanes + v * LANES, sum[v]);
  }
}

float sum_lanes(const float* lanes) {
  float row[32];
  std::copy(lanes, lanes + 32, row);
#pragma GCC unroll 5
  for (int half = 16; half > 0; half /= 2)
    for (int l = 0; l < half; l++) row[l] = row[l] + row[l + half];
  return row[0];
}

}  // namespace repops

// The digest of what recipes.inc was written from: see generate.py.
REPOPS_EXPORT const char* repops_recipes() { return REPOPS_RECIPES; }
