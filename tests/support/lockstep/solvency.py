"""That each contract has what it owes; see `invariants`."""

from collections import Counter

from tests.support.lockstep.channel_invariants import channel_dues
from tests.support.lockstep.credit_invariants import credit_dues
from zoo_compute.spec.clocks import heavy_fee
from zoo_compute.spec.params import COIN
from zoo_compute.spec.state import World

Sums = Counter[str]


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
        tasks[token] += amount if token != COIN else 0
    for (token, _), amount in w.buckets.items():
        treasury[token] += amount
    rewards = Sums({w.config.zen: w.pool + sum(epoch.budget - epoch.paid for epoch in w.epochs.values())})
    audits = Sums(w.audits_burned)
    for (_, token), funds in w.audit_funds.items():
        audits[token] += funds.balance
    for job, budget in w.audit_budgets.items():
        audits[w.jobs[job].token] += budget.balance + budget.reserved
    for (token, _), amount in w.audit_owed.items():
        audits[token] += amount
    referee = Sums({token: amount for token, amount in w.disputes.burned.items() if token != COIN})
    for (token, _), amount in w.disputes.owed.items():
        referee[token] += amount if token != COIN else 0
    for node, _ in w.disputes.nodes.values():
        if node.payment.is_heavy:
            job = w.disputes.claims[node.claim].job
            terms = w.terms.get(job)
            if terms is not None:
                reserve = terms.aggregator_reserve if node.payment.is_of_aggregation else terms.reserve
                referee[w.job(job).token] += heavy_fee(node.price, reserve)
    due = {w.config.registry: registry, w.config.tasks: tasks, w.config.treasury: treasury, w.config.rewards: rewards}
    due |= {w.config.audits: audits, w.config.referee: referee, w.config.custody: custody_dues(w)}
    due |= {w.config.credits: credit_dues(w), w.config.channels: channel_dues(w), w.config.serving: serving_dues(w)}
    for holder, sums in due.items():
        for token, amount in sums.items():
            balance = w.balances.get((token, holder), 0)
            gift = w.donations.get((token, holder), 0)
            if holder == w.config.treasury:  # what arrived and is not yet collected is above its buckets
                gift = max(0, balance - amount)
            assert balance == amount + gift, f"{holder} holds {balance} of {token}, owes {amount}, was given {gift}"


def custody_dues(w: World) -> Sums:
    """What Custody holds for somebody, and what was burned there."""
    sums = Sums(w.custody_burned)
    for (token, _), amount in w.custody_funds.items():
        sums[token] += amount
    for job, amount in w.custody_escrows.items():
        sums[w.jobs[job].token] += amount
    for (job, _), role in w.custody_roles.items():
        sums[w.jobs[job].token] += role.reserve
    return sums


def serving_dues(w: World) -> Sums:
    """What Serving has for operators and finders, and what nobody can spend any more."""
    locked = sum(seat.lock for seat in w.serving_seats.values())
    return Sums({w.config.zen: locked + sum(w.receipt_shares.values()) + w.serving_burned})
