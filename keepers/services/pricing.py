"""The prices of bids, what they put at risk, and who asks price_script for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from keepers.config import CUSTODY, OperatorConfig
from keepers.decisions.obstacles import not_served
from keepers.decisions.orders import AskPrice, Duty, OperatorContext, Progress, SealBid
from keepers.decisions.pricing import ROLES, UNITS, BidRisk, price_key, question, risk_of, risk_words
from keepers.services.bid_seals import priced_token
from keepers.services.price_script import PriceScript
from zoo_compute import spending
from zoo_compute.amounts import ZEN, parse_amount
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.fees import GWEI, next_base_fee
from zoo_compute.chain.views import JobState, JobView, Kind
from zoo_compute.operators.profit import power_cost

MEASURED = 50

log = logging.getLogger("zoo.keeper")


class Pricing:
    """bids: by job, what this operator's bids put at risk, until their job is awarded. measured: by job, seconds of a slot-round here and its
    FLOP, of the last MEASURED jobs. folder: where the answers of price_script are kept."""

    def __init__(self, config: OperatorConfig, chain: Chain, folder: Path, answered: Callable[[], None]) -> None:
        self._config = config
        self._chain = chain
        self.bids: dict[int, list[dict[str, Any]]] = {}
        self.measured: dict[int, tuple[float, int]] = {}
        self.script = PriceScript(config.path(config.price_script), folder, answered) if config.price_script else None

    def settings(self, view: JobView) -> dict[str, Any]:
        """What operator.json says of an `OperatorContext`: whom to serve, in which roles and tokens, at which prices, when and for how long."""
        config = self._config
        token = priced_token(config, self._chain, view.token)
        price, aggregator_price = (config.price_in(token, kind) if token else None for kind in Kind)
        return {
            "token": token,
            "is_provider": "provider" in config.roles and price is not None,
            "is_aggregator": "aggregator" in config.roles and aggregator_price is not None,
            "price": price or 0,
            "aggregator_price": aggregator_price or 0,
            "aggregator_capacity": config.aggregator_capacity,
            "standby": config.standby,
            "max_job_s": config.longest_job_days * 86_400,
            "demand_after_s": config.demand_after_s,
            "hours": sum(1 << hour for hour in set(config.availability_hours)),
            "allow": config.allowed,
            "deny": config.denied,
        }

    def of_custody(self, view: JobView, me: OperatorContext) -> int | None:
        """What I ask of custody in a job's token; None where I offer none."""
        if "custodian" not in self._config.roles or me.is_drained or me.token is None or not_served(view, me):
            return None
        return self._config.price_in(me.token, CUSTODY)

    def priced(self, view: JobView, me: OperatorContext, progress: Progress) -> OperatorContext:
        """Me with the prices that price_script said for this job."""
        if self.script is None:
            return me
        prices: dict[int, int] = {}
        unpriced: dict[int, str] = {}
        for kind in me.kinds:
            bid, lot = view.bids.get((kind, me.operator)), view.lots[kind]
            is_bid = (
                view.state == JobState.OPEN and bid is not None and bid.attempt == lot.attempt
            )  # it is opened at the price that it was sealed with
            answer = self.script.answer(view.job, kind, None if is_bid else price_key(view, kind, progress))
            prices[kind] = answer.price if answer is not None else 0
            if answer is None or not answer.price:
                unpriced[kind] = answer.why if answer is not None else ""
        return replace(
            me,
            price=prices.get(Kind.SLOTS, me.price),
            aggregator_price=prices.get(Kind.AGGREGATOR, me.aggregator_price),
            unpriced=unpriced,
        )

    def record(self, view: JobView, me: OperatorContext, progress: Progress, due: Sequence[Duty]) -> None:
        """Ask for the prices that duties lack, and note what was measured and what bids put at risk."""
        if progress.slot_s is not None:
            self.measured[view.job] = (progress.slot_s, view.terms.flops)
            for job in list(self.measured)[:-MEASURED]:
                del self.measured[job]
        for duty in due:
            if isinstance(duty, AskPrice):
                self._ask(view, me, progress, duty)
        bids = {duty.kind: duty.capacity for duty in due if isinstance(duty, SealBid)}
        for kind, units in bids.items():
            price = (me.token or ZEN).format(me.price_for(kind))
            words = risk_words(self._risk(view, kind, units), me)
            log.info("job %d: bids %s per %s for %d of them: %s", view.job, price, UNITS[Kind(kind)], units, words)
        for (kind, operator), bid in view.bids.items():
            if operator == me.operator and bid.attempt == view.lots[kind].attempt:
                bids[kind] = bid.capacity
        self.bids.pop(view.job, None)
        if bids and view.state == JobState.OPEN:
            token = me.token or ZEN
            self.bids[view.job] = [
                {
                    "role": ROLES[Kind(kind)],
                    "units": units,
                    "token": token.symbol,
                    **self._risk(view, kind, units).to_dict(token),
                }
                for kind, units in bids.items()
            ]

    def _risk(self, view: JobView, kind: int, units: int) -> BidRisk:
        return risk_of(view, kind, units, self._chain.params, is_zen=self._is_zen(view))

    def _watts(self) -> float:
        """Of operator.json, else the mean of what was measured; 0 if neither is known."""
        return self._config.power_watts or spending.read(self._config.folder).mean_watts or 0.0

    def _is_zen(self, view: JobView) -> bool:
        return view.token == self._chain.network.contracts["zen"]

    def _ask(self, view: JobView, me: OperatorContext, progress: Progress, duty: AskPrice) -> None:
        key, config = price_key(view, duty.kind, progress), self._config
        if self.script is None or self.script.is_asked(view.job, duty.kind, key):
            return
        token, seconds = me.token or ZEN, progress.slot_s if duty.kind == Kind.SLOTS else progress.aggregation_s
        power = power_cost(self._watts() * (seconds or 0.0), parse_amount(config.power_price))
        prices = {
            "price": token.exact(config.price_in(token, duty.kind) or 0),
            "power_zen": ZEN.exact(power),
            "base_fee_gwei": next_base_fee(self._chain.w3) / GWEI,
            "coin_price": config.coin_price,
        }
        asked = question(
            view, me, progress, duty.kind, duty.units, self._chain.params, prices, is_zen=self._is_zen(view)
        )
        self.script.ask(view.job, duty.kind, key, asked, token)
