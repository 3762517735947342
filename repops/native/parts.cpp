// The words of all parts of one element, as repops/parts.py divides it: what an opening reveals of a long reduction.
#include <algorithm>

#include "vm.h"

namespace repops {
namespace {

constexpr int64_t MAX_AXES = 8, MAX_TERMS = 64;  // of a domain; of a part
constexpr int64_t SUM_LANES = 32, BLOCK = 256, JOINED = 8;

struct Axes {
  const Word* base;
  int64_t count;
  int64_t extent[MAX_AXES], stride[MAX_AXES];  // innermost first
};

// FOLD_FLOATS: a fold whose words are results of float operations, so that their NaNs are canonical.
enum PartsKind : int64_t { FOLD, FOLD_FLOATS, SUM_OF_LANES, DOT_PRODUCT, RANK_TERMS, REPLACE, ADD };

}  // namespace

// size: terms of a part. joined: block sums of a part. first: the word of part 0. own: of RANK_TERMS, the element's word.
// place: the element's coordinate along the operator's axis. Laid out by repops/native/parts.py.
struct Parts {
  int64_t kind, code, terms, size, joined, first, own, place;
  Axes operands[2];
  Word* out;
};

namespace {

// Terms in order, a few at a time.
class Walk {
 public:
  explicit Walk(const Axes& axes) : axes_(axes), at_(axes.base) {}

  void take(uint32_t* out, int64_t count) {
    const int64_t inner = axes_.extent[0], step = axes_.stride[0];
    while (count > 0) {
      const int64_t run = std::min(count, inner - index_[0]);
      for (int64_t i = 0; i < run; i++) out[i] = at_[i * step];
      out += run;
      count -= run;
      index_[0] += run;
      at_ += run * step;
      for (int64_t a = 0; a + 1 < axes_.count && index_[a] == axes_.extent[a]; a++) {
        at_ += axes_.stride[a + 1] - axes_.extent[a] * axes_.stride[a];
        index_[a] = 0;
        index_[a + 1]++;
      }
    }
  }

 private:
  const Axes& axes_;
  const Word* at_;
  int64_t index_[MAX_AXES] = {};
};

uint32_t canonical(float value) { return value == value ? as_word(value) : 0x7fc00000u; }

uint32_t add_words(uint32_t a, uint32_t b) { return canonical(as_float(a) + as_float(b)); }

// Signed order of words as `rank` sees it: recipes._order.
int32_t order_of(uint32_t word) {
  const uint32_t bits = (word & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : word;
  return int32_t(bits ^ ((0u - (bits >> 31)) & 0x7fffffff));
}

// One carried word, part after part.
template <class Join>
void chain(const Parts& p, const Join& join) {
  Word* out = p.out;
  uint32_t carried = *out++ = uint32_t(p.first);
  for (int64_t k = 0; k < p.terms; k += p.size) *out++ = carried = join(carried, k, std::min(p.size, p.terms - k));
}

void fold(const Parts& p) {
  Walk terms(p.operands[0]);
  chain(p, [&](uint32_t carried, int64_t, int64_t count) {
    uint32_t x[MAX_TERMS];
    terms.take(x, count);
    carried = fold_row(p.code, carried, x, count, 1);
    return p.kind == FOLD_FLOATS ? canonical(as_float(carried)) : carried;
  });
}

void rank_terms(const Parts& p) {
  Walk rivals(p.operands[0]);
  const int32_t own = order_of(uint32_t(p.own));
  chain(p, [&](uint32_t ahead, int64_t k, int64_t count) {
    uint32_t x[MAX_TERMS];
    rivals.take(x, count);
    for (int64_t i = 0; i < count; i++) {
      const int32_t rival = order_of(x[i]);
      ahead += own < rival || (own == rival && k + i < p.place);
    }
    return ahead;
  });
}

void scatter(const Parts& p) {
  Walk indices(p.operands[0]), terms(p.operands[1]);
  chain(p, [&](uint32_t carried, int64_t, int64_t count) {
    uint32_t index[MAX_TERMS], x[MAX_TERMS];
    indices.take(index, count);
    terms.take(x, count);
    for (int64_t i = 0; i < count; i++)
      if (index[i] == uint32_t(p.place)) carried = p.kind == ADD ? add_words(carried, x[i]) : x[i];
    return carried;
  });
}

// The terms come in order and each lane's parts are numbered on their own, so one pass writes to all lanes.
void sum(const Parts& p) {
  Walk terms(p.operands[0]);
  float lanes[SUM_LANES] = {};
  uint32_t last[SUM_LANES] = {};
  Word* next[SUM_LANES];
  p.out[0] = 0;
  Word* out = p.out + 1;
  for (int64_t l = 0; l < SUM_LANES; l++) {
    next[l] = out;
    const int64_t own = p.terms > l ? (p.terms - l - 1) / SUM_LANES + 1 : 0;
    out += (own + p.size - 1) / p.size;
  }
  for (int64_t k = 0, turn = 1; k < p.terms; k += SUM_LANES, turn = turn == p.size ? 1 : turn + 1) {
    uint32_t x[SUM_LANES];
    const int64_t count = std::min(SUM_LANES, p.terms - k);
    terms.take(x, count);
    for (int64_t l = 0; l < count; l++) lanes[l] += as_float(x[l]);
    if (turn < p.size && k + 2 * SUM_LANES <= p.terms) continue;
    for (int64_t l = 0; l < count; l++)
      if (turn == p.size || k + l + SUM_LANES >= p.terms) *next[l]++ = last[l] = canonical(lanes[l]);
  }
  constexpr int64_t APART = SUM_LANES / JOINED;
  const auto tree = [&](uint32_t* row, int64_t count) {
    for (int64_t half = count / 2; half > 0; half /= 2)
      for (int64_t l = 0; l < half; l++) row[l] = add_words(row[l], row[l + half]);
    return row[0];
  };
  uint32_t sums[APART];
  for (int64_t f = 0; f < APART; f++) {
    uint32_t row[JOINED];
    for (int64_t j = 0; j < JOINED; j++) row[j] = last[f + j * APART];
    *out++ = sums[f] = tree(row, JOINED);
  }
  *out = tree(sums, APART);
}

void dot(const Parts& p) {
  Walk left(p.operands[0]), right(p.operands[1]);
  Word* out = p.out;
  *out++ = 0;
  for (int64_t start = 0; start < p.terms; start += BLOCK) {
    const int64_t stop = std::min(start + BLOCK, p.terms);
    float sum = 0;
    for (int64_t k = start; k < stop; k += p.size) {
      uint32_t a[MAX_TERMS], b[MAX_TERMS];
      const int64_t count = std::min(p.size, stop - k);
      left.take(a, count);
      right.take(b, count);
      for (int64_t i = 0; i < count; i++) sum = __builtin_fmaf(as_float(a[i]), as_float(b[i]), sum);
      *out++ = canonical(sum);
    }
  }
  // A block's sum is the word of its last part.
  const int64_t blocks = (p.terms + BLOCK - 1) / BLOCK, parts = (BLOCK + p.size - 1) / p.size;
  const Word* end = out;
  const auto block_sum = [&](int64_t b) { return b == blocks - 1 ? end[-1] : p.out[(b + 1) * parts]; };
  uint32_t total = blocks > 0 ? block_sum(0) : 0;
  for (int64_t b = 1; b < blocks; b += p.joined) {
    for (int64_t i = b; i < std::min(b + p.joined, blocks); i++) total = add_words(total, block_sum(i));
    *out++ = total;
  }
}

}  // namespace
}  // namespace repops

REPOPS_EXPORT void repops_parts(const repops::Parts* parts) {
  repops::FloatMode mode;
  switch (parts->kind) {
    case repops::FOLD: case repops::FOLD_FLOATS: return repops::fold(*parts);
    case repops::SUM_OF_LANES: return repops::sum(*parts);
    case repops::DOT_PRODUCT: return repops::dot(*parts);
    case repops::RANK_TERMS: return repops::rank_terms(*parts);
    default: return repops::scatter(*parts);
  }
}

// For the caller to check that both sides agree.
REPOPS_EXPORT int64_t repops_parts_size() { return sizeof(repops::Parts); }
