"""Text to examples: nothing lost, nothing twice, the same every time; too little is refused, repetition is told."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from zoo_compute.data import RepeatedData, prepare_text, read_text

TEXT = bytes(range(250)) * 40  # 10,000 bytes: 1,000 windows of 10


def test_prepare__cuts_shuffles_and_holds_out__every_window_once() -> None:
    data = prepare_text(TEXT, 9, seed=3, heldout=100)
    assert data.examples.shape == (900, 10)
    assert data.heldout.shape == (100, 10)
    assert data.examples.dtype == np.uint8
    windows = sorted(TEXT[i : i + 10] for i in range(0, 10_000, 10))
    assert sorted(row.tobytes() for part in data for row in part) == windows
    assert [row.tobytes() for row in data.examples] != [row.tobytes() for row in np.sort(data.examples, axis=0)]


def test_prepare__depends_on_text_and_seed_alone() -> None:
    one, same, other = (prepare_text(TEXT, 9, seed=seed, heldout=10) for seed in (1, 1, 2))
    assert np.array_equal(one.examples, same.examples)
    assert not np.array_equal(one.examples, other.examples)


def test_prepare__more_text_than_wanted__draws_from_all_of_it() -> None:
    data = prepare_text(b"a" * 5000 + b"b" * 5000, 9, seed=0, wanted=50, heldout=10)
    assert data.examples.shape == (50, 10)
    assert {row.tobytes()[:1] for row in data.examples} == {b"a", b"b"}


def test_prepare__less_than_one_round__is_refused_with_the_figures() -> None:
    with pytest.raises(
        ValueError, match=r"10,000 bytes make 900 examples .* one round needs 901.*at least 10,010 bytes"
    ):
        prepare_text(TEXT, 9, seed=0, minimum=901, heldout=100)
    with pytest.raises(ValueError, match="too little text: 0 bytes"):
        prepare_text(b"", 9, seed=0)


def test_prepare__one_round_but_not_the_run__warns_of_repetition() -> None:
    with pytest.warns(RepeatedData, match=r"900 examples, the run uses 1,800.*2\.0 times"):
        prepare_text(TEXT, 9, seed=0, wanted=1800, minimum=900, heldout=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prepare_text(TEXT, 9, seed=0, wanted=900, minimum=900, heldout=100)


def test_read_text__walks_text_files_in_order_and_skips_packages(tmp_path: Path) -> None:
    for name in ("b.py", "a/x.txt", "site-packages/p.py", ".git/h.py", "image.png", "a/site-packages/q.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert read_text(tmp_path) == b"a/x.txt\nb.py"
    assert read_text([tmp_path / "image.png", tmp_path / "b.py"]) == b"image.png\nb.py"


def test_read_text__nothing_there__is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no text found"):
        read_text(tmp_path)
    with pytest.raises(ValueError, match="no such file or directory"):
        read_text(tmp_path / "absent")
