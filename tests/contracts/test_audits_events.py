"""Audits: every event with every field."""

from __future__ import annotations

from tests.contracts.audits_driver import DRAW_BLOCKS, FEE, MIN_BOND, deployed_fixture, job_fixture  # noqa: F401
from tests.contracts.protocol_double import ENDED, JOB, SEGMENTS, TURN
from tests.support.protocol_driver import events_of


def test_audits__tell_of_a_plan_its_auditors_and_a_draw(job):
    contract = job.contract
    job.offer()
    assert events_of(contract) == [
        ("AuditsOffered", {"job": JOB, "fee": FEE, "rate_bps": 10_000, "segments": SEGMENTS})
    ]
    job.fund(900)
    assert events_of(contract) == [("AuditsFunded", {"job": JOB, "amount": 900})]
    job.enlist(5)
    job.enlist(5, 30)
    assert events_of(contract) == [("AuditorEnlisted", {"operator": 5, "bond": MIN_BOND + 30})]
    job.to(1)
    contract.schedule(JOB, TURN)
    assert events_of(contract) == [("DrawScheduled", {"job": JOB, "turn": TURN, "block": 1_001})]
    job.block(1_000 + DRAW_BLOCKS + 2)
    contract.draw(JOB, TURN)
    drawn = events_of(contract)
    assert drawn == [("TurnDrawn", {"job": JOB, "turn": TURN, "seed": contract.draws(JOB, TURN).seed, "stale": False})]
    contract.resign(5, sender=job.watched.owner[5])
    assert events_of(contract) == [("AuditorResigned", {"operator": 5, "bond": MIN_BOND + 30})]
    job.watched.set_job(ENDED, job.usd.address)
    contract.refund(JOB)
    assert events_of(contract) == [("AuditsRefunded", {"job": JOB, "amount": 900})]
    contract.withdraw(job.usd, job.watched.submitter)
    withdrawn = {"token": job.usd.address, "account": job.watched.submitter, "amount": 900}
    assert events_of(contract) == [("Withdrawn", withdrawn)]


def test_audits__tell_of_an_attestation_from_its_seal_to_its_end(job):
    contract = job.contract
    job.drawn()
    unit = {"job": JOB, "turn": TURN, "unit": 6}
    job.to(20)
    job.attest(6, 5, b"\x01" * 32)
    assert events_of(contract) == [("UnitAttested", {**unit, "operator": 5})]
    job.attest(7, 5)
    job.to(21)
    job.reveal(6, 5, b"\x01" * 32)
    assert events_of(contract) == [("AttestationRevealed", {**unit, "operator": 5, "root": b"\x01" * 32})]
    job.reveal(7, 5)
    job.open(6)
    assert events_of(contract) == [("UnitOpened", {**unit, "root": job.root(6), "opener": job.watched.anyone})]
    job.finish()
    job.settle(6)
    settled = events_of(contract)
    slashed = MIN_BOND - job.bond()
    assert slashed > 0
    assert settled == [("AttestationSettled", {**unit, "operator": 5, "paid": 0, "slashed": slashed})]
    job.settle(7)
    assert events_of(contract) == [
        ("AttestationSettled", {**unit, "unit": 7, "operator": 5, "paid": FEE, "slashed": 0})
    ]
    job.falsify(2, 3)
    assert events_of(contract) == [("WorkFalsified", {"job": JOB, "turn": TURN, "slot": 2, "leaf": 3})]
    job.falsify(2, 4)
    assert events_of(contract) == []
