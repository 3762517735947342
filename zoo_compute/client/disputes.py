"""Disputes by their names, JOB:TURN:SEAT, trial:OPERATOR or receipt:OPERATOR, and how far they are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zoo_compute.amounts import format_seconds
from zoo_compute.chain.explorations import DisputeView, read_disputes
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import AGGREGATOR_SEAT, Claim
from zoo_compute.client.explored_places import WORK
from zoo_compute.errors import UserError
from zoo_compute.spec.clocks import GWEI, End, asks_end
from zoo_compute.spec.disputed_claims import RESULT
from zoo_compute.spec.frames import Frame, Kind
from zoo_compute.spec.receipts import RECEIPTS
from zoo_compute.spec.trials import TRIALS
from zoo_compute.spec.watching import NOBODY

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain, Head

AGGREGATOR = "aggregator"  # in names
ALONE = {
    TRIALS: "trial",
    RECEIPTS: "receipt",
}  # the same: of claims that are of no job, by what they have for its number
ENDS = {
    End.FINAL: "final: nobody proved an error",
    End.JUDGED: "convicted by judgement",
    End.SILENT: "convicted by silence",
    End.EXHAUSTED: "convicted by silence, with more heavy asks open than it must serve",
    End.AGED: "void: still open when its time was over",
}
ENDS_BRIEFLY = {
    End.FINAL: "final: no error was proven",
    End.JUDGED: "convicted by judgement",
    End.SILENT: "convicted by silence",
    End.EXHAUSTED: "convicted by silence, exhausted",
    End.AGED: "void: its time was over",
}
COMMITTER, ASKERS, ANYBODY = "committer", "askers", "anybody"  # whose clock runs; anybody: to end the dispute


@dataclass(frozen=True)
class Dispute:
    """A disputed claim. name: as people write it; turn: of the claim, 0 where it is of no job; owes: whose clock runs up to second `until`, or empty.
    stopped_s: block time less the protocol's, which the clocks are read in; people are shown wall time."""

    view: DisputeView
    name: str
    turn: int
    owes: str
    until: int | None
    stopped_s: int = 0

    @property
    def is_alone(self) -> bool:
        """Whether the claim is of no job."""
        return self.view.job in ALONE

    @property
    def about(self) -> str:
        """Whose work."""
        operator, frames = f"operator {self.view.operator}", self._frames
        if self.is_alone:
            return f"{operator}: a {ALONE[self.view.job]}"
        if frames[0].kind == Kind.AGGREGATION:
            return f"{operator}: the aggregation of round {frames[0].round}"
        kinds = sorted({frame.kind for frame in frames if frame.kind != RESULT})
        work = " and ".join(WORK[Kind(kind)] for kind in kinds) or "the result"
        return f"{operator}: {work} of {self._slots_text} in round {frames[0].round}"

    @property
    def work(self) -> str:
        """The same for a column, without the operator."""
        if self.is_alone:
            return ALONE[self.view.job]
        frame = self._frames[0]
        return f"{'aggregation' if frame.kind == Kind.AGGREGATION else self._slots_text}, round {frame.round}"

    @property
    def _frames(self) -> list[Frame]:
        return [node.frame for node in self.view.picture.nodes.values()]

    @property
    def _slots_text(self) -> str:
        slots = sorted({frame.slot for frame in self._frames})
        return f"slot{'s' * (len(slots) > 1)} {', '.join(map(str, slots))}"

    def status(self, now: int) -> str:
        """One line: exploring, and whose clock runs for how long; or how it ended."""
        if self.view.end is not None:
            return ENDS[self.view.end]
        left = "" if self.until is None else f"{format_seconds(self.until - now)} left"
        open_asks = len(self.view.picture.open_asks)
        match self.owes:
            case "committer":
                owed = "1 answer" if open_asks == 1 else f"{open_asks} answers, the first with"
                return f"exploring: operator {self.view.operator} owes {owed}{',' if open_asks == 1 else ''} {left}"
            case "askers":
                return f"exploring: all answered; {left or 'no limit yet'} to ask or judge"
        if open_asks:
            return f"exploring: operator {self.view.operator} is out of time; anyone can convict it by silence"
        return "exploring: all clocks have passed; anyone can close the dispute"

    def brief(self, now: int) -> str:
        """The same in 32 characters, for a column beside the operator."""
        if self.view.end is not None:
            return ENDS_BRIEFLY[self.view.end]
        left = "" if self.until is None else format_seconds(self.until - now)
        open_asks = len(self.view.picture.open_asks)
        match self.owes:
            case "committer":
                return f"owes {open_asks} answer{'s' * (open_asks > 1)}: {left} left"
            case "askers":
                return f"answered: {left or 'no limit yet'} to ask"
        return "out of time: anyone can convict" if open_asks else "over: anyone can close it"

    def to_dict(self) -> dict[str, Any]:
        """For scripts."""
        view, nodes = self.view, self.view.picture.nodes.values()
        return {
            "dispute": self.name,
            "job": view.job,
            "turn": None if self.is_alone else self.turn,
            "round": None if self.is_alone else next(iter(nodes)).frame.round,
            "seat": view.seat,
            "operator": view.operator,
            "claim": view.claim_hash.hex(),
            "slots": sorted({node.frame.slot for node in nodes}),
            "status": view.end.name.lower() if view.end else "exploring",
            "owes": self.owes or None,
            "until": None if self.until is None else self.until + self.stopped_s,
            "deadline": view.deadline + self.stopped_s if view.deadline else None,
            "asks": len(nodes),
            "open_asks": len(view.picture.open_asks),
            "heavy_asks": sum(node.record.payment.is_heavy for node in nodes),
            "prepaid": str(sum(node.record.payment.fee for node in nodes) * GWEI),
            "transactions": len(view.transactions),
        }


def list_disputes(chain: Chain, head: Head, job: int | None = None) -> list[Dispute]:
    """All disputes of the network, or of a job, in the order of their first asks."""
    views, seen, disputes = read_disputes(chain, head, job=job), Counter[str](), []
    now = chain.time(head)
    for view in views:
        name, turn = _name_of(chain, head, view)
        seen[name] += 1  # of a seat that another operator took over in the same turn, or of a later claim of no job
        numbered = name if seen[name] == 1 else f"{name}:{seen[name]}"
        disputes.append(Dispute(view, numbered, turn, *_clock_of(view, now), head.timestamp - now))
    return disputes


def dispute_named(chain: Chain, head: Head, name: str) -> Dispute:
    """Raises UserError where there is none."""
    parts = name.strip().lower().split(":")
    alone = next((number for number, word in ALONE.items() if word == parts[0]), None)
    is_alone = alone is not None
    numbers = (
        parts[1:] if is_alone else [*parts[:2], "0" if parts[2:3] == [AGGREGATOR] else "".join(parts[2:3]), *parts[3:]]
    )
    if not (2 if is_alone else 3) <= len(parts) <= (3 if is_alone else 4) or not all(n.isdigit() for n in numbers):
        raise UserError(
            f"{name!r} names no dispute",
            hint=f"write JOB:TURN:SEAT, such as 3:7:1, 3:7:{AGGREGATOR} or {ALONE[TRIALS]}:5; `zoo dispute list` has all names",
        )
    if not is_alone and parts[2] == str(AGGREGATOR_SEAT):
        parts[2] = AGGREGATOR
    wanted = ":".join(parts)
    disputes = list_disputes(chain, head, int(parts[0]) if alone is None else alone)
    match = next((each for each in disputes if each.name == wanted), None)
    if match is None:
        raise UserError(f"there is no dispute {name}", hint="`zoo dispute list` has all names")
    return match


def account_names(chain: Chain, view: DisputeView) -> dict[str, str]:
    """What to call the accounts of a claim's author: NOBODY is named in answers that only it may give."""
    author = f"operator {view.operator}"
    return {NOBODY.lower(): author, chain.registry.hot_key(view.operator).lower(): author}


def _name_of(chain: Chain, head: Head, view: DisputeView) -> tuple[str, int]:
    if view.job in ALONE:
        return f"{ALONE[view.job]}:{view.operator}", 0
    claim = view.claim_in(read_job(chain, view.job, head))
    return name_of_claim(view.job, claim), claim.turn


def name_of_claim(job: int, claim: Claim) -> str:
    """Of the first dispute about its seat and turn."""
    return f"{job}:{claim.turn}:{AGGREGATOR if claim.seat == AGGREGATOR_SEAT else claim.seat}"


def _clock_of(view: DisputeView, now: int) -> tuple[str, int | None]:
    """Whose clock runs, and its last second."""
    if view.end is not None:
        return "", None
    if view.picture.open_asks:
        due = view.picture.open_asks[0].due
        return (COMMITTER, due) if now <= due else (ANYBODY, due)
    if not view.deadline:
        return ASKERS, None
    last = max(asks_end(node.record.clocks, view.deadline) for node in view.picture.nodes.values())
    return (ASKERS, last) if now <= last else (ANYBODY, last)
