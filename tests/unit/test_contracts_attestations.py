"""Audits: the life of an attestation, up to its opening."""

from __future__ import annotations

from tests.contract_kit import START
from tests.openings import segment_opening
from tests.unit.audits_kit import (  # noqa: F401
    AUDITORS,
    BUDGET,
    DRAW_BLOCKS,
    FEE,
    HISTORY,
    HISTORY_CODE,
    MIN_BOND,
    PHASE,
    SALT,
    WINDOW_S,
    block_hash,
    deployed_fixture,
    job_fixture,
)
from tests.unit.watched import (
    AGGREGATION,
    CONVICTED,
    JOB,
    PAID,
    SEGMENTS,
    TURN,
    changed,
    claim_hash,
    refused,
)

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
    job.claims = {**job.claims, 0: changed(job.claims[0], deadline=START)}
    with refused("audits: no attestation"):
        job.open(0)
