"""What the referee asks of the other contracts, and calls them for, answered by the world (docs/protocol/referee.md)."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

from zoo_compute.spec import admissions, convictions, node_registry, seats, serving
from zoo_compute.spec.disputed_claims import Explorations, Terms
from zoo_compute.spec.frames import Frame, Position
from zoo_compute.spec.params import COIN
from zoo_compute.spec.receipts import RECEIPTS
from zoo_compute.spec.state import Claim, Message, World
from zoo_compute.spec.trials import TRIALS, Trial


def disputes_at(w: World, msg: Message) -> Explorations:
    """What the world's referee keeps, for one call."""
    w.disputes.court, w.disputes.preset = WorldCourt(w, msg), w.config.preset.clocks
    return w.disputes


class WorldCourt:
    """Settlement, of trials Admissions, of receipts Serving; NodeRegistry, Descent, Evidence; tokens and coin. In one call to the referee."""

    def __init__(self, world: World, msg: Message) -> None:
        self._world, self._msg = world, replace(msg, sender=world.config.referee)

    def dispute_terms(self, job: int, claim: Claim) -> Terms:
        terms: Terms = _keeper_of(job).dispute_terms(self._world, job, claim)
        return terms

    def claim_deadline(self, job: int, turn: int) -> int:
        if job == TRIALS:
            trial: Trial | None = self._world.trials.get(turn)
            return trial.deadline if trial else 0
        if job == RECEIPTS:
            return 0
        return seats.claim_deadline(self._world, job, turn)

    def reexecution_price(self, job: int, is_aggregation: bool) -> tuple[str, int]:
        terms = self._world.terms.get(job)
        if terms is None:  # of no job
            return COIN, 0
        return terms.token, terms.aggregator_reserve if is_aggregation else terms.reserve

    def may_answer(self, operator: int, account: str) -> bool:
        return node_registry.may_answer(self._world, operator, account)

    def owner_of(self, operator: int) -> str:
        return self._world.operator(operator).owner

    def part_count(self, descriptor: bytes, element: int) -> int:
        return self._world.config.part_count(descriptor, element)

    def judge(self, kind: int, frame: Frame, position: Position, data: bytes) -> None:
        self._world.config.judge(kind, frame, position, data)

    def open_dispute(self, job: int, claim: Claim) -> None:
        _keeper_of(job).open_dispute(self._world, self._msg, job, claim)

    def close_dispute(self, job: int, claim: Claim, outcome: int, used_s: int, burned: int) -> None:
        _keeper_of(job).close_dispute(self._world, self._msg, job, claim, outcome, used_s, burned)

    def reward_finder(self, job: int, claim: Claim, finder: str) -> None:
        _keeper_of(job).reward_finder(self._world, self._msg, job, claim, finder)

    def take(self, token: str, account: str, amount: int) -> bool:
        self._world.move(token, account, self._world.config.referee, amount, by="referee")
        return True

    def send(self, token: str, account: str, amount: int) -> bool:
        if token == COIN:
            return not self._world.refuses_coin.get(account, False)
        self._world.move(token, self._world.config.referee, account, amount, by="referee")
        return True


def _keeper_of(job: int) -> ModuleType:
    """The contract that keeps claims of this number."""
    return {TRIALS: admissions, RECEIPTS: serving}.get(job, convictions)
