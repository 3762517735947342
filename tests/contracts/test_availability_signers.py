"""Availability in a job with custodians: data is demanded of one that signed for it."""

from __future__ import annotations

import pytest

from tests.contracts.availability_driver import ANSWER_S, DEPOSIT, STRANGERS, SUBMITTER, deployed_fixture, job_fixture  # noqa: F401
from tests.contracts.protocol_double import AGGREGATION, CONVICTED, JOB, TURN, claim_hash
from tests.support.evm import chain
from tests.support.evm import reverts as refused
from tests.support.protocol_driver import events_of
from zoo_compute.spec.params import CUSTODIANS_AT

SIGNER, OTHER = 7, 8
RESERVE = 103  # of the double


@pytest.fixture(name="signed")
def with_custodians(job):
    """The claims are of a closed turn; places 0 and 1 signed for them."""
    job.watched.set_run(turn=TURN + 1, policy=3 << CUSTODIANS_AT)
    for place, operator in enumerate((SIGNER, OTHER)):
        job.double.set_signer(place, operator)
        job.double.set_operator(operator, job.double.address, job.watched.key(1))
    return job


def test_demand__in_a_job_with_custodians__is_of_a_signer(signed):
    with refused("availability: signers answer"):
        signed.demand(0)
    with refused("custody: it did not sign"):
        signed.demand_of(2, 0)
    signed.double.set_nothing(OTHER, True)
    with refused("availability: nothing reserved"):
        signed.demand_of(1, 0)
    signed.double.set_nothing(OTHER, False)
    signed.demand_of(1, 0)
    asked = signed.contract.demands(JOB, claim_hash(signed.claims[0]), STRANGERS)
    assert (asked.signer, asked.turn, asked.holds, asked.asked) == (OTHER, TURN + 1, False, 1)
    signed.watched.set_run(turn=TURN)
    with refused("availability: turn is open"):
        signed.demand_of(0, 1)


def test_demand__of_oneself_or_ones_own_claim_from_a_seat__is_refused(signed):
    with refused("availability: not the lane's holder"):
        signed.demand_of(0, 1, lane=1)
    operator = signed.watched.seats[2][0]
    signed.double.set_signer(0, operator)
    with refused("availability: not the lane's holder"):
        signed.demand_of(0, 1, lane=2)
    signed.demand_of(1, 1, lane=2)
    assert signed.double.holds() == 1


def test_close__of_a_signers_demand__takes_its_reserve_and_leaves_the_claim(signed):
    signed.demand_of(0, AGGREGATION, lane=0)
    signed.demand_of(0, 1, lane=SUBMITTER)
    signed.to(ANSWER_S)
    with refused("availability: window open"):
        signed.close(AGGREGATION, 0)
    signed.to(ANSWER_S + 1)
    signed.close(AGGREGATION, 0)
    ended = {"job": JOB, "operator": SIGNER, "author": 4, "turn": TURN, "seat": AGGREGATION, "lane": 0}
    assert ("DemandUnanswered", {**ended, "convicted": False, "forfeited": True}) in events_of(signed.contract)
    signed.close(1, SUBMITTER)
    [(name, fields)] = events_of(signed.contract)
    assert (name, fields["forfeited"], fields["operator"]) == ("DemandUnanswered", False, SIGNER), "nothing was left"
    assert signed.double.has_forfeited(SIGNER)
    assert (signed.double.count_voided(), signed.double.has_forfeited(OTHER)) == (0, False)
    assert signed.owed(signed.holder(0)) == signed.owed(signed.watched.submitter) == DEPOSIT


def test_close__of_a_claim_convicted_meanwhile__takes_the_reserve_all_the_same(signed):
    signed.demand_of(0, 0)
    signed.watched.set_claim(signed.claims[0], CONVICTED)
    signed.to(ANSWER_S + 1)
    signed.close(0)
    assert signed.double.has_forfeited(SIGNER)


def test_answer__earns_for_the_signer_in_the_first_half__then_for_the_sender(signed):
    signed.demand_of(0, 0)
    signed.demand_of(1, 0, lane=2)
    signed.to(ANSWER_S // 2)
    signed.answer(0)
    assert signed.owed(signed.double.address) == DEPOSIT, "the signer's owner"
    assert signed.owed(signed.watched.owner[1]) == 0, "not the author's"
    signed.to(ANSWER_S // 2 + 1)
    signed.answer(0, 2, sender=signed.watched.key(1))
    assert signed.owed(signed.watched.key(1)) == DEPOSIT, "its own key"
    assert not signed.is_open(0, 2)


def test_help_for_a_signer__delivers_and_earns__and_the_signer_still_answers(signed):
    signed.demand_of(0, 0, lane=1)
    signed.to(ANSWER_S // 2 + 1)
    signed.answer(0, 1, sender=signed.watched.submitter)
    helped = {"job": JOB, "operator": SIGNER, "author": signed.claims[0][3], "turn": TURN, "seat": 0, "lane": 1}
    assert events_of(signed.contract) == [("DemandHelped", helped), ("ClocksResumed", {"job": JOB, "seconds": 4})]
    assert (signed.owed(signed.watched.submitter), signed.is_open(0, 1)) == (DEPOSIT, True)
    asked = signed.contract.demands(JOB, claim_hash(signed.claims[0]), 1)
    assert (asked.deposit, asked.holds, asked.signer, asked.opened_at) == (0, False, SIGNER, chain.timestamp - 4)
    with refused("availability: already shown"):
        signed.answer(0, 1, sender=signed.watched.submitter)
    with refused("availability: demand open"):
        signed.demand_of(1, 0, lane=1)
    signed.to(ANSWER_S)
    signed.answer(0, 1, sender=signed.watched.key(1))
    assert [name for name, _ in events_of(signed.contract)] == ["DemandAnswered"]
    assert (signed.is_open(0, 1), signed.owed(signed.watched.key(1)), signed.resumed()) == (False, 0, [4])
    assert not signed.double.has_forfeited(SIGNER)


def test_close__after_help__costs_the_signer_and_gives_nothing_back(signed):
    signed.demand_of(0, 0, lane=1)
    signed.demand_of(1, 1)
    signed.to(ANSWER_S)
    signed.answer(0, 1, sender=signed.watched.submitter)
    with refused("availability: window open"):
        signed.close(0, 1)
    signed.to(ANSWER_S + 1)
    with refused("availability: answer too late"):
        signed.answer(0, 1, sender=signed.watched.key(1))
    signed.close(0, 1)
    [(name, fields)] = events_of(signed.contract)
    assert (name, fields["forfeited"]) == ("DemandUnanswered", True)
    signed.close(1)
    assert [signed.double.kept(each) for each in (SIGNER, OTHER)] == [RESERVE * 3 // 4, 0]
    assert (signed.owed(signed.holder(1)), signed.owed(signed.holder(STRANGERS))) == (0, DEPOSIT)
    assert signed.resumed() == [ANSWER_S]


def test_demand__of_several_signers__is_bounded_by_the_lane(signed):
    for place in (0, 1, 0, 1):
        signed.demand_of(place, 0)
        with refused("availability: demand open"):
            signed.demand_of(1 - place, 0)
        signed.answer(0)
    with refused("availability: demands spent"):
        signed.demand_of(0, 0)


def test_demand__of_a_signer_that_has_two_open_in_the_lane__is_refused(signed):
    """Of whatever claims. Other lanes, and other signers, have places of their own; help ends nothing."""
    claims = (0, 1, AGGREGATION)
    for seat in claims[:2]:
        signed.demand_of(0, seat)
    for open_ in (2, 2, 1):
        assert signed.contract.signer_demands(JOB, STRANGERS, SIGNER) == open_
        if open_ == 2:
            with refused("availability: signer is busy"):
                signed.demand_of(0, AGGREGATION)
            with refused("availability: demand open"):
                signed.demand_of(0, 0)
            signed.to(ANSWER_S // 2 + 1)
            if signed.contract.demands(JOB, claim_hash(signed.claims[0]), STRANGERS).deposit:
                signed.answer(0, sender=signed.watched.submitter)
            else:
                signed.answer(1, sender=signed.watched.key(1))
    signed.demand_of(0, AGGREGATION, lane=SUBMITTER)
    signed.demand_of(1, AGGREGATION)
    signed.answer(AGGREGATION, sender=signed.watched.key(1))
    signed.demand_of(0, AGGREGATION)
    with refused("availability: signer is busy"):
        signed.demand_of(0, 1)
    signed.to(ANSWER_S + 1)
    signed.close(0)
    assert signed.contract.signer_demands(JOB, STRANGERS, SIGNER) == 1
    assert signed.contract.signer_demands(JOB, SUBMITTER, SIGNER) == 1
