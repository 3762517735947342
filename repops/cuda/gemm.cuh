// dot: for every batch b, row m and column n the sum over k of left(b, m, k) * right(b, n, k), as the operator table says:
// terms in blocks of 256; in a block acc = fma(left, right, acc) from +0 in order; block sums added in order.
//
// A generated `What` says: BATCHES, ROWS, COLUMNS, TERMS, and Left, Right, each with batch(b), line(m or n), term(k),
// ALONG_TERMS (neighbouring threads read neighbouring terms, else neighbouring lines) and VECTOR (reads are of 4 words);
// out_batch(b), out_row(m), out_column(n), OUT_VECTOR; SPLIT: each block of terms is a unit of its own.

#define TERM_BLOCK 256u
#define DEPTH 8u  // terms of a tile in shared memory

// Padding for terms beyond the last: fma(+0, -0, acc) is acc for every acc, -0 too.
#define LEFT_PAD 0u
#define RIGHT_PAD 0x80000000u

// Brings one side's tile, LINES x DEPTH words, from memory through registers into shared memory.
template <class Side, u32 LINES, u32 ALL_LINES, u32 TERMS, u32 THREADS, u32 PAD>
struct Loader {
    static constexpr u32 WIDTH = Side::VECTOR ? 4u : 1u;
    static constexpr u32 COUNT = LINES * DEPTH / THREADS / WIDTH;
    static constexpr u32 PITCH = LINES + 4u;  // keeps a transposing store off one bank, and rows aligned to 16 bytes
    const u32* base;
    int from[COUNT];
    bool inside[COUNT];
    u32 words[COUNT][WIDTH];

    static DEVICE u32 line_of(u32 j) {
        const u32 unit = threadIdx.x + j * THREADS;
        return Side::ALONG_TERMS ? unit / (DEPTH / WIDTH) : unit % (LINES / WIDTH) * WIDTH;
    }
    static DEVICE u32 term_of(u32 j) {
        const u32 unit = threadIdx.x + j * THREADS;
        return Side::ALONG_TERMS ? unit % (DEPTH / WIDTH) * WIDTH : unit / (LINES / WIDTH);
    }
    DEVICE void start(const u32* first, u32 first_line) {
        base = first;
#pragma unroll
        for (u32 j = 0u; j < COUNT; ++j) {
            const u32 line = first_line + line_of(j);
            inside[j] = ALL_LINES % LINES == 0u || line < ALL_LINES;
            from[j] = inside[j] ? Side::line(line) : 0;
        }
    }
    DEVICE void fetch(u32 first_term) {
#pragma unroll
        for (u32 j = 0u; j < COUNT; ++j) {
            const u32 k = first_term + term_of(j);
            if (inside[j] && (TERMS % DEPTH == 0u || k < TERMS)) {
                const u32* at = base + (from[j] + Side::term(k));
                if constexpr (WIDTH == 4u) {
                    const uint4 four = *(const uint4*)at;
                    words[j][0] = four.x, words[j][1] = four.y, words[j][2] = four.z, words[j][3] = four.w;
                } else {
                    words[j][0] = *at;
                }
            } else {
#pragma unroll
                for (u32 w = 0u; w < WIDTH; ++w) words[j][w] = PAD;
            }
        }
    }
    DEVICE void store(u32* tile) const {
#pragma unroll
        for (u32 j = 0u; j < COUNT; ++j) {
            u32* at = tile + term_of(j) * PITCH + line_of(j);
            if constexpr (WIDTH == 4u && !Side::ALONG_TERMS) {
                *(uint4*)at = uint4{words[j][0], words[j][1], words[j][2], words[j][3]};
            } else {
#pragma unroll
                for (u32 w = 0u; w < WIDTH; ++w) at[w * PITCH] = words[j][w];
            }
        }
    }
};

DEVICE void read_four(const u32* at, float* to) {
    const uint4 four = *(const uint4*)at;
    to[0] = as_float(four.x), to[1] = as_float(four.y), to[2] = as_float(four.z), to[3] = as_float(four.w);
}

// Four outputs of a row, those that there are.
template <class What>
DEVICE void take_four(const u32* row, u32 n, float* to) {
    if constexpr (What::OUT_VECTOR) {
        if (n < What::COLUMNS) read_four(row + What::out_column(n), to);
    } else {
#pragma unroll
        for (u32 j = 0u; j < 4u; ++j)
            if (n + j < What::COLUMNS) to[j] = as_float(row[What::out_column(n + j)]);
    }
}
template <class What>
DEVICE void put_four(u32* row, u32 n, const float* from) {
    if constexpr (What::OUT_VECTOR) {
        const uint4 four{as_word(from[0]), as_word(from[1]), as_word(from[2]), as_word(from[3])};
        if (n < What::COLUMNS) *(uint4*)(row + What::out_column(n)) = four;
    } else {
#pragma unroll
        for (u32 j = 0u; j < 4u; ++j)
            if (n + j < What::COLUMNS) row[What::out_column(n + j)] = as_word(from[j]);
    }
}

// A thread's sums of a block of terms are added to its outputs, or are the outputs where it is the first; then they are
// +0 again. Four rows at a time, so that their reads are under way together.
template <class What, u32 HEIGHT>
DEVICE void put_sums(u32* out, u32 m, u32 n, float (*sums)[8], bool is_first) {
#pragma unroll
    for (u32 half = 0u; half < 2u; ++half) {
        const u32 first = m + half * 16u;
        float old[4][8] = {};
        if (!is_first) {
#pragma unroll
            for (u32 i = 0u; i < 4u; ++i) {
                if (What::ROWS % HEIGHT && first + i >= What::ROWS) break;
                take_four<What>(out + What::out_row(first + i), n, old[i]);
                take_four<What>(out + What::out_row(first + i), n + 32u, old[i] + 4);
            }
        }
#pragma unroll
        for (u32 i = 0u; i < 4u; ++i) {
            float* row = sums[half * 4u + i];
            if (!is_first) {
#pragma unroll
                for (u32 j = 0u; j < 8u; ++j) row[j] = __fadd_rn(old[i][j], row[j]);
            }
            if (!(What::ROWS % HEIGHT) || first + i < What::ROWS) {
                put_four<What>(out + What::out_row(first + i), n, row);
                put_four<What>(out + What::out_row(first + i), n + 32u, row + 4);
            }
#pragma unroll
            for (u32 j = 0u; j < 8u; ++j) row[j] = 0.0f;
        }
    }
}

// One tile of HEIGHT x WIDTH outputs. A warp makes 32 x 64 of them, a thread 8 x 8: rows 4y to 4y + 3 and 16 further,
// columns 4x to 4x + 3 and 32 further, so that a warp's reads of shared memory are few and wide. Finished block sums go
// to `out` and are added up there: registers for a second set of sums would halve the threads that run at once.
template <class What, u32 HEIGHT, u32 WIDTH>
DEVICE void gemm(const u32* __restrict__ left, const u32* __restrict__ right, u32* out) {
    constexpr u32 THREADS = HEIGHT / 32u * (WIDTH / 64u) * 32u;
    constexpr u32 UP = (What::ROWS + HEIGHT - 1u) / HEIGHT, ACROSS = (What::COLUMNS + WIDTH - 1u) / WIDTH;
    constexpr u32 BLOCKS = What::SPLIT ? (What::TERMS + TERM_BLOCK - 1u) / TERM_BLOCK : 1u;
    using LeftLoader = Loader<typename What::Left, HEIGHT, What::ROWS, What::TERMS, THREADS, LEFT_PAD>;
    using RightLoader = Loader<typename What::Right, WIDTH, What::COLUMNS, What::TERMS, THREADS, RIGHT_PAD>;
    alignas(16) __shared__ u32 left_tile[2][DEPTH * LeftLoader::PITCH];
    alignas(16) __shared__ u32 right_tile[2][DEPTH * RightLoader::PITCH];

    u32 unit = blockIdx.x;
    const u32 first_column = unit % ACROSS * WIDTH;
    unit /= ACROSS;
    const u32 first_row = unit % UP * HEIGHT;
    unit /= UP;
    const u32 block = unit % BLOCKS, batch = unit / BLOCKS;
    const u32 start = What::SPLIT ? block * TERM_BLOCK : 0u;
    const u32 stop = What::SPLIT && start + TERM_BLOCK < What::TERMS ? start + TERM_BLOCK : What::TERMS;
    out += (long long)block * What::BATCHES * What::ROWS * What::COLUMNS + What::out_batch(batch);

    const u32 warp = threadIdx.x / 32u, lane = threadIdx.x % 32u;
    const u32 row = warp / (WIDTH / 64u) * 32u + lane / 8u * 4u, column = warp % (WIDTH / 64u) * 64u + lane % 8u * 4u;
    float sums[8][8] = {};
    LeftLoader l;
    RightLoader r;
    l.start(left + What::Left::batch(batch), first_row);
    r.start(right + What::Right::batch(batch), first_column);
    l.fetch(start);
    r.fetch(start);
    l.store(left_tile[0]);
    r.store(right_tile[0]);
    __syncthreads();
    for (u32 k = start, now = 0u; k < stop; k += DEPTH, now ^= 1u) {
        const bool is_last = k + DEPTH >= stop;
        if (!is_last) {
            l.fetch(k + DEPTH);
            r.fetch(k + DEPTH);
        }
#pragma unroll
        for (u32 d = 0u; d < DEPTH; ++d) {
            float a[8], b[8];
            read_four(left_tile[now] + d * LeftLoader::PITCH + row, a);
            read_four(left_tile[now] + d * LeftLoader::PITCH + row + 16u, a + 4);
            read_four(right_tile[now] + d * RightLoader::PITCH + column, b);
            read_four(right_tile[now] + d * RightLoader::PITCH + column + 32u, b + 4);
#pragma unroll
            for (u32 i = 0u; i < 8u; ++i)
#pragma unroll
                for (u32 j = 0u; j < 8u; ++j) sums[i][j] = __fmaf_rn(a[i], b[j], sums[i][j]);
        }
        if (!is_last) {
            l.store(left_tile[now ^ 1u]);
            r.store(right_tile[now ^ 1u]);
            __syncthreads();
        }
        if (is_last || (k + DEPTH) % TERM_BLOCK == 0u) {
            put_sums<What, HEIGHT>(out, first_row + row, first_column + column, sums, What::SPLIT || k < TERM_BLOCK);
        }
    }
}

// For what is too thin for tiles: one thread per output, or per output and block of terms where SPLIT.
template <class What>
DEVICE void dot_alone(const u32* __restrict__ left, const u32* __restrict__ right, u32* __restrict__ out) {
    constexpr u32 OUTPUTS = What::BATCHES * What::ROWS * What::COLUMNS;
    constexpr u32 BLOCKS = What::SPLIT ? (What::TERMS + TERM_BLOCK - 1u) / TERM_BLOCK : 1u;
    const u32 unit = blockIdx.x * blockDim.x + threadIdx.x, i = unit % OUTPUTS, block = unit / OUTPUTS;
    if (block >= BLOCKS) return;
    const u32 n = i % What::COLUMNS, m = i / What::COLUMNS % What::ROWS, b = i / What::COLUMNS / What::ROWS;
    left += What::Left::batch(b) + What::Left::line(m);
    right += What::Right::batch(b) + What::Right::line(n);
    u32 total = 0u;
    for (u32 start = block * TERM_BLOCK; start < What::TERMS; start += TERM_BLOCK) {
        const u32 stop = start + TERM_BLOCK < What::TERMS ? start + TERM_BLOCK : What::TERMS;
        u32 sum = 0u;
#pragma unroll 8
        for (u32 k = start; k < stop; ++k) sum = w_fma(left[What::Left::term(k)], right[What::Right::term(k)], sum);
        total = What::SPLIT || start == 0u ? sum : w_add(total, sum);
        if (What::SPLIT) break;
    }
    out[(long long)block * OUTPUTS + What::out_batch(b) + What::out_row(m) + What::out_column(n)] = total;
}

// The block sums of every output, added in order.
DEVICE void add_blocks(const u32* __restrict__ sums, u32* __restrict__ out, u32 outputs, u32 blocks) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= outputs) return;
    u32 total = sums[i];
    for (u32 block = 1u; block < blocks; ++block) total = w_add(total, sums[(long long)block * outputs + i]);
    out[i] = total;
}
