"""The native hashes against hashlib and a Merkle tree written here from docs/protocol/commitment-bytes.md."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest

from repops import native
from repops.native import build, hashing

build.build()
ISAS = native.available()
SIZES = (
    0,
    1,
    511,
    512,
    513,
    1024,
    1025,
    16 * 512,
    17 * 512 - 1,
    18 * 512 + 5,
    1024 * 512,
    1024 * 512 + 1,
    3000 * 512 + 77,
)


def tree_leaves(data: bytes) -> list[bytes]:
    return [hashlib.sha256(b"\0" + data[at : at + 512]).digest() for at in range(0, len(data), 512)]


def tree_root(leaves: list[bytes]) -> bytes:
    """Padded with 32 zero bytes to a power of two, as the protocol says, and nothing cleverer."""
    level = list(leaves) or [bytes(32)]
    while len(level) & (len(level) - 1):
        level.append(bytes(32))
    while len(level) > 1:
        level = [hashlib.sha256(b"\1" + level[i] + level[i + 1]).digest() for i in range(0, len(level), 2)]
    return level[0]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("size", SIZES)
def test_leaves_and_root__any_size__are_hashlibs(isa: str, size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    leaves = tree_leaves(data)
    for threads in (1, 2, 3):
        got = hashing.leaf_hashes(data, canonical_nan=False, threads=threads, isa=isa)
        assert got.tobytes() == b"".join(leaves)
        root = hashing.merkle_root(data, canonical_nan=False, threads=threads, isa=isa)
        assert root == tree_root(leaves)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("count", [1, 127, 128, 129, 16 * 128, 40 * 128 + 3])
def test_root__with_nans__hashes_them_as_the_canonical_one(isa: str, count: int) -> None:
    values = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    words = values.view(np.uint32)
    words[:: 7 if count > 200 else 1] = 0xFFC00001
    words[-1] = 0x7F800001  # signalling
    if count > 2:
        words[1], words[2] = 0x7F800000, 0xFF800000  # infinities stay
    before = values.tobytes()
    clean = words.copy()
    clean[np.isnan(values)] = 0x7FC00000
    leaves = tree_leaves(clean.tobytes())
    assert hashing.merkle_root(values, canonical_nan=True, isa=isa) == tree_root(leaves)
    assert hashing.leaf_hashes(values, canonical_nan=True, isa=isa).tobytes() == b"".join(leaves)
    assert values.tobytes() == before, "the data themselves are not touched"
    assert hashing.merkle_root(values, canonical_nan=False, isa=isa) == tree_root(tree_leaves(before))


def test_root__of_unaligned_and_strided_data__is_that_of_its_bytes() -> None:
    data = np.frombuffer(os.urandom(64 * 512 + 3), dtype=np.uint8)
    for offset in (1, 3):
        part = data[offset : offset + 40 * 512 + 9]
        expected = hashing.merkle_root(part.tobytes(), canonical_nan=False)
        assert hashing.merkle_root(part, canonical_nan=False) == expected
    table = np.arange(6000, dtype=np.float32).reshape(60, 100)
    assert hashing.merkle_root(table.T, canonical_nan=True) == tree_root(tree_leaves(table.T.tobytes()))


def test_nan_rule__on_what_is_not_float32__is_refused() -> None:
    with pytest.raises(TypeError, match="float32"):
        hashing.merkle_root(np.zeros(4, dtype=np.int32), canonical_nan=True)
    with pytest.raises(ValueError, match="whole float32"):
        hashing.merkle_root(b"abc", canonical_nan=True)


def test_load__an_instruction_set_that_is_not_there__is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"expected one of .*portable"):
        native.load("sparc")
    monkeypatch.setenv("REPOPS_ISA", "vax")
    with pytest.raises(ValueError, match="vax"):
        native.load()
    monkeypatch.setenv("REPOPS_ISA", "portable")
    assert native.load() is native.load("portable")
