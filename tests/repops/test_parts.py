"""The parts of an element: by number, and their words on every CPU backend."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest

from repops import backend, native, reference
from repops.backend import part_words
from repops.graph import F32, I32, Node, Operand
from repops.operators import TABLE
from repops.parts import part, part_count, parts
from tests.support.programs.random_programs import Array, fill, random_program, words

KERNELS = [("numba", ""), *(("native", isa) for isa in native.available())]
LENGTHS = (0, 1, 31, 32, 33, 64, 255, 256, 257, 512, 513, 8000)
REDUCING = ("sum", "sum_sequential", "isum", "reduce_max", "reduce_imax", "dot", "rank", "scatter", "scatter_add")


@pytest.fixture(params=KERNELS, ids=["-".join(filter(None, pair)) for pair in KERNELS])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name, isa = request.param
    if isa:
        monkeypatch.setenv("REPOPS_ISA", isa)
    return str(name)


def _reducing(op: str, count: int, stride: int) -> Node:
    """A node that joins `count` terms, which lie `stride` words apart, into an element. scatter: of three rows."""
    row = TABLE[op]
    dtype = I32 if row.result == "i" or op == "scatter" else F32
    along = Operand(0, 0, (stride,))
    if op == "rank":
        return Node(op, I32, (count,), (count,), (along, Operand(0, 0, (0, stride))), (0,))
    if op in ("scatter", "scatter_add"):
        terms = Operand(0, 0, (0, stride))
        return Node(op, dtype, (3,), (count,), (Operand(0, 0, (1,)), terms, terms), (0,))
    return Node(op, dtype, (), (count,), (along,) * len(row.operands))


def _sources(rng: np.random.Generator, node: Node, size: int) -> list[Array]:
    letters = TABLE[node.op].operands
    kinds = [{"f": F32, "i": I32, "w": node.dtype}[letter] for letter in letters]
    if node.op in ("scatter", "scatter_add"):
        index = rng.integers(-1, 4, size).astype(np.int32)
        return [words(rng, kinds[0], (size,)), index, words(rng, kinds[2], (size,))]
    return [words(rng, kind, (size,)) for kind in kinds]


def _committed(array: Array) -> np.ndarray:
    flat = array.reshape(-1)
    bits = flat.view(np.uint32).copy()
    if flat.dtype == np.float32:
        bits[np.isnan(flat)] = 0x7FC00000
    return bits


@pytest.mark.parametrize("op", REDUCING)
@pytest.mark.parametrize("stride", [0, 1, 3, 50])
def test_parts__of_reductions_of_any_length__have_the_references_words(kernels: str, op: str, stride: int) -> None:
    rng = np.random.default_rng(stride)
    for count in LENGTHS if op != "rank" else LENGTHS[1:]:
        node = _reducing(op, count, stride)
        sources = [_committed(each) for each in _sources(rng, node, max(4, 1 + count * stride))]
        for element in {0, node.elements - 1}:
            expected = reference.results(node, element, sources)
            np.testing.assert_array_equal(part_words(node, element, sources, name=kernels), expected, f"{count} terms")


def _elements(seed: int) -> Iterator[tuple[Node, int, list[np.ndarray]]]:
    """Elements of the computed nodes of a random program, and the words of their operands' sources."""
    graph = random_program(seed, nodes=20, empty=0.25)
    state, batch = fill(np.random.default_rng(seed), graph)
    runner = reference.prepare(graph)
    for name, array in state.items():
        runner.state[name][...] = array
    values = [_committed(each) for each in runner.trace(batch)]
    for node in graph.nodes:
        if node.op not in ("input", "constant") and node.elements:
            for element in {0, node.elements // 2, node.elements - 1}:
                yield node, element, [values[operand.node] for operand in node.operands]


@pytest.mark.parametrize("seed", range(8))
def test_parts__of_random_programs__have_the_references_words(kernels: str, seed: int) -> None:
    for node, element, sources in _elements(seed):
        expected = reference.results(node, element, sources)
        np.testing.assert_array_equal(part_words(node, element, sources, name=kernels), expected, node.op)


@pytest.mark.parametrize("op", REDUCING)
def test_part__by_its_number__is_that_of_all_parts_in_order(op: str) -> None:
    """Each part carries only what came before it, and every term is read once."""
    for count in LENGTHS[1:]:
        node = _reducing(op, count, 1)
        every = list(parts(node, 0, lambda *_: 0))
        assert len(every) == part_count(node)
        assert all(max(each.carried, default=-1) < number for number, each in enumerate(every))
        assert every[-1] == part(node, 0, len(every) - 1, lambda *_: 0)
        last = len(node.operands) - 1
        read = [index for each in every[1:] for operand, index in each.reads if operand == last]
        assert sorted(read) == list(range(count))


def test_part__of_the_longest_sum__takes_no_longer_than_that_of_a_short_one() -> None:
    node = _reducing("sum", 1 << 29, 1)
    last = part_count(node) - 1
    assert part(node, 0, last, lambda *_: 0).carried == tuple(range(last - 4, last))
    reads = part(node, 0, last - 5, lambda *_: 0).reads  # the end of lane 31
    assert reads[-1] == (0, (1 << 29) - 1)


def _python_events(node: Node, sources: list[np.ndarray], name: str) -> int:
    """Calls that the interpreter makes for all parts of the node's one element."""
    count = 0

    def counted(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(counted)
    try:
        part_words(node, 0, sources, name=name)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("op", ["sum", "sum_sequential", "dot"])
def test_part_words__of_more_terms__take_no_more_steps_of_python(kernels: str, op: str) -> None:
    """An opening of 2^29 terms takes seconds: nothing is done in Python for each term, or for each part."""
    few, many = (_reducing(op, count, 0) for count in (1 << 8, 1 << 14))
    sources = [np.array([0x3F800000], np.uint32)] * len(few.operands)
    part_words(few, 0, sources, name=kernels)  # numba compiles
    assert _python_events(many, sources, kernels) <= 2 * _python_events(few, sources, kernels)
    assert _python_events(many, sources, "reference") > 16 * _python_events(few, sources, "reference")


def test_part_words__of_a_view_that_leaves_its_source__are_refused() -> None:
    node = _reducing("sum", 64, 1)
    with pytest.raises(ValueError, match="reads words 0 to 63 of 8"):
        part_words(node, 0, [np.zeros(8, np.uint32)], name="native")


def test_part_words__without_a_named_backend__come_from_the_first_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPOPS_BACKEND", raising=False)
    monkeypatch.setattr(backend, "PARTS", {"native": "repops.reference", "numba": "repops.reference"})
    assert part_words(_reducing("sum", 2, 0), 0, [np.array([0x3F800000], np.uint32)])[-1] == 0x40000000
