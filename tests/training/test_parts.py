"""How tensors are cut for an aggregation: every element is in one part, and no part is larger than the job says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zoo_compute.training.parts import parts_of


@pytest.mark.parametrize("shape", [(), (1,), (150,), (32, 5), (7, 3, 5), (2, 1000), (0,), (0, 3), (3, 0)])
@pytest.mark.parametrize("size", [64, 100, 2**28])
def test_parts__are_all_elements_once_in_order(shape: tuple[int, ...], size: int) -> None:
    slots, tensor = 4, np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    parts = parts_of("w", shape, slots, size)
    pieces = [part.of(tensor) for part in parts]
    assert np.concatenate([piece.reshape(-1) for piece in pieces]).tolist() == tensor.reshape(-1).tolist()
    assert [piece.shape for piece in pieces] == [part.shape(shape) for part in parts]
    assert [part.first for part, piece in zip(parts, pieces, strict=True) if part.rows and piece.size] == [
        int(piece.flat[0]) for piece in pieces if piece.ndim and piece.size
    ]
    for part, piece in zip(parts, pieces, strict=True):
        assert piece.size * slots <= size or part.stop - part.start == 1, "one row is the least"


def test_the_name_of_a_part__begins_with_its_first_element_in_ten_digits() -> None:
    names = [part.batch_name for part in parts_of("block/w", (32, 5), 4, 100)]
    assert names[:2] == ["updates/0000000000/block/w", "updates/0000000025/block/w"]
    assert len(names) == 7
