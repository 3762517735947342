"""Explorations of disputed claims, read from the Referee's events (docs/protocol/referee.md).

views = read_disputes(chain, head, job=3)
views[0].picture.open_asks, views[0].picture.end
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eth_typing import HexStr
from hexbytes import HexBytes

from zoo_compute.chain.batch import CALLS_PER_REQUEST, Read, read_all
from zoo_compute.chain.demands import claim_hash
from zoo_compute.chain.event_log import History
from zoo_compute.disputes import exploration
from zoo_compute.disputes.exploration import Exploration
from zoo_compute.spec.clocks import ClockPreset, End, asks_end
from zoo_compute.spec.trials import TRIALS

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
    open. events: of the Referee, each with its transaction. at: when the last of them was.
    """

    key: bytes
    job: int
    claim_hash: bytes
    operator: int
    deadline: int
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
    """All claims that were ever asked about, of the network or of a job (0: of trials), in the order of their first asks."""
    reader: _Reader = chain.cached("explorations", lambda: _Reader(History(chain, names=EVENTS)))
    disputes = reader.disputes_at(chain, head)
    words = reader.words_at(chain, head, [each for each in disputes.values() if job in (None, each.job)])
    views = [
        DisputeView(each.key, each.job, each.claim_hash, *words[each.key], each.picture, each.events)
        for each in disputes.values()
        if each.key in words
    ]
    return [view for view in views if wanted(view)]


def gas_used(chain: Chain, transactions: Iterable[str]) -> dict[str, int]:
    """Gas of each transaction of a dispute: of a block's every receipt one request."""
    asked = list(transactions)
    used: dict[str, int] = {}
    for start in range(0, len(asked), CALLS_PER_REQUEST):
        part = asked[start : start + CALLS_PER_REQUEST]
        with chain.w3.batch_requests() as batch:
            for tx in part:
                batch.add(chain.w3.eth.get_transaction_receipt(HexStr(tx)))
            receipts: Any = batch.execute()
        used |= {tx: int(receipt["gasUsed"]) for tx, receipt in zip(part, receipts, strict=True)}
    return used


@dataclass(frozen=True)
class _Dispute:
    """A claim's exploration, from events alone."""

    key: bytes
    job: int
    claim_hash: bytes
    picture: Exploration = field(default_factory=Exploration)
    events: Sequence[Event] = ()


@dataclass
class _Reader:
    """What a connection has read so far. times: of blocks, by hash; words: operator and deadline, by the claim's key."""

    history: History
    events: Sequence[Event] = ()
    disputes: Mapping[bytes, _Dispute] = field(default_factory=dict)
    claim_of: dict[bytes, bytes] = field(default_factory=dict)  # the key of a node's claim, by its id
    times: dict[bytes, int] = field(default_factory=dict)
    words: dict[bytes, tuple[int, int]] = field(default_factory=dict)

    def disputes_at(self, chain: Chain, head: Head) -> Mapping[bytes, _Dispute]:
        """Reuses what is known of earlier events, unless a reorganisation undid one."""
        events = self.history.events_until(head)
        if list(events[: len(self.events)]) != list(self.events):
            self.events, self.disputes, self.claim_of, self.words = (), {}, {}, {}
        new = events[len(self.events) :]
        if new:
            self._read_times(chain, new)
            by_claim: dict[bytes, list[Event]] = {}
            for event in new:
                by_claim.setdefault(self._key(event), []).append(event)
            disputes = dict(self.disputes)
            for key, made in by_claim.items():
                try:
                    disputes[key] = self._after(disputes.get(key), made)
                except Exception:  # one dispute that cannot be read hides no other
                    log.exception("the dispute of claim %s cannot be read", key.hex())
            self.events, self.disputes = events, disputes
        return self.disputes

    def words_at(self, chain: Chain, head: Head, disputes: Sequence[_Dispute]) -> dict[bytes, tuple[int, int]]:
        """Operator and deadline. They are fixed once, but the deadline of an open turn is not known yet."""
        unknown = [each for each in disputes if self.words.get(each.key, (0, 0))[1] == 0]
        unknown = [each for each in unknown if each.picture.end is None or each.key not in self.words]
        kept = read_all(chain, head.number, [Read("referee", "claims", (each.key,)) for each in unknown])
        for each, word in zip(unknown, kept, strict=True):
            self.words[each.key] = word >> _OPERATOR_AT & _U28, word >> _DEADLINE_AT & _U40
        open_turns = [
            (each, word)
            for each, word in zip(unknown, kept, strict=True)
            if each.job != TRIALS and not self.words[each.key][1]
        ]
        reads = [Read("settlement", "claim_deadline", (each.job, word >> _TURN_AT & _U20)) for each, word in open_turns]
        for (each, _), deadline in zip(open_turns, read_all(chain, head.number, reads), strict=True):
            if deadline <= _U40:
                self.words[each.key] = self.words[each.key][0], deadline
        return {each.key: self.words[each.key] for each in disputes}

    def _key(self, event: Event) -> bytes:
        if event.name in ASKS:
            self.claim_of[event.args["id"]] = event.args["claim"]
        return event.args["claim"] if "claim" in event.args else self.claim_of[event.args["id"]]

    def _after(self, known: _Dispute | None, made: Sequence[Event]) -> _Dispute:
        """A picture that somebody reads stays as it is."""
        if known is None:
            first = made[0].args
            known = _Dispute(first["claim"], first["job"], first["claim_hash"])
        picture = Exploration(dict(known.picture.nodes), list(known.picture.events), known.picture.end)
        for event in made:
            picture.apply(exploration.Event(event.name, self.times[event.block_hash], _plain(event.args)))
        return _Dispute(known.key, known.job, known.claim_hash, picture, [*known.events, *made])

    def _read_times(self, chain: Chain, events: Sequence[Event]) -> None:
        blocks = list({event.block_hash for event in events} - self.times.keys())
        for start in range(0, len(blocks), CALLS_PER_REQUEST):
            part = blocks[start : start + CALLS_PER_REQUEST]
            with chain.w3.batch_requests() as batch:
                for block in part:
                    batch.add(chain.w3.eth.get_block(HexBytes(block)))
                headers: Any = batch.execute()
            self.times |= {block: header["timestamp"] for block, header in zip(part, headers, strict=True)}


def _plain(args: Mapping[str, Any]) -> tuple[Any, ...]:
    """In the order of the source, structs as tuples."""
    return tuple(_plain(each) if isinstance(each, Mapping) else each for each in args.values())


# Fields of a claim's word in the Referee.
_DEADLINE_AT, _TURN_AT, _OPERATOR_AT = 108, 176, 196
_U20, _U28, _U40 = 2**20 - 1, 2**28 - 1, 2**40 - 1
