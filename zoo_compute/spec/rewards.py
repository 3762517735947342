"""Rewards: network rewards for verified compute, from a funded pool (docs/protocol.md, "Rewards")."""

from dataclasses import replace

from zoo_compute.spec.refusal import require
from zoo_compute.spec.state import Epoch, Message, Share, World


def epoch_of(w: World, now: int) -> int:
    return now // w.config.preset.epoch_s


def fund(w: World, msg: Message, amount: int) -> None:
    require(amount > 0, "rewards: zero amount")
    w.pool += amount
    w.move(w.config.zen, msg.sender, w.config.rewards, amount, by="rewards")


def record(w: World, operator: int, weight: int, fee: int, *, now: int) -> None:
    """For Settlement: verified compute, and the fee that its job paid."""
    epoch = epoch_of(w, now)
    total, share = w.epochs.get(epoch, Epoch()), w.shares.get((operator, epoch), Share())
    w.epochs[epoch] = replace(total, weight=total.weight + weight, fees=total.fees + fee)
    w.shares[operator, epoch] = Share(share.weight + weight, share.fees + fee)


def budget_of(w: World, epoch: int) -> int:
    """What an epoch pays at most: fixed at its first claim, which no later claim changes."""
    return w.epochs.get(epoch, Epoch()).budget or min(w.config.preset.emission_per_epoch, w.pool)


def reward_of(w: World, operator: int, epoch: int) -> int:
    """What an operator may claim of an epoch: its part of the budget, never above the fees its jobs paid."""
    total, share = w.epochs.get(epoch, Epoch()), w.shares.get((operator, epoch), Share())
    if share.weight == 0:
        return 0
    return min(budget_of(w, epoch) * share.weight // total.weight, share.fees)


def claim(w: World, msg: Message, operator: int, epoch: int) -> int:
    """Pays the owner once for an epoch that is over."""
    require(epoch_of(w, msg.now) > epoch, "rewards: epoch not over")
    amount = reward_of(w, operator, epoch)
    require(amount > 0, "rewards: nothing to claim")
    total, budget = w.epochs[epoch], budget_of(w, epoch)
    if total.budget == 0:
        w.pool -= budget
    w.epochs[epoch] = replace(total, budget=budget, paid=total.paid + amount)
    del w.shares[operator, epoch]
    w.move(w.config.zen, w.config.rewards, w.operators[operator].owner, amount, by="rewards")
    return amount
