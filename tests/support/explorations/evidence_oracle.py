"""What each kind of evidence must show, checked from the text (docs/protocol/referee.md) by slow and plain means."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from eth_abi.abi import decode
from eth_utils.crypto import keccak

from repops.commitments import tensor_root
from repops.encoding import read_descriptor
from repops.graph import BATCH_ROLE, F32, STATE_ROLE, Node
from repops.parts import parts
from repops.recipes import canonical
from zoo_compute.disputes import evidence
from zoo_compute.spec import merkle
from zoo_compute.spec.frames import Frame, Kind, Phase, Position, claim_hash, height_of
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import Claim
from zoo_compute.spec.trials import TRIALS

RECORDS = {
    each.KIND: each
    for each in (
        evidence.End,
        evidence.Begin,
        evidence.Output,
        evidence.Input,
        evidence.Constant,
        evidence.Data,
        evidence.Update,
        evidence.Part,
    )
}
NO = "evidence: it does not hold"
OPTIMIZER = 2


@dataclass
class JobFacts:
    """What a contract knows of a job, beside the game. claims: that Settlement knows."""

    data_root: bytes
    examples: int
    slots: int
    seed: Callable[[int, int], int]
    claims: Sequence[Claim] = ()
    # What Settlement keeps in the aggregation's place of the turn before the disputed claim's.
    aggregation: Claim | None = None


def holds(*facts: bool) -> None:
    require(all(facts), NO)


def words_of(data: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def is_under(root: bytes, leaf: bytes, index: int, path: Any, leaves: int) -> bool:
    return len(path) == height_of(leaves) and merkle.climb(leaf, index, tuple(path)) == root


class EvidenceOracle:
    def __init__(self, job: JobFacts) -> None:
        self.job = job

    def __call__(self, kind: int, frame: Frame, position: Position, data: bytes) -> None:
        (record,) = decode([RECORDS[kind].ABI], data)
        name = RECORDS[kind].__name__.lower()
        getattr(self, name)(frame, position, *record)

    # --- openings

    def entry(self, frame: Frame, number: int, opened: Any) -> tuple[tuple[int, ...], bytes]:
        """Its numbers and its name."""
        (head, entries, nodes), data, path = opened
        holds(sha256(b"\x07" + head + entries + nodes).digest() == frame.program_root)
        _, _, states, batches, _ = struct.unpack(">5I", head)
        holds(is_under(entries, sha256(b"\x06" + data).digest(), number, path, states + batches))
        count = 3 if number < states else 1
        numbers = struct.unpack(f">{count + 1}I", data[: 4 * count + 4])
        return numbers[:-1], data[4 * count + 4 :][: numbers[-1]]

    def tensor(self, root: bytes, name: bytes, opened: Any) -> bytes:
        """Its root; where a state has it does not matter, names being different."""
        content, index, path = opened
        holds(merkle.climb(merkle.state_leaf(name, content), index, tuple(path)) == root)
        return bytes(content)

    def node(self, frame: Frame, descriptor: bytes) -> Node:
        holds(keccak(descriptor) == frame.descriptor)
        return read_descriptor(descriptor)

    def input(self, frame: Frame, position: Position, descriptor: bytes, entry: Any, tensor: Any) -> None:
        node = self.node(frame, descriptor)
        holds(position.phase == Phase.ELEMENTS, node.op == "input")
        role, _ = node.attributes
        (kind, *_), name = self._input_entry(frame, node, entry)
        if role == STATE_ROLE:
            source = frame.end_root if frame.kind == Kind.UPDATE and kind == OPTIMIZER else frame.before
        else:
            holds(frame.kind == Kind.UPDATE)
            source = frame.end_root
        holds(self.tensor(source, name, tensor) != frame.tensor_root)

    def _input_entry(self, frame: Frame, node: Node, entry: Any) -> tuple[tuple[int, ...], bytes]:
        role, at = node.attributes
        states = struct.unpack(">5I", entry[0][0])[2]
        return self.entry(frame, at + (states if role == BATCH_ROLE else 0), entry)

    # --- the kinds

    def end(self, frame: Frame, position: Position, state: bytes, path: Any) -> None:
        last = -(-frame.inner_steps // frame.segment_steps)
        leaf = merkle.segment_leaf(frame.inner_steps, state)
        holds(
            frame.job != TRIALS,
            position.phase == Phase.SEGMENTS,
            is_under(frame.segment_root, leaf, last, path, last + 1),
        )
        holds(state != frame.end_root)

    def begin(
        self,
        frame: Frame,
        position: Position,
        entry: Any,
        tensor: Any,
        descriptor: bytes,
        path: Any,
        claim: Any,
        aggregation: Any,
        present: Any,
        result: Any,
    ) -> None:
        holds(position.phase == Phase.STATE, position.height == 0, frame.is_begin)
        (kind, before, _), name = self.entry(frame, position.index, entry)
        source = frame.start_root
        if kind == OPTIMIZER:
            source = b"" if name == b"seed" else self._left(frame, name, claim, aggregation, present, result)
        if not source:
            _, count, *_ = struct.unpack(">5I", entry[0][0])
            holds(is_under(entry[0][2], sha256(b"\x05" + descriptor).digest(), before, path, count))
            node = read_descriptor(descriptor)
            word = self.job.seed(frame.round, frame.slot) if name == b"seed" else 0
            root = tensor_root(np.full(node.shape, word, np.float32 if node.dtype == F32 else np.int32))
        else:
            root = self.tensor(source, name, tensor)
        holds(position.node != merkle.state_leaf(name, root))

    def _left(self, frame: Frame, name: bytes, claim: Any, aggregation: Any, present: Any, result: Any) -> bytes:
        """The state of the claim before that a private entry is carried over from; empty where it begins at zero."""
        if frame.carry < 2 or frame.round % frame.carry == 0:
            return b""
        disputed, kept = Claim(*claim), self.job.aggregation
        holds(claim_hash(disputed) == frame.claim)
        if kept is None:
            return b""
        holds(Claim(*aggregation) == kept)
        if kept.turn != disputed.turn - 1 or kept.round != disputed.round - 1:
            return b""
        seats = self._seats(kept, present)
        for each in seats:
            first = each.scope >> 16
            if first <= frame.slot < first + each.count:
                if each.operator != disputed.operator:
                    return b""
                segment, end, update, path = result
                leaf = merkle.result_root(frame.slot, each.start_root, segment, end, update)
                holds(merkle.climb(leaf, frame.slot - first, tuple(path)) == each.root)
                return bytes(update if name.startswith(b"residual/") else end)
        holds([each.seat for each in seats] == [at for at in range(128) if kept.scope >> at & 1])
        return b""

    def _seats(self, aggregation: Claim, present: Any) -> list[Claim]:
        """The claims given, each in the aggregation's mask and known."""
        turn, seats = (aggregation.turn, aggregation.round), []
        for seat, operator, scope, price, start, root in present:
            of = Claim(*turn, seat, operator, scope, price, start, root)
            holds(of in self.job.claims, aggregation.scope >> seat & 1 == 1)
            seats.append(of)
        return seats

    def output(self, frame: Frame, position: Position, entry: Any, root: bytes, path: Any) -> None:
        holds(position.phase == Phase.STATE, position.height == 0, not frame.is_begin)
        (_, _, after), name = self.entry(frame, position.index, entry)
        _, count, *_ = struct.unpack(">5I", entry[0][0])
        leaf = sha256(b"\x08" + after.to_bytes(4, "little") + root).digest()
        holds(is_under(frame.trace_root, leaf, after, path, count))
        holds(position.node != merkle.state_leaf(name, root))

    def constant(self, frame: Frame, position: Position, descriptor: bytes) -> None:
        node = self.node(frame, descriptor)
        holds(position.phase == Phase.ELEMENTS, node.op == "constant")
        holds(struct.pack(">8I", *node.attributes) != frame.tensor_root)

    def data(
        self,
        frame: Frame,
        position: Position,
        descriptor: bytes,
        entry: Any,
        leaf: bytes,
        element: int,
        is_tokens: bool,
        words: Any,
    ) -> None:
        node = self.node(frame, descriptor)
        holds(position.phase == Phase.ELEMENTS, node.op == "input", node.attributes[0] == BATCH_ROLE)
        holds(frame.kind == Kind.TRAINING, sha256(b"\0" + leaf).digest() == position.open_leaf)
        _, name = self._input_entry(frame, node, entry)
        if frame.job == TRIALS:
            holds(element // 128 == position.index, words_of(leaf)[element % 128] != 0)
            return
        row, within = divmod(element, node.elements // frame.rows)
        first = ((frame.round * self.job.slots + frame.slot) * frame.inner_steps + frame.step) * frame.rows
        head, opened_leaf, leaf_path, index, path = words
        shape = struct.unpack(f"<{head[1]}Q", head[2:])
        per = int(np.prod(shape[1:], dtype=np.int64))
        at = (first + row) % self.job.examples * per + within + (is_tokens and name == b"targets")
        name_bytes = b"tokens" if is_tokens else name
        elements = merkle.climb(sha256(b"\0" + opened_leaf).digest(), at // 128, tuple(leaf_path))
        self.tensor(self.job.data_root, name_bytes, (merkle.tensor_root(head, elements), index, path))
        holds(element // 128 == position.index, words_of(leaf)[element % 128] != words_of(opened_leaf)[at % 128])

    def update(
        self,
        frame: Frame,
        position: Position,
        descriptor: bytes,
        entry: Any,
        leaf: bytes,
        element: int,
        claim: Any,
        present: Any,
        result: Any,
        words: Any,
    ) -> None:
        node = self.node(frame, descriptor)
        holds(position.phase == Phase.ELEMENTS, node.op == "input", node.attributes[0] == BATCH_ROLE)
        holds(frame.kind == Kind.AGGREGATION, sha256(b"\0" + leaf).digest() == position.open_leaf)
        disputed = Claim(*claim)
        holds(claim_hash(disputed) == frame.claim, element // 128 == position.index)
        _, name = self._input_entry(frame, node, entry)
        seats = self._seats(disputed, present)
        right = self._update_word(name.decode(), node, element, disputed, seats, result, words)
        holds(words_of(leaf)[element % 128] != right)

    def _update_word(
        self, name: str, node: Node, element: int, disputed: Claim, seats: list[Claim], result: Any, words: Any
    ) -> int:
        slot, at = divmod(element, node.elements // self.job.slots) if name != "present" else (-1, 0)
        for claim in seats:
            first = claim.scope >> 16
            if first <= slot < first + claim.count:
                segment, end, update, path = result
                leaf = merkle.result_root(slot, claim.start_root, segment, end, update)
                holds(merkle.climb(leaf, slot - first, tuple(path)) == claim.root)
                head, opened_leaf, leaf_path, index, state_path = words
                elements = merkle.climb(sha256(b"\0" + opened_leaf).digest(), at // 128, tuple(leaf_path))
                name_bytes = name.removeprefix("updates/").encode()
                self.tensor(update, name_bytes, (merkle.tensor_root(head, elements), index, state_path))
                return words_of(opened_leaf)[at % 128]
        holds([claim.seat for claim in seats] == [at for at in range(128) if disputed.scope >> at & 1])
        return int(np.float32(sum(claim.count for claim in seats)).view(np.uint32)) if name == "present" else 0

    def part(
        self,
        frame: Frame,
        position: Position,
        descriptor: bytes,
        number: int,
        trace_height: int,
        word_count: int,
        sources: Any,
        numbers: Any,
        opened_leaf: Any,
        hashes: Any,
        places: Any,
    ) -> None:
        """`places` only say where the words lie among the leaves."""
        leaves = [b"".join(pieces)[:size] for size, pieces in opened_leaf]
        node = self.node(frame, descriptor)
        is_parts = position.phase == Phase.PARTS
        holds(position.phase in (Phase.ELEMENTS, Phase.PARTS), number // 128 == position.index)
        holds(sha256(b"\0" + leaves[0]).digest() == position.open_leaf)
        known = {(32, number // 128): leaves[0]} if is_parts else {}
        rest, leaves_left, siblings = list(numbers), list(leaves[1:]), iter(hashes)
        for operand, count, height, head_bytes, pieces in sources:
            head = b"".join(pieces)[:head_bytes]
            mine = dict(zip(rest[:count], leaves_left[:count], strict=True))
            rest, leaves_left = rest[count:], leaves_left[count:]
            root = root_of_several(mine, height, siblings)
            if operand == 32:
                holds(is_parts, root == frame.parts_root)
            else:
                of = node.operands[operand].node
                leaf = sha256(b"\x08" + of.to_bytes(4, "little") + merkle.tensor_root(head, root)).digest()
                path = tuple(next(siblings) for _ in range(trace_height))
                holds(merkle.climb(leaf, of, path) == frame.trace_root)
            known |= {(operand, at): data for at, data in mine.items()}
        holds(not rest, not leaves_left, next(siblings, None) is None)
        element = frame.element if is_parts else number
        word = self._run(node, element, number if is_parts else 0, known)
        is_last = not is_parts or number == frame.parts - 1
        if is_last and node.dtype == F32:
            word = canonical(word)
        holds(word != words_of(leaves[0])[number % 128])

    def _run(self, node: Node, element: int, number: int, known: Any) -> int:
        def read(operand: int, index: int) -> int:
            holds((operand, index // 128) in known)
            return words_of(known[operand, index // 128])[index % 128]

        for at, part in enumerate(parts(node, element, read)):
            if at == number:
                words = [read(32, each) for each in part.carried] + [read(*each) for each in part.reads]
                return part.recipe.run(*words)
        raise AssertionError("no such part")


def root_of_several(leaves: dict[int, bytes], height: int, siblings: Any) -> bytes:
    """The root over some leaves of a tree."""
    level = {at: sha256(b"\0" + data).digest() for at, data in leaves.items()}
    for _ in range(height):
        for at in sorted(level):
            if at ^ 1 not in level:
                level[at ^ 1] = next(siblings)
        level = {at >> 1: sha256(b"\x01" + level[at] + level[at | 1]).digest() for at in level if at % 2 == 0}
    (root,) = level.values()
    return root
