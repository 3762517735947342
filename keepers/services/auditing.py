"""An auditor's lane: draws are made, drawn units re-executed, verdicts sent in time, settled early, and lapsed where nobody did.

Everything is decided from the chain and from the reports of the verification queue, so a keeper that is started again goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from zoo_compute.chain.audits import (
    AuditsView,
    Drawn,
    Statement,
    budget_of,
    reserve_of,
    units_of,
)
from zoo_compute.chain.generated.bindings.audits import Verdicts as Bitmaps
from zoo_compute.errors import Refusal
from zoo_compute.spec.auditing import Role, Verdicts, has_unit, lapses_at, verdicts_of
from zoo_compute.spec.params import VERDICT_CLAIMS

if TYPE_CHECKING:
    from zoo_compute.chain.call import Call
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.sender import Sender
    from zoo_compute.chain.views import Checkpoint, Commit, JobView

log = logging.getLogger("zoo.auditing")
Work = tuple[int, int]  # turn and unit
MARGIN = 5  # a fifth of its half of the window is left for sending verdicts, whatever is not re-executed by then
RETRY_S = 10  # until what could not be settled is tried again


class Unit(NamedTuple):
    """A drawn unit that falls to me."""

    turn: int
    number: int
    slot: int | None
    claim: Commit | Checkpoint


class Auditing:
    """Of one operator. agrees: what my worker results of a unit's work; None while that is not known."""

    def __init__(
        self,
        chain: Chain,
        sender: Sender,
        operator: int,
        agrees: Callable[[JobView, Commit | Checkpoint, int | None], bool | None],
    ) -> None:
        self._chain, self._sender, self._operator, self._agrees = chain, sender, operator, agrees
        self._retry_at: dict[tuple[int, int, Role], int] = {}
        self._open: set[int] = set()  # jobs in which there is more to do

    def work(self, view: JobView, audits: AuditsView) -> set[Work]:
        """Make draws that are due. Returns what is to be re-executed for me. audits: of the view's block."""
        if not audits.is_funded:
            return set()
        self._draw(view, audits)
        return {(unit.turn, unit.number) for unit in self._units(view, audits)}

    def act(self, view: JobView, audits: AuditsView) -> None:
        """Send the verdicts that are due, and end those whose time has come."""
        if not audits.is_funded:
            return
        units = self._units(view, audits)
        for turn in sorted({unit.turn for unit in units}):
            self._give(view, audits, audits.drawn[turn], [unit for unit in units if unit.turn == turn])
        for statement in audits.statements:
            drawn = audits.drawn[statement.turn]
            if not statement.left.units:
                continue
            last = lapses_at(drawn.draw.deadline, view.terms.reexecute_s, self._chain.params.clocks)
            if view.now > last:
                log.warning(
                    "job %d: verdicts of operator %d on turn %d lapse", view.job, statement.operator, statement.turn
                )
                self._send(self._chain.audits.lapse_verdicts(*_key(view, statement), _bitmaps(statement.left)))
            elif statement.operator == self._operator and view.now > drawn.draw.deadline:
                self._settle(view, audits, drawn, statement)
        mine = any(statement.left.units for statement in audits.statements if statement.operator == self._operator)
        (self._open.add if mine or units else self._open.discard)(view.job)

    def pending(self, job: int) -> bool:
        return job in self._open

    # -- draws

    def _draw(self, view: JobView, audits: AuditsView) -> None:
        """Of every closed turn whose window is open: a block is named, or its hash read."""
        if not audits.budget.balance or not self._chain.audits.held(self._operator, block=view.block):
            return
        open_turns = {claim.turn for claim in view.claims if view.is_closed(claim.turn) and view.now < claim.deadline}
        for turn in sorted(open_turns):
            drawn = audits.drawn.get(turn)
            is_named = drawn is not None and drawn.draw.block > 0
            if drawn is not None and drawn.draw.is_drawn:
                continue
            if is_named and drawn is not None and view.block <= drawn.draw.block + self._chain.params.draw_blocks:
                continue
            self._send(self._chain.audits.draw_units(view.job, turn))

    # -- verdicts

    def _units(self, view: JobView, audits: AuditsView) -> list[Unit]:
        """What falls to me now and is not judged."""
        units = []
        for claim in view.claims:
            drawn = audits.drawn.get(claim.turn)
            if drawn is None or not drawn.draw.is_drawn or view.now > drawn.draw.deadline or claim.final:
                continue
            role = drawn.draw.role_at(view.now)
            if audits.verdicts_of(claim.turn, self._operator, role) is not None:
                continue
            for number, slot in units_of(claim):
                auditor, replacement = drawn.judges_of(number, claim.operator)
                is_mine = auditor == self._operator
                if role == Role.REPLACEMENT:
                    is_mine = replacement == self._operator and not audits.is_judged(claim.turn, number, auditor)
                if is_mine:
                    units.append(Unit(claim.turn, number, slot, claim))
        return units

    def _give(self, view: JobView, audits: AuditsView, drawn: Drawn, units: Sequence[Unit]) -> None:
        """One transaction of all verdicts, once all are known or time runs out."""
        draw = drawn.draw
        results = {unit: self._agrees(view, unit.claim, unit.slot) for unit in units}
        begin, end = (draw.named_at, draw.half_at) if view.now <= draw.half_at else (draw.half_at, draw.deadline)
        is_urgent = view.now > end - (end - begin) // MARGIN
        if not is_urgent and any(agrees is None for agrees in results.values()):
            return
        free = self._chain.audits.funds(self._operator, view.token, block=view.block)
        deposit, budget = free.balance - free.reserved, audits.budget.balance
        clean: list[int] = []
        wrong: list[int] = []
        # Lies first: they are worth most. What deposit or budget do not cover is left out, and nothing refuses the rest.
        for unit, agrees in sorted(results.items(), key=lambda item: item[1] is not False):
            cost = budget_of(view.terms, unit.number, is_wrong=agrees is False)
            reserved = reserve_of(view.terms, unit.number)
            if agrees is None or reserved > deposit or cost > budget:
                continue
            deposit, budget = deposit - reserved, budget - cost
            (clean if agrees else wrong).append(unit.number)
        if clean or wrong:
            log.info("job %d: of turn %d I call %d units clean, %d false", view.job, drawn.turn, len(clean), len(wrong))
            bitmaps = _bitmaps(verdicts_of(clean, wrong))
            self._send(self._chain.audits.give_verdicts(view.job, drawn.turn, self._operator, bitmaps))

    # -- how they end

    def _settle(self, view: JobView, audits: AuditsView, drawn: Drawn, statement: Statement) -> None:
        """Of claims that are decided, as soon as they are: later their places are used again."""
        key = view.job, statement.turn, statement.role
        if view.now < self._retry_at.get(key, 0):
            return
        claims = [
            claim
            for claim in view.claims
            if claim.turn == statement.turn
            and (claim.final or not claim.disputed)
            and any(
                has_unit(statement.left.clean, unit) or has_unit(statement.left.wrong, unit)
                for unit, _ in units_of(claim)
            )
        ]
        for auditor, of in _by_auditor(drawn, statement, claims).items():
            first = audits.verdicts_of(statement.turn, auditor, Role.AUDITOR)
            verdicts = first.verdicts if first and statement.role == Role.REPLACEMENT else Verdicts()
            part = [claim.fields for claim in of[:VERDICT_CLAIMS]]
            call = self._chain.audits.settle_verdicts(
                *_key(view, statement),
                _bitmaps(statement.left),
                part,  # type: ignore[arg-type]
                _bitmaps(verdicts),
            )
            if self._send(call):
                self._collect(view.token)
                return  # the next look has what is left
        self._retry_at[key] = view.now + RETRY_S

    def _collect(self, token: str) -> None:
        owner = self._chain.registry.owner_of(self._operator)
        if self._chain.audits.owed(token, owner):
            self._send(self._chain.audits.withdraw(token, owner))

    def _send(self, call: Call) -> bool:
        """Whether it was done; another auditor may have been quicker."""
        try:
            self._sender.send(call)
        except Refusal as refusal:
            log.info("refused: %s", refusal)
            return False
        return True


def _by_auditor(
    drawn: Drawn, statement: Statement, claims: Sequence[Commit | Checkpoint]
) -> dict[int, list[Commit | Checkpoint]]:
    """Claims by whose verdicts a call must show: of a replacement those of each unit's auditor; otherwise nobody's."""
    parts: dict[int, list[Commit | Checkpoint]] = {}
    for claim in claims:
        auditors = {0}
        if statement.role == Role.REPLACEMENT:
            auditors = {drawn.judges_of(unit, claim.operator)[0] for unit, _ in units_of(claim)}
        for auditor in auditors:
            parts.setdefault(auditor, []).append(claim)
    return parts


def _key(view: JobView, statement: Statement) -> tuple[int, int, int, int]:
    return view.job, statement.turn, statement.operator, int(statement.role)


def _bitmaps(verdicts: Verdicts) -> Bitmaps:
    return Bitmaps(list(verdicts.clean), list(verdicts.wrong))
