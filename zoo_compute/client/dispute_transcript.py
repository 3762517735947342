"""A readable transcript of a dispute game: its transactions, read from the chain and replayed by the specification."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from eth_abi.abi import decode
from hexbytes import HexBytes

from repops.encoding import read_descriptor
from repops.graph import F32, Node
from repops.parts import part, part_count
from repops.recipes import canonical
from zoo_compute.disputes import evidence
from zoo_compute.disputes.revealed import CHALLENGER, COMMITTER
from zoo_compute.errors import UserError
from zoo_compute.spec import referee
from zoo_compute.spec.frames import (
    Frame,
    Game,
    Kind,
    NodeOpening,
    Outcome,
    PartsOpening,
    Phase,
    Program,
    Result,
    States,
    Steps,
    Trace,
    Work,
)
from zoo_compute.spec.params import WORDS_A_LEAF
from zoo_compute.spec.state import Claim, Config, Message, Operator, World

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.games import GameView

# Types of the arguments of the referee's functions.
RECORDS: dict[str, type] = {
    "frame": Frame,
    "states": States,
    "steps": Steps,
    "trace": Trace,
    "program": Program,
    "claim": Claim,
    "work": Work,
    "result": Result,
}
OPENINGS: dict[str, type] = {"open_node": NodeOpening, "open_parts": PartsOpening}
KINDS = {Kind.TRAINING: "training", Kind.UPDATE: "the update", Kind.AGGREGATION: "the aggregation"}
ENDS = {Outcome.CONVICTED: "convicted", Outcome.DISMISSED: "dismissed", Outcome.SETTLED: "settled"}
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
ENDINGS = ("convict", "time_out", "concede", "settle")
GAME_NUMBER = 1
ANYBODY = "anybody"  # ended the game without being a party


@dataclass(frozen=True)
class TranscriptEntry:
    """One transaction of a game. by: committer, challenger or anybody. text: for people."""

    function: str
    by: str
    sender: str
    tx: str
    block: int
    gas: int
    text: str


@dataclass(frozen=True)
class ConvictionDetail:
    """The proven error: where it is, the committed word and the right one (bit patterns)."""

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

    @property
    def text(self) -> str:
        where = f"step {self.step}" if self.kind not in (evidence.End.KIND, evidence.Begin.KIND) else "the states"
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
    """All transactions of one game, in order. Raises UserError if one cannot be read."""

    def __init__(self, chain: Chain, game: GameView) -> None:
        self.game = game
        self.moves: list[TranscriptEntry] = []
        self.conviction: ConvictionDetail | None = None
        self._world = World(config=Config(part_count=_part_count))
        self._node: Node | None = None
        for tx in dict.fromkeys(event.tx for event in game.events):
            self._add(chain, tx)

    def _add(self, chain: Chain, tx: str) -> None:
        transaction, receipt = (
            chain.w3.eth.get_transaction(HexBytes(tx)),
            chain.w3.eth.get_transaction_receipt(HexBytes(tx)),
        )
        contract = chain.contracts["referee"]
        if transaction.get("to") != contract.address:
            raise UserError(
                f"transaction {tx} of game {self.game.number} reached the referee through another contract",
                hint="use a block explorer with call traces to read it",
            )
        function, values = contract.decode_function_input(transaction["input"])
        name = function.fn_name
        args = {key: _record(_type_of(name, key), value) for key, value in values.items() if key != "game"}
        was_challengers = self._at.is_challengers_turn if self.moves else True
        text = self._play(name, args)
        by = CHALLENGER if was_challengers else COMMITTER
        if name in ENDINGS:  # possible in anyone's turn
            by = CHALLENGER if transaction["from"] == self.game.challenger else ANYBODY
        self.moves.append(
            TranscriptEntry(name, by, transaction["from"], tx, transaction["blockNumber"], receipt["gasUsed"], text)
        )

    @property
    def _at(self) -> Game:
        return self._world.games[GAME_NUMBER]

    def _play(self, name: str, args: Mapping[str, Any]) -> str:
        """Apply a transaction to the replayed game, and describe it."""
        if name == "challenge":
            kind = Kind(args["kind"])
            opened_game = referee.opened_game(
                args["job"], args["claim"], kind, args["slot"], args["work"], args["result"]
            )
            # The contract judged the clocks; the replay ignores them.
            self._world.games[GAME_NUMBER] = replace(opened_game, challenger=CHALLENGER)
            self._world.operators[args["claim"].operator] = Operator(owner=COMMITTER, hot=COMMITTER)
            return self._describe_challenge(args["claim"], kind, args["slot"])
        if name in ENDINGS:
            return self._describe_end(name, args)
        sender = CHALLENGER if self._at.is_challengers_turn else COMMITTER
        getattr(referee, name)(self._world, Message(sender, 0), GAME_NUMBER, *args.values())
        if name == "open_node":
            self._node = read_descriptor(args["opening"].descriptor)
        return self._describe_move(name, args)

    def _describe_challenge(self, claim: Claim, kind: Kind, slot: int) -> str:
        work = "" if kind == Kind.AGGREGATION else f" of slot {slot}"
        return f"disputes {KINDS[kind]}{work} in turn {claim.turn}, claimed by operator {claim.operator}"

    def _describe_move(self, name: str, args: Mapping[str, Any]) -> str:
        game, frame = self._at, self._at.frame
        match name:
            case "reveal":
                return f"reveals {len(args['children'])} hashes below {_place(game)}"
            case "pick":
                return f"{_place(game)}: I computed something else"
            case "open_segment":
                return f"the {game.count - 1} steps of the segment from step {frame.first_step}"
            case "open_step":
                return f"step {frame.step}: the {game.count} nodes of its program"
            case "open_trace":
                return f"the {game.count} nodes of its program"
            case "open_begin":
                return "the state at step 0"
            case "dispute_state":
                return "the nodes are right, but the state after them is not their output"
            case "open_node":
                assert self._node is not None
                return f"node {frame.node} is {_named(self._node)}: {game.count} elements"
            case "open_leaf":
                return f"reveals {_place(game)}"
            case "ask_parts":
                return f"element {frame.element} is computed in {frame.parts} parts: reveal them"
            case _:
                return f"the results of {frame.parts} parts of element {frame.element}"

    def _describe_end(self, name: str, args: Mapping[str, Any]) -> str:
        if name == "time_out":
            silent = "the challenger" if self._at.is_challengers_turn else "the committer"
            return f"{silent} did not move in time"
        if name == "concede":
            return "gives up"
        if name == "settle":
            return "the claim was convicted in another game"
        self.conviction = conviction_detail(self._at, self._node, args["kind"], args["data"])
        return self.conviction.text


def conviction_detail(game: Game, node: Node | None, kind: int, data: bytes) -> ConvictionDetail:
    """The error that the evidence of a conviction proves."""
    frame, evidence_fields = game.frame, _decoded(kind, data)
    detail = ConvictionDetail(kind, NAMES[kind], frame.step, frame.node)
    if node is None:
        return detail
    detail = replace(detail, operator=node.op, shape=node.shape, is_float=node.dtype == F32)
    if kind in (evidence.Data.KIND, evidence.Update.KIND):
        at = evidence_fields["element"]
        return replace(detail, element=at, committed=_word(evidence_fields["leaf"], at % WORDS_A_LEAF))
    if kind != evidence.Part.KIND:
        return detail
    number, in_parts = evidence_fields["number"], game.phase == Phase.PARTS
    element, part = (frame.element, number) if in_parts else (number, None)
    committed, words = _words_of_part(evidence_fields)
    right = _computed(node, element, part or 0, words)
    return replace(detail, element=element, part=part, inputs=words, committed=committed, right=right)


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


def _named(node: Node) -> str:
    return f"{node.op} of {list(node.shape)}"


def _place(game: Game) -> str:
    """What the disputed hash covers."""
    frame, first = game.frame, game.index << game.height
    last = min(first + (1 << game.height), max(game.leaves, first + 1)) - 1
    if game.is_beyond or first >= game.leaves:
        return "the part beyond the last leaf"
    if game.phase in (Phase.SEGMENTS, Phase.STEPS):
        steps = [
            frame.first_step + each if game.phase == Phase.STEPS else min(each * frame.segment_steps, frame.inner_steps)
            for each in (first, last)
        ]
        return _range("the state after step", "the states after steps", *steps)
    if game.phase == Phase.STATE:
        return _range("tensor", "tensors", first, last) + " of the state"
    if game.phase == Phase.NODES:
        return _range("node", "nodes", first, last)
    words = (first * WORDS_A_LEAF, min((last + 1) * WORDS_A_LEAF, game.count) - 1)
    if game.phase == Phase.ELEMENTS:
        return _range("element", "elements", *words) + f" of node {frame.node}"
    return _range("part", "parts", *words) + f" of element {frame.element}"


def _range(one: str, many: str, first: int, last: int) -> str:
    return f"{one} {first}" if first == last else f"{many} {first} to {last}"


def _type_of(function: str, argument: str) -> type | None:
    return OPENINGS[function] if argument == "opening" else RECORDS.get(argument)


def _record(record: type | None, value: Any) -> Any:
    """Convert an argument decoded by web3 to the specification's type."""
    if record is None or not is_dataclass(record):
        return _plain(value)
    values = value if isinstance(value, Mapping) else dict(zip([f.name for f in fields(record)], value, strict=True))
    return record(**{name: _record(Program if name == "program" else None, each) for name, each in values.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return bytes(value)
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def _part_count(descriptor: bytes, element: int) -> int:
    return part_count(read_descriptor(descriptor))


def lines_of(transcript: Transcript) -> Iterator[str]:
    """For people."""
    for move in transcript.moves:
        yield f"{move.by:>10}  {move.function:<13}  {move.text}"
    game = transcript.game
    if game.outcome is None:
        yield f"game {game.number} is open"
    else:
        yield f"game {game.number} is over: {ENDS[game.outcome]}"
