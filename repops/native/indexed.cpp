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
  std::vector<Rival> rivals(size_t(n.extent), Rival{0, 0});
  for (int64_t o = n.others * thread / threads; o < n.others * (thread + 1) / threads; o++) {
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
