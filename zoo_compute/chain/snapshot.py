"""Reads one job or one operator, with all reads pinned to one block. The dataclasses are in `views.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from zoo_compute.chain import demands
from zoo_compute.chain.auction_attempts import attempts_of
from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.connection import Chain, Head
from zoo_compute.chain.event_log import History, history_of
from zoo_compute.chain.event_store import StoredHistory
from zoo_compute.chain.events import Event
from zoo_compute.chain.views import (
    AGGREGATOR_SEAT,
    NO_DEADLINE,
    Bid,
    Checkpoint,
    ClaimState,
    Commit,
    JobStake,
    JobState,
    JobView,
    Kind,
    Lot,
    OperatorView,
    Rollback,
    Run,
    Seat,
)
from zoo_compute.errors import UserError
from zoo_compute.spec.bits import full, slots_in
from zoo_compute.spec.merkle import root_of_shares
from zoo_compute.spec.params import COIN, Terms

T = TypeVar("T")
C = TypeVar("C", Commit, Checkpoint)

TIMES_KEPT = 4_096  # times of blocks: of a few jobs' open turns


def read_job(chain: Chain, job: int, block: int | Head | None = None) -> JobView:
    """One job as of `block` (the newest unless given). Raises UserError for a job that is not posted, Unreachable.

    The last view of each job is cached: several reads in one block cost one.
    """
    head = block if isinstance(block, Head) else chain.head("latest" if block is None else block)
    views: dict[int, tuple[bytes, JobView]] = chain.cached("views", dict)  # job -> (block hash, view)
    known, view = views.get(job, (b"", None))
    if view is None or known != head.hash:
        view = _read_job(chain, job, head, job_events(chain, job, head))
        views[job] = head.hash, view
    return view


def newest_turn(events: Sequence[Event]) -> int:
    """The block of a job's newest checkpoint."""
    return max((each.block for each in events if each.name in ("JobPosted", "CheckpointPosted")), default=0)


def shows_job(chain: Chain, view: JobView, head: Head, events: Sequence[Event], since: int) -> bool:
    """Whether a connection shows the job at `head` as `view` and `events` do: its state, and its events from block `since` on.

    All of them would take a request for each few thousand blocks of the job's life.
    """
    recent = [event for event in events if event.block >= since]
    if list(History(chain, since=since, job=view.job).events_until(head)) != recent:
        return False
    read = replace(view, inputs_signed=False, awaits_custodians=False, custody=None)  # without what a keeper adds
    return _read_job(chain, view.job, head, events) == read


def forget_job(chain: Chain, job: int) -> None:
    """Drop what this connection keeps of a job, which nobody will read again."""
    views: dict[int, Any] = chain.cached("views", dict)
    views.pop(job, None)
    chain.forget(("history", "job", job))


def _read_job(chain: Chain, job: int, head: Head, events: Sequence[Event]) -> JobView:
    posted = next((event for event in events if event.name == "JobPosted"), None)
    if posted is None:
        raise UserError(
            f"there is no job {job} at block {head.number}", hint="check the job's number and the network file"
        )
    made_commits, made_checkpoints = _claims(events)
    now = chain.time(head)
    stopped_s = head.timestamp - now
    commits = _with_times(chain, made_commits, stopped_s)
    checkpoints = _with_times(chain, made_checkpoints, stopped_s)
    asked = demands.demands_of(events, [*commits, *checkpoints])
    of = _read_parts(chain, job, head, events, asked)
    made = {
        "commits": commits,
        "checkpoints": checkpoints,
        "demands": demands.with_contract_state(asked, of("demands")),
        "now": now,
        "stopped_s": stopped_s,
    }
    return _job_view(head, posted, events, of, made)


def job_events(chain: Chain, job: int, head: Head) -> Sequence[Event]:
    """All events of one job up to a block."""
    return _history(chain, ("job", job), job=job).events_until(head)


def read_operator(
    chain: Chain, operator: int, block: int | Head | None = None, tokens: Sequence[str] | None = None
) -> OperatorView:
    """One operator as of `block`, with its money in `tokens` (ZEN unless given). Raises UserError, Unreachable.

    The last view of each operator is cached, as those of jobs are.
    """
    head = block if isinstance(block, Head) else chain.head("latest" if block is None else block)
    tokens = (chain.network.contracts["zen"],) if tokens is None else tuple(tokens)
    views: dict[tuple[int, tuple[str, ...]], tuple[bytes, OperatorView]] = chain.cached("operators", dict)
    known, view = views.get((operator, tokens), (b"", None))
    if view is None or known != head.hash:
        view = _read_operator(chain, operator, head, tokens)
        views[operator, tokens] = head.hash, view
    return view


def _read_operator(chain: Chain, operator: int, head: Head, tokens: Sequence[str]) -> OperatorView:
    # What the second half asks for follows from the keys, which hardly ever change: one round trip where they have not.
    keys: dict[int, tuple[str, str]] = chain.cached("keys of operators", dict)
    known = keys.get(operator)
    first = _operator_reads(operator, tokens, head.timestamp // chain.params.epoch_s)
    values = read_all(chain, head.number, [*first, *(_account_reads(operator, *known, tokens) if known else ())])
    record, discount, declared, admitted, multiplier, promised, promised_next, *collateral = values[: len(first)]
    if int(record["owner"], 16) == 0:
        raise UserError(f"there is no operator {operator} at block {head.number}", hint="operator numbers start at 1")
    current = keys[operator] = record["owner"], record["hot"]
    second = (
        values[len(first) :]
        if current == known
        else read_all(chain, head.number, _account_reads(operator, *current, tokens))
    )
    eligible, *owed, of_owner, of_hot, coin_of_owner, coin_of_hot = second
    names = ("OperatorRegistered", "EndpointAnnounced")
    now = chain.time(head)
    announcements = _history(chain, ("operator", operator), operator=operator, names=names).events_until(head)
    return OperatorView(
        operator=operator,
        block=head.number,
        now=now,
        stopped_s=head.timestamp - now,
        region=declared["region"],
        bound_tier=min(promised["tier"], promised_next["tier"]),
        bound_hours=min(promised["hours"].bit_count(), promised_next["hours"].bit_count()),
        discount_bps=discount,
        tier=declared["tier"],
        hours=declared["hours"],
        eligible=eligible,
        admitted=admitted,
        multiplier_percent=multiplier,
        endpoint=announcements[-1].args["endpoint"] if announcements else "",
        collateral={token: _pair(value) for token, value in zip(tokens, collateral, strict=True)},
        owed=dict(zip(tokens, owed, strict=True)),
        hot_coin=chain.w3.eth.get_balance(record["hot"], head.number),
        deposits={record["owner"]: of_owner, record["hot"]: of_hot},
        coin_owed={record["owner"]: coin_of_owner, record["hot"]: coin_of_hot},
        **record,
    )


def _operator_reads(operator: int, tokens: Sequence[str], epoch: int) -> list[Read]:
    functions = ("operators", "discount_bps", "declarations", "is_admitted", "multiplier_of")
    of_tokens = (Read("registry", "collateral", (operator, token)) for token in tokens)
    promises = (Read("registry", "promised", (operator, each)) for each in (epoch, epoch + 1))
    return [*(Read("registry", function, (operator,)) for function in functions), *promises, *of_tokens]


def _account_reads(operator: int, owner: str, hot: str, tokens: Sequence[str]) -> list[Read]:
    return [
        Read("registry", "is_eligible", (operator, hot)),
        *(Read("tasks", "owed", (token, owner)) for token in tokens),
        *(Read("availability", "owed", (account,)) for account in (owner, hot)),
        *(Read("tasks", "owed", (COIN, account)) for account in (owner, hot)),
    ]


# -- the parts of a job


def _read_parts(
    chain: Chain, job: int, head: Head, events: Sequence[Event], asked: Sequence[demands.Demand]
) -> Callable[[str], dict[tuple, Any]]:
    """Read all of a job in one batch. Returns a function: view function name -> {arguments after the job: value}."""
    kinds = [int(Kind.SLOTS), int(Kind.AGGREGATOR)]
    bidders = {(event.args["kind"], event.args["operator"]) for event in events if event.name == "BidSealed"}
    seats = {event.args["seat"] for event in events if event.name == "SeatTaken"}
    seats |= {event.args["new_seat"] for event in events if event.name == "SeatSplit"}
    seated = {event.args["operator"] for event in events if event.name in ("SeatTaken", "SeatTakenOver")}
    reads = [
        Read("tasks", "jobs", (job,)),
        Read("settlement", "runs", (job,)),
        *(Read("auction", "lots", (job, kind)) for kind in kinds),
        *(Read("auction", "bids", (job, kind, operator)) for kind, operator in sorted(bidders)),
        *(Read("settlement", "seats", (job, seat)) for seat in sorted(seats)),
        *(Read("locks", "stakes", (job, operator, role)) for operator in sorted(seated) for role in (False, True)),
        *(
            Read("locks", "kept", (job, operator))
            for operator in sorted({event.args["operator"] for event in events if event.name == "SetAside"})
        ),
        *(Read("availability", "demands", (job, *key)) for key in demands.demands_to_read(asked)),
    ]
    values = read_all(chain, head.number, reads)

    def of(function: str) -> dict[tuple, Any]:
        """Arguments after the job -> value."""
        pairs = zip(reads, values, strict=True)
        return {read.args[1:]: value for read, value in pairs if read.function == function}

    return of


def _job_view(
    head: Head, posted: Event, events: Sequence[Event], of: Callable[[str], dict[tuple, Any]], made: dict[str, Any]
) -> JobView:
    stored = of("jobs")[()]
    run = _as(Run, of("runs")[()])
    bids = {key: _as(Bid, value) for key, value in of("bids").items()}
    terms = _as(Terms, posted.args["terms"])
    roots, cids = _line(stored["state_root"], events, terms.aggregators)
    return JobView(
        job=posted.args["job"],
        block=head.number,
        state=JobState(stored["state"]),
        submitter=stored["submitter"],
        token=stored["token"],
        terms=terms,
        escrow=stored["escrow"],
        posted_block=posted.block,
        run=run if run.state else None,
        lots={kind: _as(Lot, value) for (kind,), value in of("lots").items()},
        bids={(key[0], key[1]): bid for key, bid in bids.items() if bid.attempt},
        seats={seat: _as(Seat, value) for (seat,), value in of("seats").items()},
        stakes=_stakes(of("stakes")),
        checkpoint_roots=roots,
        checkpoint_cids=cids,
        lost_slots=_lost(events),
        set_aside={operator: amount for (operator,), amount in of("kept").items() if amount},
        rollbacks=[
            Rollback(event.args["turn"], event.args["round"], event.block)
            for event in events
            if event.name == "RolledBack"
        ],
        closed=any(event.name == "JobClosed" for event in events),
        closed_block=max((event.block for event in events if event.name in ("JobClosed", "JobCancelled")), default=0),
        bidders=frozenset(event.args["operator"] for event in events if event.name == "BidRevealed"),
        attempts=attempts_of(events),
        **made,
    )


def _stakes(by_role: Mapping[tuple, Any]) -> dict[int, JobStake]:
    """What operators have locked in the job, both roles of each together."""
    stakes = {}
    for operator in sorted({operator for operator, _ in by_role}):
        roles = [role for role in (by_role[operator, False], by_role[operator, True]) if any(role.values())]
        stakes[operator] = JobStake(
            locked=sum(role["locked"] for role in roles),
            lots=len(roles),
            held=sum(role["held"] for role in roles),
            left_turn=max((role["left_turn"] for role in roles), default=0),
        )
    return stakes


def _claims(events: Sequence[Event]) -> tuple[list[Commit], list[Checkpoint]]:
    """Every claim with its state. A seat may claim a turn again after its claim was convicted."""
    newest: dict[tuple[int, int], Commit | Checkpoint] = {}  # by (turn, seat): the newest claim of each
    convicted: list[Commit | Checkpoint] = []
    deadlines = {event.args["turn"]: event.args["deadline"] for event in events if event.name == "TurnClosed"}
    for event in events:
        args = event.args
        if event.name in ("ResultsCommitted", "CheckpointPosted"):
            key = (args["claim"]["turn"], args["claim"]["seat"])
            made = {**args["claim"], "deadline": deadlines.get(key[0], NO_DEADLINE), "block": event.block}
            if key in newest:
                convicted.append(newest[key])
            if event.name == "ResultsCommitted":
                newest[key] = Commit(**made, bundle=args["bundle"])
            else:
                newest[key] = Checkpoint(**made, cid=args["cid"])
        elif event.name == "SeatsAbsent":
            for seat in slots_in(args["seats"]):
                newest[args["turn"], seat] = replace(newest[args["turn"], seat], state=ClaimState.ABSENT)
        elif (change := _CHANGES.get(event.name)) is not None:
            key = (args["turn"], args["seat"])
            newest[key] = change(newest[key])
    every = sorted([*convicted, *newest.values()], key=lambda claim: claim.block)
    return [c for c in every if isinstance(c, Commit)], [c for c in every if isinstance(c, Checkpoint)]


def _with_times(chain: Chain, claims: Sequence[C], stopped_s: int) -> list[C]:
    """The claims, with `made_at` of those that are pending in the newest turns: only these are demanded.

    In the protocol's time, too early by what stood still since then: old states are not asked for.
    """
    newest = max((claim.turn for claim in claims), default=0) - 1
    return [
        claim if claim.final or claim.turn < newest else replace(claim, made_at=time_of(chain, claim.block) - stopped_s)
        for claim in claims
    ]


def time_of(chain: Chain, block: int) -> int:
    """The block's second; the newest ones read are remembered."""
    times: dict[int, int] = chain.cached("block times", dict)
    if block not in times:
        times[block] = chain.head(block).timestamp
        while len(times) > TIMES_KEPT:
            del times[next(iter(times))]
    return times[block]


_CHANGES: dict[str, Callable[[Commit | Checkpoint], Commit | Checkpoint]] = {
    "ClaimFinalised": lambda claim: replace(claim, state=ClaimState.PAID, disputed=False),
    "ClaimConvicted": lambda claim: replace(claim, state=ClaimState.CONVICTED, disputed=False),
    "ClaimVoided": lambda claim: replace(claim, state=ClaimState.VOID, disputed=False),
    "DisputeOpened": lambda claim: replace(claim, disputed=True),
    "ClaimParked": lambda claim: replace(claim, parked=True),
}


def _lost(events: Sequence[Event]) -> dict[int, int]:
    """The slots that each operator lost or gave up, as bitmaps. A seat that is split keeps its first slots."""
    runs: dict[int, tuple[int, int]] = {}  # by seat: first, count
    lost_slots: dict[int, int] = {}
    for event in events:
        args = event.args
        if event.name == "SeatTaken":
            runs[args["seat"]] = (args["first"], args["count"])
        elif event.name == "SeatSplit":
            runs[args["seat"]] = (runs[args["seat"]][0], args["kept"])
            runs[args["new_seat"]] = (args["first"], args["count"])
        elif event.name == "SeatVacated" and args["seat"] < AGGREGATOR_SEAT:
            first, count = runs[args["seat"]]
            lost_slots[args["operator"]] = lost_slots.get(args["operator"], 0) | full(count) << first
    return lost_slots


def _line(
    state_root: bytes, events: Sequence[Event], aggregators: int
) -> tuple[dict[int, bytes], dict[int, tuple[bytes, ...]]]:
    """Roots and pointers of the current checkpoints, by round. A rollback removes those after the round it repeats."""
    roots, cids = {0: state_root}, dict[int, tuple[bytes, ...]]()
    shares = defaultdict[int, dict[int, tuple[bytes, bytes]]](dict)  # by turn and seat
    for event in events:
        if event.name == "CheckpointPosted":
            claim = event.args["claim"]
            made, of_turn = claim["round"] + 1, shares[claim["turn"]]
            of_turn[claim["seat"]] = claim["root"], event.args["cid"]
            if len(of_turn) == aggregators:
                ordered = [of_turn[seat] for seat in sorted(of_turn)]
                roots[made] = root_of_shares([root for root, _ in ordered])
                cids[made] = tuple(cid for _, cid in ordered)
        elif event.name == "RolledBack":
            for void in [made for made in cids if made > event.args["round"]]:
                del roots[void], cids[void]
    return roots, cids


def _as(type_: type[T], values: Mapping[str, Any]) -> T:
    """A dataclass from a contract's struct of the same field names; the contract may have more."""
    return type_(**{field.name: values[field.name] for field in fields(type_)})  # type: ignore[arg-type]


def _pair(value: Any) -> tuple[int, int]:
    first, second = value.values() if isinstance(value, Mapping) else value
    return first, second


def _history(chain: Chain, key: tuple[str, int], **wanted: Any) -> History | StoredHistory:
    return chain.cached(("history", *key), lambda: history_of(chain, **wanted))
