"""Manifests: canonical bytes, the data rule, and refusals that say the key and the nearest right one."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest

from zoo_compute.jobs.config import DataFile, HeldoutFile, JobError, Manifest, OuterOptimizer, ProgramFile, StateFile
from zoo_compute.store.cid import cid_of, digest_of

CID = cid_of(b"something")
ROOT = "ab" * 32


def fields(**changes: Any) -> dict[str, Any]:
    return {
        "program": ProgramFile(CID, ROOT, 12_345),
        "batch_size": 4,
        "rounds": 3,
        "slots": 5,
        "quorum": 4,
        "inner_steps": 7,
        "segment_steps": 3,
        "seed": 9,
        "state": StateFile(CID, ROOT),
        "data": DataFile(CID, ROOT, 1000, CID),
        "heldout": HeldoutFile(CID),
        "outer": OuterOptimizer(0.7, 0.9),
        "slot_s": 60,
        "aggregate_s": 30,
        "reexecute_s": 10,
        "redundancy": 2,
        "keep_every": 1,
    } | changes


def raw(**changes: Any) -> dict[str, Any]:
    return json.loads(Manifest(**fields()).to_bytes()) | changes


def encode(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def test_manifest__round_trips_through_its_canonical_bytes() -> None:
    manifest = Manifest(**fields())
    data = manifest.to_bytes()
    assert data == encode(json.loads(data))
    assert Manifest.from_bytes(data) == manifest
    assert manifest.digest == hashlib.sha256(data).digest() == digest_of(cid_of(data))


def test_flops__of_a_slot_round__are_those_of_its_steps() -> None:
    assert Manifest(**fields()).flops == 7 * 12_345


def test_draws__of_every_slot_round__differ_and_follow_from_the_manifest() -> None:
    manifest = Manifest(**fields())
    drawn = [manifest.draw_seed(r, s) for r in range(3) for s in range(5)]
    assert len(set(drawn)) == 15
    assert all(-(2**31) <= draw < 2**31 for draw in drawn)
    assert drawn == [Manifest.from_bytes(manifest.to_bytes()).draw_seed(r, s) for r in range(3) for s in range(5)]
    assert Manifest(**fields(seed=10)).draw_seed(0, 0) != drawn[0]
    described = hashlib.sha256(
        b"seed" + manifest.digest + (2).to_bytes(4, "little") + (4).to_bytes(4, "little")
    ).digest()
    assert drawn[-1] == int.from_bytes(described[:4], "little", signed=True)


def test_examples_for__follows_the_data_rule_and_wraps_around() -> None:
    manifest = Manifest(**fields())
    for round_, slot, step in [(0, 0, 0), (2, 4, 6), (1, 3, 2)]:
        first = ((round_ * 5 + slot) * 7 + step) * 4
        assert manifest.examples_for(round_, slot, step).tolist() == [(first + i) % 1000 for i in range(4)]
    wrapped = Manifest(**fields(data=DataFile(CID, ROOT, 6, CID)))
    assert wrapped.examples_for(0, 0, 1).tolist() == [4, 5, 0, 1]


def test_examples_for__a_run_with_enough_data__uses_each_example_once() -> None:
    manifest = Manifest(**fields(data=DataFile(CID, ROOT, 3 * 5 * 7 * 4, CID)))
    used = [manifest.examples_for(r, s, h) for r in range(3) for s in range(5) for h in range(7)]
    assert sorted(np.concatenate(used)) == list(range(420))


@pytest.mark.parametrize("place", [(3, 0, 0), (0, 5, 0), (0, 0, 7), (-1, 0, 0)])
def test_examples_for__outside_the_job__is_refused(place: tuple[int, int, int]) -> None:
    with pytest.raises(JobError, match="no data for round"):
        Manifest(**fields()).examples_for(*place)


def test_segments__end_with_the_last_step_whatever_the_interval() -> None:
    assert Manifest(**fields()).segments() == [0, 3, 6, 7]
    assert Manifest(**fields(segment_steps=7)).segments() == [0, 7]
    assert Manifest(**fields(inner_steps=6)).segments() == [0, 3, 6]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown key": ({"quorom": 4}, "unknown key 'quorom'; did you mean 'quorum'?"),
    "a float for a number": ({"rounds": 3.0}, "manifest.rounds: expected a whole number, got 3.0"),
    "text for a number": ({"slots": "5"}, "manifest.slots: expected a whole number, got '5'"),
    "true for a number": ({"seed": True}, "manifest.seed: expected a whole number, got True"),
    "no rounds": ({"rounds": 0}, "manifest.rounds: expected 1 to 10000, got 0"),
    "16,385 slots": ({"slots": 16_385}, "manifest.slots: expected 1 to 16384, got 16385"),
    "depth": ({"depth": 65}, "manifest.depth: expected 1 to 64, got 65"),
    "audit rate": ({"audit_bps": 10_001}, "manifest.audit_bps: expected 200 to 10000, got 10001"),
    "policy": ({"policy": "rollback"}, "manifest.policy: unknown policy 'rollback'; did you mean 'roll back'?"),
    "a quorum above the slots": ({"quorum": 6}, "manifest.quorum: expected 1 to 5, got 6"),
    "segments longer than the round": ({"segment_steps": 8}, "manifest.segment_steps: expected 1 to 7, got 8"),
    "a batch of nothing": ({"batch_size": 0}, "manifest.batch_size: expected 1 to 65536, got 0"),
    "a program that computes nothing": (
        {"program": {"cid": CID, "root": ROOT, "flops": 0}},
        "program.flops: expected 1 to 2^96 - 1, got 0",
    ),
    "a program of more than a contract takes": (
        {"program": {"cid": CID, "root": ROOT, "flops": 2**96}},
        "program.flops: expected 1 to 2^96 - 1",
    ),
    "no seconds": ({"slot_s": 0}, "manifest.slot_s: expected 1 to 604800, got 0"),
    "another version": ({"version": 2}, "reads version 1, got 2"),
    "a CID of version 0": ({"heldout": {"cid": "Qm" + "a" * 44}}, "expected a CIDv1 in base32"),
    "an upper-case root": ({"state": {"cid": CID, "root": "AB" * 32}}, "expected 64 lower-case hex digits"),
    "a missing part": ({"state": {"cid": CID}}, "manifest.state: missing key 'root'"),
    "a typo in a part": ({"outer": {"lr": 0.7, "momentun": 0.9}}, "unknown key 'momentun'; did you mean 'momentum'?"),
    "a list for a part": ({"data": []}, "manifest.data: expected a mapping, got []"),
    "a momentum of 1": ({"outer": {"lr": 0.7, "momentum": 1.0}}, "outer.momentum: expected 0 to 0.999, got 1"),
    "no examples": ({"data": {"cid": CID, "root": ROOT, "examples": 0, "pieces": CID}}, "data.examples: expected 1 to"),
}


@pytest.mark.parametrize("name", WRONG)
def test_from_bytes__mistake__is_refused_with_its_reason(name: str) -> None:
    changes, message = WRONG[name]
    with pytest.raises(JobError) as refusal:
        Manifest.from_bytes(encode(raw(**changes)))
    assert message in str(refusal.value)


def test_from_bytes__each_key_missing__is_refused() -> None:
    for key in raw():
        document = raw()
        del document[key]
        with pytest.raises(JobError, match=r"missing key|not canonical"):
            Manifest.from_bytes(encode(document))


def test_from_bytes__bytes_that_are_not_canonical__are_refused() -> None:
    good = Manifest(**fields()).to_bytes()
    for data in (
        good + b"\n",
        json.dumps(raw()).encode(),
        good.replace(b'"lr":0.7', b'"lr":0.70'),
        b"",
        b"[]",
        b"\xff",
    ):
        with pytest.raises(JobError):
            Manifest.from_bytes(data)
    with pytest.raises(JobError, match="exceed 262144"):
        Manifest.from_bytes(b" " * 262_145)


def test_from_bytes__deeply_nested__is_refused_and_does_not_crash() -> None:
    with pytest.raises(JobError, match="nests"):
        Manifest.from_bytes(b'{"a":' * 40_000 + b"1" + b"}" * 40_000)


def test_every_refusal__is_a_value_error_too() -> None:
    with pytest.raises(ValueError, match="rounds"):
        Manifest(**fields(rounds=0))
