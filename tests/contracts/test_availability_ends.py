"""Availability: what silence costs, whose clocks a demand holds, and where the coin goes."""

from __future__ import annotations

import pytest

from tests.contracts.availability_driver import ANSWER_S, DEPOSIT, SUBMITTER, deployed_fixture, job_fixture  # noqa: F401
from tests.contracts.protocol_double import AGGREGATION, CONVICTED, ENDED, JOB, PAID, TURN, claim_hash
from tests.support.evm import chain
from tests.support.evm import reverts as refused
from tests.support.protocol_driver import START

# --- silence


def test_close__of_an_unanswered_demand__voids_the_claim(job):
    with refused("availability: no demand"):
        job.close(0)
    job.demand(0)
    job.to(ANSWER_S)
    with refused("availability: window open"):
        job.close(0)
    job.to(ANSWER_S + 1)
    job.close(0)
    assert job.double.voided(0) == claim_hash(job.claims[0])
    assert job.owed(job.watched.anyone) == DEPOSIT
    with refused("availability: no demand"):
        job.close(0)


@pytest.mark.parametrize("status", [PAID, CONVICTED])
def test_close__of_a_claim_that_is_over__gives_the_deposit_back_and_voids_nothing(job, status):
    job.demand(0)
    job.watched.set_claim(job.claims[0], status)
    job.to(ANSWER_S + 1)
    job.close(0)
    assert (job.owed(job.watched.anyone), job.double.count_voided()) == (DEPOSIT, 0)


# --- clocks


def test_clocks__a_strangers_and_the_submitters_demand__hold_nothing(job):
    job.demand(0)
    job.demand(0, SUBMITTER)
    assert job.double.holds() == 0
    job.to(3)
    job.answer(0)
    job.answer(0, SUBMITTER)
    assert job.resumed() == []


def test_clocks__demands_of_several_seats__hold_them_once(job):
    job.demand(1, 0)
    job.to(2)
    job.demand(1, AGGREGATION)
    job.demand(0, 2)
    assert job.double.holds() == 1
    assert job.contract.holdings(JOB) == (3, START, START + 2 + ANSWER_S)
    job.to(4)
    job.answer(1, 0)
    job.answer(1, AGGREGATION)
    assert job.double.holds() == 1
    job.to(5)
    job.answer(0, 2)
    assert (job.double.holds(), job.resumed()) == (0, [5])
    assert job.contract.holdings(JOB) == (0, 0, 0)
    assert [job.contract.held(JOB, seat) for seat in (0, 2, AGGREGATION)] == [(TURN, 4), (TURN, 3), (TURN, 2)]


def test_clocks__a_demand_that_nobody_ended__counts_until_its_answer_was_due(job):
    job.demand(0, 2)
    job.to(25)
    job.close(0, 2)
    assert job.resumed() == [ANSWER_S]
    assert job.contract.held(JOB, 2) == (TURN, ANSWER_S)


def test_clocks__of_a_turn_that_opened_meanwhile__move_by_its_own_seconds(job):
    job.demand(0, 2)
    job.watched.set_run(turn=TURN + 1, opened_at=START + 2)
    job.to(5)
    job.answer(0, 2)
    job.demand(0, 2)
    job.watched.set_run(opened_at=START + 20)
    job.to(6)
    job.answer(0, 2)
    job.watched.set_run(turn=TURN, opened_at=START - 5)
    assert job.resumed() == [3, 0]


def test_clocks__a_seat_that_held_a_turn_for_an_answers_time__holds_it_no_more(job):
    job.demand(0, 2)
    job.to(ANSWER_S - 1)
    job.answer(0, 2)
    job.demand(0, 2)
    assert job.double.holds() == 1
    job.to(2 * ANSWER_S - 2)
    job.answer(0, 2)
    assert job.contract.held(JOB, 2) == (TURN, 2 * ANSWER_S - 2)
    job.demand(0, 2)
    assert job.double.holds() == 0
    job.demand(0, AGGREGATION)
    assert job.double.holds() == 1
    job.answer(0, AGGREGATION)
    job.answer(0, 2)
    assert sum(job.resumed()) == 2 * ANSWER_S - 2


def test_clocks__in_the_next_turn__a_seat_may_hold_them_again(job):
    job.demand(0, 2)
    job.to(ANSWER_S)
    job.answer(0, 2)
    job.watched.set_run(turn=TURN + 1)
    job.demand(0, 2)
    assert job.double.holds() == 1
    job.answer(0, 2)
    job.watched.set_run(turn=TURN)
    assert job.contract.held(JOB, 2) == (TURN + 1, 0)


def test_clocks__what_a_demand_of_an_older_turn_used__replaces_nothing_of_the_open_one(job):
    """Else a seat that keeps one demand open could hold the next turn again and again."""
    job.demand(0, 2)
    job.watched.set_run(turn=TURN + 1)
    job.to(1)
    job.demand(1, 2)
    job.to(4)
    job.answer(1, 2)
    job.answer(0, 2)
    job.watched.set_run(turn=TURN)
    assert job.contract.held(JOB, 2) == (TURN + 1, 3)


def test_clocks__of_a_job_that_ended__need_no_holding(job):
    job.watched.set_run(state=ENDED)
    job.demand(0, 2)
    assert job.double.holds() == 0
    job.watched.set_run(state=3)
    job.to(ANSWER_S + 1)
    job.close(0, 2)
    assert job.double.count_voided() == 1


# --- coin


def test_withdraw__sends_what_is_owed_once(job):
    with refused("availability: nothing owed"):
        job.contract.withdraw(job.watched.anyone)
    job.demand(0)
    job.answer(0)
    owner = job.watched.owner[1]
    assert job.contract.withdraw(owner) == DEPOSIT
    assert chain.balance(owner) == DEPOSIT
    assert chain.balance(job.contract.address) == 0
    with refused("availability: nothing owed"):
        job.contract.withdraw(owner)


def test_withdraw__to_who_refuses_coin__keeps_it_owed(job):
    owner = job.double.address
    job.double.set_operator(1, owner, job.watched.key(1))
    job.demand(0)
    job.answer(0)
    with refused("availability: transfer failed"):
        job.contract.withdraw(owner)
    assert job.owed(owner) == DEPOSIT
