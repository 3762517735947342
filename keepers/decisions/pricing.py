"""What a bid can cost its operator, and what price_script reads of a job before it says a price. Pure, as `duties`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keepers.decisions.obstacles import free
from keepers.decisions.orders import OperatorContext, Progress
from zoo_compute.amounts import ZEN, Token, format_seconds
from zoo_compute.chain.views import JobView, Kind
from zoo_compute.spec.durations import longest_run_s
from zoo_compute.spec.params import Preset, lock_of, slash_of
from zoo_compute.store.cid import raw_cid

ROLES = {Kind.SLOTS: "provider", Kind.AGGREGATOR: "aggregator"}
UNITS = {Kind.SLOTS: "slot-round", Kind.AGGREGATOR: "aggregation"}
HOUR_S = 3_600


@dataclass(frozen=True)
class BidRisk:
    """What a bid of so many units puts at risk, in the smallest unit of the job's token.

    locks: from the bid on. longest_s: until it is free again, if the job goes on for as long as it may. missed: the most that missed
    deadlines cost, of all units together. unopened: lost if the bid is not opened in time. most: lost if all that is claimed is false.
    """

    locks: int
    longest_s: int
    missed: int
    unopened: int
    most: int

    def to_dict(self, token: Token) -> dict[str, Any]:
        """For scripts: amounts as decimal strings of whole tokens."""
        return {key: token.exact(value) if key != "longest_s" else value for key, value in vars(self).items()}


def risk_of(view: JobView, kind: int, units: int, preset: Preset, *, is_zen: bool) -> BidRisk:
    lot, locks = view.lots[kind], view.bid_lock(kind, units)
    return BidRisk(
        locks=locks,
        longest_s=max(0, lot.reveal_end - view.now) + longest_run_s(view.terms, preset, is_zen=is_zen),
        missed=slash_of(lock_of(units * lot.reserve, view.terms.audit_bps)),
        unopened=units * lot.reserve,
        most=locks,
    )


def risk_words(risk: BidRisk, me: OperatorContext) -> str:
    show = (me.token or ZEN).format
    return (
        f"locks {show(risk.locks)} for at most {format_seconds(risk.longest_s)}; missed deadlines cost up to {show(risk.missed)}, "
        f"false results up to {show(risk.most)}"
    )


def price_key(view: JobView, kind: int, progress: Progress) -> list[Any]:
    """What an answer of price_script holds for: another one is asked for when any of it changes."""
    lot = view.lots[kind]
    return [lot.attempt, lot.reserve, progress.slot_s, progress.aggregation_s, view.now // HOUR_S]


def question(
    view: JobView,
    me: OperatorContext,
    progress: Progress,
    kind: int,
    units: int,
    preset: Preset,
    prices: Mapping[str, Any],
    *,
    is_zen: bool,
) -> dict[str, Any]:
    """What price_script reads (docs/guides/money.md). prices: what its keys on costs say."""
    token, lot, terms = me.token or ZEN, view.lots[kind], view.terms
    risk = risk_of(view, kind, units, preset, is_zen=is_zen)
    return {
        "version": 1,
        "job": view.job,
        "role": ROLES[Kind(kind)],
        "unit": UNITS[Kind(kind)],
        "submitter": view.submitter,
        "manifest": raw_cid(terms.manifest),
        "token": {"symbol": token.symbol, "address": view.token},
        "rounds": terms.rounds,
        "slots": terms.slots,
        "units": units,
        "flops": terms.flops,
        "slot_s": terms.slot_s,
        "aggregate_s": terms.aggregate_s,
        "reexecute_s": terms.reexecute_s,
        "audit_bps": terms.audit_bps,
        "attempt": lot.attempt,
        "reserve": token.exact(lot.reserve),
        "max_price": token.exact(lot.max_reserve),
        "measured": {
            "slot_s": progress.slot_s,
            "opening_s": progress.opening_s,
            "aggregation_s": progress.aggregation_s,
        },
        "locks": token.exact(risk.locks),
        "longest_s": risk.longest_s,
        "missed": token.exact(risk.missed),
        "collateral_free": token.exact(free(view, me)),
        **prices,
    }
