"""Filters of `eth_getLogs` for what a store of events keeps: all of it, or what concerns one operator and some jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from zoo_compute.chain.events import signatures

NOT_KEPT = ("zen", "timelock")  # no job and no operator in them
BEGINS_OR_ENDS = ("JobPosted", "JobClosed", "JobCancelled")
# Of the events of no job, those that somebody reads from a store. There are many others: an operator's heartbeats alone are 48 an epoch.
JOBLESS = frozenset({
    "OperatorRegistered", "EndpointAnnounced", "TrialAnswered", "NodeAsked", "NodeAnswered", "LeafShown", "StageFixed", "SealOpened",
})  # fmt: skip


class Kind(NamedTuple):
    """An event's name, and the topics in which its job and its operator are."""

    name: str
    job: int | None
    operator: int | None


@lru_cache
def kinds() -> dict[tuple[str, bytes], Kind]:
    """By contract and topic."""
    all_ = (each for each in signatures() if each.contract not in NOT_KEPT)
    kept = (each for each in all_ if each.position("job") is not None or each.name in JOBLESS)
    return {(e.contract, e.topic): Kind(e.name, e.position("job"), e.position("operator")) for e in kept}


ALL: Sequence[Any] = [[sorted({"0x" + topic.hex() for _, topic in kinds()})]]  # one filter


def outline(operator: int) -> list[Any]:
    """Of the events of no job, those that begin and end a job, and an operator's own (0: nobody's)."""
    topics = {
        "0x" + topic.hex() for (_, topic), kind in kinds().items() if kind.job is None or kind.name in BEGINS_OR_ENDS
    }
    return [[sorted(topics)], *(_with_argument("operator", [operator]) if operator else [])]


def of_jobs(jobs: Collection[int]) -> list[Any]:
    """Of all events of these jobs."""
    return _with_argument("job", jobs)


def _with_argument(argument: str, values: Collection[int]) -> list[Any]:
    """One for each place that this indexed argument has among an event's topics."""
    by_place: dict[int, set[str]] = {}
    for (_, topic), kind in kinds().items():
        if (place := getattr(kind, argument)) is not None:
            by_place.setdefault(place, set()).add("0x" + topic.hex())
    words = [f"0x{value:064x}" for value in values]
    return [[sorted(topics), *[None] * (place - 1), words] for place, topics in sorted(by_place.items())]
