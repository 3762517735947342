"""The audits of a job, as the chain has them: its budget, what was drawn, who said what, and what was paid (docs/protocol/audits.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.snapshot import job_events
from zoo_compute.spec.auditing import FIRST_SLOT_UNIT, Budget, Draw, Role, Verdicts, assigned, has_unit
from zoo_compute.spec.params import AGGREGATOR_SEAT, BOUNTY_FEES, RESERVED_FEES

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.events import Event
    from zoo_compute.chain.views import Claim, JobView
    from zoo_compute.spec.params import Terms

HOLDERS_A_READ = 256
NAMES = ("AuditsFunded", "DrawNamed", "UnitsDrawn", "VerdictsGiven", "VerdictsSettled", "VerdictsLapsed")


@dataclass(frozen=True)
class Statement:
    """An operator's verdicts of a turn, and how they ended so far."""

    turn: int
    operator: int
    role: Role
    verdicts: Verdicts
    left: Verdicts  # not settled
    paid: int = 0
    slashed: int = 0


@dataclass(frozen=True)
class Drawn:
    """A turn's draw, and who held its places."""

    turn: int
    draw: Draw
    holders: Sequence[int] = ()

    def judges_of(self, unit: int, author: int) -> tuple[int, int]:
        """The auditor and the replacement of a unit of an operator's claim; 0 for nobody."""
        return assigned(self.draw, unit, author, lambda place: self.holders[place])


@dataclass(frozen=True)
class AuditsView:
    """All of a job's audits at one block. is_funded: somebody ever paid for them."""

    is_funded: bool = False
    budget: Budget = field(default_factory=Budget)
    drawn: Mapping[int, Drawn] = field(default_factory=dict)  # by turn
    statements: Sequence[Statement] = ()

    def verdicts_of(self, turn: int, operator: int, role: Role) -> Statement | None:
        return next((g for g in self.statements if (g.turn, g.operator, g.role) == (turn, operator, role)), None)

    def is_judged(self, turn: int, unit: int, operator: int) -> bool:
        """Whether an auditor said something of a unit in its own half of the window."""
        statement = self.verdicts_of(turn, operator, Role.AUDITOR)
        return statement is not None and (
            has_unit(statement.verdicts.clean, unit) or has_unit(statement.verdicts.wrong, unit)
        )


def units_of(claim: Claim) -> list[tuple[int, int | None]]:
    """A claim's units, each with its slot; an aggregation has none."""
    if claim.seat >= AGGREGATOR_SEAT:
        return [(claim.seat - AGGREGATOR_SEAT, None)]
    first, count = claim.scope >> 16, claim.scope & 0xFFFF
    return [(slot + FIRST_SLOT_UNIT, slot) for slot in range(first, first + count)]


def fee_of(terms: Terms, unit: int) -> int:
    """What a verdict on a unit is paid."""
    return terms.aggregator_reserve if unit < FIRST_SLOT_UNIT else terms.reserve


def reserve_of(terms: Terms, unit: int) -> int:
    """What it reserves of the auditor's deposit."""
    return RESERVED_FEES * fee_of(terms, unit)


def budget_of(terms: Terms, unit: int, *, is_wrong: bool) -> int:
    """What it reserves of the job's budget."""
    return fee_of(terms, unit) * (1 + BOUNTY_FEES if is_wrong else 1)


def expected_cost(terms: Terms) -> int:
    """What the audits of a whole job cost on average: the drawn part of a re-execution of everything."""
    a_round = terms.slots * terms.reserve + terms.aggregators * terms.aggregator_reserve
    return -(-terms.rounds * a_round * terms.audit_bps // 10_000)


def read_audits(chain: Chain, view: JobView) -> AuditsView:
    """The audits of a job at the block of its view."""
    events = [event for event in job_events(chain, view.job, chain.head(view.block)) if event.name in NAMES]
    if not events:
        return AuditsView()
    turns = sorted({event.args["turn"] for event in events if event.name == "DrawNamed"})
    reads = [Read("audits", "budgets", (view.job,)), *(Read("audits", "draws", (view.job, turn)) for turn in turns)]
    budget, *draws = read_all(chain, view.block, reads)
    drawn = {turn: _drawn(chain, view, turn, Draw(**draw)) for turn, draw in zip(turns, draws, strict=True)}
    return AuditsView(True, Budget(**budget), drawn, _statements(events))


def _drawn(chain: Chain, view: JobView, turn: int, draw: Draw) -> Drawn:
    """The holders before a block was named never change."""
    if not draw.is_drawn:
        return Drawn(turn, draw)
    known: dict[tuple[int, int], Sequence[int]] = chain.cached("holders of places", dict)
    key = draw.named_at, draw.places
    if key not in known:
        starts = range(0, draw.places, HOLDERS_A_READ)
        reads = [
            Read("audits", "holders", (start, min(HOLDERS_A_READ, draw.places - start), draw.named_at))
            for start in starts
        ]
        known[key] = [operator for part in read_all(chain, view.block, reads) for operator in part]
    return Drawn(turn, draw, known[key])


def _statements(events: Sequence[Event]) -> list[Statement]:
    statements: dict[tuple[int, int, int], Statement] = {}
    for event in events:
        if event.name not in NAMES[3:]:
            continue
        args: Mapping[str, Any] = event.args
        key = args["turn"], args["operator"], args["role"]
        if event.name == "VerdictsGiven":
            verdicts = _verdicts(args["verdicts"])
            statements[key] = Statement(key[0], key[1], Role(key[2]), verdicts, verdicts)
        elif event.name == "VerdictsSettled":
            paid, slashed = statements[key].paid + args["paid"], statements[key].slashed + args["slashed"]
            statements[key] = replace(statements[key], left=_verdicts(args["left"]), paid=paid, slashed=slashed)
        else:
            statements[key] = replace(
                statements[key], left=Verdicts(), slashed=statements[key].slashed + args["slashed"]
            )
    return list(statements.values())


def _verdicts(args: Mapping[str, Sequence[int]]) -> Verdicts:
    return Verdicts(tuple(args["clean"]), tuple(args["wrong"]))


def summary(view: JobView, audits: AuditsView) -> dict[str, Any]:
    """For `--json`: counts of units, and money in the token's smallest units."""
    claims = {turn: [claim for claim in view.claims if claim.turn == turn] for turn in audits.drawn}
    drawn = sum(
        any(of.judges_of(unit, claim.operator))
        for turn, of in audits.drawn.items()
        for claim in claims[turn]
        for unit, _ in units_of(claim)
    )
    paid_to: dict[str, int] = {}
    for statement in audits.statements:
        if statement.paid:
            paid_to[str(statement.operator)] = paid_to.get(str(statement.operator), 0) + statement.paid
    clean = sum(len(Verdicts(statement.verdicts.clean).units) for statement in audits.statements)
    wrong = sum(len(Verdicts(statement.verdicts.wrong).units) for statement in audits.statements)
    return {
        "rate_bps": view.terms.audit_bps,
        "fee": str(view.terms.reserve),
        "aggregation_fee": str(view.terms.aggregator_reserve),
        "balance": str(audits.budget.balance),
        "reserved": str(audits.budget.reserved),
        "drawn": drawn,
        "verdicts": clean + wrong,
        "clean": clean,
        "false": wrong,
        "open": sum(len(statement.left.units) for statement in audits.statements),
        "paid": str(sum(statement.paid for statement in audits.statements)),
        "paid_to": {operator: str(amount) for operator, amount in sorted(paid_to.items())},
        "slashed": str(sum(statement.slashed for statement in audits.statements)),
    }
