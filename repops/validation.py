"""Checks that a graph is valid, in time and memory proportional to its file, whatever the file says.

`check` is what kernels rely on; every `Graph` passes it, also a piece of a program that a trace or a rank runs.
`limits.check_program` is what a job's program must satisfy besides, so that an operator who computed it can also defend it.
"""

from __future__ import annotations

import math

from repops.graph import (
    BATCH_ROLE,
    DTYPES,
    F32,
    I32,
    KINDS,
    MAX_ELEMENTS,
    MAX_NAME_BYTES,
    MAX_NODES,
    MAX_OPERANDS,
    MAX_RANK,
    STATE_ROLE,
    BadProgram,
    Graph,
    Node,
    Shape,
    span,
)
from repops.operators import TABLE, Operator, domain

LETTER = {"f": F32, "i": I32}
WORD = 1 << 32


def check(graph: Graph) -> None:
    """Raises BadProgram."""
    if not 0 < len(graph.nodes) <= MAX_NODES:
        raise BadProgram(f"program: {len(graph.nodes):,} nodes; expected 1 to {MAX_NODES:,}")
    for at, node in enumerate(graph.nodes):
        _node(graph, at, node)
    _interface(graph)


def _refuse(at: int, node: Node, what: str) -> BadProgram:
    return BadProgram(f"program: node {at} ({node.op}): {what}")


def _node(graph: Graph, at: int, node: Node) -> None:
    row = TABLE.get(node.op)
    if row is None:
        raise BadProgram(f"program: node {at}: unknown operator {node.op!r}")
    _sizes(at, node, row)
    if node.dtype not in DTYPES or (row.result in LETTER and node.dtype != LETTER[row.result]):
        raise _refuse(at, node, f"gives {LETTER.get(row.result, 'f32 or i32')}, not {node.dtype!r}")
    _attributes(at, node, row)
    variadic = row.operands.endswith("*")
    count = len(node.operands)
    if (variadic and not 1 <= count <= MAX_OPERANDS) or (not variadic and count != len(row.operands)):
        raise _refuse(at, node, f"{count} operands; expected {len(row.operands) if not variadic else '1 to 32'}")
    for number, operand in enumerate(node.operands):
        if not 0 <= operand.node < at:
            raise _refuse(at, node, f"operand {number} is node {operand.node}, which does not come before it")
        source = graph.nodes[operand.node]
        letter = row.operands[0] if variadic else row.operands[number]
        wanted = LETTER.get(letter, node.dtype)
        if source.dtype != wanted:
            raise _refuse(at, node, f"operand {number} is {source.dtype}, expected {wanted}")
        shape = domain(node, number)
        if len(operand.strides) != len(shape):
            raise _refuse(at, node, f"operand {number} has {len(operand.strides)} strides for {len(shape)} axes")
        if any(abs(stride) > MAX_ELEMENTS for stride in operand.strides) or not 0 <= operand.offset <= MAX_ELEMENTS:
            raise _refuse(at, node, f"operand {number}: an offset or stride beyond {MAX_ELEMENTS:,}")
        least, most = span(shape, operand)
        if least < 0 or most >= source.elements:
            raise _refuse(at, node, f"operand {number} reads words {least} to {most} of {source.elements}")
    _rules(graph, at, node)


def _sizes(at: int, node: Node, row: Operator) -> None:
    if len(node.shape) + len(node.reduced) > MAX_RANK:
        raise _refuse(at, node, f"{len(node.shape) + len(node.reduced)} axes; at most {MAX_RANK}")
    if any(not 0 <= extent <= MAX_ELEMENTS for extent in node.shape + node.reduced):
        raise _refuse(at, node, f"an extent outside 0 to {MAX_ELEMENTS:,}")
    if max(_volume(node.shape), _volume(node.reduced)) > MAX_ELEMENTS:
        raise _refuse(at, node, f"more than {MAX_ELEMENTS:,} elements or terms")
    if node.reduced and not row.reduces:
        raise _refuse(at, node, "reduced axes on an operator that reduces nothing")
    if row.reduces and not node.reduced:
        raise _refuse(at, node, "no reduced axes")


def _volume(shape: Shape) -> int:
    """Elements, counting an empty axis as one: an empty tensor must not hide an absurd extent."""
    return math.prod(max(extent, 1) for extent in shape)


def _attributes(at: int, node: Node, row: Operator) -> None:
    names = row.attributes
    variadic = bool(names) and names[-1].endswith("*")
    expected = len(names) - 1 + len(node.operands) if variadic else len(names)
    if len(node.attributes) != expected:
        raise _refuse(at, node, f"{len(node.attributes)} attributes; expected {expected}")
    if any(not 0 <= word < WORD for word in node.attributes):
        raise _refuse(at, node, "an attribute that is not a 32-bit word")
    if "axis" in names and node.attributes[0] >= len(node.shape):
        raise _refuse(at, node, f"axis {node.attributes[0]} of {len(node.shape)}")
    if node.op == "scalar" and node.shape:
        raise _refuse(at, node, "the shape of a scalar is ()")


def _rules(graph: Graph, at: int, node: Node) -> None:
    """Rules of single operators that the table has no column for."""
    if node.op == "concat":
        axis, *extents = node.attributes
        if sum(extents) != node.shape[axis]:
            raise _refuse(at, node, f"extents {extents} do not add up to {node.shape[axis]}")
    elif node.op == "take" and len(node.reduced) != 1:
        raise _refuse(at, node, f"{len(node.reduced)} indexed axes; expected 1")
    elif node.op == "rank" and node.reduced != (node.shape[node.attributes[0]],):
        raise _refuse(at, node, "the number of rivals must equal the axis length")
    elif node.op in ("scatter", "scatter_add"):
        axis = node.attributes[0]
        if any(operand.strides[axis] for operand in node.operands[1:]):
            raise _refuse(at, node, "indices and terms must be the same for every row they could hit")
    elif node.op == "constant":
        data = graph.constants.get(at)
        if data is None or len(data) != 4 * node.elements:
            raise _refuse(at, node, "its words are missing, or their number differs from its shape")
    elif node.op == "input" and node.attributes[0] not in (STATE_ROLE, BATCH_ROLE):
        raise _refuse(at, node, f"role {node.attributes[0]}; expected {STATE_ROLE} (state) or {BATCH_ROLE} (batch)")


def _interface(graph: Graph) -> None:
    """Checks names, and that inputs, state, batch and loss are consistent."""
    nodes = graph.nodes
    inputs = {at: node.attributes for at, node in enumerate(nodes) if node.op == "input"}
    named: dict[int, tuple[int, ...]] = {}
    for position, entry in enumerate(graph.state):
        _name(entry.name)
        if entry.kind not in KINDS:
            raise BadProgram(f"program: state {entry.name!r} is of kind {entry.kind!r}; expected {', '.join(KINDS)}")
        if not (0 <= entry.before < len(nodes) and 0 <= entry.after < len(nodes)):
            raise BadProgram(f"program: state {entry.name!r} names a node that does not exist")
        before, after = nodes[entry.before], nodes[entry.after]
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            raise BadProgram(f"program: state {entry.name!r} changes its shape or dtype in a step")
        named[entry.before] = (STATE_ROLE, position)
    for position, (name, at) in enumerate(graph.batch):
        _name(name)
        named[at] = (BATCH_ROLE, position)
    if inputs != named or len(named) != len(graph.state) + len(graph.batch):
        raise BadProgram("program: the input nodes must be exactly the state and the batch")
    names = [entry.name.encode() for entry in graph.state]
    if names != sorted(set(names)) or len({name for name, _ in graph.batch}) != len(graph.batch):
        raise BadProgram("program: names must be unique, and state names must ascend")
    if not 0 <= graph.loss < len(nodes) or nodes[graph.loss].shape or nodes[graph.loss].dtype != F32:
        raise BadProgram("program: the loss must be one float32")
    if graph.constants.keys() != {at for at, node in enumerate(nodes) if node.op == "constant"}:
        raise BadProgram("program: words are given for a node that is not a constant")


def _name(name: str) -> None:
    if not 0 < len(name.encode()) <= MAX_NAME_BYTES or not name.isprintable():
        raise BadProgram(f"program: the name {name[:40]!r} is empty, longer than {MAX_NAME_BYTES} bytes or unprintable")
