"""Jobs that map: how items are divided, what a manifest of one says, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from repops.fields import BadField
from zoo_compute.errors import UserError
from zoo_compute.formats.aggregation import Aggregation
from zoo_compute.formats.manifest import Compression, HeldoutFile
from zoo_compute.jobs.config import ComputeJob, JobError, Manifest
from zoo_compute.jobs.data_source import dataset_of
from zoo_compute.jobs.files import publish_files
from zoo_compute.jobs.sections import MapSection
from zoo_compute.store import BlockStore

ITEMS = np.arange(50 * 5, dtype=np.float32).reshape(50, 5)


def job(items: Any = ITEMS, *, module: Any = None, **sections: Any) -> ComputeJob:
    model = {"module": module or torch.nn.Linear(5, 3)}
    given = {
        "model": model,
        "data": {"arrays": {"inputs": items}},
        "map": {"batch_size": 4, "slots": 2},
        "budget_max": 20,
    }
    return ComputeJob.from_dict({**given, **sections})


@pytest.mark.parametrize(
    ("items", "steps", "rounds", "inner_steps"),
    [
        (1, 10, 1, 1),
        (8, 10, 1, 1),
        (9, 10, 1, 2),
        (80, 10, 1, 10),
        (81, 10, 2, 6),  # of eleven steps each slot, in two rounds
        (800, 10, 10, 10),
        (800, 3, 34, 3),
    ],
)
def test_the_items__are_divided_into_equal_rounds_as_few_as_they_need(
    items: int, steps: int, rounds: int, inner_steps: int
) -> None:
    made = MapSection(4, 2, inner_steps=steps).rounds_of(items)
    assert (made.rounds, made.inner_steps, made.slots, made.quorum) == (rounds, inner_steps, 2, 2)
    assert items <= rounds * inner_steps * 8 < items + rounds * 8


def test_every_item__is_mapped_once_and_in_its_order(tmp_path: Path) -> None:
    made = job(map={"batch_size": 4, "slots": 2, "inner_steps": 3, "segment_steps": 3, "seed": 7})
    dataset = dataset_of(made, lambda text: None)
    assert np.array_equal(dataset.examples["inputs"], ITEMS)
    manifest = publish_files(made, dataset, BlockStore(tmp_path))
    places = [(r, s, h) for r in range(manifest.rounds) for s in range(2) for h in range(manifest.inner_steps)]
    order = np.concatenate([manifest.examples_for(*place) for place in places])
    assert np.array_equal(order[:50], np.arange(50))
    assert np.array_equal(order[50:], np.arange(len(order) - 50)), "the last round is filled with the first items"
    assert (manifest.segment_steps, manifest.seed) == (3, 7)


def test_a_manifest_of_a_map__reads_back_and_says_so(tmp_path: Path) -> None:
    manifest = publish_files(job(), dataset_of(job(), lambda text: None), BlockStore(tmp_path))
    assert manifest.is_map
    assert manifest.heldout is None
    assert (manifest.quorum, manifest.policy, manifest.aggregation) == (2, "roll back", Aggregation())
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


CID = "b" + "a" * 58


@pytest.mark.parametrize(
    "change",
    [
        {"quorum": 1},
        {"carry": 2},
        {"delay": 1},
        {"accumulate": 2},
        {"policy": "tolerate"},
        {"compression": Compression(keep=8)},
        {"aggregation": Aggregation("median", 0)},
        {"heldout": HeldoutFile(CID)},
    ],
)
def test_a_manifest_of_a_map_that_would_lose_outputs__is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(JobError, match=rf"manifest\.{next(iter(change))}: "):
        replace(job().outline(), **change)


def test_a_job_that_trains__needs_heldout_examples() -> None:
    sections = {"training": {"batch_size": 4, "inner_steps": 2, "rounds": 1, "slots": 1}, "map": None}
    model = torch.nn.Linear(5, 3)
    parts = {"module": model, "loss": torch.nn.functional.mse_loss, "optimizer": torch.optim.SGD(model.parameters())}
    trains = job(model=parts, **sections).outline()
    with pytest.raises(JobError, match=r"manifest\.heldout: "):
        replace(trains, heldout=None)


@pytest.mark.parametrize("section", ["training", "compression", "aggregation"])
def test_a_section_of_training_beside_a_map__is_refused(section: str) -> None:
    values = {"training": {"batch_size": 1}, "compression": {"keep": 8}, "aggregation": {"rule": "mean"}}
    with pytest.raises(JobError, match=f"{section}: a map has none"):
        job(**{section: values[section]})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "data: missing"),
        ({"arrays": {"a": ITEMS, "b": ITEMS}}, "one array of items, got 'a', 'b'"),
        ({"arrays": {"a": ITEMS.astype(np.float64)}}, "a: expected float32 or integers, got float64"),
        ({"arrays": {"a": ITEMS[:0]}}, "items along the first axis"),
        ({"arrays": {"a": np.float32(1)}}, "items along the first axis"),
        ({"path": "none.npz"}, "no such file"),
    ],
)
def test_items_that_are_none__are_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        job(data=data)


def test_one_array_of_any_name__is_the_items() -> None:
    assert np.array_equal(job(data={"arrays": {"images": ITEMS}}).items, ITEMS)


def test_lines_of_text__are_items_cut_to_the_context_or_filled_up(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one\n\n  \ntwenty\nü\n")
    given = {
        "model": {"layers": 1, "heads": 2, "width": 8, "context": 16},
        "data": {"path": "lines.txt", "context": 4},
        "map": {"batch_size": 2, "slots": 1},
    }
    made, said = ComputeJob.from_dict(given, directory=tmp_path), list[str]()
    (rows,) = dataset_of(made, said.append).examples.values()
    assert rows.tolist() == [list(b"one\0"), list(b"twen"), [*"ü".encode(), 0, 0]]
    assert said == ["note: 1 of 3 items have more than 4 tokens, and are cut"]
    assert made.training.rounds == 1
    assert made.traced.batch["inputs"].shape == (2, 4)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"path": "blank.txt"}, r"no line of blank\.txt has text"),
        ({"path": "blank.txt", "column": "text"}, "one array or lines of text"),
        ({"dataset": "somebodys"}, "one array or lines of text"),
    ],
)
def test_text_that_has_no_items__is_refused(data: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "blank.txt").write_text("\n  \n")
    given = {"model": {"layers": 1, "heads": 2, "width": 8, "context": 16}, "map": {"batch_size": 2, "slots": 1}}
    with pytest.raises(JobError, match=message):
        ComputeJob.from_dict({**given, "data": data}, directory=tmp_path)


def test_lines_of_text__are_tokens_where_there_is_a_tokenizer(tmp_path: Path) -> None:
    from tests.support.tiny_gpt2 import save_tokenizer

    save_tokenizer(tmp_path / "words")
    (tmp_path / "lines.txt").write_text("the cat\n")
    given = {
        "model": {"layers": 1, "heads": 2, "width": 8, "context": 16, "vocab": 4_096},
        "data": {"path": "lines.txt", "tokenizer": "words"},
        "map": {"batch_size": 1, "slots": 1},
    }
    (rows,) = dataset_of(ComputeJob.from_dict(given, directory=tmp_path), print).examples.values()
    assert rows.shape == (1, 16)
    assert 0 < np.count_nonzero(rows) <= 7


def test_too_many_items__name_what_would_help() -> None:
    with pytest.raises(BadField, match="raise batch_size, inner_steps or slots"):
        MapSection(1, 1, inner_steps=1).rounds_of(10**6)


def test_items_of_a_wrong_shape__are_refused_before_anything_is_sent() -> None:
    with pytest.raises(UserError, match="does not run on a batch"):
        _ = job(ITEMS[:, :4]).traced


def test_a_function_that_returns_the_module_alone__or_what_training_needs(tmp_path: Path) -> None:
    for name, end in (("alone", "m"), ("training", "m, None, torch.optim.SGD(m.parameters())")):
        (tmp_path / f"{name}.py").write_text(
            f"import torch\ndef build():\n    m = torch.nn.Linear(5, 3)\n    return {end}\n"
        )
        given = {
            "model": {"module": f"{name}.py:build"},
            "data": {"arrays": {"x": ITEMS}},
            "map": {"batch_size": 4, "slots": 1},
        }
        traced = ComputeJob.from_dict(given, directory=tmp_path).traced
        assert traced.graph.outputs == ("outputs",)
        assert traced.initial is not None
        assert set(traced.initial) == {"weight", "bias"}
    (tmp_path / "none.py").write_text("def build():\n    return 3\n")
    with pytest.raises(UserError, match="expected a module of torch to map, got int"):
        _ = ComputeJob.from_dict({**given, "model": {"module": "none.py:build"}}, directory=tmp_path).traced


def test_a_program_of_the_wrong_kind__is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    import repops

    net = torch.nn.Linear(5, 3)
    batch = torch.zeros(4, 5), torch.zeros(4, 3)
    learns = repops.trace(net, torch.nn.functional.mse_loss, torch.optim.SGD(net.parameters()), batch)
    weights = {name: tensor.detach().numpy() for name, tensor in net.named_parameters()}
    for name, program in (("learns", learns), ("short", repops.trace_map(net, batch[0], 3))):
        repops.save(program, tmp_path / name)
        made = ComputeJob.from_dict(
            {
                "model": {"program": name},
                "data": {"arrays": {"x": ITEMS}},
                "map": {"batch_size": 4, "slots": 2},
                "budget_max": 20,
            },
            directory=tmp_path,
        )
        with pytest.raises(JobError, match=r"model\.program: it keeps outputs .*, and the map's are \(7, 4\)"):
            publish_files(made, dataset_of(made, print), BlockStore(tmp_path / "store"), weights=weights)


def test_a_module_is_traced_in_eval_mode__and_left_as_it_was() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.Dropout(0.5)).train()
    module[0].eval()
    names = {entry.name for entry in job(module=module).traced.graph.state}
    assert "seed" not in names, "nothing is drawn: there is no dropout in eval mode"
    assert [each.training for each in module.modules()] == [True, False, True]
