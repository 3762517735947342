"""Audits: the offer, bonds, the draw and its randomness."""

from __future__ import annotations

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from tests.contracts.audits_driver import (  # noqa: F401
    AUDITORS,
    BUDGET,
    DRAW_BLOCKS,
    FEE,
    HISTORY,
    HISTORY_CODE,
    MIN_BOND,
    WINDOW_S,
    deployed_fixture,
    job_fixture,
    remembered,
)
from tests.contracts.protocol_double import CANCELLED, ENDED, JOB, RUNNING, TURN
from tests.support.evm import chain
from tests.support.evm import reverts as refused
from tests.support.protocol_driver import START, load

# --- offers and budgets


def test_offer__by_the_submitter_once__fixes_the_plan(job):
    with refused("audits: not the submitter"):
        job.offer(sender=job.watched.anyone)
    for fee in (0, 2**96):
        with refused("audits: fee out of range"):
            job.offer(fee=fee)
    for rate_bps in (0, 10_001):
        with refused("audits: rate out of range"):
            job.offer(rate_bps=rate_bps)
    for segments in (0, 65_537):
        with refused("audits: segments out of range"):
            job.offer(segments=segments)
    job.offer(fee=2**96 - 1, rate_bps=10_000, segments=65_536)
    assert job.contract.plans(JOB) == (2**96 - 1, 10_000, 65_536, 0, 0)
    with refused("audits: already offered"):
        job.offer()


def test_fund__anybody_adds_the_jobs_token(job):
    with refused("audits: nothing offered"):
        job.fund()
    job.offer()
    with refused("audits: zero amount"):
        job.fund(0)
    job.fund(700)
    job.contract.fund(JOB, 300, sender=job.watched.owner[1])
    assert job.budget() == (1_000, 0)
    assert job.usd.balanceOf(job.contract) == 1_000
    job.usd.refuse(True)
    with refused("audits: transfer failed"):
        job.fund()


@pytest.mark.parametrize("over", [ENDED, CANCELLED])
def test_refund__of_a_job_that_is_over__goes_to_the_submitter(job, over):
    job.drawn()
    job.attest(0, 5)
    with refused("audits: job not over"):
        job.contract.refund(JOB)
    job.watched.set_job(over, job.usd.address)
    job.contract.refund(JOB)
    assert job.budget() == (0, FEE)
    assert job.contract.withdraw(job.usd, job.watched.submitter) == BUDGET - FEE
    assert job.usd.balanceOf(job.contract) == FEE
    with refused("audits: nothing left"):
        job.contract.refund(JOB)
    with refused("audits: nothing owed"):
        job.contract.withdraw(job.usd, job.watched.submitter)


def test_withdraw__of_a_token_that_answers_false__keeps_it_owed(job):
    job.offer()
    job.fund()
    job.watched.set_job(ENDED, job.usd.address)
    job.contract.refund(JOB)
    job.usd.refuse(True)
    with refused("audits: transfer failed"):
        job.contract.withdraw(job.usd, job.watched.submitter)
    assert job.contract.owed(job.usd, job.watched.submitter) == BUDGET


# --- bonds


def test_enlist__by_the_owner_with_the_least_bond(job):
    with refused("audits: not the owner"):
        job.contract.enlist(5, MIN_BOND, sender=job.watched.key(5))
    for amount in (0, MIN_BOND - 1):
        with refused("audits: bond below the minimum"):
            job.enlist(5, amount)
    job.enlist(5)
    job.to(3)
    with refused("audits: bond below the minimum"):
        job.enlist(5, 0)
    job.enlist(5, 1)
    assert job.contract.auditors(5) == (MIN_BOND + 1, START + 3, 0)
    assert job.contract.bonded() == job.zen.balanceOf(job.contract) == MIN_BOND + 1
    job.zen.refuse(True)
    with refused("audits: transfer failed"):
        job.enlist(6)


def test_resign__without_open_attestations__returns_the_bond(job):
    job.drawn()
    with refused("audits: not the owner"):
        job.contract.resign(5, sender=job.watched.key(5))
    with refused("audits: not enlisted"):
        job.contract.resign(4, sender=job.watched.owner[4])
    job.attest(0, 5)
    with refused("audits: attestations open"):
        job.contract.resign(5, sender=job.watched.owner[5])
    job.contract.resign(6, sender=job.watched.owner[6])
    assert (job.bond(6), job.contract.bonded()) == (0, MIN_BOND)
    assert job.contract.withdraw(job.zen, job.watched.owner[6]) == MIN_BOND
    job.finish()
    job.settle(0)
    job.contract.resign(5, sender=job.watched.owner[5])
    with refused("audits: not enlisted"):
        job.contract.resign(5, sender=job.watched.owner[5])


# --- draws


def test_schedule__of_a_closed_turn__names_the_next_block(job):
    with refused("audits: nothing offered"):
        job.contract.schedule(JOB, TURN)
    job.offer()
    job.enlist(5)
    for turn in (TURN + 1, TURN + 2, 2**256 - 1):
        with refused("audits: turn still open"):
            job.contract.schedule(JOB, turn)
    job.double.set_pending(JOB, TURN - 1, 0)
    with refused("audits: turn is final"):
        job.contract.schedule(JOB, TURN - 1)
    job.contract.schedule(JOB, TURN)
    assert job.contract.draws(JOB, TURN) == (START, 1_001, 0, WINDOW_S, False, MIN_BOND, bytes(32))
    with refused("audits: already scheduled"):
        job.contract.schedule(JOB, TURN)


def test_draw__only_under_the_blocks_that_bury_it(job):
    with refused("audits: not scheduled"):
        job.contract.draw(JOB, TURN)
    job.offer()
    job.contract.schedule(JOB, TURN)
    job.block(1_001 + DRAW_BLOCKS)
    with refused("audits: draw block not buried"):
        job.contract.draw(JOB, TURN)
    job.block(1_002 + DRAW_BLOCKS)
    job.to(9)
    job.contract.draw(JOB, TURN)
    draw = job.contract.draws(JOB, TURN)
    assert (draw.drawn_at, draw.stale) == (START + 9, False)
    assert draw.seed == keccak(encode(["bytes32", "uint256", "uint256"], (chain.block_hash(1_001), JOB, TURN)))
    with refused("audits: already drawn"):
        job.contract.draw(JOB, TURN)


def seed_drawn_at(job, number):
    job.offer()
    job.contract.schedule(JOB, TURN)
    job.block(number)
    job.contract.draw(JOB, TURN)
    return job.contract.draws(JOB, TURN)


def test_draw__at_the_end_of_blockhash__knows_the_block(job):
    draw = seed_drawn_at(job, 1_001 + 256)
    assert (draw.stale, draw.seed) == (
        False,
        keccak(encode(["bytes32", "uint256", "uint256"], (chain.block_hash(1_001), JOB, TURN))),
    )


def test_draw__a_block_later__is_stale_without_a_history(job):
    draw = seed_drawn_at(job, 1_001 + 257)
    assert draw.stale
    assert draw.seed == keccak(encode(["bytes32", "uint256", "uint256"], (bytes(32), JOB, TURN)))


def test_draw__a_block_later__asks_the_history_contract(job):
    chain.set_code(HISTORY, HISTORY_CODE)
    draw = seed_drawn_at(job, 1_001 + 257)
    assert (draw.stale, draw.seed) == (
        False,
        keccak(encode(["bytes32", "uint256", "uint256"], (remembered(1_001), JOB, TURN))),
    )


@pytest.mark.parametrize("end", ["5f5ffd", "60205ffd", "601f5ff3"], ids=["refuses", "refuses with a word", "is short"])
def test_draw__a_history_that_refuses_or_answers_no_word__is_stale(job, end):
    chain.set_code(HISTORY, bytes.fromhex("60205f5f37" + end))
    assert seed_drawn_at(job, 9_000_000).stale


def test_draw__another_block__draws_others(job):
    """What a reorganisation would do as well: the same rule on another hash."""
    job.offer(rate_bps=5_000)
    drawn = set()
    for block in range(1_000, 1_004):
        with chain.anchor():
            job.block(block)
            job.contract.schedule(JOB, TURN)
            job.block(block + 10)
            job.contract.draw(JOB, TURN)
            drawn.add(tuple(job.contract.is_drawn(JOB, TURN, unit) for unit in range(24)))
    assert len(drawn) == 4


def test_a_turn__that_is_scheduled_and_not_drawn__has_no_units_and_selects_nobody(job):
    job.offer()
    for operator in AUDITORS:
        job.enlist(operator)
    job.to(1)
    job.contract.schedule(JOB, TURN)
    assert not any(job.contract.is_drawn(JOB, TURN, unit) for unit in range(10))
    assert not any(job.contract.is_selected(JOB, TURN, unit, operator) for unit in range(10) for operator in AUDITORS)


def test_units__are_drawn_at_the_jobs_rate(job):
    assert not job.contract.is_drawn(JOB, TURN, 0)
    job.drawn(rate_bps=2_500)
    seed = job.contract.draws(JOB, TURN).seed
    expected = [
        int.from_bytes(keccak(encode(["bytes32", "uint256"], (seed, unit))), "big") % 10_000 < 2_500
        for unit in range(400)
    ]
    assert [job.contract.is_drawn(JOB, TURN, unit) for unit in range(400)] == expected
    assert 60 < sum(expected) < 140


def test_auditors__are_selected_by_their_bonds(job):
    job.drawn(bonds=(9 * MIN_BOND, 31 * MIN_BOND))
    seed = job.contract.draws(JOB, TURN).seed
    for operator, bond in ((5, 9 * MIN_BOND), (6, 31 * MIN_BOND)):
        tickets = [
            int.from_bytes(keccak(encode(["bytes32", "uint256", "uint256"], (seed, unit, operator)))[:16], "big")
            for unit in range(300)
        ]
        expected = [ticket * 40 * MIN_BOND < 2 * bond << 128 for ticket in tickets]
        assert [job.contract.is_selected(JOB, TURN, unit, operator) for unit in range(300)] == expected
        # Of the first, 2 * 9 / 40 of the units; the second's share is above one half: all.
        assert sum(expected) == 300 if operator == 6 else 100 < sum(expected) < 170
    assert not job.contract.is_selected(JOB, TURN, 0, 4)
    assert not job.contract.is_selected(JOB, TURN + 9, 0, 6)


# --- tokens that answer nothing


def test_token__that_answers_nothing__pays_for_audits_and_is_a_bond(deployed):
    watched, double = deployed[0], deployed[0].double
    token = load("mocks/SilentToken").deploy()
    with chain.anchor():
        contract = load("Audits").deploy(double, double, double, double, token, MIN_BOND, DRAW_BLOCKS)
        watched.set_job(RUNNING, token.address)
        token.mint(watched.submitter, BUDGET)
        contract.offer(JOB, FEE, 10_000, 4, sender=watched.submitter)
        contract.fund(JOB, BUDGET, sender=watched.submitter)
        token.mint(watched.owner[5], MIN_BOND)
        contract.enlist(5, MIN_BOND, sender=watched.owner[5])
        assert token.balanceOf(contract) == BUDGET + MIN_BOND
        contract.resign(5, sender=watched.owner[5])
        contract.withdraw(token, watched.owner[5])
        assert token.balanceOf(watched.owner[5]) == MIN_BOND


def test_settle__of_a_unit_whose_claim_is_parked__waits_for_its_dispute(job):
    job.drawn()
    job.attested(0)
    job.finish()
    claim = job.claims[0]
    job.double.set_parked(JOB, claim, 1)
    with refused("audits: not final"):
        job.settle(0)
    with refused("audits: not convicted"):
        job.contract.record_conviction(JOB, claim, sender=job.watched.anyone)
    job.double.set_parked(JOB, claim, 3)
    job.contract.record_conviction(JOB, claim, sender=job.watched.anyone)
    job.settle(0)
    assert job.paid() > 0


def test_settle__right_after_the_conviction_of_a_parked_claim__pays_who_contradicted_it(job):
    """Nobody recorded the conviction here: the liar settles in the transaction in which it is convicted."""
    job.drawn()
    job.attested(0, root=b"\x66" * 32)
    job.open(0, sender=job.watched.key(1))
    job.finish()
    job.double.set_parked(JOB, job.claims[0], 3)
    job.settle(0)
    assert (job.bond(), job.contract.owed(job.zen, job.watched.key(1))) == (MIN_BOND, 0)
