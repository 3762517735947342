"""Audits: the life of an attestation, and what it earns or costs."""

from __future__ import annotations

import pytest

from tests.contracts.audits_driver import (  # noqa: F401
    AUDITORS,
    BUDGET,
    FEE,
    MIN_BOND,
    PHASE,
    SALT,
    deployed_fixture,
    job_fixture,
)
from tests.contracts.protocol_double import (
    AGGREGATION,
    CONVICTED,
    JOB,
    PAID,
    RUNNING,
    SEGMENTS,
    TURN,
    changed,
    claim_hash,
)
from tests.support.evm import reverts as refused
from tests.support.openings import segment_opening

# --- attesting


def test_attest__takes_a_place_and_reserves_the_fee(job):
    job.drawn()
    job.attest(0, 5)
    assert job.budget() == (BUDGET - FEE, FEE)
    assert job.contract.auditors(5).open == 1
    unit = job.contract.units(JOB, TURN, 0)
    assert (unit.claim_hash, unit.attested) == (claim_hash(job.claims[0]), 1)
    assert job.contract.attestations(JOB, TURN, 0, 5) == (1, job.seal(0, 5, job.root(0)))
    with refused("audits: already attested"):
        job.attest(0, 5)
    job.attest(0, 6)
    job.attest(11, 6)
    assert job.budget() == (BUDGET - 3 * FEE, 3 * FEE)


def test_attest__before_the_draw_and_after_its_third__is_refused(job):
    job.offer()
    job.enlist(5)
    job.to(1)
    job.contract.schedule(JOB, TURN)
    with refused("audits: not drawn"):
        job.attest(0, 5)
    job.block(1_010)
    job.contract.draw(JOB, TURN)
    job.fund()
    job.to(1 + PHASE + 1)
    with refused("audits: attesting is over"):
        job.attest(0, 5)
    job.to(1 + PHASE)
    job.attest(0, 5)


def test_attest__by_the_hot_key_of_who_enlisted_in_time(job):
    job.offer()
    job.fund()
    job.to(1)
    job.enlist(6)
    job.contract.schedule(JOB, TURN)
    job.to(2)
    job.enlist(5)
    job.block(1_010)
    job.contract.draw(JOB, TURN)
    job.to(2 + PHASE)
    with refused("audits: not the hot key"):
        job.attest(0, 5, sender=job.watched.owner[5])
    for late in (5, 6, 4):
        with refused("audits: not enlisted in time"):
            job.attest(0, late)


def test_attest__of_work_that_stands_and_is_anothers(job):
    job.drawn()
    with refused("audits: unknown claim"):
        job.attest(0, 5, claim=changed(job.claims[0], root=b"\x01" * 32))
    with refused("audits: not drawn"):
        job.attest(0, 5, claim=changed(job.claims[0], turn=TURN - 1))
    for claim, unit in ((0, 3 * SEGMENTS), (1, 3 * SEGMENTS - 1), (1, 5 * SEGMENTS), (AGGREGATION, 0)):
        with refused("audits: no such unit"):
            job.attest(unit, 5, claim=job.claims[claim], seal=SALT)
    job.attest(5 * SEGMENTS - 1, 5, claim=job.claims[1], seal=SALT)
    for status in (PAID, CONVICTED):
        job.watched.set_claim(job.claims[0], status)
        with refused("audits: unknown claim"):
            job.attest(0, 5)


def test_attest__ones_own_work__is_refused(job):
    job.enlist(1)
    job.drawn()
    job.to(20)
    with refused("audits: own work"):
        job.attest(0, 1)
    job.attest(5 * SEGMENTS - 1, 1, claim=job.claims[1], seal=SALT)


def test_attest__a_unit_that_chance_spared__is_refused(job):
    job.drawn(rate_bps=3_000)
    job.to(20)
    units = {drawn: unit for unit in range(12) for drawn in [job.contract.is_drawn(JOB, TURN, unit)]}
    with refused("audits: unit not drawn"):
        job.attest(units[False], 5)
    job.attest(units[True], 5)


def test_attest__first_the_selected_then_anybody(job):
    job.drawn(bonds=(MIN_BOND, 19 * MIN_BOND))
    unit = next(unit for unit in range(12) if not job.contract.is_selected(JOB, TURN, unit, 5))
    job.to(10 + PHASE - PHASE // 2)
    with refused("audits: not selected"):
        job.attest(unit, 5)
    job.attest(unit, 6)
    job.to(10 + PHASE - PHASE // 2 + 1)
    job.attest(unit, 5)


def test_attest__of_a_stale_draw__everything_by_anybody(job):
    job.enlist(5)
    job.enlist(6, 50 * MIN_BOND)
    job.offer(rate_bps=1)
    job.fund()
    job.to(1)
    job.contract.schedule(JOB, TURN)
    job.block(1_300)
    job.contract.draw(JOB, TURN)
    for unit in range(12):
        assert job.contract.is_drawn(JOB, TURN, unit)
        assert job.contract.is_selected(JOB, TURN, unit, 5)
        job.attest(unit, 5)


def test_attest__two_places_a_unit(job):
    for operator in (2, 3):
        job.enlist(operator)
    job.drawn()
    job.to(20)
    for operator in (2, 5):
        job.attest(0, operator)
    for operator in (3, 6):
        with refused("audits: places taken"):
            job.attest(0, operator)


def test_attest__beyond_the_budget__is_refused(job):
    job.drawn()
    job.to(20)
    for unit in range(10):
        for operator in AUDITORS:
            job.attest(unit, operator)
    assert job.budget() == (0, BUDGET)
    with refused("audits: budget spent"):
        job.attest(10, 5)


# --- revealing and opening


def test_reveal__in_the_second_third_by_whoever_knows_the_salt(job):
    job.drawn()
    job.attest(0, 5)
    job.attest(1, 5)
    job.to(20)
    with refused("audits: not revealing"):
        job.reveal(0, 5)
    job.to(31)
    with refused("audits: not revealing"):
        job.reveal(0, 5)
    with refused("audits: not revealing"):
        job.contract.reveal(JOB, TURN + 5, 0, 5, SALT, SALT)
    job.to(21)
    with refused("audits: seal does not match"):
        job.reveal(0, 5, b"\x01" * 32)
    with refused("audits: no attestation"):
        job.reveal(0, 6)
    job.reveal(0, 5)
    assert job.contract.attestations(JOB, TURN, 0, 5) == (2, job.root(0))
    with refused("audits: no attestation"):
        job.reveal(0, 5)
    job.to(30)
    job.reveal(1, 5)


def test_reveal__of_a_copied_seal__is_impossible(job):
    job.drawn()
    seal = job.seal(0, 5, job.root(0))
    job.attest(0, 5, seal=seal)
    job.attest(0, 6, seal=seal)
    job.to(21)
    job.reveal(0, 5)
    with refused("audits: seal does not match"):
        job.reveal(0, 6)


def test_open__an_attested_unit__shows_the_claims_root(job):
    job.drawn()
    job.attest(6, 5)
    job.to(20)
    with refused("audits: attesting runs"):
        job.open(6)
    job.to(21)
    with refused("audits: no attestation"):
        job.open(7)
    with refused("audits: root does not match"):
        job.open(6, root=b"\x01" * 32)
    with refused("audits: root does not match"):
        job.open(6, root=job.root(7), opening=segment_opening(job.watched.results[0], 1, 3))
    with refused("audits: root does not match"):
        job.open(6, root=job.root(2), opening=segment_opening(job.watched.results[0], 0, 2))
    job.open(6)
    unit = job.contract.units(JOB, TURN, 6)
    assert (unit.opener, unit.root) == (job.watched.anyone, job.root(6))
    with refused("audits: already opened"):
        job.open(6)


def test_open__before_the_draw_or_of_another_claim__is_refused(job):
    with refused("audits: attesting runs"):
        job.open(0)
    job.drawn()
    job.attest(0, 5)
    job.to(21)
    job.claims = {**job.claims, 0: changed(job.claims[0], price=1)}
    with refused("audits: no attestation"):
        job.open(0)


# --- settling


def test_settle__unopposed_and_final__pays_the_fee(job):
    job.drawn()
    job.attested(6)
    job.to(10 + 3 * PHASE + 1)
    with refused("audits: not final"):
        job.settle(6)
    job.double.set_pending(JOB, TURN, 0)
    job.to(10 + 3 * PHASE)
    with refused("audits: not final"):
        job.settle(6)
    job.finish()
    job.settle(6)
    assert (job.paid(), job.bond(), job.budget()) == (FEE, MIN_BOND, (BUDGET - FEE, 0))
    assert job.contract.attestations(JOB, TURN, 6, 5).status == 3
    with refused("audits: no attestation"):
        job.settle(6)
    assert job.contract.withdraw(job.usd, job.watched.owner[5]) == FEE
    assert job.double.count_verifications() == 0


def test_settle__of_nothing__is_refused(job):
    job.drawn()
    with refused("audits: no attestation"):
        job.settle(0)


def test_settle__of_a_job_paid_in_zen__counts_the_verification(job):
    job.watched.set_job(RUNNING, job.zen.address)
    job.drawn()
    job.attested(6)
    job.finish()
    job.settle(6)
    assert job.double.verifications(0) == (5, JOB, 3 * 10**12 // SEGMENTS)
    assert job.contract.owed(job.zen, job.watched.owner[5]) == FEE


def test_settle__of_the_silent__pays_nothing(job):
    job.drawn()
    job.attest(0, 5)
    job.finish()
    job.settle(0)
    assert (job.paid(), job.bond(), job.budget()) == (0, MIN_BOND, (BUDGET, 0))


def test_settle__an_opening_that_agrees__pays(job):
    job.drawn()
    job.attested(0)
    job.open(0)
    job.finish()
    job.settle(0)
    assert (job.paid(), job.bond()) == (FEE, MIN_BOND)


def test_settle__an_attestation_made_up__is_slashed_for_who_opened(job):
    job.drawn()
    job.attested(0, root=b"\x66" * 32)
    job.open(0, sender=job.watched.key(1))
    job.finish()
    job.settle(0)
    assert (job.paid(), job.bond(), job.budget()) == (0, 80, (BUDGET, 0))
    assert (job.contract.owed(job.zen, job.watched.key(1)), job.contract.burned()) == (10, 10)
    assert job.contract.bonded() == 180


def test_settle__who_contradicted_a_claim_that_was_convicted__is_paid(job):
    job.drawn()
    job.attested(0, root=b"\x66" * 32)
    job.attested(5, root=b"\x66" * 32)
    job.open(0)
    job.open(5)
    with refused("audits: not convicted"):
        job.contract.record_conviction(JOB, job.claims[0])
    job.watched.set_claim(job.claims[0], CONVICTED)
    job.contract.record_conviction(JOB, job.claims[0])
    assert job.contract.convicted(JOB, claim_hash(job.claims[0]))
    job.finish()
    job.settle(0)
    job.settle(5)
    assert (job.paid(), job.bond()) == (2 * FEE, MIN_BOND)


@pytest.mark.parametrize(
    ("unit", "opened", "outcome"),
    [
        (4, True, "paid"),  # before the first false leaf of its slot, which is 3
        (5, True, "paid"),
        (6, True, "slashed"),
        (7, True, "nothing"),
        (5, False, "paid"),
        (6, False, "nothing"),
        (7, False, "nothing"),
        (2, True, "paid"),  # in another slot
        (2, False, "paid"),
    ],
)
def test_settle__who_vouched_for_a_claim_that_was_convicted(job, unit, opened, outcome):
    job.drawn()
    job.attested(unit)
    if opened:
        job.open(unit)
    job.falsify(1, 3)
    job.finish()
    job.settle(unit)
    paid, slashed = {"paid": (FEE, 0), "slashed": (0, 20), "nothing": (0, 0)}[outcome]
    assert (job.paid(), job.bond()) == (paid, MIN_BOND - slashed)
    assert job.budget() == (BUDGET - paid, 0)
    assert job.contract.bonded() == 2 * MIN_BOND - slashed


def test_settle__who_contradicted_the_false_leaf__is_paid(job):
    job.drawn()
    job.attested(6, root=b"\x66" * 32)
    job.open(6)
    job.falsify(1, 3)
    job.finish()
    job.settle(6)
    assert (job.paid(), job.bond()) == (FEE, MIN_BOND)


def test_falsify__by_the_referee__keeps_the_first_false_leaf(job):
    with refused("audits: not the referee"):
        job.contract.falsify(JOB, job.claims[0], 1, 3, sender=job.watched.owner[1])
    for leaf, kept in ((3, 3), (4, 3), (2, 2)):
        job.falsify(1, leaf)
        assert job.contract.falsified(JOB, TURN, 1) == kept
    assert job.contract.convicted(JOB, claim_hash(job.claims[0]))


def test_money__what_the_contract_holds_is_what_it_owes(job):
    job.drawn(bonds=(MIN_BOND, 3 * MIN_BOND))
    job.attested(0, root=b"\x66" * 32)
    job.attested(1, 6)
    job.open(0)
    job.finish()
    job.settle(0)
    job.settle(1, 6)
    contract, owner = job.contract, job.watched.owner
    zen = contract.bonded() + contract.burned() + contract.owed(job.zen, job.watched.anyone)
    assert zen == job.zen.balanceOf(contract)
    assert sum(job.budget()) + contract.owed(job.usd, owner[6]) == job.usd.balanceOf(contract)
