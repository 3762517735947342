"""Places of an exploration in words, such as `segment 3 (steps 10 to 14)` or `node 412 (dot)`, and its asks as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from eth_utils.address import to_checksum_address

from repops.encoding import read_descriptor
from repops.graph import Node as ProgramNode
from zoo_compute.amounts import format_seconds
from zoo_compute.disputes.exploration import Exploration, Opened, node_of
from zoo_compute.spec.descents import STATE_PLACE, NodeAnswer
from zoo_compute.spec.disputed_claims import RESULT
from zoo_compute.spec.exploration import Tree, TreePosition
from zoo_compute.spec.frames import Frame, Kind
from zoo_compute.spec.params import WORDS_A_LEAF

SHORT = 10  # characters of an address
WORK = {Kind.TRAINING: "training", Kind.UPDATE: "the update", Kind.AGGREGATION: "the aggregation"}


@dataclass(frozen=True)
class Ask:
    """One ask. path: what it begins with, of the first ask of a path; place: what it names; above: the id of the place that it is below."""

    id: bytes
    above: bytes
    path: str
    place: str
    is_heavy: bool
    asker: str
    answerer: str | None  # NOBODY: the claim's author; None while it is open
    due: int


def asks_of(picture: Exploration) -> list[Ask]:
    """All asks of a claim, in the order they were made."""
    positions = asked_positions(picture)
    return [_ask(picture, node, positions[node.id]) for node in picture.nodes.values()]


def asked_positions(picture: Exploration) -> dict[bytes, TreePosition]:
    """By id, what each ask named: answers lead on, into other trees."""
    records = {"ClaimAsked": (2, 5), "NodeAsked": (1, 4)}  # of an event's arguments: the id and the record
    made = [(event.args, records[event.name]) for event in picture.events if event.name in records]
    return {args[id]: node_of(args[record]).position for args, (id, record) in made}


def _ask(picture: Exploration, node: Opened, at: TreePosition) -> Ask:
    payment = node.record.payment
    is_first = node.above not in picture.nodes
    answerer = node.record.answerer if node.is_answered else None
    place = place_text(node.frame, at, program_node(node), is_result=node.place == STATE_PLACE)
    path = path_text(node.frame) if is_first else ""
    return Ask(node.id, node.above, path, place, payment.is_heavy, payment.asker, answerer, node.due)


def program_node(node: Opened) -> ProgramNode | None:
    """The node of the program that an answer opened."""
    return read_descriptor(node.answer.descriptor) if isinstance(node.answer, NodeAnswer) else None


def path_text(frame: Frame) -> str:
    if frame.kind == Kind.AGGREGATION:
        return WORK[Kind.AGGREGATION]
    return f"slot {frame.slot}, {'result' if frame.kind == RESULT else WORK[Kind(frame.kind)]}"


def place_text(frame: Frame, at: TreePosition, node: ProgramNode | None = None, *, is_result: bool = False) -> str:
    """What a position covers. node: its operator, where it is one node of the program; is_result: the whole state after a trace."""
    if at == TreePosition(Tree.NODES):
        return f"the nodes of {WORK[Kind(frame.kind)]}"
    if is_result:
        return f"the state after {_step_text(frame)}"
    if at.tree == Tree.RESULT:
        return f"the result of slot {frame.slot}"
    if at.is_beyond:
        return "padding beyond the last leaf"
    first = at.index << at.height
    last = min(first + (1 << at.height), at.leaves) - 1
    match at.tree:
        case Tree.SEGMENTS:
            return _segments_text(frame, first, last)
        case Tree.STEPS:
            steps = (frame.first_step + max(first, 1) - 1, frame.first_step + last - 1)
            return _range("step", *steps) if last else f"the state before step {frame.first_step}"
        case Tree.STATE:
            return f"{_range('tensor', first, last)} of the state"
        case Tree.NODES:
            return _range("node", first, last) + (f" ({node.op})" if node else "")
        case Tree.ELEMENT:
            return f"the {frame.parts} parts of element {frame.element}"
    words = (first * WORDS_A_LEAF, min((last + 1) * WORDS_A_LEAF, at.count) - 1)
    if at.tree == Tree.PARTS:
        return f"{_range('part', *words)} of element {frame.element}"
    return f"{_range('element', *words)} of node {frame.node}"


def _segments_text(frame: Frame, first: int, last: int) -> str:
    """Leaf n of their tree is the state after segment n - 1."""
    if last == 0:
        return "the state at step 0"
    size = frame.segment_steps
    begin = max(first, 1) - 1
    steps = (begin * size, min(last * size, frame.inner_steps) - 1)
    return f"{_range('segment', begin, last - 1)} ({_range('step', *steps)})"


def _step_text(frame: Frame) -> str:
    return f"step {frame.step}" if frame.kind == Kind.TRAINING else WORK[Kind(frame.kind)]


def _range(one: str, first: int, last: int) -> str:
    return f"{one} {first}" if first == last else f"{one}s {first} to {last}"


# --- as a tree


def tree_rows(picture: Exploration, names: Mapping[str, str], now: int) -> Iterator[tuple[str, str, str]]:
    """(place, asked by, answered by), each ask indented below the one that led to it. names: of accounts, NOBODY's is the author's."""
    below: dict[bytes, list[Ask]] = {}
    for ask in asks_of(picture):
        below.setdefault(ask.above if ask.above in picture.nodes else b"", []).append(ask)
    convicted = resolved_at(picture) if picture.end is not None else None
    paths: dict[str, list[Ask]] = {}
    for ask in below.get(b"", ()):
        paths.setdefault(ask.path, []).append(ask)
    for path, asks in paths.items():
        yield path, "asked by", "answered by"
        for first in asks:
            left = [(first, 0)]  # a stack: paths may be deep
            while left:
                ask, depth = left.pop()
                yield "  " * depth + _heading(ask, convicted), named(ask.asker, names), _answer_text(ask, names, now)
                left += [(each, depth + 1) for each in reversed(below.get(ask.id, []))]


def resolved_at(picture: Exploration) -> bytes:
    """The id of the place that a conviction was about; zeros where there was none."""
    return next(bytes(event.args[3]) for event in picture.events if event.name == "ClaimResolved")


def _heading(ask: Ask, convicted: bytes | None) -> str:
    heavy = ", heavy" if ask.is_heavy else ""
    return f"{ask.place}{heavy}{' << convicted here' if ask.id == convicted else ''}"


def _answer_text(ask: Ask, names: Mapping[str, str], now: int) -> str:
    if ask.answerer is None:
        return f"open: {format_seconds(ask.due - now)} left" if now <= ask.due else "open: out of time"
    return named(ask.answerer, names)


def named(address: str, names: Mapping[str, str]) -> str:
    return names.get(address.lower()) or f"{to_checksum_address(address)[:SHORT]}…"
