"""Availability: who may ask for what, and what answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from repops.commitments import state_root
from tests.contracts.availability_driver import ANSWER_S, DEPOSIT, STRANGERS, SUBMITTER, deployed_fixture, job_fixture  # noqa: F401
from tests.contracts.protocol_double import AGGREGATION, CONVICTED, JOB, PAID, TURN, changed, claim_hash
from tests.contracts.two_results import slot_2_of_3
from tests.support.evm import chain
from tests.support.evm import reverts as refused
from tests.support.openings import state_opening, update_opening
from tests.support.protocol_driver import START, events_of

# --- demands


def test_demand__of_a_pending_claim__is_kept_with_its_deposit(job):
    job.demand(0, slot=2, tensor=2**32 - 1, group=2**40 - 1, value=DEPOSIT + 5)
    asked = job.contract.demands(JOB, claim_hash(job.claims[0]), STRANGERS)
    assert (asked.demander, asked.deposit, asked.asked, asked.opened_at) == (job.watched.anyone, DEPOSIT + 5, 1, START)
    assert (asked.slot, asked.tensor, asked.group, asked.turn, asked.holds) == (2, 2**32 - 1, 2**40 - 1, TURN, False)
    assert chain.balance(job.contract.address) == DEPOSIT + 5


@pytest.mark.parametrize("change", [{"root": b"\x01" * 32}, {"round": 9}, {"scope": 6}])
def test_demand__of_a_claim_that_is_not_the_committed_one__is_refused(job, change):
    with refused("availability: unknown claim"):
        job.demand(0, claim=changed(job.claims[0], **change))


@pytest.mark.parametrize("status", [0, PAID, CONVICTED])
def test_demand__of_a_claim_that_is_over__is_refused(job, status):
    job.watched.set_claim(job.claims[0], status)
    with refused("availability: unknown claim"):
        job.demand(0)


def test_demand__each_lane__is_its_holders_alone(job):
    for lane in (0, 2, AGGREGATION, SUBMITTER):
        for wrong in (job.watched.anyone, job.holder(2 if lane != 2 else 0)):
            with refused("availability: not the lane's holder"):
                job.demand(1, lane, sender=wrong)
        job.demand(1, lane)
    job.demand(1)
    for lane in (3, 129, 146, 2**256 - 1):
        with refused("availability: not the lane's holder"):
            job.demand(1, lane, sender=job.watched.anyone)


def test_demand__of_ones_own_claim_or_from_a_vacant_seat__is_refused(job):
    with refused("availability: not the lane's holder"):
        job.demand(1, 1)
    with refused("availability: not the lane's holder"):
        job.demand(AGGREGATION, AGGREGATION)
    job.double.set_seat(JOB, AGGREGATION, (0,) * 8)
    with refused("availability: not the lane's holder"):
        job.demand(1, AGGREGATION, sender=job.watched.key(4))


def test_demand__of_what_no_claim_has__is_refused(job):
    cases = [(0, {"slot": 3}), (1, {"slot": 2}), (1, {"slot": 5}), (AGGREGATION, {"slot": 1})]
    cases += [(0, {"tensor": 2**32}), (0, {"group": 2**40}), (0, {"slot": 2**256 - 1})]
    for seat, what in cases:
        with refused("availability: nothing there"):
            job.demand(seat, **what)
    job.demand(1, slot=4)


def test_demand__must_leave_two_answer_windows_before_the_deadline(job):
    job.to(30 - 2 * ANSWER_S + 1)
    with refused("availability: too late"):
        job.demand(0)
    job.to(30 - 2 * ANSWER_S)
    job.demand(0)


def test_demand__one_open_a_lane_and_four_in_all(job):
    for _ in range(4):
        job.demand(0)
        with refused("availability: demand open"):
            job.demand(0)
        job.answer(0)
    with refused("availability: demands spent"):
        job.demand(0)
    job.demand(0, SUBMITTER)
    job.demand(1)


def test_demand__deposit_follows_the_base_fee(job):
    with refused("availability: deposit too small"):
        job.demand(0, value=DEPOSIT - 1)
    chain.base_fee = 3 * 10**9  # until the job is over
    assert job.contract.least_deposit() == 3 * DEPOSIT
    with refused("availability: deposit too small"):
        job.demand(0, value=3 * DEPOSIT - 1)
    job.demand(0, value=3 * DEPOSIT)


# --- answers


@pytest.mark.parametrize("tensor", [0, 1, 2, 3, 5, 2**32 - 1])
@pytest.mark.parametrize("group", [0, 4, 5, 7, 2**40 - 1])
def test_answer__every_demand_of_a_true_root__has_one(job, tensor, group):
    for seat in (0, AGGREGATION):
        job.demand(seat, slot=1 if seat == 0 else 0, tensor=tensor, group=group)
        job.answer(seat)
        assert not job.is_open(seat)
    assert job.owed(job.watched.owner[1]) == job.owed(job.watched.owner[4]) == DEPOSIT


def test_answer__a_tensor_the_state_has_not__is_padding(job):
    state = {name: job.watched.state[name] for name in ("big", "small", "word")}
    root = state_root(state)
    claim = changed(job.claims[AGGREGATION], root=root)
    job.watched.set_claim(claim)
    job.demand(AGGREGATION, tensor=3, claim=claim)
    opening = state_opening(state, 3, 0)
    assert opening[4] == b""
    padding = state_opening(state, 2, 0)
    with refused("availability: bytes do not match"):
        job.contract.answer(JOB, claim, STRANGERS, padding)
    job.contract.answer(JOB, claim, STRANGERS, opening)


def test_answer__anything_but_the_demanded_bytes__is_refused(job):
    job.demand(0, slot=1, tensor=0, group=2)
    right = job.opening(0)
    results = job.watched.results[0]
    others = [
        update_opening(results, index, tensor, group) for index, tensor, group in ((0, 0, 2), (1, 2, 2), (1, 0, 1))
    ]
    flipped = bytearray(right[6])
    flipped[77] ^= 1
    others.append((*right[:6], bytes(flipped), right[7]))
    others.append((*right[:6], right[6][:-1], right[7]))
    others.append((*right[:6], b"", right[7]))
    others.append((*right[:3], b"bog", *right[4:]))
    others.append((*right[:4], b"\x01" + right[4][1:], *right[5:]))
    others.append((*right[:4], b"", *right[5:]))
    others.append((b"\x09" * 32, *right[1:]))
    others.append((*right[:2], [], *right[3:]))
    others.append((*right[:7], right[7][:-1]))
    for opening in others:
        with refused("availability: bytes do not match"):
            job.answer(0, opening=opening)
    job.answer(0, opening=right)


def test_answer__to_a_result_of_another_start__does_not_match(job):
    """What a claim starts from is the claim's, not the answer's."""
    claim = changed(job.claims[0], start_root=b"\x12" * 32)
    job.watched.set_claim(claim)
    job.demand(0, claim=claim)
    with refused("availability: bytes do not match"):
        job.contract.answer(JOB, claim, STRANGERS, update_opening(job.watched.results[0], 0, 0, 0))


def test_answer__of_a_root_with_two_results_of_a_slot__shows_the_one_that_is_judged(job):
    honest = job.watched.results[0][2]
    other = replace(honest, update={**honest.update, "word": np.int32([99])})
    tree = slot_2_of_3(honest.root, other.root)
    claim = changed(job.claims[0], root=tree.root)
    job.watched.set_claim(claim)
    job.demand(0, slot=2, tensor=3, claim=claim)
    false, true = (
        (*update_opening([result], 0, 3, 0)[:2], path, *update_opening([result], 0, 3, 0)[3:])
        for result, path in ((other, tree.short), (honest, tree.path))
    )
    with refused("availability: bytes do not match"):
        job.contract.answer(JOB, claim, STRANGERS, false)
    job.contract.answer(JOB, claim, STRANGERS, true)


def test_answer__until_its_last_second__and_whoever_sends_it(job):
    job.demand(0)
    job.to(ANSWER_S + 1)
    with refused("availability: answer too late"):
        job.answer(0)
    job.to(ANSWER_S)
    job.answer(0, sender=job.watched.submitter)
    assert job.owed(job.watched.submitter) == DEPOSIT
    with refused("availability: no demand"):
        job.answer(0)


def test_answer__in_the_first_half_of_the_time__earns_for_whom_it_was_demanded_of(job):
    """Nobody gains by copying the answer of a keeper that is there; for one that is not, somebody else has a reason to answer."""
    for second, lane, payee in (
        (ANSWER_S // 2, STRANGERS, job.watched.owner[1]),
        (ANSWER_S // 2 + 1, 2, job.watched.key(2)),
    ):
        chain.timestamp = START
        job.demand(0, lane)
        job.to(second)
        job.answer(0, lane, sender=job.watched.key(2))
        assert job.owed(payee) == DEPOSIT


def test_answer__a_lane_that_did_not_ask__is_refused(job):
    job.demand(0)
    with refused("availability: no demand"):
        job.answer(0, SUBMITTER, opening=job.opening(0))


def test_answer__to_a_claim_convicted_meanwhile__still_earns_the_deposit(job):
    job.demand(0)
    job.watched.set_claim(job.claims[0], CONVICTED)
    job.answer(0)
    assert job.owed(job.watched.owner[1]) == DEPOSIT


def test_answer__costs_less_gas_than_the_deposit_counts(job):
    job.demand(0, slot=1, tensor=0, group=2)
    opening = job.opening(0)
    data = job.contract.answer.prepare_calldata(JOB, job.claims[0], STRANGERS, opening)
    job.answer(0, opening=opening)
    execution = job.contract.last.gas
    zeros = data.count(0)
    tokens = zeros + 4 * (len(data) - zeros)
    gas = max(21_000 + 4 * tokens + execution, 21_000 + 10 * tokens)  # EIP-7623
    # A tensor of 2^30 elements in a state of 4,096 has 20 + 12 more siblings than this one, a claim 14 for its slots.
    deepest = gas + 46 * 32 * 40
    print(f"answer: {len(data)} bytes, {execution} gas of execution, {gas} in all, {deepest} at depth")
    assert deepest < 300_000


# --- events


def test_availability__tells_of_demands_their_ends_and_the_clocks_they_hold(job):
    contract = job.contract
    claim = {"job": JOB, "operator": 1, "author": 1, "turn": TURN, "seat": 0}
    job.demand(0, 2, slot=2, tensor=1, group=3, value=DEPOSIT + 5)
    place = {"slot": 2, "tensor": 1, "group": 3, "deposit": DEPOSIT + 5, "holds": True}
    asked = {**claim, "lane": 2, "demander": str(job.holder(2)), **place}
    assert events_of(contract) == [("ChunkDemanded", asked), ("ClocksHeld", {"job": JOB})]
    job.to(3)
    job.answer(0, 2)
    answered = {**claim, "lane": 2}
    assert events_of(contract) == [("DemandAnswered", answered), ("ClocksResumed", {"job": JOB, "seconds": 3})]
    job.demand(0)
    job.to(3 + ANSWER_S + 1)
    job.close(0)
    unanswered = {**claim, "lane": STRANGERS, "convicted": True, "forfeited": False}
    assert events_of(contract) == [("DemandUnanswered", unanswered)]
    contract.withdraw(job.watched.owner[1])
    assert events_of(contract) == [("DepositWithdrawn", {"account": job.watched.owner[1], "amount": DEPOSIT + 5})]
