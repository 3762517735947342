"""Private state between rounds, as a machine keeps it: found, lost, computed again, and asked for by whoever judges."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from node import tasks
from node.compute.training import ShardResult
from node.disputes import player
from node.disputes.computation import SlotRound
from node.disputes.previous_turn import PreviousTurn
from node.errors import BadInputs
from node.inputs import bundles, carried_state
from node.inputs.job_files import Inputs, fetch_inputs
from node.inputs.programs import check_program
from repops.commitments import state_root_of
from repops.files import state_bytes
from tests.support.small_job import SmallJob, publish
from zoo_compute.disputes.exploration import Exploration
from zoo_compute.disputes.roles import ASKER
from zoo_compute.formats.manifest import Compression
from zoo_compute.json_codec import encode
from zoo_compute.spec.frames import Kind
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.spec.state import Claim

SLOT = 1


@dataclass
class GoingOn(SmallJob):
    """After its first round, which is remembered."""

    first: dict[str, Any] = field(default_factory=dict)
    first_reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    first_bundles: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture
def job(tmp_path: Path) -> GoingOn:
    """Private state is carried for two rounds."""
    made = publish(tmp_path, sparse=True, rounds=3, carry_rounds=2)
    first = {name: made.base[name] for name in ("round", "checkpoint", "start_root")}
    made.advance()
    first |= {name: made.bundles[1][name] for name in ("bundle", "root", "operator")}
    return GoingOn(**made.__dict__, first=first, first_reports=dict(made.reports), first_bundles=list(made.bundles))


def going_on(job: GoingOn, **changes: Any) -> dict[str, Any]:
    request = {"slot": SLOT, "before": [job.first], "private": job.first_reports[SLOT]["private"]}
    report = tasks.run_shard(job.base | request | changes, job.store)
    return {name: report[name] for name in ("segment_root", "end_root", "update_root", "update")}


def test_a_slot__goes_on_from_what_it_kept__or_computes_that_again(job: GoingOn) -> None:
    kept = going_on(job)
    assert kept != going_on(job, before=[])  # which begins at zero
    assert kept == going_on(job, private=None)
    lost = job.store.add(b"no private state")
    assert kept == going_on(job, private=lost)
    other = job.store.add(state_bytes(fetch_inputs(job.store, job.base).checkpoint))
    assert kept == going_on(job, private=other)


def test_what_was_kept__is_used_as_it_is(job: GoingOn) -> None:
    """It is one's own: nobody else could check it."""
    inputs = fetch_inputs(job.store, job.base)
    mine = carried_state.load(job.base | {"slot": SLOT, "before": [job.first]}, inputs, job.store)
    assert mine is not None
    changed = {name: array + array.dtype.type(1) for name, array in mine.items()}
    assert going_on(job, private=job.store.add(state_bytes(changed))) != going_on(job)


def test_at_a_restart__nothing_is_carried(job: GoingOn) -> None:
    rounds = [{"round": at} for at in range(5)]
    for round_, carry, left in ((0, 2, []), (4, 2, []), (3, 2, [2]), (5, 4, [4]), (7, 8, [0, 1, 2, 3, 4]), (3, 1, [])):
        request = {"round": round_, "before": rounds[:round_]}
        assert [each["round"] for each in carried_state.rounds_since_restart(request, carry)] == left
    assert carried_state.rounds_since_restart({"round": 3}, 2) == []


def test_a_verifier__begins_where_the_slots_operator_did(job: GoingOn) -> None:
    job.bundles = []
    job.reports[SLOT] = tasks.run_shard(job.base | {"slot": SLOT, "before": [job.first]}, job.store)
    job.commit(9, [SLOT])
    assert job.verify(SLOT, before=[job.first])["agrees"]
    answer = job.verify(SLOT)
    assert (answer["agrees"], answer["field"]) == (False, "segment_root")
    assert answer["dispute"]


def test_a_lie_after_an_honest_claim__is_disputed__one_after_a_false_claim_is_not(job: GoingOn) -> None:
    """What a false claim left nobody else knows: it is the one to be disputed."""
    job.bundles = []
    job.reports[SLOT] = tasks.run_shard(job.base | {"slot": SLOT}, job.store)  # begins at zero
    job.commit(9, [SLOT])
    answer = job.verify(SLOT, before=[job.first])
    assert not answer["agrees"]
    assert answer["dispute"]["kind"] == int(Kind.TRAINING)
    lie = bundles.result_of(job.first_reports[SLOT] | {"update_root": "22" * 32})
    bundle = job.store.add(bundles.bundle_bytes(1, 0, 9, [lie]))
    false = job.first | {"bundle": bundle, "root": bundles.round_root([lie]).hex()}
    answer = job.verify(SLOT, before=[false])
    assert (answer["agrees"], answer["dispute"]) == (False, None)
    assert "after a claim that is false" in answer["message"]


def test_a_program_that_calls_something_else_a_residual__is_refused(job: GoingOn) -> None:
    """Of such a name the contracts look in the update for what is carried."""
    check_program(job.manifest, job.programs)
    whole = replace(job.manifest, compression=Compression())
    with pytest.raises(BadInputs, match="no residual of an update"):
        check_program(whole, job.programs)
    check_program(replace(whole, carry=1), job.programs)


def test_a_challengers_computation__has_what_the_claim_before_left(job: GoingOn, tmp_path: Path) -> None:
    segments: list[tuple[int, bytes]] = []

    def watch(inputs: Inputs, result: ShardResult) -> ShardResult:
        segments.extend(result.segments)
        return result

    tasks.run_shard(job.base | {"slot": SLOT, "before": [job.first]}, job.store, tamper=watch)
    start = bytes.fromhex(job.first["start_root"])
    claims = [
        Claim(0, 0, seat, each["operator"], each["slots"][0] << 16 | 1, 1, start, bytes.fromhex(each["root"]))
        for seat, each in enumerate(job.first_bundles)
        if len(each["slots"]) == 1
    ]
    (claim,) = claims
    aggregation = Claim(0, 0, AGGREGATOR_SEAT, 3, 1 << claim.seat, 1, start, bytes.fromhex(job.base["start_root"]))
    request = job.base | {
        "role": ASKER,
        "picture": Exploration().plain,
        "claim": encode(astuple(replace(claim, turn=1, round=1))),
        "folder": str(tmp_path / "dispute"),
        "before": {str(SLOT): [job.first]},
        "aggregated": encode(astuple(aggregation)),
        "bundles_before": [job.first_bundles[claim.seat] | {"claim": encode(astuple(claim))}],
    }
    computed = player._Player(request, job.store, SlotRound)._computation(Kind.TRAINING, SLOT)
    assert isinstance(computed, SlotRound)
    steps = [step for step, _ in segments]
    assert [*computed.state_roots(steps)] == [root for _, root in segments]
    before, last = computed.before, job.first_reports[SLOT]
    assert isinstance(before, PreviousTurn)
    assert before.aggregation == aggregation
    assert [seated.claim for seated in before.seated] == [claim]
    assert before.seated[0].results[SLOT].end_root.hex() == last["end_root"]
    assert (state_root_of(before.end).hex(), state_root_of(before.update).hex()) == (
        last["end_root"],
        last["update_root"],
    )
