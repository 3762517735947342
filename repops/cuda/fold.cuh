// Reductions of one operand. A generated `What` says: OUTPUTS, TERMS, START, place(i) where output i's first term lies,
// term(k) how far from there its k-th, join(carried, word); BATCH: how many loads of a chain are under way together, so
// that a long one waits for its additions rather than for memory.

// One thread per output, its terms in order.
template <class What>
DEVICE void fold_in_order(const u32* __restrict__ from, u32* __restrict__ to) {
    constexpr u32 BATCH = What::BATCH;
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= What::OUTPUTS) return;
    const u32* first = from + What::place(i);
    u32 carried = What::START, k = 0u;
    for (; k + BATCH <= What::TERMS; k += BATCH) {
        u32 words[BATCH];
#pragma unroll
        for (u32 j = 0u; j < BATCH; ++j) words[j] = first[What::term(k + j)];
#pragma unroll
        for (u32 j = 0u; j < BATCH; ++j) carried = What::join(carried, words[j]);
    }
    for (; k < What::TERMS; ++k) carried = What::join(carried, first[What::term(k)]);
    to[i] = carried;
}

// One warp per output: lane l joins terms l, l + 32, ... in order, then lanes h to 2h - 1 join 0 to h - 1.
// That is the definition of `sum`; for maxima and integers any order gives the same bits.
template <class What>
DEVICE void fold_in_lanes(const u32* __restrict__ from, u32* __restrict__ to) {
    constexpr u32 BATCH = What::BATCH;
    const u32 i = blockIdx.x * (blockDim.x / 32u) + threadIdx.x / 32u, lane = threadIdx.x % 32u;
    if (i >= What::OUTPUTS) return;  // whole warps leave
    const u32* first = from + What::place(i);
    u32 carried = What::START, k = lane;
    for (; k + 32u * (BATCH - 1u) < What::TERMS; k += 32u * BATCH) {
        u32 words[BATCH];
#pragma unroll
        for (u32 j = 0u; j < BATCH; ++j) words[j] = first[What::term(k + 32u * j)];
#pragma unroll
        for (u32 j = 0u; j < BATCH; ++j) carried = What::join(carried, words[j]);
    }
    for (; k < What::TERMS; k += 32u) carried = What::join(carried, first[What::term(k)]);
#pragma unroll
    for (u32 half = 16u; half > 0u; half /= 2u) carried = What::join(carried, __shfl_down_sync(~0u, carried, half));
    if (lane == 0u) to[i] = carried;
}
