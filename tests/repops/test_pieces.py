"""Pieces of a state's tensors: rows, proofs and roots are those of the whole tensor; false bytes are refused where they are read."""

from __future__ import annotations

import numpy as np
import pytest

from repops.commitments import state_root
from repops.files import FileRefused, state_bytes
from repops.pieces import PIECE_BYTES, ROOT_BYTES, PiecedState, piece_roots
from zoo_compute.disputes.evidence import WholeTensor

HEADER = 1 << 16
RNG = np.random.default_rng(0)
ROWS = {  # of 1 KiB: less than a piece, one, a few, and more than a power of two
    "small": RNG.integers(0, 9, (3, 256), dtype=np.int32),
    "whole": RNG.integers(0, 9, (1024, 256), dtype=np.int32),
    "wide": RNG.standard_normal((700, 1000), dtype=np.float32),
    "cut": RNG.integers(0, 9, (4 * 1024 + 5, 257), dtype=np.int32),
    "single": RNG.integers(0, 9, (1 << 19, 1), dtype=np.int32),
}


class File:
    """Reads of a file, which are counted."""

    def __init__(self, data: bytes) -> None:
        self.data, self.reads = bytearray(data), list[tuple[int, int]]()

    def read(self, start: int, end: int) -> bytes:
        self.reads.append((start, end))
        return bytes(self.data[start:end])


def pieced(state: dict[str, np.ndarray]) -> tuple[PiecedState, File]:
    file = File(state_bytes(state))
    return PiecedState(file.read, piece_roots(state), header_bytes=HEADER), file


@pytest.mark.parametrize("name", ROWS)
def test_roots_rows_and_proofs_are_the_whole_tensors(name: str) -> None:
    array = ROWS[name]
    state, _ = pieced({name: array})
    rows, whole = state[name], WholeTensor.of(array)
    assert state.root == state_root({name: array})
    assert (rows.shape, rows.dtype, rows.ndim, len(rows)) == (array.shape, array.dtype, array.ndim, len(array))
    index = RNG.integers(0, len(array), 40)
    assert (rows[index] == array[index]).all()
    assert (rows[len(array) - 1] == array[-1]).all()
    assert rows[index].dtype == array.dtype
    assert rows[index].flags.writeable
    assert (rows.head, rows.height) == (whole.head, whole.height)
    for number in {0, 1, int(index[0]), (len(whole.data) - 1) // 512}:
        assert rows.leaf(number) == whole.leaf(number)
        for level in range(whole.height):
            for at in (number >> level, (number >> level) ^ 1):
                assert rows.node(level, at) == whole.node(level, at)


def test_a_state_of_several_tensors_and_one_without_rows() -> None:
    state = {**ROWS, "none": np.zeros((0, 4), np.float32)}
    found, file = pieced(state)
    assert found.root == state_root(state)
    assert list(found) == sorted(state)
    assert found.file_bytes == len(file.data)
    assert all((found[name].whole() == array).all() for name, array in state.items())
    assert all((found[name][np.arange(len(array))] == array).all() for name, array in state.items())


def test_only_the_pieces_of_the_rows_are_read_and_once() -> None:
    found, file = pieced({"cut": ROWS["cut"]})
    file.reads.clear()
    found["cut"][np.arange(2 * 1024, 2 * 1024 + 3)]
    found["cut"][np.arange(2 * 1024 + 3, 2 * 1024 + 9)]
    assert [end - start for start, end in file.reads] == [PIECE_BYTES]
    found["cut"].check(0, len(ROWS["cut"]))
    assert sum(end - start for start, end in file.reads) == PIECE_BYTES + ROWS["cut"].nbytes


def test_false_bytes_are_refused_where_they_are_read() -> None:
    found, file = pieced({"cut": ROWS["cut"]})
    file.data[-1] ^= 1
    found["cut"][0]
    with pytest.raises(FileRefused, match=r"bytes 4,194,304 to .* are not those of its root"):
        found["cut"][len(found["cut"]) - 1]
    with pytest.raises(FileRefused, match="not those of its root"):
        found["cut"].check(0, len(found["cut"]))


def test_a_nan_that_is_not_canonical_is_refused() -> None:
    state = {"x": np.full((2, 2), np.nan, np.float32)}
    found, file = pieced(state)
    assert np.isnan(found["x"][0]).all()
    file.data[-4:] = b"\x01\x00\xc0\x7f"
    fresh = PiecedState(file.read, piece_roots(state), header_bytes=HEADER)
    with pytest.raises(FileRefused, match="not those of its root"):
        fresh["x"][0]


@pytest.mark.parametrize("change", [-ROOT_BYTES, -1, 1, ROOT_BYTES])
def test_too_few_and_too_many_roots_are_refused(change: int) -> None:
    state = {"cut": ROWS["cut"], "wide": ROWS["wide"]}
    roots = piece_roots(state)
    roots = roots[:change] if change < 0 else roots + bytes(change)
    with pytest.raises(FileRefused, match="are not those of this file's tensors"):
        PiecedState(File(state_bytes(state)).read, roots, header_bytes=HEADER)


def test_rows_that_are_not_there() -> None:
    found, _ = pieced({"small": ROWS["small"]})
    for row in (-1, 3):
        with pytest.raises(IndexError, match=f"row {row} of 3"):
            found["small"][row]
