"""Program files, and the 32-byte root that identifies a program.

A file is MAGIC, then big-endian 32-bit words, which a contract reads without a parser. First the head
(version, nodes, state entries, batch entries, loss node), then the entries, the node descriptors, and last the words
of the constants, little-endian as tensors are committed, in the order of their nodes.

    state entry   kind, before, after, bytes of the name, the name (UTF-8, zeros up to a whole word)
    batch entry   node, bytes of the name, the name
    descriptor    operator, dtype, rank, reduced rank, operands, attributes; extents, reduced extents;
                  for each operand node, offset, a two's complement stride per axis of its domain; attributes

Every field has one place and one width, so a graph has one file. How many strides an operand has follows from the
operator (its `domains`), so a descriptor reads one way.

    root = SHA256(0x07 || head || Merkle root of the entries || Merkle root of the nodes)

with leaves SHA256(0x06 || entry) and SHA256(0x05 || descriptor). The root hashes the head as fixed binary, so a node or
an entry of the state is proved by its own bytes, the head and a Merkle branch.
"""

from __future__ import annotations

import struct
from functools import lru_cache

import numpy as np

from repops.commitments import DTYPE_CODES, canonical, tensor_root
from repops.graph import (
    F32,
    I32,
    KINDS,
    MAX_OPERANDS,
    MAX_RANK,
    BadProgram,
    Graph,
    Node,
    Operand,
    StateEntry,
)
from repops.limits import MAX_PROGRAM_NODES, check_program
from repops.merkle import DESCRIPTOR, ENTRY, PROGRAM, merkle_proof, merkle_root, sha256
from repops.operators import BY_CODE, TABLE
from repops.words import MASK

MAGIC = b"\x89repops\n"  # the first byte keeps it from being taken for text
VERSION = 1
MAX_BYTES = 1 << 28

_NUMPY = {F32: np.dtype("<f4"), I32: np.dtype("<i4")}
_DTYPE_CODE = {dtype: DTYPE_CODES[kind.name] for dtype, kind in _NUMPY.items()}
_DTYPE = {code: dtype for dtype, code in _DTYPE_CODE.items()}


def encode(graph: Graph) -> bytes:
    """The file of a program."""
    constants = [graph.constants[at] for at in sorted(graph.constants)]
    return b"".join([MAGIC, _head(graph), *_entries(graph), *map(descriptor, graph.nodes), *constants])


def decode(data: bytes, *, max_bytes: int = MAX_BYTES) -> Graph:
    """Read a program file. Raises BadProgram, and nothing else, whatever the bytes.

    Time and memory are proportional to the file's size. `limits.check_program` bounds what a trace and an opening
    cost; for the cost of a step see `profile`.
    """
    if len(data) > max_bytes:
        raise BadProgram(f"program file: {len(data):,} bytes exceed {max_bytes:,}")
    reader = _Reader(data)
    if reader.take(len(MAGIC)) != MAGIC:
        raise BadProgram("program file: does not begin as a program file")
    version, nodes, states, batches, loss = reader.words(5)
    if version != VERSION:
        raise BadProgram(f"program file: version {version}; this release reads {VERSION}")
    if nodes > MAX_PROGRAM_NODES:
        raise BadProgram(f"program file: {nodes:,} nodes exceed {MAX_PROGRAM_NODES:,}")
    state = tuple(_read_state(reader) for _ in range(states))
    batch = tuple(_read_batch(reader) for _ in range(batches))
    listed = tuple(_read_node(reader, at) for at in range(nodes))
    constants = {at: reader.take(4 * node.elements) for at, node in enumerate(listed) if node.op == "constant"}
    if reader.left:
        raise BadProgram(f"program file: {reader.left:,} bytes after its end")
    graph = Graph(listed, state, batch, loss, constants)
    if encode(graph) != data:
        raise BadProgram("program file: not in canonical form")
    _check_constants(graph)
    check_program(graph)
    return graph


def root(graph: Graph) -> bytes:
    """The 32 bytes that identify the program."""
    return sha256(PROGRAM + b"".join(parts_of_root(graph)))


def descriptor(node: Node) -> bytes:
    """A node's words, as the referee reads them."""
    words = [TABLE[node.op].code, _DTYPE_CODE[node.dtype], len(node.shape), len(node.reduced)]
    words += [len(node.operands), len(node.attributes), *node.shape, *node.reduced]
    for operand in node.operands:
        words += [operand.node, operand.offset, *(stride & MASK for stride in operand.strides)]
    words += node.attributes
    return struct.pack(f">{len(words)}I", *words)


def read_descriptor(data: bytes) -> Node:
    """The node that a descriptor of a valid program describes."""
    return _read_node(_Reader(data), 0)


def parts_of_root(graph: Graph) -> tuple[bytes, bytes, bytes]:
    """What the root is over: the head's 20 bytes, the root of the entries and that of the nodes."""
    nodes = merkle_root([sha256(DESCRIPTOR + descriptor(node)) for node in graph.nodes])
    return _head(graph), merkle_root(_entry_leaves(_entries(graph))), nodes


def prove_entry(graph: Graph, index: int) -> tuple[bytes, tuple[bytes, ...]]:
    """Entry number `index` of a program (state entries first, then batch) and its siblings upwards. Raises IndexError."""
    entries = _entries(graph)
    return entries[index], tuple(merkle_proof(_entry_leaves(entries), index))


def _head(graph: Graph) -> bytes:
    return struct.pack(">5I", VERSION, len(graph.nodes), len(graph.state), len(graph.batch), graph.loss)


def _entries(graph: Graph) -> list[bytes]:
    state = [struct.pack(">3I", KINDS.index(e.kind), e.before, e.after) + _name(e.name) for e in graph.state]
    return state + [struct.pack(">I", at) + _name(name) for name, at in graph.batch]


def _name(name: str) -> bytes:
    raw = name.encode()
    return struct.pack(">I", len(raw)) + raw + bytes(-len(raw) % 4)


def _entry_leaves(entries: list[bytes]) -> list[bytes]:
    return [sha256(ENTRY + entry) for entry in entries]


class _Reader:
    """Takes bytes from the front. Raises BadProgram before it allocates anything if bytes are missing."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise BadProgram(f"program file: ends at byte {len(self._data):,}, {count - self.left:,} too early")
        self._at += count
        return self._data[self._at - count : self._at]

    def words(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f">{count}I", self.take(4 * count))


def _read_state(reader: _Reader) -> StateEntry:
    kind, before, after = reader.words(3)
    if kind >= len(KINDS):
        raise BadProgram(f"program file: state of kind {kind}; expected less than {len(KINDS)}")
    return StateEntry(_read_name(reader), KINDS[kind], before, after)


def _read_batch(reader: _Reader) -> tuple[str, int]:
    (at,) = reader.words(1)
    return _read_name(reader), at


def _read_name(reader: _Reader) -> str:
    (count,) = reader.words(1)
    raw = reader.take(count)
    reader.take(-count % 4)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise BadProgram("program file: a name that is not UTF-8") from None


def _read_node(reader: _Reader, at: int) -> Node:
    """The descriptor at the reader's position. Its length is bounded before it is read; its meaning is validated later."""
    code, dtype, rank, reduced, operands, attributes = reader.words(6)
    row = BY_CODE.get(code)
    if row is None or dtype not in _DTYPE:
        raise BadProgram(f"program file: node {at}: unknown operator {code} or dtype {dtype}")
    if rank + reduced > MAX_RANK or operands > MAX_OPERANDS or attributes > 1 + MAX_OPERANDS:
        raise BadProgram(
            f"program file: node {at}: {rank + reduced} axes, {operands} operands, {attributes} attributes"
        )
    form = _form(row.domains, rank, reduced, operands, attributes)
    words = form.unpack(reader.take(form.size))
    axes = rank + reduced
    read, place = [], axes
    for number in range(operands):
        end = place + 2 + _strides(row.domains, number, rank, reduced)
        read.append(Operand(words[place], words[place + 1], words[place + 2 : end]))
        place = end
    return Node(row.name, _DTYPE[dtype], words[:rank], words[rank:axes], tuple(read), words[place:])


@lru_cache(maxsize=1024)
def _form(domains: str, rank: int, reduced: int, operands: int, attributes: int) -> struct.Struct:
    """A descriptor after its first six words; strides are signed."""
    each = "".join(f"2I{_strides(domains, number, rank, reduced)}i" for number in range(operands))
    return struct.Struct(f">{rank + reduced}I{each}{attributes}I")


def _strides(domains: str, number: int, rank: int, reduced: int) -> int:
    """How many axes the domain of operand `number` has. Validation refuses operands that the operator does not take."""
    kind = domains[min(number, len(domains) - 1)] if domains else "s"
    return rank + reduced if kind == "r" else rank


def _check_constants(graph: Graph) -> None:
    for at, data in graph.constants.items():
        node = graph.nodes[at]
        array = np.frombuffer(data, _NUMPY[node.dtype]).reshape(node.shape)
        if canonical(array).tobytes() != data:
            raise BadProgram(f"program: node {at} (constant): a NaN that is not 0x7fc00000")
        if struct.pack(">8I", *node.attributes) != tensor_root(array):
            raise BadProgram(f"program: node {at} (constant): its words do not have the root it names")
