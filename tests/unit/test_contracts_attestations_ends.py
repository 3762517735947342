"""Audits: what an attestation earns or costs in the end, and what the contract tells."""

from __future__ import annotations

import pytest

from tests.contract_kit import told
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
    CONVICTED,
    ENDED,
    JOB,
    RUNNING,
    SEGMENTS,
    TURN,
    claim_hash,
    refused,
)

# --- settling


def test_settle__unopposed_and_final__pays_the_fee(job):
    job.drawn()
    job.attested(6)
    job.to(10 + 3 * PHASE + 1)
    with refused("audits: not final"):
        job.settle(6)
    job.double.set_final(JOB, TURN, True)
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


def test_wire__by_the_deployer_once(job):
    with refused("audits: not the deployer"):
        job.contract.wire(job.watched.anyone, sender=job.watched.anyone)
    job.contract.wire(job.watched.anyone, sender=job.contract.deployer())
    with refused("audits: already wired"):
        job.contract.wire(job.watched.anyone, sender=job.contract.deployer())


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


# --- events


def test_audits__tell_of_a_plan_its_auditors_and_a_draw(job):
    contract = job.contract
    job.offer()
    assert told(contract) == [("AuditsOffered", {"job": JOB, "fee": FEE, "rate_bps": 10_000, "segments": SEGMENTS})]
    job.fund(900)
    assert told(contract) == [("AuditsFunded", {"job": JOB, "amount": 900})]
    job.enlist(5)
    job.enlist(5, 30)
    assert told(contract) == [("AuditorEnlisted", {"operator": 5, "bond": MIN_BOND + 30})]
    job.to(1)
    contract.schedule(JOB, TURN)
    assert told(contract) == [("DrawScheduled", {"job": JOB, "turn": TURN, "block": 1_001})]
    job.block(1_000 + DRAW_BLOCKS + 2)
    contract.draw(JOB, TURN)
    drawn = told(contract)
    assert drawn == [("TurnDrawn", {"job": JOB, "turn": TURN, "seed": contract.draws(JOB, TURN).seed, "stale": False})]
    contract.resign(5, sender=job.watched.owner[5])
    assert told(contract) == [("AuditorResigned", {"operator": 5, "bond": MIN_BOND + 30})]
    job.watched.set_job(ENDED, job.usd.address)
    contract.refund(JOB)
    assert told(contract) == [("AuditsRefunded", {"job": JOB, "amount": 900})]
    contract.withdraw(job.usd, job.watched.submitter)
    withdrawn = {"token": job.usd.address, "account": job.watched.submitter, "amount": 900}
    assert told(contract) == [("Withdrawn", withdrawn)]


def test_audits__tell_of_an_attestation_from_its_seal_to_its_end(job):
    contract = job.contract
    job.drawn()
    unit = {"job": JOB, "turn": TURN, "unit": 6}
    job.to(20)
    job.attest(6, 5, b"\x01" * 32)
    assert told(contract) == [("UnitAttested", {**unit, "operator": 5})]
    job.attest(7, 5)
    job.to(21)
    job.reveal(6, 5, b"\x01" * 32)
    assert told(contract) == [("AttestationRevealed", {**unit, "operator": 5, "root": b"\x01" * 32})]
    job.reveal(7, 5)
    job.open(6)
    assert told(contract) == [("UnitOpened", {**unit, "root": job.root(6), "opener": job.watched.anyone})]
    job.finish()
    job.settle(6)
    settled = told(contract)
    slashed = MIN_BOND - job.bond()
    assert slashed > 0
    assert settled == [("AttestationSettled", {**unit, "operator": 5, "paid": 0, "slashed": slashed})]
    job.settle(7)
    assert told(contract) == [("AttestationSettled", {**unit, "unit": 7, "operator": 5, "paid": FEE, "slashed": 0})]
    job.falsify(2, 3)
    assert told(contract) == [("WorkFalsified", {"job": JOB, "turn": TURN, "slot": 2, "leaf": 3})]
    job.falsify(2, 4)
    assert told(contract) == []
