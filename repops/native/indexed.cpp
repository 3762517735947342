// Operators whose data says where words go: scatter, scatter_add, rank. An index out of range hits nothing.
#include <algorithm>
#include <vector>

#include "vm.h"

namespace repops {
namespace {

REPOPS_INLINE void hit(Word& row, Word term, bool adds) { row = adds ? as_word(as_float(row) + as_float(term)) : term; }

// Signed order of words as `rank` sees it: the table's `_key`.
int32_t key(uint32_t word) {
  const uint32_t bits = (word & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : word;
  return int32_t(bits ^ ((0u - (bits >> 31)) & 0x7fffffff));
}

struct Rival {
  int32_t key;
  int32_t at;
};

// Whether a comes before b: larger, or equal and earlier.
bool precedes(const Rival& a, const Rival& b) { return a.key != b.key ? a.key > b.key : a.at < b.at; }

constexpr int64_t FEW = 96;  // rivals up to which comparing each with each, many columns at once, beats sorting
constexpr int64_t STRIP = 64;

// Whether each column ranks its own words, and columns lie side by side.
bool ranks_columns(const Rank& n) {
  return n.extent <= FEW && n.others >= STRIP && n.same_rivals && n.own == n.rivals && n.own_stride == n.rivals_stride &&
         !n.own_others.table && n.own_others.stride == 1 && !n.rivals_others.table && n.rivals_others.stride == 1 &&
         !n.out_others.table && n.out_others.stride == 1;
}

// Of each pair one precedes: row i starts as if all later rows did, and each pair takes that back or counts for the later.
void rank_columns(const Rank& n, int64_t from, int64_t to) {
  alignas(64) int32_t keys[FEW][STRIP] = {};
  alignas(64) int32_t place[FEW][STRIP];
  for (int64_t o = from; o < to; o += STRIP) {
    const int64_t wide = std::min(STRIP, to - o);
    for (int64_t i = 0; i < n.extent; i++) {
      const Word* own = n.own + o + i * n.own_stride;
      for (int64_t c = 0; c < wide; c++) keys[i][c] = key(own[c]);
      std::fill(place[i], place[i] + STRIP, int32_t(n.extent - 1 - i));
    }
    for (int64_t j = 1; j < n.extent; j++)
      for (int64_t i = 0; i < j; i++)
        for (int64_t c = 0; c < STRIP; c++) {
          const int32_t earlier = keys[i][c] >= keys[j][c];
          place[i][c] -= earlier;
          place[j][c] += earlier;
        }
    for (int64_t i = 0; i < n.extent; i++) {
      Word* out = n.out + o + i * n.out_stride;
      for (int64_t c = 0; c < wide; c++) out[c] = Word(place[i][c]);
    }
  }
}

}  // namespace

void run_scatter(const Scatter& s, int thread, int threads) {
  const int64_t from = s.others * thread / threads, to = s.others * (thread + 1) / threads;
  const bool side_by_side = s.same_index && !s.out_others.table && s.out_others.stride == 1 && !s.source_others.table &&
                            s.source_others.stride == 1;
  for (int64_t k = 0; k < s.terms; k++) {
    const Word* index = s.index + s.index_terms.at(k);
    const Word* source = s.source + s.source_terms.at(k);
    if (!s.same_index) {
      for (int64_t o = from; o < to; o++) {
        const int64_t at = int32_t(index[s.index_others.at(o)]);
        if (at >= 0 && at < s.extent) hit(s.out[s.out_others.at(o) + at * s.row_stride], source[s.source_others.at(o)], s.adds);
      }
      continue;
    }
    const int64_t at = int32_t(*index);
    if (at < 0 || at >= s.extent) continue;
    Word* row = s.out + at * s.row_stride;
    if (side_by_side && s.adds) {
#pragma GCC ivdep
      for (int64_t o = from; o < to; o++) row[o] = as_word(as_float(row[o]) + as_float(source[o]));
    } else {
      for (int64_t o = from; o < to; o++) hit(row[s.out_others.at(o)], source[s.source_others.at(o)], s.adds);
    }
  }
}

void run_rank(const Rank& n, int thread, int threads) {
  const int64_t from = n.others * thread / threads, to = n.others * (thread + 1) / threads;
  if (ranks_columns(n)) return rank_columns(n, from, to);
  std::vector<Rival> rivals(size_t(n.extent), Rival{0, 0});
  for (int64_t o = from; o < to; o++) {
    for (int64_t i = 0; i < n.extent; i++) {
      if (i == 0 || !n.same_rivals) {
        const Word* from = n.rivals + n.rivals_others.at(o) + i * n.rivals_own_stride;
        for (int64_t k = 0; k < n.extent; k++) rivals[size_t(k)] = {key(from[k * n.rivals_stride]), int32_t(k)};
        std::sort(rivals.begin(), rivals.end(), precedes);
      }
      const Rival own{key(n.own[n.own_others.at(o) + i * n.own_stride]), int32_t(i)};
      const auto place = std::lower_bound(rivals.begin(), rivals.end(), own, precedes);
      n.out[n.out_others.at(o) + i * n.out_stride] = uint32_t(place - rivals.begin());
    }
  }
}

}  // namespace repops
