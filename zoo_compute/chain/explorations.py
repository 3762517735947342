"""Explorations of disputed claims, read from the Referee's events (docs/protocol/referee.md).

views = read_disputes(chain, head, job=3)
views[0].picture.open_asks, views[0].picture.end
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from zoo_compute.chain.batch import Read, RpcRequest, read_all, request_all
from zoo_compute.chain.demands import claim_hash
from zoo_compute.chain.event_log import history_of
from zoo_compute.disputes import exploration
from zoo_compute.disputes.exploration import Exploration
from zoo_compute.spec.clocks import ClockPreset, End, asks_end
from zoo_compute.spec.receipts import is_of_job

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain, Head
    from zoo_compute.chain.events import Event
    from zoo_compute.chain.views import Claim, JobView

log = logging.getLogger("zoo.disputes")
ASKS = ("ClaimAsked", "NodeAsked")
ANSWERS = ("NodeAnswered", "LeafShown", "StageFixed")
EVENTS = (*ASKS, *ANSWERS, "ClaimResolved", "SealOpened")


@dataclass(frozen=True)
class DisputeView:
    """One claim's exploration, as of a block.

    key: of the claim, with its job. deadline: the last second in which the first ask of a path is accepted, 0 while the claim's turn is
    open. reexecute_s: of its job. events: of the Referee, each with its transaction.
    """

    key: bytes
    job: int
    claim_hash: bytes
    operator: int
    deadline: int
    reexecute_s: int
    picture: Exploration
    events: Sequence[Event] = ()

    @property
    def end(self) -> End | None:
        return self.picture.end

    @property
    def is_open(self) -> bool:
        return self.end is None

    @property
    def seat(self) -> int:
        return next(iter(self.picture.nodes.values())).frame.seat

    @property
    def transactions(self) -> list[str]:
        """In order, each once."""
        return list(dict.fromkeys(event.tx for event in self.events))

    def final_after(self, preset: ClockPreset) -> int | None:
        """The second after which the claim is final if nobody asks or judges; None while an ask or its turn is open."""
        if not self.deadline or self.picture.open_asks:
            return None
        if not self.picture.nodes:
            return self.deadline
        ends = [asks_end(node.record.clocks, self.deadline) for node in self.picture.nodes.values()]
        return max(self.deadline + preset.asker_s, *ends)

    def claim_in(self, view: JobView) -> Claim:
        """The disputed claim, from its job's view."""
        return next(claim for claim in reversed(view.claims) if claim_hash(claim) == self.claim_hash)


def read_disputes(
    chain: Chain, head: Head, *, job: int | None = None, wanted: Callable[[DisputeView], bool] = lambda view: True
) -> list[DisputeView]:
    """All claims that were ever asked about, of the network or of a job, or of what has a number in its place, in the order of their first asks."""
    return explorations_of(chain).at(head, job=job, wanted=wanted)


def explorations_of(chain: Chain) -> Explorations:
    """What all readers of a connection share, which forgets nothing."""
    return chain.cached("explorations", lambda: Explorations(chain))


@dataclass(frozen=True)
class _Dispute:
    """A claim's exploration, from events alone."""

    key: bytes
    job: int
    claim_hash: bytes
    picture: Exploration = field(default_factory=Exploration)
    events: Sequence[Event] = ()


class _Word(NamedTuple):
    """Of a disputed claim. deadline: 0 while its turn is open."""

    operator: int
    deadline: int
    reexecute_s: int
    read_at: int  # number of the block


class Explorations:
    """The disputes of a network, read incrementally. A reader that runs for months forgets those that it is done with."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._history = history_of(chain, names=EVENTS)
        self._events: Sequence[Event] = ()
        self._disputes: Mapping[bytes, _Dispute] = {}
        self._claim_of: dict[bytes, bytes] = {}  # the key of a node's claim, by its id
        self._times: dict[bytes, int] = {}  # of blocks, by hash
        self._words: dict[bytes, _Word] = {}  # by the claim's key

    def at(
        self, head: Head, *, job: int | None = None, wanted: Callable[[DisputeView], bool] = lambda view: True
    ) -> list[DisputeView]:
        """As `read_disputes`, but those forgotten."""
        disputes = self._disputes_at(head)
        words = self._words_at(head, [each for each in disputes.values() if job in (None, each.job)])
        views = [
            DisputeView(each.key, each.job, each.claim_hash, *words[each.key][:3], each.picture, each.events)
            for each in disputes.values()
            if each.key in words
        ]
        return [view for view in views if wanted(view)]

    def forget(self, keys: Collection[bytes]) -> None:
        """Keep nothing of these claims' disputes, which are resolved. One that ended so lately that the end may be undone stays."""
        ends = {event.args["claim"]: event.block for event in self._events if event.name == "ClaimResolved"}
        gone = {key for key in keys if key in ends and ends[key] < self._history.oldest_head}
        if not gone:
            return
        kept = self._disputes.keys() - gone
        left = [event for event in self._events if self._key(event) in kept]
        self._history.forget([event for event in self._events if self._key(event) not in kept])
        self._events = left
        self._disputes = {key: each for key, each in self._disputes.items() if key not in gone}
        self._words = {key: word for key, word in self._words.items() if key not in gone}
        self._claim_of = {id: key for id, key in self._claim_of.items() if key not in gone}
        blocks = {event.block_hash for event in left}
        self._times = {block: at for block, at in self._times.items() if block in blocks}

    def _disputes_at(self, head: Head) -> Mapping[bytes, _Dispute]:
        """Reuses what is known of earlier events, unless a reorganisation undid one."""
        events = self._history.events_until(head)
        # A block that was replaced may have closed a turn, which is no event of a dispute.
        self._words = {key: word for key, word in self._words.items() if word.read_at < self._history.read_from}
        if list(events[: len(self._events)]) != list(self._events):
            self._events, self._disputes, self._claim_of = (), {}, {}
        new = events[len(self._events) :]
        if new:
            self._read_times(new)
            by_claim: dict[bytes, list[Event]] = {}
            for event in new:
                by_claim.setdefault(self._key(event), []).append(event)
            disputes = dict(self._disputes)
            for key, made in by_claim.items():
                if key not in disputes and made[0].name != "ClaimAsked":
                    continue  # of one that was forgotten
                try:
                    disputes[key] = self._after(disputes.get(key), made)
                except Exception:  # one dispute that cannot be read hides no other
                    log.exception("the dispute of claim %s cannot be read", key.hex())
            self._events, self._disputes = events, disputes
        return self._disputes

    def _words_at(self, head: Head, disputes: Sequence[_Dispute]) -> dict[bytes, _Word]:
        """They are fixed once, but the deadline of an open turn is not known yet."""
        unknown = [each for each in disputes if each.key not in self._words or not self._words[each.key].deadline]
        unknown = [each for each in unknown if each.picture.end is None or each.key not in self._words]
        kept = read_all(self._chain, head.number, [Read("referee", "claims", (each.key,)) for each in unknown])
        for each, word in zip(unknown, kept, strict=True):
            operator, deadline, reexecute_s = (word >> at & mask for at, mask in (_OPERATOR, _DEADLINE, _REEXECUTE))
            self._words[each.key] = _Word(operator, deadline, reexecute_s, head.number)
        open_turns = [
            (each, word >> _TURN[0] & _TURN[1])
            for each, word in zip(unknown, kept, strict=True)
            if is_of_job(each.job) and not self._words[each.key].deadline
        ]
        reads = [Read("settlement", "claim_deadline", (each.job, turn)) for each, turn in open_turns]
        for (each, _), deadline in zip(open_turns, read_all(self._chain, head.number, reads), strict=True):
            if deadline <= _U40:
                self._words[each.key] = self._words[each.key]._replace(deadline=deadline)
        return {each.key: self._words[each.key] for each in disputes}

    def _key(self, event: Event) -> bytes:
        """Of the event's claim; of a node that nobody asked for, nothing's: it was forgotten."""
        if event.name in ASKS:
            self._claim_of[event.args["id"]] = event.args["claim"]
        return event.args["claim"] if "claim" in event.args else self._claim_of.get(event.args["id"], b"")

    def _after(self, known: _Dispute | None, made: Sequence[Event]) -> _Dispute:
        """A picture that somebody reads stays as it is."""
        if known is None:
            first = made[0].args
            known = _Dispute(first["claim"], first["job"], first["claim_hash"])
        picture = Exploration(dict(known.picture.nodes), list(known.picture.events), known.picture.end)
        for event in made:
            picture.apply(exploration.Event(event.name, self._times[event.block_hash], _plain(event.args)))
        return _Dispute(known.key, known.job, known.claim_hash, picture, [*known.events, *made])

    def _read_times(self, events: Sequence[Event]) -> None:
        blocks = list({event.block_hash for event in events} - self._times.keys())
        hashes = ["0x" + block.hex() for block in blocks]
        headers = request_all(
            self._chain, [RpcRequest(f"block {each}", "eth_getBlockByHash", [each, False]) for each in hashes]
        )
        self._times |= {block: int(header["timestamp"], 16) for block, header in zip(blocks, headers, strict=True)}


def _plain(args: Mapping[str, Any]) -> tuple[Any, ...]:
    """In the order of the source, structs as tuples."""
    return tuple(_plain(each) if isinstance(each, Mapping) else each for each in args.values())


# Fields of a claim's word in the Referee: where they are, and their masks.
_U40 = 2**40 - 1
_DEADLINE, _REEXECUTE, _TURN, _OPERATOR = (108, _U40), (156, 2**20 - 1), (176, 2**20 - 1), (196, 2**28 - 1)
