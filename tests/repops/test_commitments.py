"""Native hashing against hashlib, trace roots, and hashing only what may have changed."""

from __future__ import annotations

import hashlib
import math
import struct

import numpy as np
import pytest

from repops import commitments, native, reference
from repops.commitments import Array, state_root, tensor_root, tensor_roots, trace_leaf, trace_root
from repops.hashing import StateHasher
from tests.support.programs.samples import regression


def h(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def random_array(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Any words at all: of float32, about one in 256 is a NaN."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 256, size, dtype=np.uint8)
    return raw.view(dtype).reshape(shape)


@pytest.fixture
def python_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commitments, "_native", lambda: None)


def needs_native() -> None:
    try:
        native.load()
    except native.NoNativeLibrary as error:
        pytest.skip(str(error))


SIZES = [0, 1, 127, 128, 129, 1023, 1024, 1025, 4096, 5000, 128 * 127 + 1, 128 * 128, 70_001]


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_tensor_root__native__is_what_python_makes(dtype: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_native()
    assert commitments._native() is not None
    arrays = [random_array(dtype, (size,), size) for size in SIZES]
    roots = [tensor_root(array, threads=threads) for array in arrays]
    monkeypatch.setattr(commitments, "_native", lambda: None)
    assert roots == [tensor_root(array) for array in arrays]


def test_tensor_root__native__of_strided_reversed_and_big_endian_arrays__is_that_of_their_values() -> None:
    array = random_array("float32", (300, 50))
    others = [np.asfortranarray(array), array[::-1][::-1], np.concatenate([array, array])[:300], array.astype(">f4")]
    assert {tensor_root(other, threads=2) for other in others} == {tensor_root(array)}
    assert tensor_root(array.T) != tensor_root(array)


def test_tensor_root__leaves_the_callers_array_alone() -> None:
    array = random_array("float32", (5000,))
    assert np.isnan(array).any()
    before = array.tobytes()
    tensor_root(array, threads=2)
    assert array.tobytes() == before


def test_tensor_roots__large_and_small__are_each_their_own() -> None:
    arrays = {f"t{size}": random_array("float32", (size,), size) for size in SIZES}
    for threads in (1, 2, 4):
        assert tensor_roots(arrays, threads=threads) == {name: tensor_root(array) for name, array in arrays.items()}
        assert state_root(arrays, threads=threads) == state_root(arrays)


# --- nodes of a step


def test_trace_root__is_a_tree_over_numbered_tensor_roots() -> None:
    roots = [h(bytes([at])) for at in range(3)]
    leaves = [h(b"\x08", struct.pack("<I", at), root) for at, root in enumerate(roots)]
    assert trace_root(roots) == h(b"\x01", h(b"\x01", leaves[0], leaves[1]), h(b"\x01", leaves[2], bytes(32)))
    assert trace_root(roots) != trace_root(roots[::-1])
    assert [trace_leaf(at, root) for at, root in enumerate(roots)] == leaves


def test_trace_root__of_one_node__is_not_its_tensor_root() -> None:
    root = tensor_root(np.zeros(3, np.float32))
    assert trace_root([root]) != root


# --- what has not changed


class Counting:
    """Counts how often each tensor is hashed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        real = commitments.tensor_root_of

        def counted(dtype: int, shape: tuple[int, ...], elements: bytes) -> bytes:
            self.sizes.append(math.prod(shape))
            return real(dtype, shape, elements)

        monkeypatch.setattr(commitments, "tensor_root_of", counted)


def test_state_hasher__over_steps__hashes_what_changes_each_time_and_the_rest_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = reference.prepare(regression())
    hasher, counting = StateHasher(runner.graph), Counting(monkeypatch)
    runner.state["mask"][...] = [1, 0, 1]
    batch = {"x": np.ones((5, 4), np.float32)}
    for step in range(3):
        assert hasher.root(runner.state) == state_root({name: array.copy() for name, array in runner.state.items()})
        ours = counting.sizes[: -len(runner.state)]
        assert sorted(ours) == ([3, 12, 12] if step == 0 else [12, 12])
        counting.sizes.clear()
        runner.state["weight"] += 1
        runner.step(batch)


def test_state_hasher__writing_into_what_it_remembers__fails_loudly() -> None:
    runner = reference.prepare(regression())
    hasher = StateHasher(runner.graph)
    first = hasher.root(runner.state)
    with pytest.raises(ValueError, match="read-only"):
        runner.state["mask"][0] = 7
    hasher.release()
    runner.state["mask"][0] = 7
    assert hasher.root(runner.state) == state_root(runner.state) != first


def test_state_hasher__another_array_under_the_name__is_hashed() -> None:
    runner = reference.prepare(regression())
    hasher = StateHasher(runner.graph)
    first = hasher.root(runner.state)
    runner.state["mask"] = np.array([1, 2, 3], np.int32)
    assert hasher.root(runner.state) == state_root(runner.state) != first


def test_state_hasher__an_array_made_writable_behind_its_back__is_hashed_again() -> None:
    runner = reference.prepare(regression())
    hasher = StateHasher(runner.graph)
    first = hasher.root(runner.state)
    runner.state["mask"].flags.writeable = True
    runner.state["mask"][0] = 9
    assert hasher.root(runner.state) == state_root(runner.state) != first


def test_state_hasher__a_read_only_view_of_writable_memory__is_not_remembered() -> None:
    runner = reference.prepare(regression())
    hasher, memory = StateHasher(runner.graph), np.zeros(3, np.int32)
    view = memory[:]
    view.flags.writeable = False
    runner.state["mask"] = view
    first = hasher.root(runner.state)
    memory[0] = 5
    assert hasher.root(runner.state) == state_root(runner.state) != first
