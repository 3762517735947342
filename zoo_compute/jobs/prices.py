"""A job's prices: those in its `market` section, and defaults for the others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from repops.fields import BadField
from zoo_compute.amounts import CREDITS, ZEN, Token
from zoo_compute.formats.manifest import JobError, Manifest
from zoo_compute.jobs.custody import BUDGET_PARTS
from zoo_compute.jobs.sections import MarketSection
from zoo_compute.spec.params import MAX_PRICE, MAXIMUM_MULTIPLE, default_reserve, escrow_of

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
PRICES = ("reserve", "max_price", "aggregator_reserve", "aggregator_max_price")


class Prices(NamedTuple):
    """In the token's smallest unit: the first two per slot-round, the others per round."""

    reserve: int
    max_price: int
    aggregator_reserve: int
    aggregator_max_price: int


class PartialPrices(NamedTuple):
    """The prices that `market` and the budget determine. None: follows from the work."""

    reserve: int | None
    max_price: int | None
    aggregator_reserve: int | None
    aggregator_max_price: int | None


def token_of(market: MarketSection) -> Token | None:
    """The token, as far as the section alone defines it; else None. Raises BadField."""
    token, decimals = market.token, market.decimals
    if token == ZEN.symbol:
        if decimals not in (None, ZEN.decimals):
            raise BadField(f"market.decimals: ZEN has {ZEN.decimals}, not {decimals}")
        return ZEN
    if token != CREDITS and not _ADDRESS.fullmatch(token):
        raise BadField(f"market.token: expected 'ZEN', '{CREDITS}' or an address, got {token!r}")
    return None if decimals is None or token == CREDITS else Token(f"token@{token[:10]}", decimals, token)


def read_prices(
    market: MarketSection, budget: str | int | float | None, token: Token, manifest: Manifest
) -> PartialPrices:
    """Read and check, for a job like this one. Maximum prices that are not set share the budget equally, less a part for custodians if there are any. Raises
    UserError, JobError.
    """
    rounds, slots, aggregators = manifest.rounds, manifest.slots, manifest.aggregators
    texts = {name: getattr(market, name) for name in PRICES}
    amounts = {n: None if text is None else token.parse(text, what=f"market.{n}") for n, text in texts.items()}
    limit = None if budget is None else token.parse(budget, what="budget_max")
    if amounts["max_price"] is None and limit is not None:
        left = limit - limit // BUDGET_PARTS if manifest.custodians else limit
        amounts["max_price"] = left // (rounds * (slots + aggregators))
    if amounts["aggregator_max_price"] is None:
        amounts["aggregator_max_price"] = amounts["max_price"]
    partial = PartialPrices(**amounts)
    for name, low, high in _pairs(partial):
        if (low is not None and low < 1) or (high is not None and not max(1, low or 1) <= high <= MAX_PRICE):
            raise JobError(f"market.{name}reserve: expected more than 0 and at most {name}max_price")
    if limit is not None and partial.max_price is not None and partial.aggregator_max_price is not None:
        escrow = escrow_of(rounds, slots, partial.max_price, partial.aggregator_max_price, aggregators)
        if escrow > limit:
            raise JobError(
                f"budget_max: the job needs {token.format(escrow)} in escrow, the budget is {token.format(limit)}",
                hint="lower market.max_price, market.aggregator_max_price, training.rounds or training.slots",
            )
    return partial


def complete_prices(partial: PartialPrices, token: Token, flops: Callable[[], int]) -> Prices:
    """All prices. flops: of one slot-round. Called, which traces the module, only if a reserve follows from the work.

    The default reserve is the work's reference price (`params.default_reserve`), at most the maximum. The default maximum is
    MAXIMUM_MULTIPLE times the reserve. Only ZEN has a reference price, and credits with it: in another token the default reserve is half the
    maximum, which four re-openings reach. Raises JobError.
    """
    reserve, most = partial.reserve, partial.max_price
    if reserve is None and token.is_worth_zen:
        worth = min(default_reserve(flops()), MAX_PRICE // MAXIMUM_MULTIPLE)
        reserve = worth if most is None else min(worth, most)
    elif reserve is None and most is not None:
        reserve = max(1, most // MAXIMUM_MULTIPLE)
    elif reserve is None:
        raise JobError(
            f"market.max_price: missing; work has no reference price in {token}",
            hint="set a budget (--max-budget, or budget_max in the file) or market.max_price",
        )
    most = reserve * MAXIMUM_MULTIPLE if most is None else most
    most_a = most if partial.aggregator_max_price is None else partial.aggregator_max_price
    reserve_a = min(reserve, most_a) if partial.aggregator_reserve is None else partial.aggregator_reserve
    for name, low, high in _pairs(PartialPrices(reserve, most, reserve_a, most_a)):
        assert low is not None
        assert high is not None
        if not 1 <= low <= high <= MAX_PRICE:
            raise JobError(f"market.{name}reserve: expected more than 0 and at most {name}max_price")
    return Prices(reserve, most, reserve_a, most_a)


def _pairs(partial: PartialPrices) -> tuple[tuple[str, int | None, int | None], ...]:
    return (
        ("", partial.reserve, partial.max_price),
        ("aggregator_", partial.aggregator_reserve, partial.aggregator_max_price),
    )
