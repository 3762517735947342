"""A readable transcript of a dispute: its transactions, read from the chain, and the judgement, checked by the specification."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from eth_abi.abi import decode
from hexbytes import HexBytes

from repops.encoding import read_descriptor
from repops.graph import F32, Node
from repops.parts import part, part_count
from repops.recipes import canonical
from zoo_compute.amounts import format_amount
from zoo_compute.client.disputes import ENDS, Dispute, account_names
from zoo_compute.client.explored_places import SHORT, asks_of, program_node
from zoo_compute.disputes import evidence
from zoo_compute.disputes.exploration import Exploration, account_of, node_of
from zoo_compute.spec import verdicts
from zoo_compute.spec.clocks import GWEI, PRODUCTION, End
from zoo_compute.spec.descents import ELEMENT_PLACE, STATE_PLACE
from zoo_compute.spec.disputed_claims import DisputedClaim, Explorations, Place
from zoo_compute.spec.exploration import Tree
from zoo_compute.spec.frames import EMPTY, Frame, Position
from zoo_compute.spec.params import WORDS_A_LEAF
from zoo_compute.spec.revert import Refused, require
from zoo_compute.spec.state import Claim, Message

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.events import Event

NAMES = {
    evidence.End.KIND: "the last state is not the one that the result ends with",
    evidence.Begin.KIND: "the slot-round does not begin with the checkpoint",
    evidence.Output.KIND: "the state after the step is not the output of its nodes",
    evidence.Input.KIND: "an input is not the state's tensor",
    evidence.Constant.KIND: "a constant differs from the program's",
    evidence.Data.KIND: "a word of the batch is not the data's",
    evidence.Update.KIND: "a word is not the update's",
    evidence.Part.KIND: "a result is computed wrongly",
}
WIDTH = 80  # of a line of a transcript
OF_STATES = (evidence.End.KIND, evidence.Begin.KIND)
COMMITTER, ASKER, OTHER = (
    "committer",
    "asker",
    "other",
)  # who sent a transaction; other: strangers that answer or end it
FUNCTIONS = {
    "NodeAnswered": "answer",
    "LeafShown": "answer_words",
    "StageFixed": "answer_stage",
    "SealOpened": "open_seal",
}
RESOLVING = {End.FINAL: "close", End.AGED: "close", End.JUDGED: "judge", End.SILENT: "expire", End.EXHAUSTED: "expire"}


@dataclass(frozen=True)
class TranscriptEntry:
    """One transaction of a dispute. by: committer, asker or other; gas: used; text: for people."""

    function: str
    by: str
    sender: str
    tx: str
    block: int
    gas: int
    text: str


@dataclass(frozen=True)
class ConvictionDetail:
    """The proven error: where it is, the committed word and the right one (bit patterns).

    refuted: why the specification does not confirm the contract's judgement; empty where it does.
    """

    kind: int
    name: str
    step: int
    node: int
    operator: str | None = None
    shape: tuple[int, ...] = ()
    element: int | None = None
    part: int | None = None
    inputs: tuple[int, ...] = ()
    committed: int | None = None
    right: int | None = None
    is_float: bool = False
    refuted: str = ""

    @property
    def text(self) -> str:
        doubt = f"; BUT the specification does not confirm it: {self.refuted}" if self.refuted else ""
        return self._error + doubt

    @property
    def _error(self) -> str:
        where = "the states" if self.kind in OF_STATES else f"step {self.step}"
        if self.operator is None:
            return f"{where}: {self.name}"
        at = f"{where}, node {self.node} ({self.operator} of {list(self.shape)}), element {self.element}"
        if self.part is not None:
            at += f", part {self.part}"
        if self.committed is None or self.right is None:
            return f"{at}: {self.name}"
        said, right = (format_word(each, self.is_float) for each in (self.committed, self.right))
        return f"{at}: the committer says {said}, the contract computes {right}"


def format_word(word: int, is_float: bool) -> str:
    """A bit pattern with its value."""
    value = struct.unpack("<f" if is_float else "<i", word.to_bytes(4, "little"))[0]
    return f"{value:.9g} (0x{word:08x})" if is_float else f"{value} (0x{word:08x})"


class Transcript:
    """All transactions of one dispute, in order. The picture of its exploration is the specification's, from the events."""

    def __init__(self, chain: Chain, dispute: Dispute) -> None:
        self.dispute = dispute
        self.conviction: ConvictionDetail | None = None
        self._picture = dispute.view.picture
        self._places = {ask.id: ask for ask in asks_of(self._picture)}
        self._names = account_names(chain, dispute.view)
        self._askers = {ask.asker.lower() for ask in self._places.values()}
        events: dict[str, list[Event]] = {}
        for event in dispute.view.events:
            events.setdefault(event.tx, []).append(event)
        self.entries = [self._entry(chain, tx, made) for tx, made in events.items()]

    @property
    def gas(self) -> dict[str, int]:
        """By side."""
        return {by: sum(each.gas for each in self.entries if each.by == by) for by in (COMMITTER, ASKER, OTHER)}

    @property
    def conclusion(self) -> str:
        """Who was wrong."""
        view = self.dispute.view
        if self.conviction is not None:
            return f"operator {view.operator} was wrong: {self.conviction.text}"
        if view.end in (End.SILENT, End.EXHAUSTED):
            return f"operator {view.operator} did not answer in time"
        return ENDS[view.end] if view.end is not None else f"the dispute {self.dispute.name} is open"

    def _entry(self, chain: Chain, tx: str, events: Sequence[Event]) -> TranscriptEntry:
        receipt: Any = chain.w3.eth.get_transaction_receipt(HexBytes(tx))
        lines = [self._describe(chain, event) for event in events]
        sender = receipt["from"]
        by = COMMITTER if sender.lower() in self._names else ASKER if sender.lower() in self._askers else OTHER
        function = " ".join(dict.fromkeys(name for name, _ in lines))
        text = "; ".join(text for _, text in lines)
        return TranscriptEntry(function, by, sender, tx, receipt["blockNumber"], receipt["gasUsed"], text)

    def _describe(self, chain: Chain, event: Event) -> tuple[str, str]:
        """The function that emits an event, and what happened."""
        args = event.args
        match event.name:
            case "ClaimAsked":
                ask = self._places[args["id"]]
                return "ask_claim", f"{ask.path}: asks for {self._asked(args['id'])}"
            case "NodeAsked":
                name = "ask_stage" if args["place"] >= STATE_PLACE else "ask"
                return name, f"asks for {self._asked(args['id'])}{self._reason(args['place'])}"
            case "ClaimResolved":
                return self._resolved(chain, event)
            case "SealOpened":
                return FUNCTIONS[event.name], f"sealed the false step at {args['placed_at']}"
            case _:
                return FUNCTIONS[event.name], self._answered(args["id"])

    def _asked(self, id: bytes) -> str:
        ask, fee = self._places[id], self._picture.nodes[id].record.payment.fee
        return f"{ask.place}{', heavy' if ask.is_heavy else ''}; prepays {format_amount(fee * GWEI, 'coin')}"

    def _reason(self, place: int) -> str:
        if place >= ELEMENT_PLACE:
            return ""
        return "; the nodes are right, but the state after them is not their output" if place >= STATE_PLACE else ""

    def _answered(self, id: bytes) -> str:
        node, place = self._picture.nodes[id], self._places[id].place
        if opened := program_node(node):
            return f"{place} gives {list(opened.shape)}"
        if node.words:
            return f"{place}: {len(node.words) // 4} words"
        return f"{place}: {len(node.revealed)} hashes below" if node.revealed else place

    def _resolved(self, chain: Chain, event: Event) -> tuple[str, str]:
        end, id = End(event.args["outcome"]), event.args["node"]
        if end is End.JUDGED:
            self.conviction = self._judged(chain, event.tx)
            return RESOLVING[end], self.conviction.text if self.conviction else "through another contract"
        if end in (End.SILENT, End.EXHAUSTED):
            return RESOLVING[end], f"nobody answered in time: {self._places[id].place}"
        return RESOLVING[end], ENDS[end]

    def _judged(self, chain: Chain, tx: str) -> ConvictionDetail | None:
        """What the judgement's transaction proves; None where it reached the Referee through another contract."""
        transaction: Any = chain.w3.eth.get_transaction(HexBytes(tx))
        contract = chain.contract("referee")
        if transaction.get("to") != contract.address:
            return None
        args = contract.decode_function_input(transaction["input"])[1]
        id, record, status, is_child, number, child, path = _values(args["place"])
        place = Place(id, node_of(_values(record)), status, is_child, number, child, tuple(path))
        claim, frame = Claim(*_values(args["claim"])), Frame(*_values(args["frame"]))
        sender = account_of(transaction["from"])
        return judged_again(self._picture, sender, args["job"], claim, frame, place, args["kind"], bytes(args["data"]))


def judged_again(
    picture: Exploration, sender: str, job: int, claim: Claim, frame: Frame, place: Place, kind: int, data: bytes
) -> ConvictionDetail:
    """What a judgement proves. The specification takes it in the exploration that the events show, and computes the words again."""
    opened = picture.nodes.get(place.id)
    node = read_descriptor(picture.descriptor(place.id)) if opened and frame.descriptor != EMPTY else None
    court = _Court(node)
    world = Explorations(court, PRODUCTION)  # type: ignore[arg-type]  # of the court it asks for a judgement alone
    if opened is not None:
        world.nodes[place.id] = opened.record, opened.status
        key = opened.record.claim
        # Still open then: the contract judged the clocks.
        world.claims[key] = DisputedClaim(job, claim.operator, claim.turn, 0, 1, deadline=1, open=1)
    refuted = ""
    try:
        verdicts.judge(world, Message(sender, 0), job, claim, frame, place, kind, data)
    except Refused as refused:
        refuted = refused.reason
    position = place.node.position.tree
    return replace(_detail(frame, node, position == Tree.PARTS, kind, data), refuted=refuted)


class _Court:
    """The other contracts, as far as a judgement needs them. node: of the program, whose words are disputed."""

    def __init__(self, node: Node | None) -> None:
        self._node = node

    def judge(self, kind: int, frame: Frame, position: Position, data: bytes) -> None:
        """That the words are those of the revealed leaf, and that a part gives another one."""
        words = _decoded(kind, data)
        if kind == evidence.Part.KIND:
            size, pieces = words["leaves"][0]
            _require_leaf(b"".join(pieces)[:size], position)
            detail = _detail(frame, self._node, position.phase == Tree.PARTS, kind, data)
            require(detail.committed != detail.right, "evidence: not false")
        elif kind in (evidence.Data.KIND, evidence.Update.KIND):
            _require_leaf(words["leaf"], position)

    def close_dispute(self, job: int, claim: Claim, outcome: int, used_s: int, burned: int) -> None:
        """Nothing here depends on it."""


def _require_leaf(leaf: bytes, position: Position) -> None:
    require(sha256(b"\x00" + leaf).digest() == position.open_leaf, "evidence: leaf does not match")


def _detail(frame: Frame, node: Node | None, in_parts: bool, kind: int, data: bytes) -> ConvictionDetail:
    """The error that evidence proves."""
    words = _decoded(kind, data)
    detail = ConvictionDetail(kind, NAMES[kind], frame.step, frame.node)
    if node is None:
        return detail
    detail = replace(detail, operator=node.op, shape=node.shape, is_float=node.dtype == F32)
    if kind in (evidence.Data.KIND, evidence.Update.KIND):
        at = words["element"]
        return replace(detail, element=at, committed=_word(words["leaf"], at % WORDS_A_LEAF))
    if kind != evidence.Part.KIND:
        return detail
    number = words["number"]
    element, part = (frame.element, number) if in_parts else (number, None)
    committed, inputs = _words_of_part(words)
    right = _computed(node, element, part or 0, inputs)
    return replace(detail, element=element, part=part, inputs=inputs, committed=committed, right=right)


def _decoded(kind: int, data: bytes) -> dict[str, Any]:
    """The fields of evidence encoded by `evidence.encode`. Inner records are tuples."""
    record = next(each for each in evidence.Evidence.__args__ if kind == each.KIND)
    return dict(zip([each.name for each in fields(record)], decode([record.ABI], data)[0], strict=True))


def _words_of_part(fields_of_part: Mapping[str, Any]) -> tuple[int, tuple[int, ...]]:
    """The committed word of a decoded `Part`, and the part's input words."""
    leaves = [b"".join(pieces) for _, pieces in fields_of_part["leaves"]]
    packed = [
        fields_of_part["places"][at // 16] >> 16 * (15 - at % 16) & 0xFFFF for at in range(fields_of_part["word_count"])
    ]
    return _word(leaves[0], fields_of_part["number"] % WORDS_A_LEAF), tuple(
        _word(leaves[at >> 7], at & 127) for at in packed
    )


def _computed(node: Node, element: int, number: int, words: Sequence[int]) -> int:
    """The output word of one part from its input words, as the contract computes it."""
    # Only `take` needs a word to know which elements it reads: its first input.
    made = part(node, element, number, lambda operand, index: words[0])
    word = made.recipe.run(*words)
    return canonical(word) if node.dtype == F32 and number == part_count(node) - 1 else word


def _word(leaf: bytes, at: int) -> int:
    return int.from_bytes(leaf[4 * at : 4 * at + 4], "little")


def _values(record: Any) -> tuple[Any, ...]:
    """A struct's, as web3 decodes it."""
    return tuple(record.values()) if isinstance(record, Mapping) else tuple(record)


def lines_of(transcript: Transcript) -> Iterator[str]:
    """For people: of each transaction a line with its sender and gas, then what it says, in 80 columns."""
    for each in transcript.entries:
        yield f"{each.by:<9}  {each.sender[:SHORT]}…  {each.gas:>9,} gas  {each.function}"
        yield from wrap(each.text, WIDTH, initial_indent="  ", subsequent_indent="    ")
    yield from ("", *wrap(transcript.conclusion, WIDTH))
