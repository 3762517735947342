"""The public picture of one claim's exploration, from the contract's events alone, and the calls that are possible in it.

Everybody who reads the same events has the same picture: askers, answerers, and people who look on.
`Exploration.plain` is plain JSON, from which `Exploration.from_plain` makes the same picture again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, NamedTuple

from repops.encoding import read_descriptor
from repops.merkle import Tree as HashTree
from repops.parts import part_count
from zoo_compute.disputes.stage_data import decode_stage, encode_stage
from zoo_compute.json_codec import decode, encode
from zoo_compute.spec import clocks
from zoo_compute.spec.descents import (
    ELEMENT_PLACE,
    STATE_PLACE,
    Answer,
    Ask,
    BeginAnswer,
    NodeAnswer,
    PartsAnswer,
    ResultAnswer,
    SegmentAnswer,
    Stage,
    StepAnswer,
    frame_hash,
)
from zoo_compute.spec.disputed_claims import answer_gas
from zoo_compute.spec.exploration import (
    LEAF_BYTES,
    PRICE_AT,
    UNIT_BYTES,
    Node,
    Origin,
    Payment,
    Status,
    Tree,
    TreePosition,
    child_id,
    id_below,
)
from zoo_compute.spec.frames import EMPTY, Frame, Hashes, Program, Result, States, Steps, Trace
from zoo_compute.spec.referee import STAGES
from zoo_compute.spec.state import Claim

ANSWERS: dict[Answer, type] = {
    Answer.BEGIN: BeginAnswer,
    Answer.NODE: NodeAnswer,
    Answer.RESULT: ResultAnswer,
    Answer.SEGMENT: SegmentAnswer,
    Answer.STEP: StepAnswer,
    Answer.TRACE: Trace,
    Answer.PARTS: PartsAnswer,
}
WITHIN: dict[str, type] = {
    "program": Program,
    "states": States,
    "steps": Steps,
    "trace": Trace,
    "claim": Claim,
    "result": Result,
}


class Event(NamedTuple):
    """One of the contract's events, its arguments in the order of the source, and the second of its block."""

    name: str
    at: int
    args: tuple[Any, ...]


class Call(NamedTuple):
    """A function of the contract and its arguments. gas: that an ask prepays; is_heavy: it prepays a re-execution too.

    id: of the node that an ask makes, or that an answer or an end is about.
    """

    name: str
    args: tuple[Any, ...]
    gas: int = 0
    is_heavy: bool = False
    id: bytes = EMPTY

    def value(self, base_fee: int) -> int:
        """Smallest units of the coin to send along, at this base fee."""
        return self.gas * clocks.gas_price(base_fee)


@dataclass(frozen=True)
class Opened:
    """A node of the exploration as the events show it.

    above: the node that it was asked below, EMPTY at the beginning of a path; place: which child of it; children or words:
    what its answer showed; answer: what an answer that led into another tree carried.
    """

    id: bytes
    above: bytes
    place: int
    record: Node
    frame: Frame
    status: Status
    children: Hashes = ()
    words: bytes = b""
    answer: Any = None

    @property
    def position(self) -> TreePosition:
        return self.record.position

    @property
    def is_answered(self) -> bool:
        return self.status == Status.ANSWERED

    @property
    def due(self) -> int:
        """Last second in which an open ask can be answered."""
        return self.record.clocks.since + self.record.clocks.committer_left_s

    @property
    def revealed(self) -> Hashes:
        """The hashes that the answer showed: of children, or of leaves of words, with padding."""
        if self.children or not self.position.shows_words:
            return self.children
        leaves = [
            sha256(b"\0" + self.words[at : at + LEAF_BYTES]).digest() for at in range(0, len(self.words), LEAF_BYTES)
        ]
        return (*leaves, *[EMPTY] * ((1 << self.position.height) - len(leaves)))

    def child(self, place: int) -> tuple[TreePosition, bytes, Hashes]:
        """Position, hash and siblings of one of `shown`."""
        tree = HashTree(self.revealed)
        siblings = tree.path(place)
        return (
            self.position.below(self.record.root, place, self.revealed[place], siblings),
            self.revealed[place],
            siblings,
        )


@dataclass
class Exploration:
    """Of one claim. nodes: by id, in the order in which they were asked for; events: all of it, from which the rest follows."""

    nodes: dict[bytes, Opened] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    end: clocks.End | None = None

    # --- from events

    @classmethod
    def of(cls, events: Iterable[Event]) -> Exploration:
        made = cls()
        for event in events:
            made.apply(event)
        return made

    def apply(self, event: Event) -> None:
        """Of this claim, in the chain's order; events that say nothing of the exploration are passed over."""
        readers: dict[str, Callable[..., None]] = {
            "ClaimAsked": self._claim_asked,
            "NodeAsked": self._node_asked,
            "NodeAnswered": self._answered,
            "LeafShown": self._leaf_revealed,
            "StageFixed": self._stage_fixed,
            "ClaimResolved": self._resolved,
        }
        if event.name in readers:
            readers[event.name](event.at, *event.args)
            self.events.append(event)

    @property
    def plain(self) -> Any:
        return encode([tuple(each) for each in self.events])

    @classmethod
    def from_plain(cls, plain: Any) -> Exploration:
        return cls.of(Event(*each) for each in decode(plain))

    def _claim_asked(
        self, at: int, job: int, claim: bytes, id: bytes, claim_hash: bytes, frame: Any, record: Any
    ) -> None:
        self._add(Opened(id, EMPTY, 0, node_of(record), Frame(*frame), Status.ASKED))

    def _node_asked(self, at: int, claim: bytes, id: bytes, above: bytes, place: int, record: Any) -> None:
        parent, node = self.nodes[above], node_of(record)
        frame = parent.frame
        if place >= ELEMENT_PLACE:
            element = place - ELEMENT_PLACE
            frame = replace(frame, element=element, parts=part_count(read_descriptor(self.descriptor(above))))
        # A state of one entry has nothing to answer.
        is_alone = node.position.tree == Tree.STATE and place == STATE_PLACE and node.position.height == 0
        status = Status.ANSWERED if is_alone else Status.ASKED
        self._add(Opened(id, above, place, node, frame, status, (node.root,) if is_alone else ()))

    def _add(self, node: Opened) -> None:
        assert frame_hash(node.frame) == node.record.frame, "events of another contract, or not all of them"
        self.nodes[node.id] = node

    def _answered(self, at: int, id: bytes, answerer: str, children: Sequence[bytes]) -> None:
        self._fix(at, id, answerer, children=tuple(children))

    def _leaf_revealed(self, at: int, id: bytes, answerer: str, data: bytes) -> None:
        self._fix(at, id, answerer, words=data)

    def _stage_fixed(self, at: int, id: bytes, answerer: str, kind: int, data: bytes) -> None:
        asked = self.nodes[id]
        answer = decoded(ANSWERS[Answer(kind)], decode_stage(ANSWERS[Answer(kind)], data))
        stage = stage_of(Answer(kind), asked, answer)
        record = replace(asked.record, frame=frame_hash(stage.frame), position=stage.position, root=stage.root)
        self.nodes[id] = replace(asked, record=record, frame=stage.frame)
        children, words = revealed_by(answer)
        self._fix(at, id, answerer, children=children, words=words, answer=answer)

    def _fix(self, at: int, id: bytes, answerer: str, **revealed: Any) -> None:
        asked = self.nodes[id]
        record = replace(asked.record, clocks=clocks.answered(asked.record.clocks, at), answerer=account_of(answerer))
        self.nodes[id] = replace(asked, record=record, status=Status.ANSWERED, **revealed)

    def _resolved(self, at: int, job: int, claim: bytes, outcome: int, node: bytes) -> None:
        self.end = clocks.End(outcome)

    # --- what it says

    @property
    def open_asks(self) -> list[Opened]:
        """Those whose clock runs out first at the front."""
        return sorted((each for each in self.nodes.values() if not each.is_answered), key=lambda each: each.due)

    @property
    def earned(self) -> dict[str, int]:
        """Fees in gwei by who is paid for the answers if the claim becomes final; of NOBODY, those of the operator's owner."""
        fees: dict[str, int] = {}
        for each in self.nodes.values():
            if each.is_answered:
                fees[each.record.answerer] = fees.get(each.record.answerer, 0) + each.record.payment.fee
        return fees

    def below(self, id: bytes) -> list[Opened]:
        return [each for each in self.nodes.values() if each.above == id]

    def path(self, id: bytes) -> list[Opened]:
        """From the beginning of the path to this node."""
        nodes = [self.nodes[id]]
        while nodes[-1].above in self.nodes:
            nodes.append(self.nodes[nodes[-1].above])
        return nodes[::-1]

    def descriptor(self, id: bytes) -> bytes:
        """Of the program's node whose words this node of the exploration is about."""
        return next(each.answer.descriptor for each in reversed(self.path(id)) if isinstance(each.answer, NodeAnswer))

    def revealed_in(self, id: bytes, tree: Tree) -> tuple[Hashes, ...]:
        """What the answers in one tree showed on the path down to this node, from the tree's root."""
        return tuple(each.revealed for each in self.path(id) if each.is_answered and each.position.tree == tree)

    # --- the calls

    def ask(self, node: Opened, place: int) -> Call:
        position, child, path = node.child(place)
        args = (node.id, node.record.record, place, child, list(path))
        id = id_below(node.id, node.record.origin.unit, position, place)
        return Call("ask", args, self.prepaid(position), position.is_heavy, id)

    def ask_stage(self, node: Opened, kind: Ask, data: Any, position: TreePosition) -> Call:
        """position: that the ask leads to."""
        gas = 0 if position.tree == Tree.STATE and position.height == 0 else self.prepaid(position)
        place = STATE_PLACE if kind == Ask.STATE else ELEMENT_PLACE | data.element
        args = (node.id, node.record.record, int(kind), values(node.frame), encode_stage(data))
        return Call("ask_stage", args, gas, id=child_id(node.id, place))

    def prepaid(self, position: TreePosition) -> int:
        """Gas that the next ask prepays, were it there."""
        return (len(self.open_asks) + 1) * answer_gas(position)

    def judge(self, job: int, claim: Any, node: Opened, place: int | None, kind: int, data: bytes) -> Call:
        """place: of a child that the evidence is about; None: the node itself."""
        at = (node.id, node.record.record, int(node.status))
        if place is None:
            where: tuple[Any, ...] = (*at, False, 0, EMPTY, [])
        else:
            _, child, path = node.child(place)
            where = (*at, True, place, child, list(path))
        return Call("judge", (job, values(claim), values(node.frame), where, kind, data), id=node.id)

    def expire(self, job: int, claim: Any, node: Opened) -> Call:
        return Call("expire", (job, values(claim), node.id, node.record.record), id=node.id)

    def close(self, job: int, claim: Any) -> Call:
        """Where every clock has passed."""
        return Call("close", (job, values(claim)))

    def settle(self, ids: Sequence[bytes]) -> Call:
        """Of a resolved claim: what was prepaid for these nodes."""
        nodes = [self.nodes[id] for id in ids]
        return Call("settle", (list(ids), [each.record.record for each in nodes], [int(each.status) for each in nodes]))


def stage_of(kind: Answer, node: Opened, answer: Any) -> Stage:
    """Where an answer leads. Raises Refused where it does not match what was asked."""
    lead: Callable[[Node, Frame, Any], Stage] = STAGES[kind]  # type: ignore[assignment]
    return lead(node.record, node.frame, answer)


def revealed_by(answer: Any) -> tuple[Hashes, bytes]:
    """Children and words of an answer that leads into another tree."""
    inside = getattr(answer, "steps", None) or getattr(answer, "trace", None) or answer
    return tuple(getattr(inside, "children", ())), getattr(inside, "words", b"")


def decoded(record: type, plain: Sequence[Any]) -> Any:
    """A record of an answer from what the ABI has of it."""
    pairs = zip(record.__dataclass_fields__, plain, strict=True)  # type: ignore[attr-defined]
    return record(*(decoded(WITHIN[name], each) if name in WITHIN else each for name, each in pairs))


def node_of(record: Sequence[Any]) -> Node:
    """A record as the contract's events have it."""
    claim, frame, position, root, origin, payment, answerer, at = record
    return Node(
        claim,
        frame,
        position_of(position),
        root,
        Origin((origin >> 80).to_bytes(UNIT_BYTES, "big"), origin >> 40 & _U40),
        clocks.PathClocks(at >> 112 & _U40, at >> 80 & _U32, at >> 48 & _U32, at >> 8 & 255, bool(at & 1)),
        payment_of(payment),
        account_of(answerer),
        at >> PRICE_AT,
    )


def position_of(word: int) -> TreePosition:
    return TreePosition(
        Tree(word & 255), word >> 8 & 255, word >> 16 & _U48, word >> 64 & _U48, word >> 144, word >> 112 & _U32
    )


def payment_of(word: int) -> Payment:
    asker = address_of(word >> 96)
    return Payment(asker, word >> 48 & _U48, word >> 8 & _U40, bool(word & 1), bool(word & 2))


def address_of(number: int) -> str:
    return "0x" + number.to_bytes(20, "big").hex()


def account_of(address: str | bytes) -> str:
    """In one writing: events have capitals in it, plain JSON becomes bytes."""
    return "0x" + address.hex() if isinstance(address, bytes) else address.lower()


def values(record: Any) -> tuple[Any, ...]:
    """A flat record's fields, as the contract takes a struct."""
    names: Mapping[str, Any] = type(record).__dataclass_fields__
    return tuple(getattr(record, name) for name in names)


_U32, _U40, _U48 = 2**32 - 1, 2**40 - 1, 2**48 - 1
