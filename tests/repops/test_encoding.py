"""Programs as files: one file a program, one root a program, and nothing a stranger writes does harm."""

from __future__ import annotations

import hashlib
import os
import random
import struct
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from repops import encoding
from repops.encoding import MAGIC, decode, descriptor, encode, root
from repops.graph import KINDS, BadProgram, Graph, Node, Operand
from tests.campaigns.fuzz.mutations import unchecked
from tests.support.programs.random_programs import pruned, random_program
from tests.support.programs.samples import SAMPLES, long_chain, lookup, regression
from tests.support.work import bytecodes_of

ROOT = Path(__file__).resolve().parents[2]


def h(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def words(*values: int) -> bytes:
    return b"".join((value % 2**32).to_bytes(4, "big") for value in values)


@pytest.fixture(params=SAMPLES)
def graph(request: pytest.FixtureRequest) -> Graph:
    return SAMPLES[request.param]()


def test_decode__of_what_encode_wrote__is_the_same_graph(graph: Graph) -> None:
    again = decode(encode(graph))
    assert again == graph
    assert encode(again) == encode(graph)
    assert root(again) == root(graph)


def test_decode__of_random_programs__gives_them_back() -> None:
    graphs = [pruned(random_program(seed)) for seed in range(25)]
    for graph in graphs:
        assert decode(encode(graph)) == graph
    assert len({root(graph) for graph in graphs}) == len(graphs)


def tiny() -> Graph:
    """x' = -x reversed; the loss is x[1]."""
    nodes = (
        Node("input", "f32", (2,), attributes=(0, 0)),
        Node("neg", "f32", (2,), (), (Operand(0, 1, (-1,)),)),
        Node("copy", "f32", (), (), (Operand(0, 1, ()),)),
    )
    state = (encoding.StateEntry("wéi", "parameter", 0, 1),)
    return Graph(nodes, state, (), 2)


def test_encode__a_small_program__is_what_the_format_says_by_hand() -> None:
    head = words(1, 3, 1, 0, 2)
    entry = words(0, 0, 1, 4) + "wéi".encode()
    nodes = [
        words(1, 0, 1, 0, 0, 2, 2, 0, 0),
        words(17, 0, 1, 0, 1, 0, 2, 0, 1, -1),
        words(10, 0, 0, 0, 1, 0, 0, 1),
    ]
    assert encode(tiny()) == MAGIC + head + entry + b"".join(nodes)
    leaves = [h(b"\x05", node) for node in nodes]
    tree = h(b"\x01", h(b"\x01", leaves[0], leaves[1]), h(b"\x01", leaves[2], bytes(32)))
    assert root(tiny()) == h(b"\x07", head, h(b"\x06", entry), tree)


def test_root__of_every_sample__differs() -> None:
    assert len({root(make()) for make in SAMPLES.values()}) == len(SAMPLES)


def test_root__in_other_processes__is_the_same() -> None:
    script = "from tests.support.programs.samples import *; from repops.encoding import root; [print(root(SAMPLES[n]()).hex()) for n in sorted(SAMPLES)]"
    here = [root(SAMPLES[name]()).hex() for name in sorted(SAMPLES)]
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        run = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        assert run.stdout.split() == here


def variants(graph: Graph) -> list[Graph]:
    """The graph with one field changed, each field in turn."""
    out = []
    for at, node in enumerate(graph.nodes):
        for changed in node_variants(node):
            out.append(unchecked(graph, nodes=(*graph.nodes[:at], changed, *graph.nodes[at + 1 :])))
    for at, entry in enumerate(graph.state):
        others = [replace(entry, name=entry.name + "x"), replace(entry, name="x" + entry.name[1:])]
        others += [replace(entry, kind=KINDS[KINDS.index(entry.kind) - 1])]
        others += [replace(entry, before=entry.before + 1), replace(entry, after=entry.after + 1)]
        out += [unchecked(graph, state=(*graph.state[:at], other, *graph.state[at + 1 :])) for other in others]
    for at, (name, node) in enumerate(graph.batch):
        for other in ((name + "x", node), (name, node + 1)):
            out.append(unchecked(graph, batch=(*graph.batch[:at], other, *graph.batch[at + 1 :])))
    out += [unchecked(graph, loss=graph.loss - 1), unchecked(graph, nodes=graph.nodes[:-1])]
    out += [unchecked(graph, state=graph.state[:-1]), unchecked(graph, state=(), batch=())]
    return [variant for variant in out if variant != graph]


def node_variants(node: Node) -> list[Node]:
    bump = lambda t, at: (*t[:at], t[at] + 1, *t[at + 1 :])  # noqa: E731
    out = [
        replace(node, op="exp" if node.op != "exp" else "log"),
        replace(node, dtype="i32" if node.dtype == "f32" else "f32"),
    ]
    out += [replace(node, shape=bump(node.shape, at)) for at in range(len(node.shape))]
    out += [replace(node, reduced=bump(node.reduced, at)) for at in range(len(node.reduced))]
    out += [replace(node, attributes=bump(node.attributes, at)) for at in range(len(node.attributes) % 8)]
    out += [replace(node, shape=(*node.shape, *node.reduced), reduced=())]
    for at, operand in enumerate(node.operands):
        others = [replace(operand, node=operand.node + 1), replace(operand, offset=operand.offset + 1)]
        others += [replace(operand, strides=bump(operand.strides, axis)) for axis in range(len(operand.strides))]
        others += [replace(operand, strides=tuple(-stride for stride in operand.strides))]
        out += [replace(node, operands=(*node.operands[:at], other, *node.operands[at + 1 :])) for other in others]
    return out


def test_root__any_field_changed__is_another_root(graph: Graph) -> None:
    others = variants(graph)
    assert len(others) > 5
    assert root(graph) not in {root(other) for other in others}


def test_descriptor__of_an_entry_or_a_leaf_of_words__has_another_hash() -> None:
    """The same bytes as descriptor, entry and tensor leaf: three hashes."""
    data = descriptor(tiny().nodes[0])
    assert len({h(tag, data) for tag in (b"\x00", b"\x01", b"\x05", b"\x06")}) == 4
    with_node_tag = unchecked(tiny(), nodes=tiny().nodes[:1])
    assert root(with_node_tag) == h(
        b"\x07", words(1, 1, 1, 0, 2), h(b"\x06", words(0, 0, 1, 4), "wéi".encode()), h(b"\x05", data)
    )


# --- what is refused


def test_decode__every_shorter_file__is_refused(graph: Graph) -> None:
    data = encode(graph)
    for length in range(len(data)):
        with pytest.raises(BadProgram):
            decode(data[:length])


@pytest.mark.parametrize("more", [b"\0", bytes(4), bytes(24), b"\x89repops\n"])
def test_decode__anything_after_the_end__is_refused(graph: Graph, more: bytes) -> None:
    with pytest.raises(BadProgram, match="after its end"):
        decode(encode(graph) + more)


def test_decode__longer_than_allowed__is_refused_before_it_is_read() -> None:
    data = encode(regression())
    assert decode(data, max_bytes=len(data)) == regression()
    with pytest.raises(BadProgram, match="exceed"):
        decode(data, max_bytes=len(data) - 1)


def test_decode__bytes_that_are_no_program__are_refused() -> None:
    for data in (b"", MAGIC[:-1], b"PK\x03\x04" + bytes(100), MAGIC, b"\x80\x04" + bytes(64)):
        with pytest.raises(BadProgram, match="program file"):
            decode(data)


def test_decode__another_version__is_refused_by_its_number() -> None:
    data = bytearray(encode(tiny()))
    struct.pack_into(">I", data, len(MAGIC), 2)
    with pytest.raises(BadProgram, match="version 2; this release reads 1"):
        decode(bytes(data))


def test_decode__a_name_padded_with_something_else__is_refused() -> None:
    graph = unchecked(tiny(), state=(replace(tiny().state[0], name="w"),))
    data = encode(graph)
    assert decode(data) == graph
    at = data.index(b"w\0\0\0")
    with pytest.raises(BadProgram, match="canonical"):
        decode(data[: at + 3] + b"\1" + data[at + 4 :])


@pytest.mark.parametrize("raw", [b"\xff\xff\xff\xff", b"\xed\xa0\x80w", b"a\0bc", b"ab\xc2\x85"])
def test_decode__a_name_that_is_no_printable_text__is_refused(raw: bytes) -> None:
    data = encode(tiny()).replace("wéi".encode(), raw)
    with pytest.raises(BadProgram):
        decode(data)


def test_decode__constant_words_changed__are_refused() -> None:
    graph = regression()
    (at,) = graph.constants
    other = bytes([graph.constants[at][0] ^ 1]) + graph.constants[at][1:]
    with pytest.raises(BadProgram, match="root it names"):
        decode(encode(unchecked(graph, constants={at: other})))


def test_decode__a_constant_with_an_odd_nan__is_refused() -> None:
    """Its tensor root would be that of the canonical NaN: two files for one root."""
    from repops.builder import Builder

    b = Builder()
    c = b.constant(np.array([1.0, np.nan], np.float32))
    x = b.input("f32", (2,), 1, 0)
    graph = b.finish([], [("x", x)], b.sum(b.map("add", x, c), [0]))
    assert decode(encode(graph)) == graph
    (at,) = graph.constants
    odd = graph.constants[at][:4] + struct.pack("<I", 0x7FC00001)
    with pytest.raises(BadProgram, match="NaN"):
        decode(encode(unchecked(graph, constants={at: odd})))


def test_decode__constants_swapped__are_refused() -> None:
    data = encode(lookup())
    assert decode(data[:-16] + data[-16:]) == lookup()
    with pytest.raises(BadProgram, match="root it names"):
        decode(data[:-16] + data[-12:] + data[-16:-12])


# --- what a hostile file costs


def cost(data: bytes) -> tuple[int, int]:
    """Bytecodes and peak bytes of refusing a file."""

    def refuse() -> None:
        with pytest.raises(BadProgram):
            decode(data)

    tracemalloc.start()
    refuse()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return bytecodes_of(refuse), peak


FEW = 60_000  # bytecodes for a file of a thousand bytes
HUGE = (2**31 - 1, 2**31, 2**32 - 1)


@pytest.mark.parametrize("huge", HUGE)
@pytest.mark.parametrize("place", range(5))
def test_decode__huge_counts_in_the_head__cost_nothing(place: int, huge: int) -> None:
    head = [1, 3, 1, 1, 0]
    head[place] = huge
    work, peak = cost(MAGIC + words(*head) + bytes(1000))
    assert work < FEW
    assert peak < 1 << 20


@pytest.mark.parametrize("huge", HUGE)
@pytest.mark.parametrize("place", range(2, 6))
def test_decode__huge_counts_in_a_node__cost_nothing(place: int, huge: int) -> None:
    node = [10, 0, 1, 0, 1, 0]
    node[place] = huge
    work, peak = cost(MAGIC + words(1, 1, 0, 0, 0) + words(*node) + bytes(1000))
    assert work < FEW
    assert peak < 1 << 20


def test_decode__a_constant_of_huge_shape__costs_nothing() -> None:
    for shape in ((2**31 - 1,), (2**32 - 1,) * 8, (65536, 32767)):
        node = words(3, 0, len(shape), 0, 0, 8, *shape, *range(8))
        work, peak = cost(MAGIC + words(1, 1, 0, 0, 0) + node + bytes(1000))
        assert work < FEW
        assert peak < 1 << 20


def test_decode__a_tiny_file_of_a_huge_tensor__is_read_without_making_it() -> None:
    """Zero strides: 2^31 - 4 elements of one word. Decoding is free; the profile gives the cost of a run."""
    from repops.profile import profile

    nodes = (
        Node("input", "f32", (), attributes=(1, 0)),
        Node("exp", "f32", (4, 2**29 - 1), (), (Operand(0, 0, (0, 0)),)),
        Node("sum", "f32", (4,), (2**29 - 1,), (Operand(1, 0, (2**29 - 1, 1)),)),
        Node("sum", "f32", (), (4,), (Operand(2, 0, (1,)),)),
    )
    graph = Graph(nodes, (), (("x", 0),), 3)
    tracemalloc.start()
    profiled = profile(decode(encode(graph)))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert profiled.activation_bytes >= 4 * (2**31 - 4)
    assert profiled.flops > 2**31


def test_decode__garbage_of_any_length__costs_time_and_memory_in_proportion() -> None:
    chance = random.Random(7)
    for length in (10, 1000, 100_000, 1_000_000):
        data = MAGIC + words(1, 2**17, 0, 0, 0) + chance.randbytes(length)
        work, peak = cost(data)
        assert work < FEW + 10 * length
        assert peak < (1 << 20) + 40 * length


def test_decode__as_many_nodes_as_fit__costs_memory_in_proportion() -> None:
    """Refused at the very end: the dearest refusal."""
    good = encode(long_chain(5_000))
    data = good[:-4] + words(5)
    work, peak = cost(data)
    assert work < 40 * len(data)
    assert peak < 40 * len(data)


def test_decode__more_nodes_than_allowed__are_refused_by_their_number() -> None:
    with pytest.raises(BadProgram, match="nodes exceed"):
        decode(MAGIC + words(1, 2**17 + 1, 0, 0, 0) + bytes(24 * (2**17 + 1)))
