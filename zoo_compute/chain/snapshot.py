"""Reads of one job and of one operator, every one pinned to one block. The dataclasses are in `views.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from zoo_compute.chain.events import Event
from zoo_compute.chain.history import History
from zoo_compute.chain.reads import Read, read_all
from zoo_compute.chain.views import (
    AggregatorSeat,
    Bid,
    Checkpoint,
    Commit,
    JobState,
    JobView,
    Kind,
    Lot,
    OperatorView,
    Run,
    Seat,
    Vacancy,
)
from zoo_compute.errors import UserError
from zoo_compute.spec.bits import slots_in
from zoo_compute.spec.params import Terms

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain, Head

T = TypeVar("T")
C = TypeVar("C", Commit, Checkpoint)


def read_job(chain: Chain, job: int, block: int | None = None) -> JobView:
    """One job as of `block` (the newest unless given). Raises UserError for a job that is not posted, Unreachable."""
    head = chain.head("latest" if block is None else block)
    events = _history(chain, ("job", job), job=job).upto(head)
    posted = next((event for event in events if event.name == "JobPosted"), None)
    if posted is None:
        raise UserError(
            f"there is no job {job} at block {head.number}", hint="check the job's number and the network file"
        )
    return _job_view(head, posted, events, _read_parts(chain, job, head, events))


def read_operator(
    chain: Chain, operator: int, block: int | None = None, tokens: Sequence[str] | None = None
) -> OperatorView:
    """One operator as of `block`, with its money in `tokens` (ZEN unless given). Raises UserError, Unreachable."""
    head = chain.head("latest" if block is None else block)
    tokens = [chain.network.contracts["zen"]] if tokens is None else list(tokens)
    first = [
        Read("registry", "operators", (operator,)),
        Read("registry", "discount_bps", (operator,)),
        *(Read("registry", "collateral", (operator, token)) for token in tokens),
    ]
    found, discount, *collateral = read_all(chain, head.number, first)
    if int(found["owner"], 16) == 0:
        raise UserError(f"there is no operator {operator} at block {head.number}", hint="operator numbers start at 1")
    second = [
        Read("registry", "is_eligible", (operator, found["hot"])),
        *(Read("tasks", "owed", (token, found["owner"])) for token in tokens),
    ]
    eligible, *owed = read_all(chain, head.number, second)
    names = ("OperatorRegistered", "EndpointAnnounced")
    told = _history(chain, ("operator", operator), operator=operator, names=names).upto(head)
    return OperatorView(
        operator=operator,
        block=head.number,
        now=head.timestamp,
        discount_bps=discount,
        eligible=eligible,
        endpoint=told[-1].args["endpoint"] if told else "",
        collateral={token: _pair(value) for token, value in zip(tokens, collateral, strict=True)},
        owed=dict(zip(tokens, owed, strict=True)),
        hot_coin=chain.w3.eth.get_balance(found["hot"], head.number),
        **found,
    )


# -- the parts of a job


def _read_parts(chain: Chain, job: int, head: Head, events: Sequence[Event]) -> Callable[[str], dict[tuple, Any]]:
    """Everything that is read of a job in one batch; the answer gives, by view function, arguments -> value."""
    kinds = [int(Kind.SLOTS), int(Kind.AGGREGATOR)]
    bidders = {(event.args["kind"], event.args["operator"]) for event in events if event.name == "BidSealed"}
    seated = {(event.args["kind"], event.args["operator"]) for event in events if event.name == "SeatTaken"}
    seated |= {(int(Kind.SLOTS), event.args["operator"]) for event in events if event.name == "SlotTakenOver"}
    seated |= {(int(Kind.AGGREGATOR), event.args["operator"]) for event in events if event.name == "AggregatorTakenOver"}  # fmt: skip
    vacated = 0
    for event in events:
        vacated |= event.args["bitmap"] if event.name == "SlotsVacated" else 0
    reads = [
        Read("tasks", "jobs", (job,)),
        Read("tasks", "checkpoint_cid", (job,)),
        Read("settlement", "runs", (job,)),
        *(Read("auction", "lots", (job, kind)) for kind in kinds),
        *(Read("auction", "bids", (job, kind, operator)) for kind, operator in sorted(bidders)),
        *(
            Read("settlement", "seats" if kind == Kind.SLOTS else "aggregator_seats", (job, operator))
            for kind, operator in sorted(seated)
        ),
        *(Read("settlement", "vacancies", (job, slot)) for slot in slots_in(vacated)),
    ]
    values = read_all(chain, head.number, reads)

    def of(function: str) -> dict[tuple, Any]:
        """Arguments after the job -> value."""
        pairs = zip(reads, values, strict=True)
        return {read.args[1:]: value for read, value in pairs if read.function == function}

    return of


def _job_view(head: Head, posted: Event, events: Sequence[Event], of: Callable[[str], dict[tuple, Any]]) -> JobView:
    stored = of("jobs")[()]
    run = _as(Run, of("runs")[()])
    vacant = run.vacant
    recorded = {event.args["round"]: event.args["root"] for event in events if event.name == "CheckpointRecorded"}
    paid = {(event.args["round"], event.args["key"]) for event in events if event.name == "ClaimFinalised"}
    bids = {key: _as(Bid, value) for key, value in of("bids").items()}
    return JobView(
        job=posted.args["job"],
        block=head.number,
        now=head.timestamp,
        state=JobState(stored["state"]),
        submitter=stored["submitter"],
        token=stored["token"],
        terms=_as(Terms, posted.args["terms"]),
        escrow=stored["escrow"],
        posted_block=posted.block,
        run=run if run.state else None,
        lots={kind: _as(Lot, value) for (kind,), value in of("lots").items()},
        bids={(key[0], key[1]): bid for key, bid in bids.items() if bid.attempt},
        seats={operator: _as(Seat, value) for (operator,), value in of("seats").items()},
        aggregator_seats={
            operator: _as(AggregatorSeat, value) for (operator,), value in of("aggregator_seats").items()
        },
        vacancies={slot: _as(Vacancy, value) for (slot,), value in of("vacancies").items() if vacant >> slot & 1},
        checkpoint_roots={0: stored["state_root"], **recorded},
        checkpoint_cid=of("checkpoint_cid")[()],
        commits=[_claim(Commit, event, paid) for event in events if event.name == "ResultsCommitted"],
        checkpoints=[_claim(Checkpoint, event, paid) for event in events if event.name == "CheckpointPosted"],
    )


def _claim(type_: Callable[..., C], event: Event, paid: set[tuple[int, int]]) -> C:
    args = {name: value for name, value in event.args.items() if name != "job"}
    claim = type_(**args, finalised=False, block=event.block)
    return replace(claim, finalised=(claim.round, claim.key) in paid)


def _as(type_: type[T], values: Mapping[str, Any]) -> T:
    """A dataclass from a contract's struct of the same field names; the contract may have more."""
    return type_(**{field.name: values[field.name] for field in fields(type_)})  # type: ignore[arg-type]


def _pair(value: Any) -> tuple[int, int]:
    first, second = value.values() if isinstance(value, Mapping) else value
    return first, second


def _history(chain: Chain, key: tuple[str, int], **wanted: Any) -> History:
    return chain.histories.setdefault(key, History(chain, **wanted))
