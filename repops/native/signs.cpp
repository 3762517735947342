// Which elements an update of signs sends: zoo_compute/codec/signs.py says it in numpy, which takes ten times as long.

#include <cstdint>

#include "threads.h"

namespace {

constexpr uint32_t PHILOX = 0xD256D193, KEY_STEP = 0x9E3779B9;
constexpr int ROUNDS = 10;
constexpr int64_t LANES = 64;

}  // namespace

// sent: a byte for each of `chunks` x `words` elements; 1 where Philox2x32-10 under the chunk's magnitude is below `bound`.
REPOPS_EXPORT void repops_sent_elements(const uint32_t* magnitudes, uint8_t* sent, int64_t chunks, int64_t words, int32_t bound) {
  for (int64_t chunk = 0; chunk < chunks; ++chunk, sent += words) {
    const uint32_t magnitude = magnitudes[chunk];
    for (int64_t first = 0; first < words; first += LANES) {
      const int64_t count = words - first < LANES ? words - first : LANES;
      uint32_t index[LANES], counter[LANES];
      for (int64_t lane = 0; lane < LANES; ++lane) {
        index[lane] = static_cast<uint32_t>(first + lane);
        counter[lane] = static_cast<uint32_t>(chunk);
      }
      for (int turn = 0; turn < ROUNDS; ++turn) {
        const uint32_t key = magnitude + turn * KEY_STEP;
        for (int64_t lane = 0; lane < LANES; ++lane) {
          const uint64_t product = static_cast<uint64_t>(index[lane]) * PHILOX;
          index[lane] = static_cast<uint32_t>(product >> 32) ^ key ^ counter[lane];
          counter[lane] = static_cast<uint32_t>(product);
        }
      }
      for (int64_t lane = 0; lane < count; ++lane)
        sent[first + lane] = magnitude != 0 && static_cast<int32_t>(index[lane]) < bound;
    }
  }
}
