"""TaskRegistry as Auction and Settlement call it: state and payments (docs/protocol/task-registry.md)."""

from dataclasses import replace

from zoo_compute.spec import credits
from zoo_compute.spec.params import COIN, fee_of
from zoo_compute.spec.state import JobState, World


def advance(w: World, job: int, state: JobState) -> None:
    """For Auction and Settlement."""
    w.jobs[job] = replace(w.jobs[job], state=state)


def pay(w: World, job: int, account: str, amount: int, *, now: int) -> int:
    """For Settlement: pays from escrow, minus the treasury's fee. Returns the fee. now: block time."""
    record, fee = w.jobs[job], fee_of(amount)
    assert record.escrow >= amount, "escrow underflows"
    w.jobs[job] = replace(record, escrow=record.escrow - amount)
    owe(w, record.token, account, amount - fee)
    owe(w, record.token, w.config.treasury, fee)
    if record.token == w.config.credits:
        credits.record(w, account, amount - fee, fee, now=now)
    ledger = w.job_ledgers[job]
    w.job_ledgers[job] = replace(ledger, paid=ledger.paid + amount - fee, fees=ledger.fees + fee)
    return fee


def restore(w: World, job: int, restored: int, account: str, amount: int) -> None:
    """For Locks: books what NodeRegistry paid in: restitution, and the part of the audits or of a finder."""
    record = w.jobs[job]
    w.jobs[job] = replace(record, escrow=record.escrow + restored)
    w.job_ledgers[job] = replace(w.job_ledgers[job], restored=w.job_ledgers[job].restored + restored)
    owe(w, record.token, account, amount)


def close(w: World, job: int, kept: int = 0) -> None:
    """For Settlement, and at a cancellation: the rest of the escrow is owed to the submitter, but for what is kept; and the posting deposit."""
    record = w.jobs[job]
    refunded = record.escrow - kept
    assert refunded >= 0, "the escrow does not cover the parked claims"
    w.jobs[job] = replace(record, escrow=kept)
    owe(w, record.token, record.submitter, refunded)
    owe(w, COIN, record.submitter, w.deposits[job])
    w.deposits[job] = 0
    ledger = w.job_ledgers[job]
    w.job_ledgers[job] = replace(ledger, refunded=ledger.refunded + refunded)


def forsake(w: World, job: int) -> None:
    """For Settlement, of a job that never began: the posting deposit, to the owners of its seats' operators, by their slots."""
    held = [seat for (of, _), seat in w.seats.items() if of == job and seat.operator]
    total = sum(seat.count for seat in held)
    for seat in held:
        owe(w, COIN, w.operator(seat.operator).owner, w.deposits[job] // total * seat.count)
    if held:
        w.deposits[job] %= total


def owe(w: World, token: str, account: str, amount: int) -> None:
    """In a token, or in the coin: paid at `withdraw`."""
    w.owed[token, account] = w.owed.get((token, account), 0) + amount
