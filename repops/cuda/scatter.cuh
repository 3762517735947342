// scatter and scatter_add, after the base was copied to `out`. A generated `What` says: TERMS, ROWS, COLUMNS (elements of
// one row), STRIDE from row to row of `out`, column(c) where column c starts in `out`, index_column(c) and index_term(r),
// value_column(c) and value_term(r), join(carried, word). Nothing is atomic: each element has one writer.

// Where no column has indices of its own: links[r] is the next term of r's row (0: none), links[TERMS + r] whether r is
// the row's first.
template <class What>
DEVICE void link_terms(const u32* __restrict__ index, u32* __restrict__ links) {
    const u32 r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= What::TERMS) return;
    const u32* rows = index + What::index_column(0u);
    const u32 row = rows[What::index_term(r)];
    u32 next = 0u, is_first = row < What::ROWS;
    for (u32 k = 0u; k < r && is_first; ++k) is_first = rows[What::index_term(k)] != row;
    for (u32 k = r + 1u; k < What::TERMS && next == 0u; ++k) next = rows[What::index_term(k)] == row ? k : 0u;
    links[r] = next;
    links[What::TERMS + r] = is_first;
}

// One thread per first term of a row and column: it follows the row's terms in order.
template <class What>
DEVICE void follow_links(
    const u32* __restrict__ index, const u32* __restrict__ value, const u32* __restrict__ links, u32* __restrict__ out) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x, c = i % What::COLUMNS;
    u32 r = i / What::COLUMNS;
    if (r >= What::TERMS || !links[What::TERMS + r]) return;
    const u32 row = index[What::index_column(0u) + What::index_term(r)];
    u32* element = out + What::column(c) + (int)row * What::STRIDE;
    const u32* values = value + What::value_column(c);
    u32 carried = *element;
    do {
        carried = What::join(carried, values[What::value_term(r)]);
        r = links[r];
    } while (r);
    *element = carried;
}

// One thread per column walks all terms.
template <class What>
DEVICE void walk_column(const u32* __restrict__ index, const u32* __restrict__ value, u32* out) {
    const u32 c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= What::COLUMNS) return;
    for (u32 r = 0u; r < What::TERMS; ++r) {
        const u32 row = index[What::index_column(c) + What::index_term(r)];
        if (row >= What::ROWS) continue;
        u32* element = out + What::column(c) + (int)row * What::STRIDE;
        *element = What::join(*element, value[What::value_column(c) + What::value_term(r)]);
    }
}
