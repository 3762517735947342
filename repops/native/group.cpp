// Groups: a blocked interpreter. Every instruction runs over a tile before the next one does, so its dispatch is paid once
// per some thousand words and the values between instructions stay in cache.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "vm.h"

namespace repops {
namespace {

// Slots of one thread, kept until the thread ends. What is carried along a row comes after them.
Word* scratch(int64_t words) {
  static thread_local std::vector<uint32_t> memory;
  if (int64_t(memory.size()) < words + 16) memory.resize(size_t(words + 16));
  const uintptr_t at = reinterpret_cast<uintptr_t>(memory.data());
  return reinterpret_cast<Word*>((at + 63) / 64 * 64);
}

struct Tile {
  const Item& item;
  Word* slots;
  uint32_t* carried;  // 32 words for each reduction
  int64_t row, rows, column, columns;
  bool first, last;  // of its row
};

// An operand as an instruction over some rows sees it: rows of words `stride` apart, or one word per row.
struct Reach {
  Word* at;
  int64_t stride;
  bool scalar;
  const int32_t* table;  // of row offsets, where rows have no stride
};

Word* slot(const Tile& t, int64_t number) { return t.slots + number * t.item.tile_rows * t.item.tile_columns; }

Reach reach(const Tile& t, const Operand& o) {
  switch (o.where) {
    case MEMORY: {
      const bool scalar = o.columns.stride == 0 && !o.columns.table;
      Word* at = o.base + (scalar ? 0 : t.column);
      if (o.rows.table) return {at, 0, scalar, o.rows.table + t.row};
      return {at + t.row * o.rows.stride, o.rows.stride, scalar, nullptr};
    }
    case SLOT: return {slot(t, o.slot), t.columns, false, nullptr};
    case ROW_SLOT: return {slot(t, o.slot), 1, true, nullptr};
    case LITERAL: return {reinterpret_cast<Word*>(const_cast<uint64_t*>(&o.word)), 0, true, nullptr};
    default: return {nullptr, 0, false, nullptr};
  }
}

// The same for an instruction that works on one word per row: the tile's rows are its columns.
Reach reach_rows(const Tile& t, const Operand& o) {
  switch (o.where) {
    case MEMORY: return {o.base + t.row * o.rows.stride, 0, o.rows.stride == 0, nullptr};
    case ROW_SLOT: return {slot(t, o.slot), 0, false, nullptr};
    case LITERAL: return {reinterpret_cast<Word*>(const_cast<uint64_t*>(&o.word)), 0, true, nullptr};
    default: return {nullptr, 0, false, nullptr};
  }
}

void run_map(const Tile& t, const Instruction& i) {
  Reach r[4];
  const Operand* operands[4] = {&i.out, &i.in[0], &i.in[1], &i.in[2]};
  bool table = false, packed = true;
  int scalars = 0;
  for (int n = 0; n < 4; n++) {
    r[n] = i.per_row ? reach_rows(t, *operands[n]) : reach(t, *operands[n]);
    table |= r[n].table != nullptr;
    packed &= !r[n].at || (!r[n].table && r[n].stride == (r[n].scalar ? 0 : t.columns));
    if (n > 0 && r[n].scalar) scalars |= 1 << (n - 1);
  }
  const Kernel kernel = map_kernel(i.code, scalars);
  if (i.per_row) return kernel(1, t.rows, r[0].at, 0, r[1].at, 0, r[2].at, 0, r[3].at, 0);
  if (packed) return kernel(1, t.rows * t.columns, r[0].at, 0, r[1].at, 0, r[2].at, 0, r[3].at, 0);
  if (!table)
    return kernel(t.rows, t.columns, r[0].at, r[0].stride, r[1].at, r[1].stride, r[2].at, r[2].stride, r[3].at, r[3].stride);
  for (int64_t row = 0; row < t.rows; row++) {
    Word* at[4];
    for (int n = 0; n < 4; n++) at[n] = r[n].at + (r[n].table ? r[n].table[row] : row * r[n].stride);
    kernel(1, t.columns, at[0], 0, at[1], 0, at[2], 0, at[3], 0);
  }
}

// How an operand's words lie for instructions that look at them one by one.
struct Words {
  Word* base;
  Steps rows, columns;
  int64_t row, column;
  Word& at(int64_t r, int64_t c) const { return base[rows.at(row + r) + columns.at(column + c)]; }
};

Words words(const Tile& t, const Operand& o, bool per_row) {
  switch (o.where) {
    case MEMORY: return {o.base, o.rows, o.columns, t.row, t.column};
    case SLOT: return {slot(t, o.slot), {t.columns, nullptr}, {1, nullptr}, 0, 0};
    case ROW_SLOT: return {slot(t, o.slot), {1, nullptr}, {0, nullptr}, 0, 0};
    default: return {reinterpret_cast<Word*>(const_cast<uint64_t*>(&o.word)), {0, nullptr}, {0, nullptr}, 0, 0};
  }
  (void)per_row;
}

// Moves words between any strides, in squares so that both sides use the lines they touch.
void run_move(const Tile& t, const Instruction& i) {
  const Words from = words(t, i.in[0], i.per_row), to = words(t, i.out, i.per_row);
  const int64_t columns = i.per_row ? 1 : t.columns;
  constexpr int64_t SQUARE = 16;
  for (int64_t r0 = 0; r0 < t.rows; r0 += SQUARE)
    for (int64_t c0 = 0; c0 < columns; c0 += SQUARE) {
      const int64_t r1 = std::min(t.rows, r0 + SQUARE), c1 = std::min(columns, c0 + SQUARE);
      for (int64_t r = r0; r < r1; r++)
        for (int64_t c = c0; c < c1; c++) to.at(r, c) = from.at(r, c);
    }
}

void run_take(const Tile& t, const Instruction& i) {
  const Words from = words(t, i.in[0], i.per_row), index = words(t, i.in[1], i.per_row), to = words(t, i.out, i.per_row);
  const int64_t columns = i.per_row ? 1 : t.columns;
  const bool whole_rows = !i.per_row && index.columns.stride == 0 && !index.columns.table && from.columns.stride == 1 &&
                          !from.columns.table && to.columns.stride == 1 && !to.columns.table;
  for (int64_t r = 0; r < t.rows; r++) {
    if (whole_rows) {
      const int64_t at = int32_t(index.at(r, 0));
      if (at >= 0 && at < i.extent) std::memcpy(&to.at(r, 0), &from.at(r, 0) + at * i.stride, size_t(columns) * 4);
      else std::memset(&to.at(r, 0), 0, size_t(columns) * 4);
      continue;
    }
    for (int64_t c = 0; c < columns; c++) {
      const int64_t at = int32_t(index.at(r, c));
      to.at(r, c) = at >= 0 && at < i.extent ? (&from.at(r, c))[at * i.stride] : 0;
    }
  }
}

void run_address(const Tile& t, const Instruction& i) {
  const Words to = words(t, i.out, i.per_row);
  const Operand& o = i.in[0];
  const int64_t columns = i.per_row ? 1 : t.columns;
  for (int64_t r = 0; r < t.rows; r++)
    for (int64_t c = 0; c < columns; c++)
      to.at(r, c) = uint32_t(o.word) + uint32_t(o.rows.at(t.row + r) + o.columns.at(t.column + c));
}

void run_row_reduction(const Tile& t, const Instruction& i) {
  const Words from = words(t, i.in[0], false), to = words(t, i.out, true);
  const bool is_sum = i.code == SUM_ROW;
  for (int64_t r = 0; r < t.rows; r++) {
    uint32_t fresh[32];
    uint32_t* carried = t.first && t.last ? fresh : t.carried + 32 * i.stride;
    if (t.first) std::fill(carried, carried + (is_sum ? 32 : 1), is_sum ? 0 : fold_start(i.extent));
    const Word* row = &from.at(r, 0);
    if (is_sum) {
      float lanes[32];
      std::memcpy(lanes, carried, sizeof lanes);
      add_to_lanes(lanes, reinterpret_cast<const float*>(row), t.columns);
      if (t.last) to.at(r, 0) = as_word(sum_lanes(lanes));
      else std::memcpy(carried, lanes, sizeof lanes);
    } else {
      carried[0] = fold_row(i.extent, carried[0], row, t.columns, from.columns.stride);
      if (t.last) to.at(r, 0) = carried[0];
    }
  }
}

// The accumulators are the output's words themselves.
void run_fold_columns(const Tile& t, const Instruction& i) {
  Word* out = i.out.base + t.column;
  if (t.row == 0) std::fill(out, out + t.columns, fold_start(i.extent));
  const Reach from = reach(t, i.in[0]);
  const Kernel kernel = fold_column(i.extent, from.scalar);
  for (int64_t r = 0; r < t.rows; r++) {
    const Word* row = from.at + (from.table ? from.table[r] : r * from.stride);
    kernel(1, t.columns, out, 0, out, 0, row, 0, nullptr, 0);
  }
}

void run_tile(const Tile& t) {
  for (int64_t n = 0; n < t.item.count; n++) {
    const Instruction& i = t.item.instructions[n];
    if (i.last && !t.last) continue;
    switch (i.code) {
      case LOAD: case STORE: run_move(t, i); break;
      case TAKE: run_take(t, i); break;
      case ADDRESS: run_address(t, i); break;
      case SUM_ROW: case FOLD_ROW: run_row_reduction(t, i); break;
      case FOLD_COLUMNS: run_fold_columns(t, i); break;
      default: run_map(t, i);
    }
  }
}

}  // namespace

void run_tiles(const Item& item, int thread, int threads) {
  const int64_t tall = (item.rows + item.tile_rows - 1) / item.tile_rows;
  const int64_t wide = (item.columns + item.tile_columns - 1) / item.tile_columns;
  const int64_t slots = item.slots * item.tile_rows * item.tile_columns;
  Word* memory = scratch(slots + 32 * item.count);
  uint32_t* carried = reinterpret_cast<uint32_t*>(memory + slots);
  const auto run = [&](int64_t r, int64_t c) {
    const int64_t row = r * item.tile_rows, column = c * item.tile_columns;
    run_tile({item, memory, carried, row, std::min(item.tile_rows, item.rows - row), column,
              std::min(item.tile_columns, item.columns - column), c == 0, c == wide - 1});
  };
  if (item.kind == COLUMNS) {  // columns are shared out, rows come in order
    for (int64_t c = wide * thread / threads; c < wide * (thread + 1) / threads; c++)
      for (int64_t r = 0; r < tall; r++) run(r, c);
  } else if (item.in_order) {
    for (int64_t r = tall * thread / threads; r < tall * (thread + 1) / threads; r++)
      for (int64_t c = 0; c < wide; c++) run(r, c);
  } else {
    const int64_t all = tall * wide;
    for (int64_t k = all * thread / threads; k < all * (thread + 1) / threads; k++) run(k / wide, k % wide);
  }
}

}  // namespace repops
