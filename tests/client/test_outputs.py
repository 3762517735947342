"""The outputs of a map: checked against its claims, in the items' order, and not fetched twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from repops.files import load_state
from tests.support.generation_job import job as generating
from tests.support.map_job import ITEMS, SLOTS, publish, wanted
from tests.support.small_job import SmallJob
from zoo_compute.client.branches import load_branch
from zoo_compute.client.evaluation import Heldout
from zoo_compute.client.outputs import MappedRound, Outputs, OutputsFile, joined
from zoo_compute.errors import UserError
from zoo_compute.formats.bundles import Bundle
from zoo_compute.store import ContentMissing, ContentTampered, digest_of

FIRST, LAST = 40, 30  # items of the two rounds


class Mapped:
    """A job of two rounds in a store, and what the chain says of it. claims: by round and slot."""

    def __init__(self, folder: Path) -> None:
        self.job: SmallJob = publish(folder)
        self.claims: dict[tuple[int, int], Any] = {}
        for round_ in range(2):
            self.job.bundles = []
            for slot in range(SLOTS):
                self.job.train(slot)
                made = self.job.commit(7 + slot, [slot])
                self.claims[round_, slot] = SimpleNamespace(
                    round=round_, operator=7 + slot, slots=range(slot, slot + 1), root=bytes.fromhex(made["root"]),
                    bundle=digest_of(made["bundle"]),
                )  # fmt: skip
            made = self.job.aggregate()
            self.job.base |= {"round": round_ + 1, "checkpoint": made["pointer"]}

    @property
    def view(self) -> Any:
        start = bytes.fromhex(self.job.manifest.state.root)
        return SimpleNamespace(
            job=1,
            terms=SimpleNamespace(manifest=self.job.manifest.digest, rounds=2),
            checkpoint_of=lambda number: SimpleNamespace(turn=number - 1, start_root=start),
            committed=lambda turn: {slot: Hashable(self.claims[turn, slot]) for slot in range(SLOTS)},
        )

    def round(self, number: int) -> MappedRound:
        return Outputs(self.view, self.job.store).of_round(self.view, number)


class Hashable:
    """A claim is one: it is frozen."""

    def __init__(self, fields: Any) -> None:
        self.__dict__ |= vars(fields)


@pytest.fixture
def mapped(tmp_path: Path) -> Mapped:
    return Mapped(tmp_path)


def test_rounds__are_the_items_in_their_order_without_the_filling(mapped: Mapped) -> None:
    made = [mapped.round(number) for number in range(2)]
    assert [(each.first, len(each.outputs["outputs"])) for each in made] == [(0, FIRST), (FIRST, LAST)]
    whole = joined(made, 2, 1)
    assert isinstance(whole, np.ndarray)
    assert np.allclose(whole, wanted(), atol=1e-6)


def test_outputs_that_are_not_what_was_claimed__are_refused(mapped: Mapped) -> None:
    other, claim = mapped.claims[1, 0], mapped.claims[0, 0]
    swapped = Bundle.from_bytes(mapped.job.store.read(cid_of(mapped, 0, 0), max_bytes=10**6, timeout_s=1))
    (entry,) = swapped.results
    (another,) = Bundle.from_bytes(mapped.job.store.read(cid_of(mapped, 1, 0), max_bytes=10**6, timeout_s=1)).results
    renamed = replace(swapped, results=(replace(entry, update=another.update),))
    claim.bundle = digest_of(mapped.job.store.add(renamed.to_bytes()))
    with pytest.raises(ContentTampered, match=r"the outputs of slot 0 .* claimed was"):
        mapped.round(0)
    claim.bundle = other.bundle
    with pytest.raises(ContentTampered, match="is not what was claimed"):
        mapped.round(0)
    claim.bundle = digest_of(mapped.job.store.add(b"{}"))
    with pytest.raises(ContentTampered, match="the bundle of job 1, round 0, operator 7"):
        mapped.round(0)
    claim.bundle = bytes(32)
    with pytest.raises(ContentMissing):
        mapped.round(0)


def cid_of(mapped: Mapped, round_: int, slot: int) -> str:
    from zoo_compute.store import raw_cid

    return raw_cid(mapped.claims[round_, slot].bundle)


@pytest.mark.parametrize("name", ["out.npz", "out.safetensors"])
def test_a_file__is_written_once_all_rounds_are_there(name: str, mapped: Mapped, tmp_path: Path) -> None:
    file = OutputsFile(tmp_path / "sub" / name, 1)
    file.path.parent.mkdir()
    file.add(mapped.round(0))
    again = OutputsFile(tmp_path / "sub" / name, 1)
    assert again.count() == 1, "another process goes on"
    assert OutputsFile(tmp_path / "sub" / name, 2).count() == 0, "another job's are none of its"
    again.add(mapped.round(1))
    assert not again.path.exists()
    assert again.finish(2) == {"outputs": (len(ITEMS), 3)}
    written = dict(np.load(again.path)) if name.endswith(".npz") else load_state(again.path)
    assert np.allclose(written["outputs"], wanted(), atol=1e-6)
    assert sorted(path.name for path in again.path.parent.iterdir()) == [name], "the rounds are gone"


def test_names__lose_their_prefix_in_python() -> None:
    rounds = [MappedRound(0, 0, {"outputs.a": np.zeros((2, 1)), "outputs.b": np.ones((2, 3))})]
    whole = joined(rounds, 1, 1)
    assert isinstance(whole, dict)
    assert {name: array.shape for name, array in whole.items()} == {"a": (2, 1), "b": (2, 3)}
    with pytest.raises(UserError, match="1 of its 2 rounds"):
        joined(rounds, 2, 1)


def test_a_name_of_no_file_of_arrays__is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ends in \.npz or \.safetensors"):
        OutputsFile(tmp_path / "out.csv", 1)


def test_a_map__has_neither_a_held_out_loss_nor_a_branch(mapped: Mapped) -> None:
    with pytest.raises(UserError, match="job 1 maps a module over items"):
        Heldout(mapped.view, mapped.job.store)
    view = mapped.view
    view.final_rounds = view.completed_rounds = 2
    with pytest.raises(UserError, match="job 1 maps a module over items"):
        load_branch(view, view, mapped.job.store)


def test_a_job_that_trains__has_no_outputs(tmp_path: Path) -> None:
    from tests.support.small_job import publish as publish_training

    job = publish_training(tmp_path)
    view: Any = SimpleNamespace(job=4, terms=SimpleNamespace(manifest=job.manifest.digest))
    with pytest.raises(UserError, match="job 4 trains a model"):
        Outputs(view, job.store)


def test_texts_that_were_generated__are_lines_in_the_order_of_their_prompts(tmp_path: Path) -> None:
    generation = generating(["ab", "c", "é"], batch_size=2, slots=1, new_tokens=2).generation
    assert generation is not None
    outputs = np.array([[0, 88], [65, 89], [66, 0], [0, 0], [67, 99], [68, 99]], np.float32)  # of a step: two rows
    file = OutputsFile(tmp_path / "texts.jsonl", 1, generation)
    for round_, rows in enumerate((outputs[:3], outputs[3:])):
        file.add(MappedRound(round_, 6 * round_, {"outputs": rows.ravel()}))
    file.finish(2)
    lines = [json.loads(line) for line in file.path.read_text().splitlines()]
    assert lines == [
        {"prompt": "ab", "text": "AB", "tokens": [65, 66]},
        {"prompt": "c", "text": "XY", "tokens": [88, 89]},
        {"prompt": "é", "text": "CD", "tokens": [67, 68]},
    ]
    assert "é" in file.path.read_text(), "as it was written"


@pytest.mark.parametrize(("name", "generates"), [("out.npz", True), ("out.jsonl", False)])
def test_a_file_of_the_other_kind__is_refused(name: str, generates: bool, tmp_path: Path) -> None:
    generation = generating().generation if generates else None
    with pytest.raises(UserError, match=r"ends in \.jsonl" if generates else r"ends in \.npz or \.safetensors"):
        OutputsFile(tmp_path / name, 1, generation)
