"""A job's progress: its state at one block, and the losses that operators published with their results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from zoo_compute.amounts import ZEN, Token, format_seconds
from zoo_compute.chain.views import ClaimState, JobState, JobView, LotPhase
from zoo_compute.errors import ZooError
from zoo_compute.formats.bundles import MAX_BUNDLE_BYTES, BadRecord, Bundle
from zoo_compute.jobs.shortfall import failed_attempts
from zoo_compute.spec.params import grown_reserve
from zoo_compute.store.cid import raw_cid
from zoo_compute.store.errors import StoreError

if TYPE_CHECKING:
    from zoo_compute.store import Store

BUNDLE_TIMEOUT_S = 2.0
_DURATION = re.compile(r"\d+(\.\d+)? (s|min|h|d)\b")


@dataclass(frozen=True)
class Progress:
    """loss: mean of the slots' last losses in the newest round with results. Reported by nodes, unverified."""

    job: int
    state: str  # open | awarded | running | ended | cancelled
    round: int
    turn: int  # rounds opened, including those repeated after a rollback
    rounds: int
    final_rounds: int  # rounds whose checkpoint is final; later ones are optimistic
    slots: int
    committed: int  # slots of the open turn with a result on chain
    nodes: tuple[int, ...]  # operators that have or had slots
    aggregator: int
    loss: float | None
    losses: tuple[float | None, ...]  # per round
    spent: int  # payments and fees that left the escrow
    due: int  # accepted work not yet paid
    escrow: int  # left in escrow
    pending: int  # claims neither paid nor convicted
    disputes: int  # open ones
    convictions: int
    rollbacks: int
    closed: bool  # every claim is final; the rest of the escrow is the submitter's
    waiting_for: str
    missing: tuple[str, ...]  # what an open job lacks to be awarded, as sentences
    failed_attempts: int  # auctions with too few bids
    block: int
    now: int
    token: Token = ZEN

    @property
    def over(self) -> bool:
        """Training is over. Payments may still wait for their challenge windows."""
        return self.state in ("ended", "cancelled")

    @property
    def done(self) -> float:
        """How much of the training is done, 0 to 1: of a running job, the slots that have a result on chain."""
        if self.state != "running":
            return float(self.state == "ended")
        return (self.round + self.committed / self.slots) / self.rounds

    @property
    def settled(self) -> bool:
        """Over, and every claim is paid or convicted."""
        return self.state == "cancelled" or self.closed

    @property
    def reader_key(self) -> tuple[object, ...]:
        """All that a reader sees except the time: two readings with equal keys look the same."""
        phase = " ".join(_DURATION.sub("", self.waiting_for).split())
        return (
            self.state,
            self.turn,
            self.committed,
            self.losses,
            self.spent,
            self.due,
            self.nodes,
            self.pending,
            self.disputes,
            self.convictions,
            self.rollbacks,
            phase,
            self.missing,
        )

    def to_dict(self) -> dict[str, Any]:
        """For scripts: amounts as decimal strings in wei."""
        return {**asdict(self), "spent": str(self.spent), "due": str(self.due), "escrow": str(self.escrow)}

    @property
    def advice(self) -> tuple[str, ...]:
        """Advice for the submitter of a job that may wait long."""
        if not self.missing:
            return ()
        cancel = (
            f"to stop waiting, run `zoo job cancel {self.job}`: the whole escrow comes back, and the posting deposit"
        )
        return (*(f"missing: {each}" for each in self.missing), *((cancel,) if self.failed_attempts else ()))

    def line(self) -> str:
        """One line for people."""
        parts = [f"job {self.job} {self.state}"]
        if self.state == "running":
            parts.append(f"round {self.round + 1}/{self.rounds}, {self.committed}/{self.slots} slots")
        if self.rollbacks:
            parts.append(f"rolled back {self.rollbacks} time{'s' * (self.rollbacks > 1)}")
        if self.loss is not None:
            parts.append(f"loss {self.loss:.4f}")
        parts.append(f"spent {self.token.format(self.spent, places=3)} + {self.token.format(self.due, places=3)} due")
        if self.nodes:
            parts.append(f"{len(self.nodes)} node{'s' * (len(self.nodes) > 1)}")
        if self.disputes:
            parts.append(f"{self.disputes} claim{'s' * (self.disputes > 1)} in dispute")
        if self.convictions:
            parts.append(f"{self.convictions} convicted")
        if self.waiting_for:
            parts.append(self.waiting_for)
        return " · ".join(parts)


@dataclass
class LossReader:
    """Reads the bundles of a job's results, each once. Retries unavailable ones at the next reading."""

    store: Store
    _known: dict[bytes, dict[int, float]] = field(default_factory=dict)

    def losses(self, view: JobView) -> tuple[float | None, ...]:
        """Mean last loss per round, of its newest turn; None if unknown."""
        newest = {commit.round: commit.turn for commit in view.commits}
        by_round: dict[int, list[float]] = {}
        for commit in view.commits:
            if commit.turn == newest[commit.round]:
                losses_by_slot = self._read(view.job, commit.bundle)
                by_round.setdefault(commit.round, []).extend(
                    losses_by_slot[slot] for slot in commit.slots if slot in losses_by_slot
                )
        return tuple(_mean(by_round.get(r)) for r in range(1 + max(by_round, default=-1)))

    def _read(self, job: int, digest: bytes) -> dict[int, float]:
        if digest in self._known:
            return self._known[digest]
        try:
            data = self.store.read(raw_cid(digest), max_bytes=MAX_BUNDLE_BYTES, timeout_s=BUNDLE_TIMEOUT_S)
        except (ZooError, StoreError):
            return {}
        self._known[digest] = _losses_in(data, job)
        return self._known[digest]


def _mean(values: Sequence[float] | None) -> float | None:
    return sum(values) / len(values) if values else None


def _losses_in(data: bytes, job: int) -> dict[int, float]:
    """Last loss by slot of one bundle. Skips losses that are not finite; empty if the bytes are not a bundle of this job."""
    try:
        bundle = Bundle.from_bytes(data)
    except BadRecord:
        return {}
    return {r.slot: r.loss[1] for r in bundle.results if r.loss[1] is not None} if bundle.job == job else {}


def progress_of(
    view: JobView,
    *,
    spent: int,
    due: int,
    losses: Sequence[float | None] = (),
    token: Token = ZEN,
    missing: Sequence[str] = (),
) -> Progress:
    """The progress of a job view. Pure."""
    run = view.run
    terms = view.terms
    known = [loss for loss in losses if loss is not None]
    return Progress(
        job=view.job,
        state=view.state.name.lower(),
        round=run.round if run else 0,
        turn=run.turn if run else 0,
        rounds=terms.rounds,
        final_rounds=view.final_rounds,
        slots=terms.slots,
        committed=run.committed if run and view.state == JobState.RUNNING else 0,
        nodes=_nodes(view),
        aggregator=next((seat.operator for seat in view.aggregator_seats.values()), 0) if run else 0,
        loss=known[-1] if known else None,
        losses=tuple(losses),
        spent=spent,
        due=due,
        escrow=view.escrow,
        pending=len(view.pending),
        disputes=sum(claim.disputed for claim in view.claims),
        convictions=sum(claim.state == ClaimState.CONVICTED for claim in view.claims),
        rollbacks=len(view.rollbacks),
        closed=view.closed,
        waiting_for=waiting_for(view),
        missing=tuple(missing),
        failed_attempts=failed_attempts(view),
        block=view.block,
        now=view.wall(view.now),
        token=token,
    )


def waiting_for(view: JobView) -> str:
    """The next event of the job, and its deadline."""
    run, now = view.run, view.now
    if view.state == JobState.OPEN:
        return _auction(view)
    if view.state == JobState.AWARDED and run:
        missing = sum(seat.count for number, seat in view.slot_seats.items() if run.missing >> number & 1)
        return f"waiting for {missing} of {run.slots} slots to be ready" if missing else "about to start"
    if view.state == JobState.RUNNING and run:
        if run.is_waiting and view.custodians and run.turn == 0:
            within = format_seconds(max(0, run.aggregator_due - now))
            return f"round 1 opens when a majority of {view.custodians} custodians holds what it starts from, within {within}"
        if run.is_waiting:
            return f"round {run.round + 1} opens when the claims of {run.depth} turns before are final"
        if view.inputs_complete(now):
            return f"aggregation {_awaited(view)}, due in {format_seconds(max(0, run.aggregator_due - now))}"
        count = sum(seat.count for seat in view.vacant_seats.values())
        vacant = f", {count} slot{'s' * (count > 1)} vacant" if count else ""
        return f"inputs close in {format_seconds(max(0, run.inputs_close - now))}{vacant}"
    if view.state == JobState.ENDED and not view.closed:
        left = max(0, max((claim.deadline for claim in view.pending), default=now) - now)
        return f"last claims are final in {format_seconds(left)}" if left else "waiting for the last claims to be paid"
    return ""


def _awaited(view: JobView) -> str:
    """Who has not posted in the open turn."""
    awaited = [seat.operator for seat in view.unposted_seats.values()]
    if not all(awaited):
        return "vacant"
    return f"by operator{'s' if len(awaited) > 1 else ''} {', '.join(map(str, awaited))}"


def _nodes(view: JobView) -> tuple[int, ...]:
    """Operators that have slots, or had slots and committed results."""
    operators = {seat.operator for seat in view.slot_seats.values()} | {commit.operator for commit in view.commits}
    return tuple(sorted(operators - {0}))


def _auction(view: JobView) -> str:
    lots = [lot for lot in view.lots.values() if lot.phase == LotPhase.OPEN]
    if not lots:
        return "clearing the auction"
    lot = max(lots, key=lambda candidate: candidate.reveal_end)
    again = f" (attempt {lot.attempt})" if lot.attempt > 1 else ""
    if lot.bidding(view.now):
        return f"collecting sealed bids for another {format_seconds(lot.bid_end - view.now)}{again}"
    if lot.revealing(view.now):
        return f"revealing bids for another {format_seconds(lot.reveal_end - view.now)}{again}"
    short = [lot for lot in lots if not lot.enough_bids]
    if not short:
        return f"clearing the auction{again}"
    if any(grown_reserve(lot.reserve, lot.max_reserve) > lot.reserve for lot in short):
        return f"too few bids; waiting for an operator that can bid, then the reserve grows by a quarter{again}"
    return f"too few bids; waiting at the maximum price for an operator that can bid{again}"
