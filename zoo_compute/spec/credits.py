"""Credits: burned ZEN that pays for jobs, and the mint that accepted work shares (docs/protocol/credits.md).

`World.move` has what happens to credits that a contract sends.
"""

from dataclasses import replace

from zoo_compute.spec import node_registry
from zoo_compute.spec.params import (
    BPS,
    CLAIM_EPOCHS,
    DOLLAR,
    LEAST_RATE,
    MOST_DOLLARS,
    MOST_RATE,
    RATE_STEP_BPS,
)
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import Message, MintEpoch, World


def epoch_of(w: World, now: int) -> int:
    return now // w.config.preset.epoch_s


def poster_of(w: World) -> str:
    return w.rate_posters.get(w.config.credits, w.config.first_poster)


def is_fresh(w: World, now: int) -> bool:
    """Whether credits can be bought, and jobs posted that pay in them."""
    return w.rate > 0 and now <= w.rate_posted_at + w.config.preset.rate_stale_s


def credits_for(dollars: int, rate: int) -> int:
    """The credits, and the ZEN burned for them, that so many smallest units of a dollar buy: rounded up."""
    return -(-dollars * DOLLAR // rate)


# Rates ---------------------------------------------------------------------------------------------------------------


def appoint(w: World, msg: Message, account: str) -> None:
    """The governor replaces the poster."""
    require(msg.sender == w.config.treasury_governor, "credits: not the governor")
    w.rate_posters[w.config.credits] = account


def set_rate(w: World, msg: Message, rate: int) -> None:
    """The governor sets any rate."""
    require(msg.sender == w.config.treasury_governor, "credits: not the governor")
    _set_rate(w, msg, rate)


def post_rate(w: World, msg: Message, rate: int) -> None:
    """The poster sets the next rate, a step from the last one."""
    require(msg.sender == poster_of(w), "credits: not the poster")
    last = w.rate
    require(last > 0, "credits: no rate yet")
    require(msg.block_time >= w.rate_posted_at + w.config.preset.rate_step_s, "credits: rate posted too recently")
    require(abs(rate - last) <= last * RATE_STEP_BPS // BPS, "credits: step too large")
    _set_rate(w, msg, rate)


def _set_rate(w: World, msg: Message, rate: int) -> None:
    require(LEAST_RATE <= rate <= MOST_RATE, "credits: rate out of range")
    w.rate, w.rate_posted_at = rate, msg.block_time


# Credits -------------------------------------------------------------------------------------------------------------


def buy(w: World, msg: Message, dollars: int, most: int) -> int:
    """Burns ZEN worth so many dollars; returns how much, which is also the credits bought."""
    require_fresh(w, msg.block_time)
    require(0 < dollars <= MOST_DOLLARS, "credits: dollars out of range")
    amount = credits_for(dollars, w.rate)
    require(amount <= most, "credits: costs more than the most")
    w.zen_burned += amount
    _mint(w, msg.sender, amount)
    w.move(w.config.zen, msg.sender, w.config.credits, amount, by="credits")
    return amount


def pledge(w: World, msg: Message, operator: int, amount: int) -> None:
    """Puts ZEN behind credits that become an operator's collateral."""
    require(operator in w.operators, "credits: unknown operator")
    require(amount > 0, "credits: zero amount")
    owner, credits = w.operator(operator).owner, w.config.credits
    w.pledges[owner] = w.pledges.get(owner, 0) + amount
    _mint(w, credits, amount)
    w.move(w.config.zen, msg.sender, credits, amount, by="credits")
    node_registry.deposit(w, replace(msg, sender=credits), operator, credits, amount)


def _mint(w: World, account: str, amount: int) -> None:
    w.balances[w.config.credits, account] = w.balances.get((w.config.credits, account), 0) + amount


def require_fresh(w: World, now: int) -> None:
    require(is_fresh(w, now), "credits: rate is stale")


# The mint ------------------------------------------------------------------------------------------------------------


def record(w: World, account: str, net: int, fee: int, *, now: int) -> None:
    """For TaskRegistry: counts accepted work that is paid in credits, and sets its mint aside."""
    epoch = epoch_of(w, now)
    total = w.mint_epochs.get(epoch, MintEpoch())
    accepted = total.accepted + net + fee
    more = min(min(w.config.preset.mint_per_epoch, accepted) - total.budget, w.mint_pool)
    w.mint_pool -= more
    w.mint_epochs[epoch] = replace(total, accepted=accepted, budget=total.budget + more)
    for payee, amount in ((account, net), (w.config.treasury, fee)):
        w.mint_shares[payee, epoch] = w.mint_shares.get((payee, epoch), 0) + amount
        w.credits_earned[payee] = w.credits_earned.get(payee, 0) + amount


def share_of(w: World, account: str, epoch: int) -> int:
    """The ZEN that an account can claim of an epoch's mint, if the epoch ended as it is now."""
    total = w.mint_epochs.get(epoch, MintEpoch())
    return total.budget * w.mint_shares.get((account, epoch), 0) // max(1, total.accepted)


def claim(w: World, msg: Message, account: str, epoch: int) -> int:
    """Pays an account's share of an epoch's mint."""
    now = epoch_of(w, msg.block_time)
    require(now > epoch, "credits: epoch not over")
    require(now - epoch <= CLAIM_EPOCHS, "credits: epoch expired")
    amount = share_of(w, account, epoch)
    require(amount > 0, "credits: nothing to claim")
    w.mint_shares[account, epoch] = 0
    total = w.mint_epochs[epoch]
    w.mint_epochs[epoch] = replace(total, paid=total.paid + amount)
    w.move(w.config.zen, w.config.credits, account, amount, by="credits")
    return amount


def recycle(w: World, msg: Message, epoch: int) -> int:
    """Returns what nobody claimed of an expired epoch's mint to the pool."""
    require(epoch_of(w, msg.block_time) > epoch + CLAIM_EPOCHS, "credits: claims still open")
    total = w.mint_epochs.get(epoch, MintEpoch())
    unclaimed = total.budget - total.paid
    require(unclaimed > 0, "credits: nothing to recycle")
    w.mint_epochs[epoch] = replace(total, budget=total.paid)
    w.mint_pool += unclaimed
    return unclaimed


def fund(w: World, msg: Message, amount: int) -> None:
    """Adds ZEN to the pool."""
    require(amount > 0, "credits: zero amount")
    w.mint_pool += amount
    w.move(w.config.zen, msg.sender, w.config.credits, amount, by="credits")


def move_pool(w: World, msg: Message, successor: str, amount: int) -> None:
    """The governor moves ZEN of the pool to the next version's."""
    require(msg.sender == w.config.treasury_governor, "credits: not the governor")
    require(amount > 0, "credits: zero amount")
    require(w.mint_pool >= amount, "credits: amount exceeds pool")
    w.mint_pool -= amount
    w.move(w.config.zen, w.config.credits, successor, amount, by="credits")
