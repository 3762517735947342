"""OpExecutor executes every part of every operator as repops.parts says: the same numbers, addresses and words."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from repops import reference
from repops.encoding import descriptor
from repops.graph import F32, I32, Node, Operand, contiguous, coordinates
from repops.operators import TABLE
from repops.parts import Part, parts, terms_per_part
from repops.words import NAN, PRIMITIVES
from scripts.generate import recipe_table
from tests.referee.random_nodes import COMPUTED, index_words, random_node, random_words, whole
from tests.support.evm import Reverted
from tests.support.programs.random_programs import FLOATS, INTEGERS, fill, random_program
from tests.support.protocol_driver import load

INPUT_OPS = ("input", "constant")


@pytest.fixture(scope="module")
def operators():
    return load("OpExecutor").deploy()


def agree(operators, node: Node, element: int, number: int, part: Part, words: list[int]) -> None:
    """The contract executes the part as repops does."""
    word, carried, reads = operators.execute(descriptor(node), element, number, words)
    assert tuple(carried) == part.carried, (node, element, number)
    assert tuple(reads) == tuple(operand << 64 | at for operand, at in part.reads), (node, element, number)
    assert word == part.recipe.run(*words), (node, element, number, words)


def agree_somewhere(operators, rng: np.random.Generator, node: Node, element: int) -> None:
    """In the first part, the last and one between."""
    index = index_words(rng, node) if node.op == "take" else 0
    every = whole(node, element, index)
    row = coordinates(node.shape, element)[node.attributes[0]] if "axis" in TABLE[node.op].attributes else 0
    for number in sorted({0, int(rng.integers(0, len(every))), len(every) - 1}):
        words = random_words(rng, node, row, every[number])
        if node.op == "take":
            words[0] = index
        agree(operators, node, element, number, every[number], words)


@pytest.mark.long
@pytest.mark.parametrize("op", COMPUTED)
def test_a_part__random_nodes_of_every_operator__is_as_repops_has_it(operators, op: str):
    rng = np.random.default_rng(zlib.crc32(op.encode()))
    for _ in range(8 if TABLE[op].reduces else 4):
        node = random_node(rng, op)
        agree_somewhere(operators, rng, node, int(rng.integers(0, node.elements)))


@pytest.mark.parametrize("op", COMPUTED)
def test_how_many_parts__random_nodes_of_every_operator__is_as_repops_counts(operators, op: str):
    rng = np.random.default_rng(1 + zlib.crc32(op.encode()))
    for _ in range(24 if TABLE[op].reduces else 2):
        node = random_node(rng, op)
        element = int(rng.choice((0, node.elements - 1)))
        assert operators.part_count(descriptor(node), element) == len(whole(node, element, 0)), (node, element)


EDGES = {"f": FLOATS, "i": INTEGERS, "w": np.concatenate([FLOATS[:6], INTEGERS[:6]])}


@pytest.mark.parametrize("op", [name for name in COMPUTED if TABLE[name].is_map])
def test_an_elementwise_operator__edges_of_its_words__is_its_recipe(operators, op: str):
    row, rng = TABLE[op], np.random.default_rng(zlib.crc32(op.encode()))
    node = Node(op, F32, (), (), tuple(Operand(at, at, ()) for at in range(len(row.operands))), ())
    (part,) = whole(node, 0, 0)
    for _ in range(6 if len(part.recipe.steps) > 12 else 12):
        words = [int(rng.choice(EDGES[letter])) for letter in row.operands]
        agree(operators, node, 0, 0, part, words)


def reduction(op: str, reduced: tuple[int, ...], *strides: tuple[int, ...]) -> Node:
    shape, axis = ((3,), (0,)) if "axis" in TABLE[op].attributes else ((), ())
    views = tuple(Operand(at, 1 << 20, (*(1 for _ in shape), *each)) for at, each in enumerate(strides))
    return Node(op, F32, shape, reduced, views, axis)


# What random nodes meet seldom: many blocks, groups of block sums, a lane of several parts, a run that ends within a part.
CHOSEN = {
    "three groups of block sums": reduction("dot", (256 * 70 + 5,), (1,), (1,)),
    "one full group of block sums": reduction("dot", (256 * 33,), (1,), (0,)),
    "small groups of block sums": reduction("dot", (2, 256 * 6), (1, 300), (300, 1)),
    "blocks in parts of eight": reduction("dot", (520,), (128,), (-128,)),
    "blocks in parts of four": reduction("dot", (2, 300), (1, 1), (300, 1)),
    "runs of sixteen": reduction("dot", (3, 16), (16, 1), (1, 3)),
    "nothing to multiply": reduction("dot", (0,), (1,), (1,)),
    "lanes of several parts": reduction("sum", (32 * 40 + 3,), (1,)),
    "lanes along an inner axis": reduction("sum", (3, 1024), (1024, 1)),
    "fewer terms than lanes": reduction("sum", (5,), (1,)),
    "an empty sum": reduction("sum", (3, 0), (1, 1)),
    "an empty fold": reduction("reduce_max", (0,), (1,)),
    "a long fold": reduction("isum", (1000,), (-1,)),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_a_reduction__of_a_chosen_form__is_as_repops_has_it_in_parts_all_over(operators, name: str):
    node, rng = CHOSEN[name], np.random.default_rng(3)
    every = whole(node, 0, 0)
    assert operators.part_count(descriptor(node), 0) == len(every)
    numbers = {0, 1, len(every) - 3, len(every) - 2, len(every) - 1, *rng.integers(0, len(every), 2).tolist()}
    for number in sorted(numbers & set(range(len(every)))):
        agree(operators, node, 0, number, every[number], random_words(rng, node, 0, every[number]))


STRIDING = [(op, -1) for op in ("sum_sequential", "reduce_imax", "sum", "dot", "scatter_add")]


@pytest.mark.parametrize(("op", "still"), [*STRIDING, ("dot", 0), ("dot", 1), ("scatter_add", 1)])
def test_the_terms_of_a_part__strides_on_both_sides_of_each_bound__are_as_many_as_repops_takes(operators, op, still):
    """A stride at which a part's terms touch 8 leaves, and the next, at which they would touch more. `still`: the operand
    that has the same word for every term.
    """
    kinds = TABLE[op].domains
    ranging = tuple(at for at, kind in enumerate(kinds) if kind == "r")

    def strides(stride: int) -> list[tuple[int, ...]]:
        return [(stride * (at != still),) if at in ranging else () for at in range(len(kinds))]

    grown = [reduction(op, (640,), *strides(stride)) for stride in range(140)]
    takes = [terms_per_part(node, ranging, 32 if op == "sum" else 1) for node in grown]
    bounds = [at for at in range(1, 140) if takes[at] != takes[at - 1]]
    assert bounds
    for node in (grown[at] for bound in bounds for at in (bound - 1, bound)):
        assert operators.part_count(descriptor(node), 0) == len(whole(node, 0, 0)), node


def test_a_rank__every_element_of_equal_and_odd_rivals__counts_as_repops_does(operators):
    values = [0x3F800000, 0x3F800000, 0, 0x80000000, NAN, 0xFFC00001, 0xFF800000, 0x3F800000]
    view = Operand(0, 0, (1,))
    node = Node("rank", I32, (8,), (8,), (view, Operand(0, 0, (0, 1))), (0,))
    for element in range(8):
        assert by_contract(operators, node, element, [values]) == reference.element(node, element, [values])


def by_contract(operators, node: Node, element: int, values: list[list[int]]) -> int:
    """An element through all its parts, each from the results of those before it."""
    results: list[int] = []
    for number, part in enumerate(whole_with(node, element, values)):
        words = [results[at] for at in part.carried]
        words += [values[node.operands[operand].node][at] for operand, at in part.reads]
        results.append(operators.execute(descriptor(node), element, number, words)[0])
    return results[-1]


def whole_with(node: Node, element: int, values: list[list[int]]) -> list[Part]:
    return list(parts(node, element, lambda operand, at: values[node.operands[operand].node][at]))


def test_elements_of_random_programs__part_by_part__are_the_reference_executors(operators):
    executed = 0
    for seed in range(2):
        graph, rng = random_program(seed), np.random.default_rng(seed)
        state, batch = fill(rng, graph)
        listed = [
            {name: array.reshape(-1).view(np.uint32).tolist() for name, array in of.items()} for of in (state, batch)
        ]
        values = reference.run(graph, *listed)
        for at, node in enumerate(graph.nodes):
            if node.op in INPUT_OPS or not node.elements:
                continue
            element = int(rng.integers(0, node.elements))
            if len(whole_with(node, element, values)) > 8:
                continue
            result = by_contract(operators, node, element, values)
            assert (result if node.dtype == I32 else reference.canonical(result)) == values[at][element], node
            executed += 1
    assert executed > 16


def refused(operators, reason: str, *arguments: object) -> None:
    with pytest.raises(Reverted) as refusal:
        operators.execute(*arguments)
    assert refusal.value.reason == f"executor: {reason}"


ADD = Node("add", F32, (2, 3), (), (Operand(0, 0, (3, 1)), Operand(1, 0, (3, 1))), ())
DOT = Node("dot", F32, (2,), (300,), (Operand(0, 0, (300, 1)), Operand(1, 0, (0, 1))), ())
TAKE = Node("take", F32, (2,), (5,), (Operand(0, 0, (0, 1)), Operand(1, 0, (1,))), ())


def test_an_element_or_a_part_that_is_not_there__is_refused(operators):
    refused(operators, "no such element", descriptor(ADD), 6, 0, [0, 0])
    refused(operators, "no such element", descriptor(ADD), 2**256 - 1, 0, [0, 0])
    refused(operators, "no such element", descriptor(Node("iota", I32, (3, 0), (), (), (0,))), 0, 0, [])
    refused(operators, "no such element", descriptor(Node("scalar", F32, (), (), (), (7,))), 1, 0, [])
    refused(operators, "no such part", descriptor(ADD), 5, 1, [0, 0])
    refused(operators, "no such part", descriptor(DOT), 1, operators.part_count(descriptor(DOT), 1), [0, 0])
    refused(operators, "no such part", descriptor(DOT), 1, 2**256 - 1, [])


def test_words_too_few_or_too_many__are_refused(operators):
    for node, number, count in ((ADD, 0, 2), (DOT, 0, 0), (DOT, 1, 65), (TAKE, 0, 2)):
        for wrong in {count - 1, count + 1, 0} - {-1, count, 66}:
            refused(operators, "wrong number of words", descriptor(node), 1, number, [1] * wrong)
    refused(operators, "wrong number of words", descriptor(TAKE), 1, 0, [5, 1])  # beyond the extent, nothing is read


def test_words_that_are_given__are_refused(operators):
    for node in (Node("input", F32, (3,), (), (), (0, 0)), Node("constant", F32, (3,), (), (), tuple(range(8)))):
        refused(operators, "not a computed node", descriptor(node), 0, 0, [])
        with pytest.raises(Reverted) as refusal:
            operators.part_count(descriptor(node), 0)
        assert refusal.value.reason == "executor: not a computed node"
    refused(operators, "not a computed node", b"\x00\x00\x00\x63" + descriptor(ADD)[4:], 0, 0, [0, 0])


def test_the_widest_concat__rank_8_of_32_operands__reads_the_last_one(operators):
    shape = (1, 2, 1, 2, 1, 2, 1, 33)
    views = tuple(Operand(at, at, contiguous((*shape[:-1], 1))) for at in range(31))
    views += (Operand(31, 31, contiguous((*shape[:-1], 2))),)
    node = Node("concat", F32, shape, (), views, (7, *[1] * 31, 2))
    assert len(descriptor(node)) == 4 * (6 + 8 + 32 * 10 + 33)
    for element in (0, 30, 31, 32, node.elements - 1):
        (part,) = whole(node, element, 0)
        agree(operators, node, element, 0, part, [element])


def test_eight_reduced_axes__are_read_of_the_third_operand_too(operators):
    reduced = (2,) * 8
    node = reduction("scatter_add", reduced, (), contiguous(reduced), contiguous(reduced))
    every, rng = whole(node, 0, 0), np.random.default_rng(8)
    assert operators.part_count(descriptor(node), 0) == len(every)
    for number in (1, len(every) - 1):
        agree(operators, node, 0, number, every[number], random_words(rng, node, 0, every[number]))


def test_the_recipe_table__is_the_operator_tables():
    assert recipe_table.PATH.read_text() == recipe_table.text()
    assert set(recipe_table.numbered(recipe_table.listed())) == set(PRIMITIVES)
