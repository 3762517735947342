"""Which broken promises a keeper shows, and whom it recalls: where its part of the stake pays for the gas. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from keepers.decisions.orders import Send
from zoo_compute.spec.params import (
    BPS,
    BREACH_BPS,
    BREACH_FEE_BPS,
    LAPSE_BPS,
    RECALLER_BPS,
    TIERS,
    share_of_stake,
)

# Gas of a transaction, rounded up: 21,000 and what the calls of tests/contracts/test_promises.py and test_admissions.py take at most.
BREACH_GAS, SCHEDULE_GAS, RECALL_GAS, LAPSE_GAS = 120_000, 80_000, 120_000, 130_000
LAPSES_ONE_IN = 20  # recalls, as a keeper reckons: a recall pays only if it lapses, and most do not
DRAWN_ONE_IN = 10  # of the admitted, in an epoch: RECALL_BPS


@dataclass(frozen=True)
class Gas:
    """What a keeper pays for gas. coin_price: of a whole coin, in smallest units of ZEN."""

    wei: int
    coin_price: int

    def cost(self, gas: int) -> int:
        """In smallest units of ZEN."""
        return gas * self.wei * self.coin_price // 10**18


@dataclass(frozen=True)
class Promised:
    """What an operator promised for an epoch that is over, and what of it it kept."""

    operator: int
    stake: int
    tier: int
    hours: int  # a bit for each promised period
    beats: int  # a bit for each period with a heartbeat
    is_judged: bool

    @property
    def is_broken(self) -> bool:
        """Whether more promised periods were missed than the SLA allows."""
        missed = (self.hours & ~self.beats).bit_count()
        return missed > self.hours.bit_count() * TIERS[self.tier].slack_bps // BPS


@dataclass(frozen=True)
class Admitted:
    """An operator with an admission."""

    operator: int
    stake: int
    is_eligible: (
        bool  # neither exiting nor below the least stake: else it could not answer, and a lapse costs it nothing
    )
    is_drawn: bool  # by this epoch's draw, as far as that is known
    has_trial: bool  # answered, and not settled yet
    recalled_in: int  # the epoch of its last recall
    due: int  # until when it must answer that; 0: it did
    recaller: str  # who is paid if it does not


def breaches(seen: Sequence[Promised], epoch: int, gas: Gas) -> Iterator[Send]:
    for each in seen:
        fee = share_of_stake(each.stake, BREACH_BPS, BREACH_FEE_BPS)
        if each.is_broken and not each.is_judged and fee > gas.cost(BREACH_GAS):
            yield Send("registry", "breach", (each.operator, epoch))


def schedules(seen: Sequence[Admitted], gas: Gas) -> Iterator[Send]:
    """The epoch's draw, if the recalls that it may lead to pay for it."""
    gains = (_gain(each, gas) for each in seen if not each.due)
    if sum(max(0, gain) for gain in gains) > DRAWN_ONE_IN * gas.cost(SCHEDULE_GAS):
        yield Send("admissions", "schedule", ())


def recalls(seen: Sequence[Admitted], epoch: int, gas: Gas) -> Iterator[Send]:
    for each in seen:
        is_free = not each.has_trial and not each.due and each.recalled_in != epoch
        if is_free and each.is_drawn and _gain(each, gas) > 0:
            yield Send("admissions", "recall", (each.operator,))


def lapses(seen: Sequence[Admitted], now: int, me: str, gas: Gas) -> Iterator[Send]:
    """Of recalls that nobody answered in time: whoever recalled is paid, whoever calls."""
    for each in seen:
        is_mine = each.recaller.lower() == me.lower()
        if each.due and now > each.due and is_mine and _fee(each) > gas.cost(LAPSE_GAS):
            yield Send("admissions", "lapse", (each.operator,))


def _fee(each: Admitted) -> int:
    return share_of_stake(each.stake, LAPSE_BPS, RECALLER_BPS) if each.is_eligible else 0


def _gain(each: Admitted, gas: Gas) -> int:
    """What a recall brings on average."""
    return (_fee(each) - gas.cost(LAPSE_GAS)) // LAPSES_ONE_IN - gas.cost(RECALL_GAS)
