"""What `zoo verify` does with one job: it re-executes claims, and asks about those that are false."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keepers.cli.own_disputes import disputes_of, disputing
from keepers.decisions.requests import aggregation_check_request, verify_request
from keepers.services.disputing import Disputing
from node.errors import Withheld
from zoo_compute.chain.answered_results import published_result
from zoo_compute.chain.views import Checkpoint, Claim, Commit, JobView
from zoo_compute.cli.context import Settings
from zoo_compute.cli.output import StatusLine
from zoo_compute.client.disputes import Dispute
from zoo_compute.errors import ConfigError, NeedsOperator, UserError, ZooError
from zoo_compute.store.errors import ContentMissing, StoreUnreachable

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.explorations import DisputeView
    from zoo_compute.store import Store

SLOT_ROUND, AGGREGATION = "slot-round", "aggregation"  # kinds of work
Work = tuple[Claim, int | None]  # a claim, and the slot that is checked of it; None of an aggregation


@dataclass(frozen=True)
class VerifiedWork:
    """One re-executed slot-round of a claim, or an aggregation, which has no slot."""

    claim: Claim
    slot: int | None
    report: Mapping[str, Any]

    @property
    def agrees(self) -> bool:
        return bool(self.report["agrees"])

    @property
    def work(self) -> str:
        return AGGREGATION if self.slot is None else SLOT_ROUND

    @property
    def text(self) -> str:
        where = f"{work_text(self.claim, self.slot)}, operator {self.claim.operator}"
        return f"{where}: agrees" if self.agrees else f"{where}: FALSE: {self.report['message']}"

    def to_dict(self) -> dict[str, Any]:
        names = ("agrees", "field", "message", "segments", "seconds")
        outcome = {name: self.report[name] for name in names if name in self.report}
        at = {name: getattr(self.claim, name) for name in ("turn", "round", "seat", "operator")}
        return {**at, "slot": self.slot, "work": self.work, **outcome}


def work_text(claim: Claim, slot: int | None) -> str:
    return f"round {claim.round + 1} (turn {claim.turn}), {AGGREGATION if slot is None else f'slot {slot}'}"


class JobVerification:
    """Re-executes the claims of a job, and asks about those that are false.

    withheld: why the last look could not check everything. unpaid: why asks could not be paid, by the key of the claim.
    """

    def __init__(self, settings: Settings, job: int, store: Store, device: str | None, *, challenges: bool) -> None:
        self._settings, self._job, self._store, self._device = settings, job, store, device
        self._chain = settings.chain()
        self._lane: Disputing | None = disputing(settings, store, device) if challenges else None
        self._asked: dict[bytes, VerifiedWork] = {}  # by the key of the claim
        self._open: list[DisputeView] = []
        self._line = StatusLine()
        self.checked: list[VerifiedWork] = []
        self.withheld: ZooError | None = None
        self.unpaid: dict[bytes, NeedsOperator] = {}

    def check_next(self, view: JobView, todo: Iterator[Work]) -> bool:
        """Check the next slot-round or aggregation that is new and served. Returns whether there was one."""
        known = {(each.claim.turn, each.claim.root, each.slot) for each in self.checked}
        left = [(claim, slot) for claim, slot in todo if (claim.turn, claim.root, slot) not in known]
        self.withheld = None
        for at, (claim, slot) in enumerate(left):
            remaining, done = len(left) - at, len(self.checked)
            self._line.show(f"{remaining} left to check; {work_text(claim, slot)}", done, done + remaining)
            try:
                report = _verified(self._chain, view, claim, slot, self._store, self._device)
            except (ContentMissing, StoreUnreachable, Withheld) as error:  # or its checkpoint was deleted
                self.withheld = error
                continue
            verified = VerifiedWork(claim, slot, report)
            self.checked.append(verified)
            self._line.note(verified.text)
            if not verified.agrees and self._lane is not None:
                self._challenge(self._lane, verified)
            return True
        return False

    def _challenge(self, lane: Disputing, verified: VerifiedWork) -> None:
        place = verified.report.get("dispute")
        if place is None:
            is_data = verified.report["field"] not in ("segment_root", "end_root", "update_root")  # of a slot-round
            reason = "its data is wrong, which a demand settles: `zoo job demands`"
            self._line.note("  " + (reason if is_data else "dispute the claim that it continues from"))
            return
        try:
            key = lane.challenge(self._job, verified.claim, [place])
        except UserError as error:
            self._line.note(f"  {error}")
            return
        self._asked.setdefault(key, verified)

    def take_part(self) -> bool:
        """Make the asks and judgements that are due. Returns whether a dispute of this run is open."""
        mine = self._lane.poll_once() if self._lane is not None else []
        self._open = [dispute for dispute in mine if dispute.key in self._asked]
        unpaid = self._lane.unpaid if self._lane is not None else {}
        self.unpaid = {each.key: unpaid[each.key] for each in self._open if each.key in unpaid}
        if self._open:
            self._line.show("; ".join(_progress(dispute) for dispute in self._open))
        else:
            self._line.end()
        return bool(self._open)

    def has_time(self, now: int) -> bool:
        """Whether something else can be re-executed meanwhile: askers' clocks run after a claim's deadline.

        An author that lets its asks wait must not keep me from its later claims: then a part of my time is spent on them.
        """
        longest_s = max((each.report.get("seconds", 0.0) for each in self.checked), default=0.0)
        return all(
            not each.deadline or now + longest_s < each.deadline or _is_stalled(each, now, longest_s)
            for each in self._open
        )

    def rewards_due(self) -> list[int]:
        """Seconds after which a share of a lock can be collected."""
        now = self._chain.time()
        return [max(0, after + 1 - now) for after in self._lane.rewards_due.values()] if self._lane is not None else []

    def disputes(self) -> list[dict[str, Any]]:
        """About what this run asked, and how it ended."""
        if not self._asked:
            return []
        known = disputes_of(self._settings, self._job)
        now = self._chain.time()
        return [_as_json(known[key], each.slot, now) for key, each in self._asked.items() if key in known]


def _is_stalled(dispute: DisputeView, now: int, longest_s: float) -> bool:
    """Whether its author has owed answers for so long, and I would have time enough left after one more re-execution."""
    owed = [ask.record.clocks for ask in dispute.picture.open_asks]
    return bool(owed) and all(now > c.since + longest_s and c.asker_left_s > 4 * longest_s for c in owed)


def _progress(dispute: DisputeView) -> str:
    asked, open_asks = len(dispute.picture.nodes), len(dispute.picture.open_asks)
    return f"disputing operator {dispute.operator}'s claim: {asked} ask{'s' * (asked != 1)}, {open_asks} open"


def _as_json(dispute: Dispute, slot: int | None, now: int) -> dict[str, Any]:
    end = dispute.view.end
    names = ("dispute", "job", "turn", "seat", "operator")
    at = {name: value for name, value in dispute.to_dict().items() if name in names}
    return {**at, "slot": slot, "outcome": end.name.lower() if end else None, "status": dispute.status(now)}


def works_of(view: JobView, every: bool, turns: tuple[int | None, int | None], slot: int | None) -> Iterator[Work]:
    """The work to check, turn by turn: aggregations and one slot of each claim first, as one false slot convicts its claim.

    turns: the first and the last one to check. slot: this one alone, and no aggregation. A claim that others ask about comes
    in its turn: its liar may ask itself.
    """
    first, last = turns
    claims = [
        claim
        for claim in view.claims
        if (every or not claim.final) and (first or 0) <= claim.turn <= (claim.turn if last is None else last)
    ]
    slots = [(c.turn, each - c.first, each, c) for c in claims if isinstance(c, Commit) for each in c.slots]
    selected = [(turn, at, each, claim) for turn, at, each, claim in slots if slot in (None, each)]
    made = [(c.turn, 0, -1, c) for c in claims if isinstance(c, Checkpoint) and slot is None]
    for _, _, each, claim in sorted([*selected, *made], key=lambda work: work[:3]):
        yield claim, None if each < 0 else each


def _verified(
    chain: Chain, view: JobView, claim: Claim, slot: int | None, store: Store, device: str | None
) -> dict[str, Any]:
    try:
        from node import tasks
    except ImportError as error:
        raise ConfigError(f"torch is needed to re-execute work: {error}", hint="pip install 'zoo-compute[node]'") from None  # fmt: skip
    on = {"device": device} if device else {}
    if isinstance(claim, Commit) and slot is not None:
        request = verify_request(view, claim, slot, published_result(chain, view, claim, slot))
        return tasks.run_verification({**request, **on}, store)
    assert isinstance(claim, Checkpoint), "a result is checked slot by slot"
    return tasks.run_aggregation_check({**aggregation_check_request(view, claim), **on}, store)
