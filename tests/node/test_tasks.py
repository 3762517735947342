"""A worker's tasks: nothing is believed before it is checked, a liar is found once, and failures say what to do."""

from __future__ import annotations

import dataclasses
import json
import threading
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from node import hardware, tasks
from node.compute import memory_choice
from node.compute.memory_choice import MemoryChoice
from node.compute.programs import Programs
from node.compute.training import ShardResult, root_of
from node.errors import BadInputs, NodeOutOfMemory
from node.hardware import Device
from node.inputs import bundles, job_files
from node.inputs.checkpoints import fetch_pointer
from node.inputs.examples import StoredExamples
from node.inputs.job_files import fetch_inputs
from node.inputs.programs import fetch_programs
from node.inputs.states import stream_state
from node.inputs.updates import get_updates
from repops import encoding
from repops.builder import Builder
from repops.files import TensorStream, state_bytes
from repops.graph import BATCH_ROLE, F32, PARAMETER, STATE_ROLE, Graph
from repops.profile import profile
from tests.support.liars.faults import FlipBit, flip_bit
from tests.support.small_job import SmallJob, publish
from tests.support.waiting import HANG_S
from zoo_compute.formats.aggregation import Aggregation
from zoo_compute.formats.manifest import JobError, ProgramFile
from zoo_compute.store import cid_of
from zoo_compute.store.errors import ContentMissing
from zoo_compute.training.memory import needed_bytes


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    return publish(tmp_path)


@pytest.fixture
def round_of_three(job: SmallJob) -> SmallJob:
    for slot in range(3):
        job.train(slot)
    job.commit(7, [0, 2])
    job.commit(9, [1])
    return job


def test_run_shard__stores_its_update_and_reports_it(job: SmallJob) -> None:
    report = job.train(1)
    assert set(job.sent(1).state) == set(job.programs.graph.exchanged)
    assert report["update"] in job.store.pins()
    assert len(report["loss"]) == 2
    assert len(json.dumps(report)) < 1_000, (
        "p2: a list of its states' roots made one of 95 MB, read again at every look"
    )
    assert 0 < report["seconds"] < report["wall_s"]
    assert (report["tokens"], report["skipped"]) == (5 * 4 * 16, 0)
    again = tasks.run_shard(job.base | {"slot": 1}, job.store)
    assert {k: v for k, v in again.items() if not k.endswith(("seconds", "_s"))} == {
        k: v for k, v in report.items() if not k.endswith(("seconds", "_s"))
    }
    json.dumps(report, allow_nan=False)


def test_two_rounds__verified_and_aggregated__follow_each_other(job: SmallJob) -> None:
    first = job.advance()
    for slot in range(3):
        job.train(slot)
        assert job.reports[slot]["start_root"] == first["root"]
    pointer = fetch_pointer(job.store, first["pointer"])
    assert (pointer.job, pointer.round, pointer.mask, pointer.root.hex()) == (1, 0, 0b111, first["root"])
    assert pointer.state == first["state"]


def test_a_checkpoint__of_a_slot_round_is_read_a_tensor_at_a_time__and_is_the_same(round_of_three: SmallJob) -> None:
    request = round_of_three.base
    streamed = fetch_inputs(round_of_three.store, request, streamed=True).checkpoint
    whole = fetch_inputs(round_of_three.store, request).checkpoint
    assert isinstance(streamed, TensorStream)
    assert isinstance(whole, dict)
    assert root_of(streamed) == root_of(whole) == bytes.fromhex(request["start_root"])
    with pytest.raises(BadInputs, match="its root is"):
        stream_state(round_of_three.store, round_of_three.manifest.state.cid, bytes(32), max_bytes=2**20)


def test_aggregation__of_updates_that_do_not_fit_in_memory__reads_one_tensor_of_each_at_a_time(
    round_of_three: SmallJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory = round_of_three.aggregate()
    taken: list[type] = []
    combine = tasks.aggregate

    def noting(manifest: Any, programs: Any, checkpoint: Any, updates: Any, share: int | None) -> Any:
        taken.extend(type(update) for update in updates.values())
        return combine(manifest, programs, checkpoint, updates, share)

    monkeypatch.setattr(tasks, "aggregate", noting)
    monkeypatch.setattr("node.inputs.updates.memory", lambda device: (2**20, 2**40))
    assert round_of_three.aggregate()["root"] == in_memory["root"]
    assert taken == 3 * [TensorStream]


def test_verification__of_honest_slots__agrees(round_of_three: SmallJob) -> None:
    for slot in range(3):
        answer = round_of_three.verify(slot)
        assert answer["agrees"] is True
        assert answer["segments"] == 3


@pytest.mark.parametrize(("tensor", "element", "bit"), [("norm.weight", 3, 0), ("tokens.weight", 500, 31)])
def test_verification__of_one_flipped_bit__finds_that_slot_alone_and_where(
    job: SmallJob, tensor: str, element: int, bit: int
) -> None:
    fault = flip_bit(round=0, slot=2, tensor=tensor, element=element, bit=bit)
    for slot in range(3):
        job.train(slot, tamper=fault)
    assert isinstance(fault, FlipBit)
    assert fault.fired == 1
    job.commit(7, [0, 2])
    job.commit(9, [1])
    answers = [job.verify(slot) for slot in range(3)]
    assert [answer["agrees"] for answer in answers] == [True, True, False]
    answer = answers[2]
    assert (answer["field"], answer["steps"]) == ("update_root", [5, 5])
    assert (answer["tensor"], answer["element"]) == (tensor, element)
    expected, lied = (int(answer[key].split("(")[1].rstrip(")"), 16) for key in ("expected", "found"))
    assert expected ^ lied == 1 << bit
    assert f"{tensor}[{element}]" in answer["message"]
    json.dumps(answer)


def test_verification__of_training_that_went_another_way__names_the_root(job: SmallJob) -> None:
    """A liar whose state went wrong between steps 2 and 4, all roots after it consistent with that."""

    def wrong(inputs: object, result: ShardResult) -> ShardResult:
        from dataclasses import replace

        from repops.commitments import segment_root

        segments = [(step, root if step < 4 else bytes([step]) * 32) for step, root in result.segments]
        return replace(result, segments=segments, segment_root=segment_root(segments), end_root=segments[-1][1])

    for slot in range(3):
        job.train(slot, tamper=wrong if slot == 0 else None)
    job.commit(7, [0, 1, 2])
    answer = job.verify(0)
    assert (answer["field"], answer["steps"], answer["tensor"]) == ("segment_root", [0, 5], None)
    assert job.verify(1)["agrees"]


def test_verification__of_a_bundle_that_does_not_make_its_root__is_a_mismatch(round_of_three: SmallJob) -> None:
    answer = round_of_three.verify(0, root="11" * 32)
    assert (answer["agrees"], answer["field"]) == (False, "bundle")
    assert "committed was" in answer["message"]


def test_verification__of_an_update_file_under_another_root__is_a_mismatch(job: SmallJob) -> None:
    for slot in range(3):
        job.train(slot)
    job.reports[0]["update"] = job.reports[1]["update"]
    job.commit(7, [0, 1, 2])
    answer = job.verify(0)
    assert (answer["agrees"], answer["field"]) == (False, "update")


@pytest.mark.parametrize("update", ["another", "absent"])
def test_verification__a_lie_is_found_though_its_update_cannot_be_had(job: SmallJob, update: str) -> None:
    """A liar that keeps its update's file to itself, or names another one, is challenged all the same."""
    fault = flip_bit(round=0, slot=0, tensor="norm.weight", element=3, bit=0)
    for slot in range(3):
        job.train(slot, tamper=fault)
    job.reports[0]["update"] = job.reports[1]["update"] if update == "another" else cid_of(b"nobody has this")
    job.reports[2]["update"] = cid_of(b"nor this")
    job.commit(7, [0, 1, 2])
    answer = job.verify(0)
    assert (answer["agrees"], answer["field"], answer["dispute"]["kind"]) == (False, "update_root", 1)
    assert job.verify(2)["agrees"], "what is withheld is not false"


def test_aggregation__of_a_bundle_that_differs_from_the_chain__is_refused(round_of_three: SmallJob) -> None:
    round_of_three.bundles[0]["slots"] = [0, 1]
    with pytest.raises(BadInputs, match="committed were"):
        round_of_three.aggregate()


def test_aggregation__an_update_that_is_gone__is_told_as_missing(round_of_three: SmallJob) -> None:
    store = round_of_three.store
    store.unpin(round_of_three.reports[1]["update"])
    store.collect_garbage()
    with pytest.raises(ContentMissing):
        round_of_three.aggregate()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slot": 3}, "the job has 3 slots"),
        ({"round": 2}, "the job has 2 rounds"),
        ({"round": 1}, "not the manifest's initial state"),
        ({"start_root": "22" * 32}, "not the manifest's initial state"),
        ({"start_root": "22"}, "32 bytes"),
        ({"start_root": "zz"}, "in hex"),
        ({"work_root": "33" * 32}, "work_root"),
        ({"data_root": "33" * 32}, "data_root"),
        ({"flops": 1}, "flops are .* the chain's 1"),
        ({"terms": {"rounds": 2, "slots": 4}}, "the manifest has 3 slots, the chain 4"),
        ({"terms": {"rounds": 3, "slots": 3}}, "the manifest has 2 rounds, the chain 3"),
        ({"terms": {"policy_bits": 7}}, r"the manifest has \d policy_bits, the chain 7"),
    ],
)
def test_run_shard__request_that_contradicts_the_manifest__is_refused(
    job: SmallJob, changes: dict[str, Any], message: str
) -> None:
    before = job.store.pins()
    with pytest.raises(BadInputs, match=message):
        tasks.run_shard(job.base | {"slot": 0} | changes, job.store)
    assert job.store.pins() == before


def test_run_shard__manifest_that_is_none__is_refused(job: SmallJob) -> None:
    with pytest.raises(JobError, match="not JSON"):
        tasks.run_shard(job.base | {"slot": 0, "manifest": job.store.add(b"junk")}, job.store)


@pytest.mark.parametrize(
    "content", ["junk", "shape", "dtype", "rank", "names", "more", "none", "counts", "fewer", "other"]
)
def test_inputs__data_that_is_not_what_the_manifest_says__is_refused(tmp_path: Path, content: str) -> None:
    from dataclasses import replace

    from repops.commitments import state_root
    from repops.pieces import piece_roots

    job = publish(tmp_path)
    step = job.programs.graph
    tokens = StoredExamples(job.store, job.manifest, step)["tokens"]
    right = tokens[np.arange(len(tokens))]
    contents = {
        "shape": {"tokens": right[:, :9].copy()},
        "dtype": {"tokens": right.astype(np.float32)},
        "rank": {"tokens": right[:, 0].copy()},
        "names": {"inputs": right},
        "more": {"tokens": right, "inputs": right},
        "none": {},
        "counts": {"inputs": right[:, 1:].copy(), "targets": right[:-1, 1:].copy()},
        "fewer": {"tokens": right[:-1].copy()},
        "other": {"tokens": right[::-1].copy()},
    }
    changes = {"cid": job.store.add(b"junk" if content == "junk" else state_bytes(contents[content]))}
    if content not in ("junk", "other"):
        changes |= {
            "root": state_root(contents[content]).hex(),
            "pieces": job.store.add(piece_roots(contents[content])),
        }
    manifest = replace(job.manifest, data=replace(job.manifest.data, **changes))
    with pytest.raises(BadInputs, match=r"data|examples"):
        StoredExamples(job.store, manifest, step).fetch_all()


@pytest.mark.parametrize("content", ["junk", "another root", "flops", "batch", "nothing exchanged", "a name of ours"])
def test_inputs__program_that_is_not_what_the_manifest_says__is_refused(job: SmallJob, content: str) -> None:
    from dataclasses import replace

    graph, batch_size = job.programs.graph, 4 + (content == "batch")
    if content in ("nothing exchanged", "a name of ours"):
        graph = trifle("outer/w" if content == "a name of ours" else "w", changes=content == "a name of ours")
    data = b"junk" if content == "junk" else encoding.encode(graph)
    root = b"\1" * 32 if content == "another root" else encoding.root(graph)
    file = ProgramFile(job.store.add(data), root.hex(), profile(graph).flops + (content == "flops"))
    message = {"flops": "flops, the manifest says", "batch": "the manifest's steps have", "another root": "its root is"}
    with pytest.raises(BadInputs, match=message.get(content, "program")):
        fetch_programs(job.store, replace(job.manifest, program=file, batch_size=batch_size))


def test_prepare__a_round_that_no_program_can_aggregate__is_refused(
    job: SmallJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    monkeypatch.setattr(
        "repops.validation.MAX_ELEMENTS", 1 << 20
    )  # the step's tensors have fewer, those of all slots more
    manifest = replace(job.manifest, slots=256)
    terms = {"rounds": manifest.rounds, "slots": manifest.slots}
    request = job.base | {"manifest": job.store.add(manifest.to_bytes()), "terms": terms}
    with pytest.raises(JobError, match="tensors of 256 slots cannot be aggregated"):
        tasks.prepare(request, job.store)


def trifle(name: str, *, changes: bool) -> Graph:
    """A program with one parameter."""
    b = Builder()
    batch, before = b.input(F32, (4,), BATCH_ROLE, 0), b.input(F32, (4,), STATE_ROLE, 0)
    after = b.map("mul", before, 0.5) if changes else before
    return b.finish([(name, PARAMETER, before, after)], [("inputs", batch)], b.sum(batch, [0]))


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: 99 bytes"),
    ],
)
def test_run_shard__out_of_memory__names_the_sizes_and_what_to_do(
    job: SmallJob, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(Programs, "advance", fails)
    with pytest.raises(NodeOutOfMemory, match=r"34,\d+ parameters need about .* GB .* are free") as refusal:
        tasks.run_shard(job.base | {"slot": 0}, job.store)
    assert "larger one" in refusal.value.hint


def huge_step() -> Graph:
    """A valid program of a few hundred bytes whose state would fill any machine."""
    b = Builder()
    batch = b.input(F32, (4,), BATCH_ROLE, 0)
    entries = []
    for position in range(64):
        before = b.input(F32, (2**31 - 1,), STATE_ROLE, position)
        entries.append((f"w{position:02}", PARAMETER, before, b.map("mul", before, 0.5)))
    return b.finish(entries, [("inputs", batch)], b.sum(batch, [0]))


def test_run_shard__job_larger_than_the_machine__is_refused_before_it_is_fetched(job: SmallJob) -> None:
    from dataclasses import replace

    step = huge_step()
    file = ProgramFile(job.store.add(encoding.encode(step)), encoding.root(step).hex(), profile(step).flops)
    manifest = replace(job.manifest, program=file, state=replace(job.manifest.state, cid=cid_of(b"not stored")))
    request = {"job": 1, "slot": 0, "round": 0, "start_root": manifest.state.root}
    with pytest.raises(NodeOutOfMemory, match=r"GB, .* GB with recomputation .*, this machine has"):
        tasks.run_shard(request | {"manifest": job.store.add(manifest.to_bytes())}, job.store)


@pytest.mark.parametrize(
    ("slots", "rule", "total", "why"),
    [
        (16, Aggregation(), 10**12, ""),
        (16_384, Aggregation(), 10**9, "needs about"),  # p_agg: it passed with "needed 1.5 MB"
        (4_096, Aggregation("krum", 1_000, "nearest"), 10**12, ""),
    ],
)
def test_a_round_too_large_to_be_combined_here__is_noticed_before_a_bid(
    job: SmallJob,
    monkeypatch: pytest.MonkeyPatch,
    slots: int,
    rule: Aggregation,
    total: int,
    why: str,
) -> None:
    from dataclasses import replace

    monkeypatch.setattr(memory_choice, "memory", lambda device: (total, total))
    manifest = replace(job.manifest, slots=slots, quorum=1, aggregation=rule)
    answer = memory_choice.why_not_aggregate(manifest, job.programs.graph)
    assert why in answer
    assert bool(why) == bool(answer)


def test_prepare__says_what_combining_a_round_takes_at_least(job: SmallJob) -> None:
    from zoo_compute.training.memory import aggregation_flops

    answer = tasks.prepare(job.base, job.store)
    flops = aggregation_flops(job.programs.graph, job.manifest.aggregation_spec)
    assert answer["aggregation_s"] == pytest.approx(flops / answer["flops_per_s"])


def test_a_gpu_s_job_that_does_not_fit_main_memory__is_refused(job: SmallJob, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Programs(job.programs.graph, Device("cuda"))
    needed = needed_bytes(programs.profile)
    programs.memory = MemoryChoice(needed, needed)  # the GPU has room
    monkeypatch.setattr(job_files, "memory", lambda device: (0, needed - 1))
    with pytest.raises(NodeOutOfMemory):
        job_files._check_fits(programs)
    monkeypatch.setattr(job_files, "memory", lambda device: (0, needed))
    job_files._check_fits(programs)


def test_run_shard__another_runtime_error__is_not_called_memory(job: SmallJob, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Programs, "advance", fails)
    with pytest.raises(RuntimeError, match="a bug"):
        tasks.run_shard(job.base | {"slot": 0}, job.store)


def test_prepare__times_a_step_and_says_how_long_a_slot_takes(job: SmallJob) -> None:
    answer = tasks.prepare(job.base, job.store)
    assert answer["slot_s"] > 5 * answer["step_s"] > 0
    assert answer["device"] == "cpu" or torch.cuda.is_available()
    json.dumps(answer)


def test_prepare__promises_more_for_a_slot_where_the_operator_wants_a_margin(
    job: SmallJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost = tasks.step_cost
    kept: list[Any] = []

    def once(*arguments: Any, **options: Any) -> Any:
        if not kept:
            kept.append(cost(*arguments, **options))
        return kept[0]

    monkeypatch.setattr(tasks, "step_cost", once)
    usual = tasks.prepare(job.base, job.store)
    monkeypatch.setattr(hardware, "_time_margin", hardware._time_margin)
    hardware.use_time_margin(2 * hardware.TIME_MARGIN)
    more = tasks.prepare(job.base, job.store)
    assert more["slot_s"] == pytest.approx(2 * usual["slot_s"])
    assert more["opening_s"] == usual["opening_s"]


def test_bundle__round_trips_and_its_proofs_open_it(round_of_three: SmallJob) -> None:
    commit = round_of_three.bundles[0]
    data = round_of_three.store.read(commit["bundle"], max_bytes=10**6)
    bundle = bundles.parse_bundle(data)
    assert (bundle.job, bundle.round, bundle.operator) == (1, 0, 7)
    assert bundle.root.hex() == commit["root"]
    assert bundles.bundle_bytes(1, 0, 7, list(reversed(bundle.results))) == data
    assert bundle.result(2).update == round_of_three.reports[2]["update"]


BAD_BUNDLES = [
    b"",
    b"[]",
    b"{}",
    b"[" * 10_000,
    b'{"job":1,"operator":1,"results":[],"round":0,"version":2}',
    b'{"job":-1,"operator":1,"results":[],"round":0,"version":1}',
    b'{"job":1,"operator":1,"results":[1],"round":0,"version":1}',
    b'{"job":1,"operator":1,"results":{},"round":0,"version":1}',
    b" " * (bundles.MAX_BUNDLE_BYTES + 1),
]


@pytest.mark.parametrize("data", BAD_BUNDLES, ids=range(len(BAD_BUNDLES)))
def test_parse_bundle__hostile_bytes__are_refused(data: bytes) -> None:
    with pytest.raises(BadInputs):
        bundles.parse_bundle(data)


def test_parse_bundle__a_slot_twice_or_a_wrong_root__is_refused(round_of_three: SmallJob) -> None:
    commit = round_of_three.bundles[0]
    fields = json.loads(round_of_three.store.read(commit["bundle"], max_bytes=10**6))
    entry = fields["results"][0]
    for results in (
        [entry, entry],
        [entry | {"start_root": "AB" * 32}],
        [entry | {"loss": [1]}],
        [entry | {"slot": 1.0}],
    ):
        with pytest.raises(BadInputs):
            bundles.parse_bundle(json.dumps(fields | {"results": results}).encode())


def test_updates__are_fetched_side_by_side_and_each_is_checked(round_of_three: SmallJob) -> None:
    graph, store = round_of_three.programs.graph, round_of_three.store
    reports = [round_of_three.train(slot) for slot in range(3)]
    results = {report["slot"]: bundles.result_of(report) for report in reports}
    together = threading.Barrier(3, timeout=HANG_S)  # passed only when three are read at once

    class Waiting:
        def open(self, cid: str, **options: Any) -> Any:
            together.wait()
            return store.open(cid, **options)

    manifest = round_of_three.manifest
    updates = get_updates(cast(Any, Waiting()), results, manifest, graph)
    assert [root_of(updates[slot].state) for slot in range(3)] == [results[slot].update_root for slot in range(3)]
    results[1] = dataclasses.replace(results[1], update_root=results[2].update_root)
    with pytest.raises(BadInputs, match="its root is"):
        get_updates(store, results, manifest, graph)
