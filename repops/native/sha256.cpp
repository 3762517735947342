#include "sha256.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "simd.h"

namespace repops {
namespace {

constexpr int DIGEST = 32, BLOCK = 64;
constexpr uint8_t LEAF_TAG = 0, NODE_TAG = 1;
constexpr uint64_t CHUNK_LEAVES = 1024;  // a subtree one thread reduces alone
constexpr int CHUNK_HEIGHT = 10;
constexpr uint64_t SMALL_BYTES = 64 << 10;  // below this a second thread costs more than it helps

constexpr uint32_t START[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// ---- The compression function, on one word or on a vector of words (one message a lane)

template <class W, int N>
struct Ops {
  static REPOPS_INLINE W rotate(W x) { return (x >> N) | (x << (32 - N)); }
};
template <class W>
REPOPS_INLINE W xor3(W a, W b, W c) { return a ^ b ^ c; }
template <class W>
REPOPS_INLINE W choose(W x, W y, W z) { return z ^ (x & (y ^ z)); }
template <class W>
REPOPS_INLINE W majority(W x, W y, W z) { return (x & y) | (z & (x | y)); }

#if defined(REPOPS_AVX512)
typedef uint32_t Words __attribute__((vector_size(64)));
template <int N>
struct Ops<Words, N> {
  static REPOPS_INLINE Words rotate(Words x) { return Words(_mm512_ror_epi32(__m512i(x), N)); }
};
REPOPS_INLINE Words xor3(Words a, Words b, Words c) {
  return Words(_mm512_ternarylogic_epi32(__m512i(a), __m512i(b), __m512i(c), 0x96));
}
REPOPS_INLINE Words choose(Words x, Words y, Words z) {
  return Words(_mm512_ternarylogic_epi32(__m512i(x), __m512i(y), __m512i(z), 0xca));
}
REPOPS_INLINE Words majority(Words x, Words y, Words z) {
  return Words(_mm512_ternarylogic_epi32(__m512i(x), __m512i(y), __m512i(z), 0xe8));
}
#elif defined(REPOPS_AVX2)
typedef uint32_t Words __attribute__((vector_size(32)));
#else
typedef uint32_t Words __attribute__((vector_size(16)));
#endif
constexpr int WIDTH = int(sizeof(Words) / 4);

template <int N, class W>
REPOPS_INLINE W rotate(W x) { return Ops<W, N>::rotate(x); }

// state += 64 rounds over w, the 16 message words; w is used up.
template <class W>
void compress(W state[8], W w[16]) {
  W a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
  for (int base = 0; base < 64; base += 16) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
      if (base > 0) {
        const W x = w[(i + 1) & 15], y = w[(i + 14) & 15];
        w[i] += xor3(rotate<7>(x), rotate<18>(x), x >> 3) + w[(i + 9) & 15] +
                xor3(rotate<17>(y), rotate<19>(y), y >> 10);
      }
      const W one = h + (w[i] + K[base + i]) + xor3(rotate<6>(e), rotate<11>(e), rotate<25>(e)) + choose(e, f, g);
      const W two = xor3(rotate<2>(a), rotate<13>(a), rotate<22>(a)) + majority(a, b, c);
      h = g;
      g = f;
      f = e;
      e = d + one;
      d = c;
      c = b;
      b = a;
      a = one + two;
    }
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

uint32_t big_endian(const uint8_t* p) {
  uint32_t x;
  std::memcpy(&x, p, 4);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  x = __builtin_bswap32(x);
#endif
  return x;
}

void put_big_endian(uint8_t* p, uint32_t x) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  x = __builtin_bswap32(x);
#endif
  std::memcpy(p, &x, 4);
}

// ---- One message

// SHA256(tag || data[0..bytes]).
void hash_one(const uint8_t* data, uint64_t bytes, uint8_t tag, uint8_t* out) {
  uint32_t state[8], w[16];
  std::copy(START, START + 8, state);
  const uint64_t total = bytes + 1;  // with the tag
  for (uint64_t at = 0; at < total + 9; at += BLOCK) {
    uint8_t block[BLOCK] = {};
    const uint64_t from = at == 0 ? 1 : 0;  // the tag comes before data[0]
    if (at < total) std::memcpy(block + from, data + at + from - 1, std::min<uint64_t>(BLOCK, total - at) - from);
    if (at == 0) block[0] = tag;
    if (at <= total && total < at + BLOCK) block[total - at] = 0x80;
    if (total + 9 <= at + BLOCK)
      for (int i = 0; i < 8; i++) block[56 + i] = uint8_t(8 * total >> (56 - 8 * i));
    for (int i = 0; i < 16; i++) w[i] = big_endian(block + 4 * i);
    compress(state, w);
  }
  for (int i = 0; i < 8; i++) put_big_endian(out + 4 * i, state[i]);
}

// ---- WIDTH messages of equal length side by side

REPOPS_INLINE Words swap_bytes(Words x) {
#if defined(REPOPS_AVX512)
  const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
  return Words(_mm512_shuffle_epi8(__m512i(x), order));
#elif __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  return (x >> 24) | (x >> 8 & 0xff00) | (x << 8 & 0xff0000) | (x << 24);
#else
  return x;
#endif
}

// w[i], lane l = the big-endian word i of the 64 bytes at p + l * stride.
REPOPS_INLINE void load_block(const uint8_t* p, uint64_t stride, Words w[16]) {
#if defined(REPOPS_AVX512)
  __m512 rows[16];
#pragma GCC unroll 16
  for (int l = 0; l < 16; l++) rows[l] = _mm512_castsi512_ps(_mm512_loadu_si512(p + l * stride));
  transpose_registers(rows);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) w[i] = swap_bytes(Words(_mm512_castps_si512(rows[i])));
#elif defined(REPOPS_AVX2)
  for (int half = 0; half < 2; half++)
    transpose(reinterpret_cast<const float*>(p + 32 * half), int64_t(stride / 4), 8, 8,
              reinterpret_cast<float*>(w + 8 * half), 8);
  for (int i = 0; i < 16; i++) w[i] = swap_bytes(w[i]);
#else
  for (int i = 0; i < 16; i++)
    for (int l = 0; l < WIDTH; l++) w[i][l] = big_endian(p + l * stride + 4 * i);
#endif
}

void store_digests(Words state[8], uint8_t* out) {
#if defined(REPOPS_AVX512)
  __m512 rows[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) rows[i] = i < 8 ? _mm512_castsi512_ps(__m512i(swap_bytes(state[i]))) : zero();
  transpose_registers(rows);
#pragma GCC unroll 16
  for (int l = 0; l < 16; l++)
    _mm256_storeu_ps(reinterpret_cast<float*>(out + l * DIGEST), _mm512_castps512_ps256(rows[l]));
#else
  for (int l = 0; l < WIDTH; l++)
    for (int i = 0; i < 8; i++) put_big_endian(out + l * DIGEST + 4 * i, state[i][l]);
#endif
}

// out[l] = SHA256(tag || message l), messages of `bytes` (a multiple of 64) one after the other.
void hash_group(const uint8_t* data, uint64_t bytes, uint8_t tag, uint8_t* out) {
  Words state[8], w[16];
  for (int i = 0; i < 8; i++) state[i] = Words{} + START[i];
  // The tag moves every word by one byte: block b is read from 64 b - 1. The first would begin before the data.
  alignas(64) uint8_t first[WIDTH * BLOCK];
  for (int l = 0; l < WIDTH; l++) {
    first[l * BLOCK] = tag;
    std::memcpy(first + l * BLOCK + 1, data + l * bytes, BLOCK - 1);
  }
  load_block(first, BLOCK, w);
  compress(state, w);
  for (uint64_t at = BLOCK; at < bytes; at += BLOCK) {
    load_block(data + at - 1, bytes, w);
    compress(state, w);
  }
  for (int i = 0; i < 16; i++) w[i] = Words{};
  for (int l = 0; l < WIDTH; l++) w[0][l] = uint32_t(data[(l + 1) * bytes - 1]) << 24 | 0x800000;
  const uint64_t bits = 8 * (bytes + 1);
  w[14] += uint32_t(bits >> 32);
  w[15] += uint32_t(bits);
  compress(state, w);
  store_digests(state, out);
}

// ---- NaN

bool is_nan(uint32_t word) { return (word & 0x7fffffff) > 0x7f800000; }

bool any_nan(const uint8_t* data, uint64_t bytes) {
  uint32_t found = 0;  // no early exit, so that the loop becomes vectors
  for (uint64_t at = 0; at + 4 <= bytes; at += 4) {
    uint32_t word;
    std::memcpy(&word, data + at, 4);
    found |= uint32_t(is_nan(word));
  }
  return found != 0;
}

// `data`, or a copy of it in `buffer` with every NaN 0x7fc00000 if there is one.
const uint8_t* canonical(const uint8_t* data, uint64_t bytes, std::vector<uint8_t>& buffer) {
  if (!any_nan(data, bytes)) return data;
  buffer.assign(data, data + bytes);
  constexpr uint32_t CANONICAL = 0x7fc00000;
  for (uint64_t at = 0; at + 4 <= bytes; at += 4) {
    uint32_t word;
    std::memcpy(&word, buffer.data() + at, 4);
    if (is_nan(word)) std::memcpy(buffer.data() + at, &CANONICAL, 4);
  }
  return buffer.data();
}

// ---- Many messages, and trees over them

// Messages from..to of `data`. In place (out == data) is safe: a group is read before its digests are written.
void hash_many(const uint8_t* data, uint64_t bytes, uint64_t leaf, uint8_t tag, bool nan, uint8_t* out) {
  std::vector<uint8_t> copy, padded;
  uint64_t at = 0;
  if (leaf % BLOCK == 0) {
    for (; at + WIDTH * leaf <= bytes; at += WIDTH * leaf, out += WIDTH * DIGEST)
      hash_group(nan ? canonical(data + at, WIDTH * leaf, copy) : data + at, leaf, tag, out);
    if (const uint64_t whole = (bytes - at) / leaf; whole >= 2) {
      padded.resize(WIDTH * leaf);
      std::memcpy(padded.data(), data + at, whole * leaf);
      uint8_t digests[WIDTH * DIGEST];
      hash_group(nan ? canonical(padded.data(), WIDTH * leaf, copy) : padded.data(), leaf, tag, digests);
      std::memcpy(out, digests, whole * DIGEST);
      at += whole * leaf;
      out += whole * DIGEST;
    }
  }
  for (; at < bytes; at += leaf, out += DIGEST) {
    const uint64_t size = std::min(leaf, bytes - at);
    hash_one(nan ? canonical(data + at, size, copy) : data + at, size, tag, out);
  }
}

uint64_t divide_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

int height_of(uint64_t leaves) {
  int height = 0;
  while (height < 64 && (uint64_t{1} << height) < leaves) height++;
  return height;
}

// Roots of empty subtrees: level 0 is the padding, 32 zero bytes.
struct Empty {
  uint8_t level[64][DIGEST] = {};
  Empty() {
    uint8_t pair[2 * DIGEST];
    for (int i = 1; i < 64; i++) {
      std::memcpy(pair, level[i - 1], DIGEST);
      std::memcpy(pair + DIGEST, level[i - 1], DIGEST);
      hash_one(pair, sizeof pair, NODE_TAG, level[i]);
    }
  }
};

// hashes[0] = root of the subtree between two levels over `count` >= 1 hashes; there is room for one more.
void reduce(uint8_t* hashes, uint64_t count, int level, int height) {
  static const Empty empty;
  for (; level < height; level++) {
    if (count & 1) std::memcpy(hashes + count++ * DIGEST, empty.level[level], DIGEST);
    count /= 2;
    hash_many(hashes, count * 2 * DIGEST, 2 * DIGEST, NODE_TAG, false, hashes);
  }
}

// Root of number `chunk` of the subtrees of CHUNK_LEAVES leaves, as far up as `height`.
void chunk_root(const uint8_t* data, uint64_t bytes, uint64_t leaf, bool nan, uint64_t chunk, int height,
                std::vector<uint8_t>& hashes, uint8_t* out) {
  const uint64_t from = chunk * CHUNK_LEAVES * leaf, size = std::min(bytes - from, CHUNK_LEAVES * leaf);
  const uint64_t count = divide_up(size, leaf);
  hashes.resize((count + 1) * DIGEST);
  hash_many(data + from, size, leaf, LEAF_TAG, nan, hashes.data());
  reduce(hashes.data(), count, 0, height);
  std::memcpy(out, hashes.data(), DIGEST);
}

// One Merkle root for each of `count` tensors; their chunks are shared out among the threads.
void roots(const uint8_t* const* data, const uint64_t* bytes, const uint8_t* nan, uint64_t count, uint64_t leaf,
           uint8_t* out, int threads) {
  struct Piece {
    uint64_t tensor, chunk, place;  // place: of its root in `found`
  };
  std::vector<Piece> pieces;
  std::vector<uint64_t> first(count);
  uint64_t room = 0;
  for (uint64_t t = 0; t < count; t++) {
    const uint64_t chunks = divide_up(divide_up(bytes[t], leaf), CHUNK_LEAVES);
    first[t] = room;
    for (uint64_t c = 0; c < chunks; c++) pieces.push_back({t, c, room + c});
    room += chunks + 1;  // `reduce` may pad by one
  }
  const auto height = [&](uint64_t t) { return height_of(divide_up(bytes[t], leaf)); };
  std::vector<uint8_t> found(room * DIGEST);
  std::atomic<uint64_t> next{0};
  const auto body = [&](int, int) {
    std::vector<uint8_t> hashes;
    for (uint64_t i; (i = next.fetch_add(1)) < pieces.size();) {
      const auto [t, chunk, place] = pieces[i];
      const int low = std::min(height(t), CHUNK_HEIGHT);
      chunk_root(data[t], bytes[t], leaf, nan[t], chunk, low, hashes, found.data() + place * DIGEST);
    }
  };
  if (threads > 1 && pieces.size() > 1) parallel(threads, body);
  else body(0, 1);
  for (uint64_t t = 0; t < count; t++, out += DIGEST) {
    if (bytes[t] == 0) {
      std::memset(out, 0, DIGEST);
      continue;
    }
    uint8_t* const own = found.data() + first[t] * DIGEST;
    reduce(own, divide_up(divide_up(bytes[t], leaf), CHUNK_LEAVES), std::min(height(t), CHUNK_HEIGHT), height(t));
    std::memcpy(out, own, DIGEST);
  }
}

void hash_all(const uint8_t* data, uint64_t bytes, uint64_t leaf, uint8_t tag, bool nan, uint8_t* out, int threads) {
  if (threads <= 1 || bytes < SMALL_BYTES) return hash_many(data, bytes, leaf, tag, nan, out);
  const uint64_t groups = divide_up(bytes, WIDTH * leaf);
  parallel(threads, [&](int thread, int count) {
    const uint64_t from = groups * uint64_t(thread) / uint64_t(count) * WIDTH;
    const uint64_t to = groups * uint64_t(thread + 1) / uint64_t(count) * WIDTH;
    if (from < to)
      hash_many(data + from * leaf, std::min(bytes, to * leaf) - from * leaf, leaf, tag, nan, out + from * DIGEST);
  });
}

}  // namespace
}  // namespace repops

using namespace repops;

void repops_sha256_leaves(const uint8_t* data, uint64_t bytes, uint32_t leaf_bytes, uint8_t tag, uint8_t* out,
                          int canonical_nan, int threads) {
  hash_all(data, bytes, leaf_bytes, tag, canonical_nan, out, threads);
}

void repops_merkle_roots(const uint8_t* const* data, const uint64_t* bytes, const uint8_t* canonical_nan, uint64_t count,
                         uint32_t leaf_bytes, uint8_t* out, int threads) {
  roots(data, bytes, canonical_nan, count, leaf_bytes, out, threads);
}
