// SHA-256 of many messages at once, and the Merkle tree of docs/protocol/commitment-bytes.md.
#pragma once
#include <cstdint>

#include "threads.h"

// out[i] (32 bytes each, ceil(bytes / leaf_bytes) of them) = SHA256(tag || leaf i); the last leaf may be short.
// With canonical_nan the data are little-endian float32 values and every NaN among them is hashed as 0x7fc00000
// (leaf_bytes must then be a multiple of 4).
REPOPS_EXPORT void repops_sha256_leaves(const uint8_t* data, uint64_t bytes, uint32_t leaf_bytes, uint8_t tag, uint8_t* out,
                          int canonical_nan, int threads);

// out[t] (32 bytes) = root over the leaves of tensor t (leaf tag 0, node tag 1), padded with 32 zero bytes to a power of
// two; 32 zero bytes for no data. canonical_nan: one flag a tensor. Scratch: about 64 KiB a thread, and 32 bytes for each
// 1,024 leaves.
REPOPS_EXPORT void repops_merkle_roots(const uint8_t* const* data, const uint64_t* bytes, const uint8_t* canonical_nan,
                         uint64_t count, uint32_t leaf_bytes, uint8_t* out, int threads);
