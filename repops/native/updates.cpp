// Words of updates in transport: zoo_compute/codec/context_model.py says what the bits are, and this writes and reads the same.
//
// The two directions are one template, so that reader and writer cannot part. A reader is given bytes of strangers: it looks
// at none behind their end, and does a bounded number of steps a word.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "threads.h"

namespace {

constexpr int64_t LONG = 13, PALETTE = 255;
constexpr int64_t LISTED = 0, STEPS = 1, WORDS = 2;
constexpr int64_t BUCKETS = 12, DENSITIES = 14;
constexpr int64_t SAME = 0, KIND = 2, SAME_SIZE = 6, COARSE = 8, FIRST = 10, NEXT = 28, STEP = 46, SIGNS = 64;
constexpr int64_t PLACES = SIGNS + 5 * 5 * 3, LEVELS = PLACES + DENSITIES * BUCKETS * BUCKETS;
constexpr int TREE = 5;
constexpr int64_t COUNT = 0, SIZE = 1, STEPPED = 2, LAST = 3;
constexpr int BAD_COUNT = 1, BAD_PALETTE = 2, OVERFLOWS = 3;
constexpr int64_t UNIT = 4096, WINDOW = 32, QUARTER = UNIT / 4;
constexpr int64_t ONE = 1 << 22, SEEN = 1023, LEAST = ONE >> 12;

struct Tables {
  int64_t pace[SEEN + 1];
  uint8_t fullness[4 * WINDOW][WINDOW + 1];

  Tables() {
    for (int64_t n = 0; n <= SEEN; ++n) pace[n] = 65536 * 2 / (2 * n + 3);
    for (int64_t quarters = 0; quarters < 4 * WINDOW; ++quarters)
      for (int64_t count = 0; count <= WINDOW; ++count) {
        int64_t over = 20 * (8 * count + 6), under = 7 * (2 * quarters + 7), bucket = 0;
        while (over > under && bucket < BUCKETS - 1) over *= 5, under *= 7, ++bucket;
        fullness[quarters][count] = static_cast<uint8_t>(bucket);
      }
  }
};

const Tables TABLES;

int bits_of(int64_t value) {
  int bits = 0;
  while (value >> bits) ++bits;
  return bits;
}

template <bool READS>
struct Coder {
  uint8_t* buffer;
  int64_t size;
  int64_t* contexts;
  int64_t position = 0;
  uint32_t low = 0, width = 0xFFFFFFFF, value = 0;  // value: of a reader, the code above the interval's beginning
  bool full = false;

  Coder(uint8_t* bytes, int64_t count, int64_t* learnt) : buffer(bytes), size(count), contexts(learnt) {
    if (READS)
      for (int i = 0; i < 4; ++i) value = value << 8 | next();
  }

  uint32_t next() {
    const uint32_t byte = position < size ? buffer[position] : 0;
    ++position;
    return byte;
  }

  void carry() {
    int64_t at = std::min(position, size) - 1;
    while (at >= 0 && buffer[at] == 255) buffer[at--] = 0;
    if (at >= 0) ++buffer[at];
  }

  // Go on in the part of the interval that is so wide and has so much below it.
  void narrow(uint32_t below, uint32_t part) {
    if (READS) {
      value -= below;
    } else {
      low += below;
      if (low < below) carry();
    }
    for (width = part; width < 1 << 24; width <<= 8) {
      if (READS) {
        value = value << 8 | next();
        continue;
      }
      if (position < size)
        buffer[position] = static_cast<uint8_t>(low >> 24);
      else
        full = true;
      ++position;
      low <<= 8;
    }
  }

  int64_t code(int64_t at, int64_t bit) {
    const int64_t state = contexts[at];
    int64_t likely = state >> 10;
    const int64_t seen = state & SEEN;
    const uint32_t chance = static_cast<uint32_t>(std::min(std::max(likely, LEAST), ONE - LEAST) >> 6);
    const uint32_t middle = (width >> 16) * chance;
    if (READS) bit = value < middle;
    narrow(bit ? 0 : middle, bit ? middle : width - middle);
    likely += ((bit << 22) - bit - likely) * TABLES.pace[seen] >> 16;
    contexts[at] = likely << 10 | std::min(seen + 1, SEEN);
    return bit;
  }

  int64_t plain(int64_t number, int count) {
    const uint32_t step = width >> count;
    if (READS) number = std::min<int64_t>(value / step, (int64_t(1) << count) - 1);
    narrow(static_cast<uint32_t>(number) * step, step);
    return number;
  }

  int64_t tree(int64_t at, int64_t number, int count) {
    const int rest = std::max(count - TREE, 0);
    int64_t node = 1;
    for (int shift = count - 1; shift >= rest; --shift) node = node << 1 | code(at + node, number >> shift & 1);
    if (rest) node = node << rest | plain(number & ((1 << rest) - 1), rest);
    return node - (int64_t(1) << count);
  }

  int64_t near_zero(int64_t at, int64_t number) {
    const int64_t distance = number < 0 ? -number : number;
    int length = 0;
    while (code(at + length, distance >> length ? 1 : 0))
      if (++length == 17) break;
    if (!length) return 0;
    const int64_t top = int64_t(1) << (length - 1);
    const int64_t read = top | plain(distance & (top - 1), length - 1);
    return code(at + 17, number < 0) ? -read : read;
  }
};

// A chunk's magnitudes, ascending where a writer made them, and a table to find them by.
struct Palette {
  int64_t of[PALETTE + 1] = {};
  uint16_t places[1024];  // number in `of` and one, or 0

  uint16_t& place(int64_t magnitude) {
    uint32_t at = static_cast<uint32_t>(magnitude) * 0x9E3779B1u >> 22;
    while (places[at] && of[places[at] - 1] != magnitude) at = (at + 1) & 1023;
    return places[at];
  }

  void find_by_table(int64_t size) {
    std::fill_n(places, 1024, uint16_t(0));
    for (int64_t i = 0; i < size; ++i) place(of[i]) = static_cast<uint16_t>(i + 1);
  }

  // From its first and a step. The size, or 0 where a magnitude is not exact, or not normal.
  int64_t stepped(int64_t size) {
    const int64_t first = of[0], step = of[1], unit = std::min(first >> 23, step >> 23);
    if (unit == 0 || std::max(first >> 23, step >> 23) - unit > 24) return 0;
    const int64_t value = mantissa(first) << ((first >> 23) - unit), by = mantissa(step) << ((step >> 23) - unit);
    for (int64_t n = 0; n < size; ++n)
      if (!(of[n] = word(value + n * by, unit))) return 0;
    return size;
  }

  static int64_t mantissa(int64_t magnitude) { return (magnitude & 0x7FFFFF) | 0x800000; }

  // Of a whole number whose lowest bit is that of a mantissa of exponent `unit`; 0 where there is none.
  static int64_t word(int64_t value, int64_t unit) {
    const int bits = bits_of(value);
    const int64_t exponent = unit + bits - 24;
    if (exponent < 1 || exponent > 254) return 0;
    if (bits <= 24) return exponent << 23 | (value << (24 - bits) & 0x7FFFFF);
    if (value & ((int64_t(1) << (bits - 24)) - 1)) return 0;
    return exponent << 23 | (value >> (bits - 24) & 0x7FFFFF);
  }

  // The largest step that leads from the first magnitude to each; `steps` becomes those to the last, counting it, 0 for none.
  int64_t step(int64_t size, int64_t& steps) const {
    steps = 0;
    const int64_t unit = of[0] >> 23, most = of[size - 1] >> 23;
    if (size < 2 || unit == 0 || most == 255 || most - unit > 24) return 0;
    int64_t common = 0, apart = 0;
    for (int64_t i = 1; i < size; ++i) {
      apart = (mantissa(of[i]) << ((of[i] >> 23) - unit)) - mantissa(of[0]);
      for (int64_t rest = apart, before; rest; rest = before % rest) before = common, common = rest;
    }
    const int64_t first = mantissa(of[0]), even = (first | common) & -(first | common);
    if (apart / common >= PALETTE || (first + apart) / even >> 24) return 0;  // or one between would not be exact
    const int64_t found = word(common, unit);
    if (found) steps = apart / common + 1;
    return found;
  }

  void describe(const uint32_t* chunk, int64_t length, int64_t& count, int64_t& kind, int64_t& size) {
    find_by_table(0);
    count = size = 0;
    for (int64_t i = 0; i < length; ++i) {
      if (!chunk[i]) continue;
      ++count;
      if (size > PALETTE) continue;
      uint16_t& found = place(chunk[i] & 0x7FFFFFFF);
      if (found) continue;
      of[std::min(size, PALETTE)] = chunk[i] & 0x7FFFFFFF;
      found = static_cast<uint16_t>(++size);
    }
    kind = LISTED;
    if (!count) return;
    if (size > PALETTE) {
      kind = WORDS;
      return;
    }
    std::sort(of, of + size);
    int64_t steps;
    const int64_t by = step(size, steps);
    if (!steps || count * bits_of(steps - 1) + 10 >= count * bits_of(size - 1) + 10 * (size - 1)) return;
    of[1] = by;
    kind = STEPS;
    size = steps;
  }
};

template <bool READS>
struct Traversal {
  Coder<READS> coder;
  int64_t* memory;
  int64_t columns;
  std::vector<uint8_t> filled;
  std::vector<int8_t> leaning;
  int64_t expected = 0;
  Palette palette;

  Traversal(uint8_t* buffer, int64_t size, int64_t* contexts, int64_t* palettes, int64_t row)
    : coder(buffer, size, contexts), memory(palettes), columns(row), filled(row), leaning(row) {}

  int run(uint32_t* words, int64_t total, int64_t most) {
    const int64_t chunks = (total + most - 1) / most, whole = chunks ? (total + chunks - 1) / chunks : 0;
    for (int64_t start = 0; start < total; start += whole) {
      uint32_t* const chunk = words + start;
      const int64_t length = std::min(whole, total - start);
      int64_t count = 0, kind = LISTED, size = 0;
      if (!READS) palette.describe(chunk, length, count, kind, size);
      count = code_count(count);
      if (count > length) return BAD_COUNT;
      if (count) {
        kind = code_kind(kind);
        if (kind == WORDS) {
          for (int64_t i = 0; i < length; ++i) {
            const int64_t high = coder.plain(chunk[i] >> 16, 16);
            chunk[i] = static_cast<uint32_t>(high << 16 | coder.plain(chunk[i] & 0xFFFF, 16));
          }
        } else {
          size = code_palette(kind, size, count);
          if (!size) return BAD_PALETTE;
          code_chunk(chunk, length, count, size, start % columns);
        }
      }
      if (!READS && (coder.full || coder.position > 4 * (start + length))) return OVERFLOWS;
    }
    return 0;
  }

  int64_t code_count(int64_t count) {
    if (!coder.code(SAME, count == memory[COUNT])) memory[COUNT] = coder.plain(count, LONG);
    return memory[COUNT];
  }

  int64_t code_kind(int64_t kind) {
    if (coder.code(KIND, kind == WORDS)) return WORDS;
    return coder.code(KIND + 1, kind == STEPS) ? STEPS : LISTED;
  }

  int64_t code_palette(int64_t kind, int64_t size, int64_t count) {
    const int64_t before = memory[SIZE];
    size = coder.code(SAME_SIZE, size == before) ? before : coder.plain(size, 8);
    if (size <= 0 || size > (kind == STEPS ? PALETTE : std::min(count, PALETTE))) return 0;
    memory[SIZE] = size;
    int64_t* const last = memory + LAST;
    int64_t* const each = palette.of;
    each[0] = code_word(FIRST, each[0], last[0] >> 16);
    if (kind == STEPS) {
      each[1] = code_word(STEP, each[1], memory[STEPPED] >> 16);
      last[0] = each[0];
      memory[STEPPED] = each[1];
      return palette.stepped(size);
    }
    for (int64_t i = 1; i < size; ++i) {
      const int64_t apart = size == before ? (last[i] >> 16) - (last[i - 1] >> 16) : 1;
      each[i] = code_word(NEXT, each[i], (each[i - 1] >> 16) + apart);
      last[i - 1] = each[i - 1];
    }
    last[size - 1] = each[size - 1];
    return size;
  }

  // A magnitude whose upper half is predicted.
  int64_t code_word(int64_t at, int64_t word, int64_t predicted) {
    predicted = std::min<int64_t>(std::max<int64_t>(predicted, 0), 0x7FFF);
    const int64_t high = (predicted + coder.near_zero(at, (word >> 16) - predicted)) & 0x7FFF;
    if (coder.code(COARSE, (word & 0xFFFF) == 0)) return high << 16;
    return high << 16 | coder.plain(word & 0xFFFF, 16);
  }

  void code_chunk(uint32_t* chunk, int64_t length, int64_t left, int64_t size, int64_t column) {
    const int64_t mean = left * UNIT / length;
    int64_t density = 0;
    while (left << density < length && density < DENSITIES - 1) ++density;
    const int64_t places = PLACES + density * BUCKETS * BUCKETS;
    const int64_t fresh = std::min(std::max(left * ONE / length, ONE >> 10), ONE - (ONE >> 10)) << 10 | 6;
    if (!READS) palette.find_by_table(size);
    const int height = bits_of(size - 1);
    const int64_t levels = LEVELS + (3 << TREE) * std::max(height - 1, 0);
    int64_t row_filled = 0, row_expected = 0, row_leaning = 0, agreed = 0, before = 0, i = 0;
    const uint8_t* of_column = TABLES.fullness[expected / QUARTER];
    for (; i < length && left; ++i) {
      int64_t there = chunk[i] != 0;
      if (left < length - i) {
        const int64_t row = TABLES.fullness[row_expected / QUARTER][row_filled];
        const int64_t at = places + row * BUCKETS + of_column[filled[column]];
        if (!(coder.contexts[at] & SEEN)) coder.contexts[at] = fresh;
        there = coder.code(at, there);
      } else {
        there = 1;
      }
      if (there) {
        --left;
        ++row_filled;
        filled[column] = static_cast<uint8_t>(std::min<int64_t>(filled[column] + 1, WINDOW));
        int64_t level = READS ? 0 : palette.place(chunk[i] & 0x7FFFFFFF) - 1;
        if (height) {
          level = coder.tree(levels + (before << TREE), level, height);
          before = 1 + (level >> (height - 1) & 1);
          level = std::min(level, size - 1);
        }
        const int64_t lean = leaning[column];
        const int64_t sign = coder.code(SIGNS + ((row_leaning + 2) * 5 + lean + 2) * 3 + agreed + 1, chunk[i] >> 31);
        const int64_t toward = 1 - 2 * sign;
        agreed = lean == 0 ? 0 : lean * toward > 0 ? 1 : -1;
        row_leaning = std::min<int64_t>(std::max<int64_t>(row_leaning + toward, -2), 2);
        leaning[column] = static_cast<int8_t>(std::min<int64_t>(std::max<int64_t>(lean + toward, -2), 2));
        chunk[i] = static_cast<uint32_t>(sign << 31 | palette.of[level]);
      }
      row_expected += mean;
      if (row_filled >= WINDOW || row_expected >= WINDOW * UNIT) row_filled >>= 1, row_expected >>= 1;
      if (++column == columns) {
        column = 0;
        row_filled = row_expected = row_leaning = agreed = 0;
        expect(mean);
        of_column = TABLES.fullness[expected / QUARTER];
      }
    }
    expect((column + length - i) / columns * mean);
  }

  void expect(int64_t more) {
    expected += more;
    while (expected >= WINDOW * UNIT) {
      expected >>= 1;
      for (uint8_t& each : filled) each >>= 1;
    }
  }
};

}  // namespace

REPOPS_EXPORT int repops_update_words(
  uint8_t* buffer, int64_t size, int64_t* contexts, int64_t* memory, uint32_t* words, int64_t total, int64_t columns,
  int64_t chunk, int reads, int64_t* registers) {
  if (reads) {
    Traversal<true> traversal(buffer, size, contexts, memory, columns);
    const int why = traversal.run(words, total, chunk);
    registers[0] = traversal.coder.position;
    return why;
  }
  Traversal<false> traversal(buffer, size, contexts, memory, columns);
  const int why = traversal.run(words, total, chunk);
  registers[0] = traversal.coder.position;
  registers[1] = traversal.coder.low;
  registers[2] = traversal.coder.width;
  return why;
}
