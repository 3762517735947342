"""What must hold after every step, in the words of money (docs/invariants.md). Raises AssertionError, names the sum."""

from collections import Counter

from zoo_compute.spec import bits
from zoo_compute.spec.params import MAX_REPUTATION
from zoo_compute.spec.state import JobState, Phase, SlashLedger, World

Sums = Counter[str]


def check_invariants(w: World) -> None:
    """Every invariant of the protocol, on one world."""
    check_solvency(w)
    check_escrow(w)
    check_slashes(w)
    check_locks(w)
    check_bitmaps(w)
    check_bounds(w)


def check_solvency(w: World) -> None:
    """Each contract holds at least what it owes, in every token; donations may make it more."""
    registry, tasks, treasury = Sums(), Sums(), Sums()
    registry[w.config.zen] += sum(operator.stake for operator in w.operators.values())
    for (_, token), deposit in w.collateral.items():
        registry[token] += deposit.balance
    for part in (w.pots, w.burned):
        registry.update(part)
    for job in w.jobs.values():
        tasks[job.token] += job.escrow
    for (token, _), amount in w.owed.items():
        tasks[token] += amount
    for (token, _), amount in w.buckets.items():
        treasury[token] += amount
    rewards = Sums({w.config.zen: w.pool + sum(epoch.budget - epoch.paid for epoch in w.epochs.values())})
    due = {w.config.registry: registry, w.config.tasks: tasks, w.config.treasury: treasury, w.config.rewards: rewards}
    for holder, sums in due.items():
        for token, amount in sums.items():
            held = w.balances.get((token, holder), 0)
            gift = w.donations.get((token, holder), 0)
            if holder == w.config.treasury:  # what arrived and is not yet collected is above its buckets
                gift = max(0, held - amount)
            assert held == amount + gift, f"{holder} holds {held} of {token}, owes {amount}, was given {gift}"


def check_escrow(w: World) -> None:
    """A job's escrow is what was paid to nodes and treasury, refunded, or remains; it always covers what is to come."""
    for job, ledger in w.job_ledgers.items():
        remaining = w.jobs[job].escrow
        spent = ledger.paid + ledger.fees + ledger.refunded
        assert ledger.escrowed == spent + remaining, f"job {job}: escrow leaks"
        run, terms = w.run(job), w.terms[job]
        if w.jobs[job].state in (JobState.AWARDED, JobState.RUNNING):
            due = (terms.max_price * terms.slots + terms.aggregator_max_price) * (run.rounds - run.round)
            assert remaining >= due, f"job {job}: escrow does not cover the rounds to come"


def check_slashes(w: World) -> None:
    """What was slashed is credited, burned or in the pot; the pot is the sum of the jobs' pots."""
    jobs = Sums()
    for run in w.runs.values():
        jobs[run.token] += run.pot
        assert run.state != JobState.ENDED or run.outstanding or run.pot == 0, "a settled job keeps a pot"
    for token in {*w.slash_ledgers, *w.pots, *w.burned}:
        ledger, pot = w.slash_ledgers.get(token, SlashLedger()), w.pots.get(token, 0)
        assert ledger.slashed == ledger.credited + w.burned.get(token, 0) + pot, f"{token}: a slash leaks"
        assert pot == jobs[token], f"{token}: the pot is not the jobs' pots"


def check_locks(w: World) -> None:
    """Locked collateral is bids' plus seats' locks; `locks` counts them."""
    locked: Counter[tuple[int, str]] = Counter()
    count: Counter[int] = Counter()
    for (job, kind, operator), bid in w.bids.items():
        lot = w.lot(job, kind)
        is_cleared = lot.phase >= Phase.CLEARING and bid.attempt == lot.attempt and bid.revealed
        units = 0 if bid.priced else bid.won if is_cleared and bid.cleared_pass else bid.capacity
        locked[operator, lot.token] += lot.lock * units
        count[operator] += units > 0
    for seats in (w.seats, w.aggregator_seats):
        for (job, operator), seat in seats.items():
            locked[operator, w.jobs[job].token] += seat.locked
            count[operator] += seat.locked > 0
    for (operator, token), deposit in w.collateral.items():
        assert deposit.locked == locked[operator, token], f"operator {operator}: {deposit.locked} of {token} locked"
        assert 0 <= deposit.locked <= deposit.balance, f"operator {operator}: more locked than held"
    for operator, record in w.operators.items():
        assert record.locks == count[operator], f"operator {operator}: counts {record.locks} locks"


def check_bitmaps(w: World) -> None:
    """Once awarded, every slot has exactly one holder or is vacant; outstanding is what claims still hold."""
    for job, run in w.runs.items():
        if run.state in (JobState.NONE, JobState.OPEN):
            continue
        held = [seat.held for (of, _), seat in w.seats.items() if of == job] + [run.vacant]
        assert sum(map(bits.popcount, held)) == run.slots, f"job {job}: a slot has two holders or none"
        assert sum(held) == bits.full(run.slots), f"job {job}: a slot has two holders"
        closed = {
            key: claim
            for key, claim in w.claims.items()
            if key[0] == job and (key[1] < run.round or run.state == JobState.ENDED)
        }
        due = sum(1 if key[2] == 256 else bits.popcount(claim.bitmap) for key, claim in closed.items())
        assert run.outstanding == due, f"job {job}: outstanding is {run.outstanding}, claims hold {due}"


def check_bounds(w: World) -> None:
    """Prices between bid and reserve, reputation within its cap, rewards within budgets."""
    for (job, kind, operator), bid in w.bids.items():
        if bid.priced:
            price = w.seat(job, operator).price if kind == 0 else w.aggregator_seats[job, operator].price
            assert bid.price <= price <= w.lot(job, kind).reserve, f"operator {operator}: priced at {price}"
    for operator, record in w.operators.items():
        assert 0 <= record.reputation <= MAX_REPUTATION, f"operator {operator}: reputation {record.reputation}"
    for epoch, record in w.epochs.items():
        assert record.paid <= record.budget <= w.config.preset.emission_per_epoch, f"epoch {epoch}: overpaid"
        assert record.paid <= record.fees, f"epoch {epoch}: more rewards than fees"
