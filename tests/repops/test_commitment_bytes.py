"""Commitment bytes against an independent, slow reading of docs/protocol/, and against vectors made by hand."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repops import commitments
from repops.merkle import PADDING, merkle_proof, merkle_root
from zoo_compute.spec.merkle import climb


def h(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def slow_merkle(leaves: list[bytes]) -> bytes:
    """Recursive, over the padded list: shares nothing with the implementation."""
    size = 1
    while size < len(leaves):
        size *= 2
    padded = leaves + [bytes(32)] * (size - len(leaves))
    if size == 1:
        return padded[0]
    return h(b"\x01", slow_merkle(padded[: size // 2]), slow_merkle(padded[size // 2 :]))


def slow_tensor(code: int, shape: tuple[int, ...], data: bytes) -> bytes:
    leaves = [h(b"\x00", data[i : i + 512]) for i in range(0, len(data), 512)]
    dims = b"".join(dim.to_bytes(8, "little") for dim in shape)
    return h(b"\x02", bytes([code, len(shape)]), dims, slow_merkle(leaves))


def slow_state(roots: dict[str, bytes]) -> bytes:
    names = sorted(roots, key=lambda n: n.encode())
    return slow_merkle([h(b"\x03", struct.pack("<I", len(n.encode())), n.encode(), roots[n]) for n in names])


def leaves_of(count: int) -> list[bytes]:
    return [h(bytes([i])) for i in range(count)]


@pytest.mark.parametrize("count", [*range(0, 18), 31, 32, 33, 100])
def test_merkle_root__agrees_with_the_slow_oracle(count: int) -> None:
    assert merkle_root(leaves_of(count)) == slow_merkle(leaves_of(count))


def test_merkle_root__of_no_leaves__is_padding() -> None:
    assert merkle_root([]) == PADDING == bytes(32)


def test_merkle_root__leaf_of_another_length__is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        merkle_root([b"short"])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9, 17])
def test_proof__of_every_leaf__leads_to_the_root_from_its_place_alone(count: int) -> None:
    leaves = leaves_of(count)
    root = merkle_root(leaves)
    for index, leaf in enumerate(leaves):
        proof = tuple(merkle_proof(leaves, index))
        assert len(proof) == (count - 1).bit_length()
        assert [other for other in range(count) if climb(leaf, other, proof) == root] == [index]
    for beyond in (-1, count):
        with pytest.raises(IndexError):
            merkle_proof(leaves, beyond)


@settings(max_examples=60, deadline=None)
@given(
    dtype=st.sampled_from(["float32", "int32", "int64", "uint8", "bool"]),
    shape=st.lists(st.integers(0, 9), max_size=3).map(tuple) | st.tuples(st.integers(100, 700)),
    seed=st.integers(0, 2**32 - 1),
)
def test_tensor_root__agrees_with_the_slow_oracle(dtype: str, shape: tuple[int, ...], seed: int) -> None:
    code = {"float32": 0, "int32": 1, "int64": 2, "uint8": 3, "bool": 6}[dtype]
    array = (np.random.default_rng(seed).standard_normal(shape) * 100).astype(dtype)
    assert commitments.tensor_root(array) == slow_tensor(code, shape, array.tobytes())


def test_tensor_root__vector_made_by_hand() -> None:
    data = struct.pack("<129f", *range(129))
    leaves = h(b"\x00", data[:512]), h(b"\x00", data[512:])
    expected = h(b"\x02\x00\x01", (129).to_bytes(8, "little"), h(b"\x01", *leaves))
    assert commitments.tensor_root(np.arange(129, dtype=np.float32)) == expected
    assert expected.hex() == "4bdf92094fd50b652ed436b37986748f99363a283ecf019ff9d75d3e91ab635a"


def test_tensor_root__binds_shape_dtype_and_order() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    roots = {
        commitments.tensor_root(x)
        for x in (array, array.reshape(4, 3), array.reshape(12), array.T.copy(), array.astype(np.int32), array + 1)
    }
    assert len(roots) == 6
    assert commitments.tensor_root(np.asfortranarray(array)) == commitments.tensor_root(array)
    assert commitments.tensor_root(array.astype(">f4")) == commitments.tensor_root(array)


def test_tensor_root__every_nan__is_the_canonical_one() -> None:
    odd = np.array([0x7FC00001, 0xFFC00000, 0x7F800001], dtype=np.uint32).view(np.float32)
    canonical = np.full(3, 0x7FC00000, dtype=np.uint32)
    assert commitments.tensor_root(odd) == slow_tensor(0, (3,), canonical.tobytes())
    assert odd.view(np.uint32)[0] == 0x7FC00001, "the caller's array was changed"


def test_tensor_root__negative_zero__differs_from_zero() -> None:
    assert commitments.tensor_root(np.float32([-0.0])) != commitments.tensor_root(np.float32([0.0]))


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint16", "complex64"])
def test_tensor_root__dtype_without_a_code__is_refused(dtype: str) -> None:
    with pytest.raises(TypeError, match=dtype):
        commitments.tensor_root(np.zeros(2, dtype=dtype))


def test_state_root__sorts_by_utf8_and_agrees_with_the_slow_oracle() -> None:
    # UTF-16 order would put the astral name before the other; UTF-8 order is code point order.
    names = ["b", "a", "a/b", "é", "\uff5e", "\U0001f600", "B"]
    state = {name: np.full(3, i, dtype=np.float32) for i, name in enumerate(names)}
    roots = {name: slow_tensor(0, (3,), array.tobytes()) for name, array in state.items()}
    assert commitments.state_root(state) == slow_state(roots)
    assert commitments.state_root(dict(reversed(state.items()))) == slow_state(roots)
    assert commitments.state_root({}) == PADDING


def test_state_root__any_single_bit__changes_it() -> None:
    state = {"w": np.zeros(300, dtype=np.float32), "step": np.array(3, dtype=np.int64)}
    before = commitments.state_root(state)
    state["w"].view(np.uint32)[299] ^= 1
    assert commitments.state_root(state) != before


def test_segment_and_result_roots__agree_with_their_definitions() -> None:
    a, b, c, d = leaves_of(4)
    steps = [(0, a), (4, b), (6, c)]
    expected = slow_merkle([h(b"\x04", struct.pack("<I", step), root) for step, root in steps])
    assert commitments.segment_root(steps) == expected
    result = h(b"\x04", b"result", struct.pack("<I", 5), a, b, c, d)
    assert commitments.result_root(5, a, b, c, d) == result
    assert commitments.round_root({9: a, 2: b}) == h(b"\x01", b, a)
    with pytest.raises(ValueError, match="ascend"):
        commitments.segment_root([(4, a), (0, b)])
    with pytest.raises(ValueError, match="32 bytes"):
        commitments.result_root(0, a, b, c, d[:31])
