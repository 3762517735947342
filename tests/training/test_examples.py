"""Text to examples: nothing lost, nothing twice, the same every time; too little is refused, repetition is told."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from repops.builder import Builder
from repops.files import save_state
from repops.graph import BATCH_ROLE, I32
from zoo_compute.training.examples import RepeatedData, batch_of, prepare_arrays, prepare_text, read_arrays, read_text
from zoo_compute.training.shapes import batch_mismatch

TEXT = bytes(range(250)) * 40  # 10,000 bytes: 1,000 windows of 10


def test_prepare__cuts_shuffles_and_holds_out__every_window_once() -> None:
    data = prepare_text(TEXT, 9, seed=3, heldout=100)
    assert data.examples["tokens"].shape == (900, 10)
    assert data.heldout["tokens"].shape == (100, 10)
    assert data.examples["tokens"].dtype == np.int32
    windows = sorted(TEXT[i : i + 10] for i in range(0, 10_000, 10))
    rows = [row.astype(np.uint8).tobytes() for part in data for row in part["tokens"]]
    assert sorted(rows) == windows
    assert rows != windows


def test_prepare__depends_on_text_and_seed_alone() -> None:
    one, same, other = (prepare_text(TEXT, 9, seed=seed, heldout=10) for seed in (1, 1, 2))
    assert np.array_equal(one.examples["tokens"], same.examples["tokens"])
    assert not np.array_equal(one.examples["tokens"], other.examples["tokens"])


def test_prepare__more_text_than_wanted__draws_from_all_of_it() -> None:
    data = prepare_text(b"a" * 5000 + b"b" * 5000, 9, seed=0, wanted=50, heldout=10)
    assert data.examples["tokens"].shape == (50, 10)
    assert {chr(row[0]) for row in data.examples["tokens"]} == {"a", "b"}


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


IMAGES = {"inputs": np.arange(40, dtype=np.float32).reshape(10, 2, 2), "targets": np.arange(10)}


def test_prepare_arrays__keeps_inputs_and_targets_together_and_makes_words() -> None:
    data = prepare_arrays(IMAGES, seed=1, heldout=3)
    assert (data.examples["inputs"].shape, data.heldout["inputs"].shape) == ((7, 2, 2), (3, 2, 2))
    assert data.examples["targets"].dtype == np.int32
    together = [part[name] for name in ("inputs", "targets") for part in data]
    assert sorted(np.concatenate(together[2:]).tolist()) == list(range(10))
    for part in data:
        assert np.array_equal(part["inputs"][:, 0, 0], 4.0 * part["targets"])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((9, 2), np.float32)}, "expected the arrays `inputs` and `targets`, or `tokens`, got 'x'"),
        ({**IMAGES, "tokens": np.zeros((10, 2), np.int32)}, "expected the arrays"),
        ({**IMAGES, "targets": np.arange(9)}, "the first axis counts the examples, and differs"),
        ({**IMAGES, "inputs": np.zeros((10, 2))}, "inputs: expected float32 or integers, got float64"),
        ({**IMAGES, "targets": np.full(10, 2**31)}, "targets: contains an integer beyond 32 bits"),
    ],
)
def test_prepare_arrays__what_is_no_data__is_refused(arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepare_arrays(arrays, seed=0, heldout=1)


def test_prepare_arrays__too_few__are_refused_and_a_short_run_warns() -> None:
    with pytest.raises(ValueError, match=r"10 examples, of which 4 are held out; one round needs 7"):
        prepare_arrays(IMAGES, seed=0, minimum=7, heldout=4)
    with pytest.warns(RepeatedData, match=r"there are 6 examples, the run uses 12"):
        prepare_arrays(IMAGES, seed=0, wanted=12, heldout=4)


def test_batch_of__tokens__are_inputs_and_their_successors() -> None:
    tokens = np.arange(12, dtype=np.int32).reshape(3, 4)
    batch = batch_of({"tokens": tokens}, np.array([2, 0]))
    assert batch["inputs"].tolist() == [[8, 9, 10], [0, 1, 2]]
    assert batch["targets"].tolist() == [[9, 10, 11], [1, 2, 3]]
    rows = batch_of(prepare_arrays(IMAGES, 0, heldout=1).examples, np.array([1]))
    assert {name: array.shape for name, array in rows.items()} == {"inputs": (1, 2, 2), "targets": (1,)}


def test_read_arrays__npz_and_safetensors__and_nothing_else(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **IMAGES)
    save_state(tmp_path / "a.safetensors", {name: np.asarray(array) for name, array in IMAGES.items()})
    for name in ("a.npz", "a.safetensors"):
        assert {key: array.tolist() for key, array in read_arrays(tmp_path / name).items()} == {
            key: array.tolist() for key, array in IMAGES.items()
        }
    np.savez(tmp_path / "b.npz", inputs=np.array([{}], dtype=object))
    (tmp_path / "c.npz").write_bytes(b"no archive")
    for name, message in {"b.npz": "cannot be read", "c.npz": "cannot be read", "d.npz": "no such file"}.items():
        with pytest.raises(ValueError, match=message):
            read_arrays(tmp_path / name)


def test_tokens_of_more_than_two_axes__are_no_examples():
    """What evidence opens as a row of tokens has one axis: a lie about others could not be shown."""
    b = Builder()
    inputs, targets = (b.input(I32, (2, 3, 2), BATCH_ROLE, at) for at in range(2))
    loss = b.sum(b.map("to_float", b.map("isub", inputs, targets)), [0, 1, 2])
    graph = b.finish([], [("inputs", inputs), ("targets", targets)], loss)
    assert "are not examples" in batch_mismatch({"tokens": np.zeros((5, 4, 2), np.int32)}, graph, 2, 1)
    assert not batch_mismatch({name: np.zeros((5, 3, 2), np.int32) for name in ("inputs", "targets")}, graph, 2, 1)


def test_prepare__examples_that_earlier_runs_used_come_last__beside_the_same_held_out_ones() -> None:
    def rows(**sizes: int) -> list[bytes]:
        return [row.tobytes() for row in prepare_text(TEXT, 9, seed=0, heldout=100, **sizes).examples["tokens"]]

    everything = rows()
    assert rows(wanted=60, skip=40) == everything[40:100]
    assert rows(skip=40) == everything[40:] + everything[:40]
    assert rows(wanted=60, skip=40 + len(everything)) == everything[40:100], "all were used once"
    one, other = (prepare_text(TEXT, 9, seed=0, heldout=100, skip=skip).heldout["tokens"] for skip in (0, 40))
    assert np.array_equal(one, other)
