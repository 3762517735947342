"""modules/merkle against `repops.commitments`, which nodes commit with."""

from __future__ import annotations

import numpy as np
import pytest

from repops import commitments
from repops.chunks import GROUP, chunk_of
from repops.commitments import LEAF_BYTES
from repops.merkle import PADDING, merkle_proof, merkle_root, sha256
from tests.support.evm import Reverted
from tests.support.openings import SlotRound
from tests.support.protocol_driver import load


@pytest.fixture(scope="module")
def merkle():
    return load("mocks/MerkleDouble").deploy()


def leaves_of(count):
    return [sha256(bytes([number])) for number in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 9, 16, 33])
def test_climb__every_leaf_of_a_tree__leads_to_its_root(merkle, count):
    leaves = leaves_of(count)
    for index in range(count):
        assert merkle.climb(leaves[index], index, merkle_proof(leaves, index)) == merkle_root(leaves)


def test_climb__another_place_leaf_or_sibling__leads_elsewhere(merkle):
    leaves = leaves_of(6)
    root, path = merkle_root(leaves), merkle_proof(leaves, 2)
    assert merkle.climb(leaves[2], 3, path) != root
    assert merkle.climb(leaves[3], 2, path) != root
    for level in range(len(path)):
        wrong = [*path[:level], sha256(path[level]), *path[level + 1 :]]
        assert merkle.climb(leaves[2], 2, wrong) != root
    assert merkle.climb(leaves[2], 2, path[:-1]) != root


def test_climb__an_index_beyond_the_tree__counts_modulo_its_width(merkle):
    leaves = leaves_of(6)
    assert merkle.climb(leaves[2], 2 + 8 * 5, merkle_proof(leaves, 2)) == merkle_root(leaves)


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 1024, 1025, 2048, 2049, 2560, 4000, 4095, 4096])
def test_group_root__a_tensor_of_one_group__is_its_tree(merkle, size):
    array = np.arange(size, dtype=np.uint8)
    assert merkle.group_root(array.tobytes(), False) == merkle_root(commitments.tensor_leaves(array))


@pytest.mark.parametrize("size", [0, 1, 512, 1025, 2049, 4096])
def test_group_root__below_a_larger_tree__is_padded_to_eight_leaves(merkle, size):
    array = np.arange(size, dtype=np.uint8)
    leaves = commitments.tensor_leaves(array)
    assert merkle.group_root(array.tobytes(), True) == merkle_root([*leaves, *[PADDING] * (GROUP - len(leaves))])


def test_group_root__no_tree_and_no_bytes__is_padding(merkle):
    assert merkle.group_root(b"", False) == PADDING


def test_leaf__its_tag_keeps_it_apart_from_a_node(merkle):
    data = bytes(range(64))
    assert merkle.leaf(data) == sha256(b"\x00" + data)
    assert merkle.leaf(data) != merkle.climb(data[:32], 0, [data[32:]])
    assert merkle.leaf(b"\x05" * LEAF_BYTES) == sha256(b"\x00" + b"\x05" * LEAF_BYTES)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (128, 8), (5, 1024), (7, 3, 300), (2, 1, 1, 1, 1, 1, 1, 9)])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_tensor_and_state__any_chunk__leads_to_the_state_root(merkle, shape, dtype):
    array = np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)
    state = {"a": array, "b.weight": np.ones(3, np.float32), "\N{GREEK SMALL LETTER PHI}" * 128: array}
    assert merkle.tensor_root(chunk_of(state, 0, 0).head, merkle_root(commitments.tensor_leaves(array))) == (
        commitments.tensor_root(array)
    )
    for tensor in range(3):
        for group in (0, 1, 2, 9):
            part = chunk_of(state, tensor, group)
            below = len(part.tensor_path) > 0
            elements = merkle.climb(merkle.group_root(part.chunk, below), group, part.tensor_path)
            leaf = merkle.state_leaf(part.name, merkle.tensor_root(part.head, elements))
            assert merkle.climb(leaf, tensor, part.state_path) == commitments.state_root(state)
    empty = chunk_of(state, 3, 0)
    assert merkle.climb(PADDING, 3, empty.state_path) == commitments.state_root(state)


def test_lists__segments_and_results__are_those_of_the_commitments(merkle):
    assert merkle.segment_leaf(0x01020304, b"\x07" * 32) == commitments.segment_leaf(0x01020304, b"\x07" * 32)
    result = SlotRound(0x0A0B, b"\x01" * 32, ((0, b"\x01" * 32), (5, b"\x02" * 32)), {"w": np.zeros(2, np.float32)})
    parts = (result.start_root, result.segment_root, result.end_root, result.update_root)
    assert merkle.result_root(0x0A0B, *parts) == result.root
    assert merkle.result_root(0x0A0C, *parts) != result.root


def test_numbers__beyond_four_bytes__revert(merkle):
    merkle.segment_leaf(2**32 - 1, bytes(32))
    with pytest.raises(Reverted):
        merkle.segment_leaf(2**32, bytes(32))
