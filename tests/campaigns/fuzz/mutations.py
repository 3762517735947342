"""Changes made to program files: in their bytes, knowing nothing, and in their fields, knowing all but what is valid."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from repops.encoding import encode
from repops.graph import DTYPES, KINDS, Graph, Node, Operand
from repops.operators import TABLE

WORDS = (0, 1, 2, 3, 7, 8, 31, 32, 33, 127, 128, 255, 256, 65536, 2**30, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)
SMALL = (0, 0, 1, 1, 2, 3, 4, 5, 8, 33)


def unchecked(graph: Graph, **changes: Any) -> Graph:
    """The graph with some fields changed, whether or not it is valid then."""
    made = object.__new__(Graph)
    for field in fields(Graph):
        object.__setattr__(made, field.name, changes.get(field.name, getattr(graph, field.name)))
    return made


# --- bytes


def flip_bits(data: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)
    return bytes(out)


def change_word(data: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = 4 * chance.randrange(len(out) // 4)
        (old,) = struct.unpack_from(">I", out, at)
        new = chance.choice((*WORDS, old + 1, old - 1, old * 2, old ^ 1 << 31, chance.getrandbits(32)))
        struct.pack_into(">I", out, at, new & 0xFFFFFFFF)
    return bytes(out)


def truncate(data: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    return data[: chance.randrange(len(data))]


def extend(data: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    return data + chance.randbytes(chance.choice((1, 4, 24, 1000)))


def splice(data: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    """The front of one file and the back of another, or a piece twice."""
    other = chance.choice(others)
    return data[: 4 * chance.randrange(len(data) // 4)] + other[4 * chance.randrange(len(other) // 4) :]


def remove(data: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    start = chance.randrange(len(data))
    return data[:start] + data[start + chance.choice((1, 4, 8, 24)) :]


BYTES: tuple[Callable[[bytes, random.Random, Sequence[bytes]], bytes], ...] = (
    flip_bits,
    change_word,
    change_word,
    truncate,
    extend,
    splice,
    remove,
)

# --- fields


def _operator(node: Node, chance: random.Random) -> Node:
    """Another operator, most often one that takes as many operands."""
    row = TABLE[node.op]
    like = [name for name, other in TABLE.items() if (other.operands, other.domains) == (row.operands, row.domains)]
    return replace(node, op=chance.choice(like if chance.random() < 0.8 else list(TABLE)))


def _dtype(node: Node, chance: random.Random) -> Node:
    return replace(node, dtype=chance.choice(DTYPES))


def _extents(extents: tuple[int, ...], chance: random.Random) -> tuple[int, ...]:
    out = list(extents)
    if out and chance.random() < 0.8:
        at = chance.randrange(len(out))
        out[at] = chance.choice((max(out[at] - 1, 0), out[at] + 1, *SMALL, chance.choice(WORDS)))
    elif chance.random() < 0.5:
        out.append(chance.choice(SMALL))
    elif out:
        out.pop()
    return tuple(out)


def _shape(node: Node, chance: random.Random) -> Node:
    return replace(node, shape=_extents(node.shape, chance))


def _reduced(node: Node, chance: random.Random) -> Node:
    return replace(node, reduced=_extents(node.reduced, chance))


def _with_operand(node: Node, chance: random.Random, change: Callable[[Operand], Operand]) -> Node:
    if not node.operands:
        return node
    at = chance.randrange(len(node.operands))
    return replace(node, operands=(*node.operands[:at], change(node.operands[at]), *node.operands[at + 1 :]))


def _source(node: Node, chance: random.Random) -> Node:
    return _with_operand(node, chance, lambda o: replace(o, node=max(0, o.node + chance.choice((-3, -2, -1, 1, 2, 3)))))


def _offset(node: Node, chance: random.Random) -> Node:
    return _with_operand(
        node,
        chance,
        lambda o: replace(o, offset=abs(o.offset + chance.choice((-1, 1, 2, 3, chance.choice(WORDS)))) % 2**32),
    )


def _strides(node: Node, chance: random.Random) -> Node:
    def change(operand: Operand) -> Operand:
        strides = list(operand.strides)
        if len(strides) > 1 and chance.random() < 0.3:
            chance.shuffle(strides)
        elif strides:
            at = chance.randrange(len(strides))
            strides[at] = chance.choice((0, 0, 1, -1, 2, -strides[at], strides[at] + 1, chance.choice(WORDS) - 2**31))
        return replace(operand, strides=tuple(strides))

    return _with_operand(node, chance, change)


def _attributes(node: Node, chance: random.Random) -> Node:
    out = list(node.attributes)
    if out:
        out[chance.randrange(len(out))] = chance.choice((*SMALL, *WORDS))
    return replace(node, attributes=tuple(out))


def _operands(node: Node, chance: random.Random) -> Node:
    """One operand more, or one fewer."""
    if node.operands and chance.random() < 0.5:
        return replace(node, operands=node.operands[:-1])
    return replace(node, operands=(*node.operands, *node.operands[:1]))


NODE = (
    _operator,
    _operator,
    _dtype,
    _shape,
    _reduced,
    _source,
    _source,
    _offset,
    _strides,
    _strides,
    _attributes,
    _operands,
)


def change_node(graph: Graph, chance: random.Random) -> Graph:
    nodes = list(graph.nodes)
    at = chance.randrange(len(nodes))
    nodes[at] = chance.choice(NODE)(nodes[at], chance)
    return unchecked(graph, nodes=tuple(nodes))


def move_node(graph: Graph, chance: random.Random) -> Graph:
    """Two nodes change places, or one is there twice or not at all; who refers to it is not told."""
    nodes = list(graph.nodes)
    a, b = chance.randrange(len(nodes)), chance.randrange(len(nodes))
    kind = chance.randrange(3)
    if kind == 0:
        nodes[a], nodes[b] = nodes[b], nodes[a]
    elif kind == 1:
        nodes.append(nodes[a])
    else:
        del nodes[a]
    return unchecked(graph, nodes=tuple(nodes))


def change_state(graph: Graph, chance: random.Random) -> Graph:
    if not graph.state:
        return graph
    entries = list(graph.state)
    at = chance.randrange(len(entries))
    field = chance.choice(("name", "kind", "before", "after"))
    nodes = range(len(graph.nodes))
    value: dict[str, Any] = {
        "name": chance.choice(("", "a", "weight", "\n", "x" * 300, "zz", "é")),
        "kind": chance.choice(KINDS),
        "before": chance.choice((*nodes, 2**32 - 1)),
        "after": chance.choice((*nodes, len(nodes))),
    }
    entries[at] = replace(entries[at], **{field: value[field]})
    if chance.random() < 0.1:
        del entries[at]
    return unchecked(graph, state=tuple(entries))


def change_ends(graph: Graph, chance: random.Random) -> Graph:
    """The loss, the batch."""
    loss = chance.choice((*range(len(graph.nodes)), len(graph.nodes), 2**32 - 1))
    if chance.random() < 0.5 or not graph.batch:
        return unchecked(graph, loss=loss)
    batch = list(graph.batch)
    at = chance.randrange(len(batch))
    batch[at] = (chance.choice(("", "x", "weight", "y")), chance.randrange(len(graph.nodes)))
    return unchecked(graph, batch=tuple(batch) if chance.random() < 0.8 else tuple(batch[:at]))


def change_constants(graph: Graph, chance: random.Random) -> Graph:
    if not graph.constants:
        return graph
    constants = dict(graph.constants)
    at = chance.choice(list(constants))
    data = bytearray(constants[at] or bytes(4))
    data[chance.randrange(len(data))] ^= chance.choice((1, 0x7F, 0xFF))
    constants[at] = bytes(data[: chance.choice((len(data), len(data), len(data) - 4))])
    return unchecked(graph, constants=constants)


FIELDS = (*(change_node,) * 8, move_node, change_state, change_ends, change_constants)


def mutant(chance: random.Random, graphs: Sequence[Graph], files: Sequence[bytes]) -> bytes:
    """A program file with something wrong, or only something different. files: those of `graphs`."""
    at = chance.randrange(len(graphs))
    if chance.random() < 0.4:
        return chance.choice(BYTES)(files[at], chance, files)
    graph = graphs[at]
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        graph = chance.choice(FIELDS)(graph, chance)
    return encode(graph)
