"""`zoo verify JOB [--challenge]`: re-execute a job's work, name the operators that lied, and have the contract convict them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from keepers.cli.own_disputes import disputes_of, disputing
from keepers.decisions.requests import verify_request
from keepers.services.disputing import DISPUTE_POLL_S, Disputing
from node.errors import Withheld
from zoo_compute.amounts import format_seconds
from zoo_compute.chain.answered_results import published_result
from zoo_compute.chain.events import scan
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import Commit, JobView
from zoo_compute.cli.context import NUMBER, Command, Settings, pass_settings
from zoo_compute.cli.output import StatusLine
from zoo_compute.client.disputes import Dispute
from zoo_compute.errors import ConfigError, UserError, ZooError
from zoo_compute.store.errors import ContentMissing, StoreUnreachable

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.explorations import DisputeView
    from zoo_compute.store import Store

LIES_EXIT_CODE, NOT_SERVED = 3, 1  # exit codes
POLL_S = 0.5


@dataclass(frozen=True)
class VerifiedSlot:
    """One re-executed slot-round of one claim."""

    commit: Commit
    slot: int
    report: Mapping[str, Any]

    @property
    def agrees(self) -> bool:
        return bool(self.report["agrees"])

    @property
    def text(self) -> str:
        where = f"turn {self.commit.turn}, slot {self.slot}, operator {self.commit.operator}"
        return f"{where}: agrees" if self.agrees else f"{where}: FALSE: {self.report['message']}"

    def to_dict(self) -> dict[str, Any]:
        names = ("agrees", "field", "message", "segments", "seconds")
        outcome = {name: self.report[name] for name in names if name in self.report}
        at = {name: getattr(self.commit, name) for name in ("turn", "round", "seat", "operator")}
        return {**at, "slot": self.slot, **outcome}


@click.command("verify", cls=Command)
@click.argument("number", type=NUMBER, metavar="JOB")
@click.option("--all", "every", is_flag=True, help="Include claims that are paid or convicted, not only open ones.")
@click.option("--turn", type=click.IntRange(min=0), help="Check this turn only; with --follow, this and later turns.")
@click.option("--slot", type=click.IntRange(min=0), help="Check this slot only.")
@click.option("--follow", is_flag=True, help="Keep checking new claims until every claim of the job is final.")
@click.option(
    "--challenge",
    "challenges",
    is_flag=True,
    help="Ask about each false claim until the contract convicts it.",
)
@click.option("--device", help="cpu, cuda, cuda:N or mps; the best one by default.")
@click.option("--store", metavar="DIR|kubo:URL", help="Content store. [env ZOO_STORE]")
@pass_settings
def verify(
    settings: Settings,
    number: int,
    every: bool,
    turn: int | None,
    slot: int | None,
    follow: bool,
    challenges: bool,
    device: str | None,
    store: str | None,
) -> int:
    """Re-execute what a job's operators committed, and name those that lied.

    Also names auditors that attested a false state. With --challenge it asks about every false claim whose window is open,
    down to the false number, which the contract computes itself. Each ask prepays its answer; you get all of it back when the
    claim is convicted, and a share of the liar's lock if yours is the oldest seal of the false step. If interrupted, rerun the
    command: the exploration is on chain, and it goes on from there. If an operator serves its result to nobody, the answer to
    a demand on chain is checked instead. Exit code: 0 when everything agrees, 3 when a claim is false, 1 when some data was
    not served.
    """
    client = settings.client(store=store, with_account=challenges)
    witness = JobVerification(settings, number, client.store, device, challenges=challenges)
    while True:
        client.use_peers()
        view = read_job(settings.chain(), number)
        _check_asked(view, turn if not follow else None, slot)
        last = turn if not follow else None
        is_open = witness.take_part()
        has_time = not is_open or witness.has_time(view.now)
        was_busy = has_time and witness.check_next(view, _todo(view, every, (turn, last), slot))
        if not was_busy and not is_open and (view.settled or not follow):
            break
        if not was_busy:
            time.sleep(DISPUTE_POLL_S if is_open else POLL_S)
    checked, disputes = witness.checked, witness.disputes()
    liars = list(_lying_auditors(settings.chain(), view, checked))
    lines = [f"{sum(c.agrees for c in checked)} of {len(checked)} slot-rounds agree"]
    if not checked and not every and view.commits:
        lines = [f"no claim of job {number} is open to challenge; `zoo verify {number} --all` checks paid claims too"]
    lines += [
        f"auditor {each['auditor']} attested a false state: turn {each['turn']}, slot {each['slot']}" for each in liars
    ]
    lines += [f"dispute {each['dispute']} of operator {each['operator']}: {each['status']}" for each in disputes]
    for wait_s in witness.rewards_due():
        lines.append(f"a share of the lock is yours after {format_seconds(wait_s)}: run the same command again then")
    report: dict[str, Any] = {
        "job": number,
        "checked": [c.to_dict() for c in checked],
        "auditors": liars,
        "disputes": disputes,
    }
    if witness.withheld is not None:
        report["withheld"] = str(witness.withheld)
        lines.append(f"not everything could be checked: {witness.withheld}")
    settings.emit(report, lines)
    if liars or not all(c.agrees for c in checked):
        return LIES_EXIT_CODE
    return NOT_SERVED if witness.withheld is not None else 0


class JobVerification:
    """Re-executes the claims of a job, and asks about those that are false."""

    def __init__(self, settings: Settings, job: int, store: Store, device: str | None, *, challenges: bool) -> None:
        self._settings, self._job, self._store, self._device = settings, job, store, device
        self._chain = settings.chain()
        self._lane: Disputing | None = disputing(settings, store, device) if challenges else None
        self._asked: dict[bytes, VerifiedSlot] = {}  # by the key of the claim
        self._open: list[DisputeView] = []
        self._line = StatusLine()
        self.checked: list[VerifiedSlot] = []
        self.withheld: ZooError | None = None  # why the last look could not check everything

    def check_next(self, view: JobView, todo: Iterator[tuple[Commit, int]]) -> bool:
        """Check the next slot-round that is new and served. Returns whether there was one."""
        known = {(each.commit.turn, each.commit.root, each.slot) for each in self.checked}
        left = [(commit, slot) for commit, slot in todo if (commit.turn, commit.root, slot) not in known]
        self.withheld = None
        for at, (commit, slot) in enumerate(left):
            self._line.show(f"{len(left) - at} slot-rounds left; turn {commit.turn}, slot {slot}")
            try:
                report = _verified(self._chain, view, commit, slot, self._store, self._device)
            except (ContentMissing, StoreUnreachable, Withheld) as error:  # or its checkpoint was deleted
                self.withheld = error
                continue
            verified = VerifiedSlot(commit, slot, report)
            self.checked.append(verified)
            self._line.note(verified.text)
            if not verified.agrees and self._lane is not None:
                self._challenge(self._lane, verified)
            return True
        return False

    def _challenge(self, lane: Disputing, verified: VerifiedSlot) -> None:
        place = verified.report.get("dispute")
        if place is None:
            is_data = verified.report["field"] not in ("segment_root", "end_root", "update_root")
            reason = "its data is wrong, which a demand settles: `zoo job demands`"
            self._line.note("  " + (reason if is_data else "dispute the claim that it continues from"))
            return
        try:
            key = lane.challenge(self._job, verified.commit, [place])
        except UserError as error:
            self._line.note(f"  {error}")
            return
        self._asked.setdefault(key, verified)

    def take_part(self) -> bool:
        """Make the asks and judgements that are due. Returns whether a dispute of this run is open."""
        mine = self._lane.poll_once() if self._lane is not None else []
        self._open = [dispute for dispute in mine if dispute.key in self._asked]
        if self._open:
            self._line.show("; ".join(_progress(dispute) for dispute in self._open))
        else:
            self._line.end()
        return bool(self._open)

    def has_time(self, now: int) -> bool:
        """Whether another slot-round can be re-executed meanwhile: askers' clocks run after a claim's deadline.

        An author that lets its asks wait must not keep me from its later claims: then a part of my time is spent on them.
        """
        longest_s = max((each.report.get("seconds", 0.0) for each in self.checked), default=0.0)
        return all(
            not each.deadline or now + longest_s < each.deadline or _is_stalled(each, now, longest_s)
            for each in self._open
        )

    def rewards_due(self) -> list[int]:
        """Seconds after which a share of a lock can be collected."""
        now = self._chain.now()
        return [max(0, after + 1 - now) for after in self._lane.rewards_due.values()] if self._lane is not None else []

    def disputes(self) -> list[dict[str, Any]]:
        """About what this run asked, and how it ended."""
        if not self._asked:
            return []
        known = disputes_of(self._settings, self._job)
        now = self._chain.now()
        return [_as_json(known[key], each.slot, now) for key, each in self._asked.items() if key in known]


def _is_stalled(dispute: DisputeView, now: int, longest_s: float) -> bool:
    """Whether its author has owed answers for so long, and I would have time enough left after one more re-execution."""
    owed = [ask.record.clocks for ask in dispute.picture.open_asks]
    return bool(owed) and all(now > c.since + longest_s and c.asker_left_s > 4 * longest_s for c in owed)


def _progress(dispute: DisputeView) -> str:
    asked = len(dispute.picture.nodes)
    return f"operator {dispute.operator}'s claim: {asked} asks, {len(dispute.picture.open_asks)} without an answer"


def _as_json(dispute: Dispute, slot: int, now: int) -> dict[str, Any]:
    end = dispute.view.end
    names = ("dispute", "job", "turn", "seat", "operator")
    at = {name: value for name, value in dispute.to_dict().items() if name in names}
    return {**at, "slot": slot, "outcome": end.name.lower() if end else None, "status": dispute.status(now)}


def _check_asked(view: JobView, turn: int | None, slot: int | None) -> None:
    """Raises UserError for a turn or slot that the job does not have: nothing to check would look like agreement."""
    turns = {commit.turn for commit in view.commits}
    if turn is not None and turn not in turns:
        known = f"of turns {min(turns)} to {max(turns)}" if turns else "yet"
        raise UserError(
            f"job {view.job} has no results of turn {turn}", hint=f"it has results {known}; `zoo job show` lists them"
        )
    if slot is not None and slot >= view.terms.slots:
        raise UserError(f"job {view.job} has slots 0 to {view.terms.slots - 1}, none {slot}")


def _todo(
    view: JobView, every: bool, turns: tuple[int | None, int | None], slot: int | None
) -> Iterator[tuple[Commit, int]]:
    """The slots to check: one of each claim first, as one false slot convicts its claim.

    turns: the first and the last one to check. A claim that others ask about comes in its turn: its liar may ask itself.
    """
    first, last = turns
    selected = [
        (commit, each)
        for commit in view.commits
        if (every or not commit.final) and (first or 0) <= commit.turn <= (commit.turn if last is None else last)
        for each in commit.slots
        if slot in (None, each)
    ]
    yield from sorted(selected, key=lambda at: (at[0].turn, at[1] - at[0].first, at[0].first))


def _verified(
    chain: Chain, view: JobView, commit: Commit, slot: int, store: Store, device: str | None
) -> dict[str, Any]:
    try:
        from node import tasks
    except ImportError as error:
        raise ConfigError(f"torch is needed to re-execute work: {error}", hint="pip install 'zoo-compute[node]'") from None  # fmt: skip
    request = verify_request(view, commit, slot, published_result(chain, view, commit, slot))
    return tasks.run_verification({**request, "device": device} if device else request, store)


def _lying_auditors(chain: Chain, view: JobView, checked: list[VerifiedSlot]) -> Iterator[dict[str, Any]]:
    """Auditors that revealed another state of a segment than the re-execution gives."""
    segments = chain.audits.plans(view.job).segments
    own = {(c.commit.turn, c.slot): c.report.get("states", []) for c in checked}
    events = (
        scan(chain, view.posted_block, view.block, names=("AttestationRevealed",), job=view.job) if segments else ()
    )
    for event in events:
        slot, segment = divmod(event.args["unit"], segments)
        states = own.get((event.args["turn"], slot), [])
        if segment + 1 < len(states) and bytes.fromhex(states[segment + 1]) != bytes(event.args["root"]):
            place = {"turn": event.args["turn"], "slot": slot, "segment": segment}
            yield {"auditor": event.args["operator"], **place}
