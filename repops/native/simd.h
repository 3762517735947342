// A vector of float32 lanes, one type for every instruction set. All arithmetic is IEEE 754, rounded to nearest.
//
//   Vec   LANES floats         load(p) store(p, v) splat(x) zero() add sub mul div root fma(a, b, c) = a*b + c, one rounding
//   Mask  the first n lanes    first_lanes(n); load(p, mask) reads only those, the others are zero; store(p, v, mask)
//                              writes only those. No load or store needs alignment.
//   transpose(from, from_stride, rows, columns, to, to_stride)
//                              to[c * to_stride + r] = from[r * from_stride + c] for a LANES x LANES tile; lanes
//                              rows..LANES-1 of each written row are zero, `columns` rows of LANES floats are written.
// Portable (REPOPS_PORTABLE or no known set) is written with plain loops and __builtin_fmaf.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(REPOPS_PORTABLE)
#define REPOPS_ISA_NAME "portable"
#elif defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define REPOPS_AVX512 1
#define REPOPS_ISA_NAME "avx512"
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__)
#define REPOPS_AVX2 1
#define REPOPS_ISA_NAME "avx2"
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#define REPOPS_NEON 1
#define REPOPS_ISA_NAME "neon"
#include <arm_neon.h>
#else
#define REPOPS_PORTABLE 1
#define REPOPS_ISA_NAME "portable"
#endif

#define REPOPS_INLINE inline __attribute__((always_inline))

namespace repops {

// Into every level of cache. A bad address is harmless.
REPOPS_INLINE void prefetch(const float* p) { __builtin_prefetch(p, 0, 3); }

#if defined(REPOPS_AVX512)

constexpr int LANES = 16;
using Vec = __m512;
using Mask = __mmask16;

REPOPS_INLINE Mask first_lanes(int64_t n) { return n >= 16 ? Mask(0xffff) : n <= 0 ? Mask(0) : Mask((1u << n) - 1); }
REPOPS_INLINE Vec zero() { return _mm512_setzero_ps(); }
REPOPS_INLINE Vec splat(float x) { return _mm512_set1_ps(x); }
REPOPS_INLINE Vec load(const float* p) { return _mm512_loadu_ps(p); }
REPOPS_INLINE Vec load(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
REPOPS_INLINE void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
REPOPS_INLINE void store(float* p, Vec v, Mask m) { _mm512_mask_storeu_ps(p, m, v); }
REPOPS_INLINE Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
REPOPS_INLINE Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
REPOPS_INLINE Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
REPOPS_INLINE Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
REPOPS_INLINE Vec root(Vec a) { return _mm512_sqrt_ps(a); }
REPOPS_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }

// Rows r[0..15] become columns. Three rounds: pairs of lanes, pairs of pairs, then the 128-bit quarters.
REPOPS_INLINE void transpose_registers(__m512 r[16]) {
  __m512 t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4) {
    r[i + 0] = _mm512_shuffle_ps(t[i + 0], t[i + 2], 0x44);
    r[i + 1] = _mm512_shuffle_ps(t[i + 0], t[i + 2], 0xee);
    r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  // Quarter q of r[4 g + c] now holds column 4 q + c of rows 4 g .. 4 g + 3.
#pragma GCC unroll 16
  for (int c = 0; c < 4; c++) {
    const __m512 even_low = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x88), odd_low = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xdd);
    const __m512 even_high = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x88);
    const __m512 odd_high = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xdd);
    t[c] = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
    t[4 + c] = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
    t[8 + c] = _mm512_shuffle_f32x4(even_low, even_high, 0xdd);
    t[12 + c] = _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) r[i] = t[i];
}

inline void transpose(const float* from, int64_t from_stride, int rows, int columns, float* to, int64_t to_stride) {
  __m512 r[16];
  if (rows >= 16 && columns >= 16) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) r[i] = load(from + i * from_stride);
    transpose_registers(r);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) store(to + i * to_stride, r[i]);
    return;
  }
  const Mask mask = first_lanes(columns);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) r[i] = i < rows ? load(from + i * from_stride, mask) : zero();
  transpose_registers(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++)
    if (i < columns) store(to + i * to_stride, r[i]);
}

#elif defined(REPOPS_AVX2)

constexpr int LANES = 8;
using Vec = __m256;
using Mask = __m256i;

REPOPS_INLINE Mask first_lanes(int64_t n) {
  const int count = n > 8 ? 8 : n < 0 ? 0 : int(n);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
REPOPS_INLINE Vec zero() { return _mm256_setzero_ps(); }
REPOPS_INLINE Vec splat(float x) { return _mm256_set1_ps(x); }
REPOPS_INLINE Vec load(const float* p) { return _mm256_loadu_ps(p); }
REPOPS_INLINE Vec load(const float* p, Mask m) { return _mm256_maskload_ps(p, m); }
REPOPS_INLINE void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
REPOPS_INLINE void store(float* p, Vec v, Mask m) { _mm256_maskstore_ps(p, m, v); }
REPOPS_INLINE Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
REPOPS_INLINE Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
REPOPS_INLINE Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
REPOPS_INLINE Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
REPOPS_INLINE Vec root(Vec a) { return _mm256_sqrt_ps(a); }
REPOPS_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }

inline void transpose(const float* from, int64_t from_stride, int rows, int columns, float* to, int64_t to_stride) {
  __m256 r[8], t[8];
  const Mask mask = first_lanes(columns);
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) r[i] = i < rows ? load(from + i * from_stride, mask) : zero();
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 4) {
    r[i + 0] = _mm256_shuffle_ps(t[i + 0], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i + 0], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; i++) {
    t[i] = _mm256_permute2f128_ps(r[i], r[4 + i], 0x20);
    t[4 + i] = _mm256_permute2f128_ps(r[i], r[4 + i], 0x31);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++)
    if (i < columns) store(to + i * to_stride, t[i]);
}

#elif defined(REPOPS_NEON)

constexpr int LANES = 4;
using Vec = float32x4_t;
using Mask = int;  // how many lanes

REPOPS_INLINE Mask first_lanes(int64_t n) { return n >= 4 ? 4 : n <= 0 ? 0 : int(n); }
REPOPS_INLINE Vec zero() { return vdupq_n_f32(0.0f); }
REPOPS_INLINE Vec splat(float x) { return vdupq_n_f32(x); }
REPOPS_INLINE Vec load(const float* p) { return vld1q_f32(p); }
REPOPS_INLINE void store(float* p, Vec v) { vst1q_f32(p, v); }
REPOPS_INLINE Vec load(const float* p, Mask m) {
  if (m == 4) return vld1q_f32(p);
  float lanes[4] = {0, 0, 0, 0};
  for (int i = 0; i < m; i++) lanes[i] = p[i];
  return vld1q_f32(lanes);
}
REPOPS_INLINE void store(float* p, Vec v, Mask m) {
  if (m == 4) return vst1q_f32(p, v);
  float lanes[4];
  vst1q_f32(lanes, v);
  for (int i = 0; i < m; i++) p[i] = lanes[i];
}
REPOPS_INLINE Vec add(Vec a, Vec b) { return vaddq_f32(a, b); }
REPOPS_INLINE Vec sub(Vec a, Vec b) { return vsubq_f32(a, b); }
REPOPS_INLINE Vec mul(Vec a, Vec b) { return vmulq_f32(a, b); }
REPOPS_INLINE Vec div(Vec a, Vec b) { return vdivq_f32(a, b); }
REPOPS_INLINE Vec root(Vec a) { return vsqrtq_f32(a); }
REPOPS_INLINE Vec fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }

inline void transpose(const float* from, int64_t from_stride, int rows, int columns, float* to, int64_t to_stride) {
  const Mask mask = first_lanes(columns);
  Vec r[4];
  for (int i = 0; i < 4; i++) r[i] = i < rows ? load(from + i * from_stride, mask) : zero();
  const float32x4x2_t low = vtrnq_f32(r[0], r[1]), high = vtrnq_f32(r[2], r[3]);
  const Vec t[4] = {vcombine_f32(vget_low_f32(low.val[0]), vget_low_f32(high.val[0])),
                    vcombine_f32(vget_low_f32(low.val[1]), vget_low_f32(high.val[1])),
                    vcombine_f32(vget_high_f32(low.val[0]), vget_high_f32(high.val[0])),
                    vcombine_f32(vget_high_f32(low.val[1]), vget_high_f32(high.val[1]))};
  for (int i = 0; i < columns && i < 4; i++) store(to + i * to_stride, t[i]);
}

#else

constexpr int LANES = 4;
struct Vec {
  float lane[LANES];
};
using Mask = int;  // how many lanes

#define REPOPS_EACH_LANE(expression)                    \
  Vec r;                                                \
  for (int i = 0; i < LANES; i++) r.lane[i] = expression; \
  return r
REPOPS_INLINE Mask first_lanes(int64_t n) { return n >= LANES ? LANES : n <= 0 ? 0 : int(n); }
REPOPS_INLINE Vec splat(float x) { REPOPS_EACH_LANE(x); }
REPOPS_INLINE Vec zero() { return splat(0.0f); }
REPOPS_INLINE Vec load(const float* p) { REPOPS_EACH_LANE(p[i]); }
REPOPS_INLINE Vec load(const float* p, Mask m) { REPOPS_EACH_LANE(i < m ? p[i] : 0.0f); }
REPOPS_INLINE void store(float* p, Vec v) {
  for (int i = 0; i < LANES; i++) p[i] = v.lane[i];
}
REPOPS_INLINE void store(float* p, Vec v, Mask m) {
  for (int i = 0; i < m; i++) p[i] = v.lane[i];
}
REPOPS_INLINE Vec add(Vec a, Vec b) { REPOPS_EACH_LANE(a.lane[i] + b.lane[i]); }
REPOPS_INLINE Vec sub(Vec a, Vec b) { REPOPS_EACH_LANE(a.lane[i] - b.lane[i]); }
REPOPS_INLINE Vec mul(Vec a, Vec b) { REPOPS_EACH_LANE(a.lane[i] * b.lane[i]); }
REPOPS_INLINE Vec div(Vec a, Vec b) { REPOPS_EACH_LANE(a.lane[i] / b.lane[i]); }
REPOPS_INLINE Vec root(Vec a) { REPOPS_EACH_LANE(std::sqrt(a.lane[i])); }
REPOPS_INLINE Vec fma(Vec a, Vec b, Vec c) { REPOPS_EACH_LANE(__builtin_fmaf(a.lane[i], b.lane[i], c.lane[i])); }
#undef REPOPS_EACH_LANE

inline void transpose(const float* from, int64_t from_stride, int rows, int columns, float* to, int64_t to_stride) {
  for (int c = 0; c < columns && c < LANES; c++)
    for (int r = 0; r < LANES; r++) to[c * to_stride + r] = r < rows ? from[r * from_stride + c] : 0.0f;
}

#endif

}  // namespace repops
