"""Evidence 8: one part of one element, executed on chain on opened words. A true lie convicts, the honest word never does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from repops.graph import Graph
from tests.referee.evidence_contracts import deploy, evidence_result, flips
from tests.referee.traced_step import TracedStep, step_program
from tests.support.explorations.sparse_trees import FORMS, part_evidence
from tests.support.programs.random_programs import fill, random_program
from zoo_compute.disputes.evidence import PARTS_OPERAND, Leaf, Part, Source, encode
from zoo_compute.spec.frames import Phase

pytestmark = pytest.mark.long

INPUT_OPS = ("input", "constant")


@pytest.fixture(scope="module")
def judges():
    return deploy(bytes(32))


def traced(graph: Graph, seed: int = 1) -> TracedStep:
    state, batch = fill(np.random.default_rng(seed), graph)
    return TracedStep(graph, state, batch)


@pytest.fixture(scope="module")
def step() -> TracedStep:
    return traced(step_program())


def ends(step: TracedStep, seed: int, most: int):
    """Games over parts of all computed nodes."""
    rng = np.random.default_rng(seed)
    for at, node in enumerate(step.graph.nodes):
        if node.op in INPUT_OPS or not node.elements:
            continue
        element = int(rng.integers(0, node.elements))
        count = len(step.parts(at, element))
        if count == 1:
            yield at, element, None
        else:
            yield from ((at, element, number) for number in sorted({0, 1, count - 2, count - 1})[-most:])


@pytest.mark.parametrize("seed", range(3))
def test_every_node_of_a_random_program__its_word__is_not_false__and_any_other_is(judges, seed: int):
    step, seen = traced(random_program(seed), seed), 0
    for node, element, number in ends(step, seed, 2):
        assert evidence_result(judges, *step.part(node, element, number)) == "evidence: not false", (
            node,
            element,
            number,
        )
        assert evidence_result(judges, *step.part(node, element, number, lie=1 << seed)) == "", (node, element, number)
        seen += 1
    assert seen > 8


def test_every_kind_of_part_of_a_step__is_judged(judges, step: TracedStep):
    """Several leaves, leaves of parts, block sums, lanes."""
    seen = set()
    for node, element, number in ends(step, 7, 4):
        honest, false = step.part(node, element, number), step.part(node, element, number, lie=4)
        assert evidence_result(judges, *honest) == "evidence: not false", (node, element, number)
        assert evidence_result(judges, *false) == "", (node, element, number)
        seen |= {(step.graph.nodes[node].op, source.operand) for source in false[2].sources}
    assert {op for op, _ in seen} >= {"take", "fma", "sum", "dot", "sum_sequential", "random"}


def test_a_nan__committed_as_another_nan__is_false(judges):
    state = {"b": np.zeros(3, np.float32), "m": np.zeros(150, np.float32), "seed": np.int32(1)}
    state["w"] = np.full(150, np.nan, np.float32)
    batch = {name: np.zeros((4, 5), np.int32) for name in ("inputs", "targets")}
    step = TracedStep(step_program(), state, batch)
    node = step.node("sub")
    assert evidence_result(judges, *step.part(node, 3)) == "evidence: not false"
    assert evidence_result(judges, *step.part(node, 3, lie=1)) == ""  # 0x7fc00001


def large(step: TracedStep):
    """A part with two operands, leaves of parts and a shown leaf."""
    node = step.node("dot")
    return step.part(node, 0, 3)


def test_any_bit_of_honest_evidence__changed__convicts_nobody(judges, step: TracedStep):
    for frame, position, evidence in (
        large(step),
        step.part(step.node("fma"), 140),
        step.part(step.node("sum"), 0, 21),
    ):
        for bent in flips(encode(evidence), 60):
            assert evidence_result(judges, frame, position, bent, kind=8) != ""


def test_openings_of_something_else__are_refused(judges, step: TracedStep):
    """Each is true of its tree, and not what the part reads."""
    frame, position, evidence = step.part(step.node("fma"), 140)
    _, _, other = step.part(step.node("fma"), 12)
    swapped = replace(evidence, places=(evidence.places[0] >> 16 | 1 << 247,))
    assert evidence_result(judges, frame, position, swapped) == "evidence: other words"
    assert evidence_result(
        judges, frame, position, replace(other, number=140, leaves=(evidence.leaves[0], *other.leaves[1:]))
    ) in ("evidence: other words",)
    moved = tuple(replace(source, operand=at) for source, at in zip(evidence.sources, (1, 0, 2), strict=True))
    assert evidence_result(judges, frame, position, replace(evidence, sources=moved)) == "evidence: bytes do not match"
    taller = (replace(evidence.sources[0], height=evidence.sources[0].height + 1), *evidence.sources[1:])
    assert evidence_result(judges, frame, position, replace(evidence, sources=taller)) == "evidence: bytes do not match"
    assert evidence_result(judges, frame, position, replace(evidence, number=139)) == "evidence: other words"
    assert evidence_result(judges, frame, position, replace(evidence, number=12)) == "evidence: no such element"
    assert evidence_result(judges, frame, position, replace(evidence, number=150)) == "evidence: no such element"
    for more in (
        {"hashes": (*evidence.hashes, bytes(32))},
        {"leaves": evidence.leaves * 2},
        {"numbers": (*evidence.numbers, 0)},
    ):
        assert evidence_result(judges, frame, position, replace(evidence, **more)) == "evidence: bytes do not match", (
            more
        )
    assert evidence_result(judges, frame, position, replace(evidence, hashes=evidence.hashes[:-1])) != ""
    foreign = step.descriptor(step.node("sub"))
    assert (
        evidence_result(judges, frame, position, replace(evidence, descriptor=foreign)) == "evidence: other descriptor"
    )


def test_a_leaf_numbered_beyond_its_tree__does_not_pass_for_another_operands(judges, step: TracedStep):
    """2^57 leaves are 2^64 words: there the addresses of the next operand begin."""
    frame, position, evidence = step.part(step.node("fma"), 140)
    first, scalar, other = evidence.sources
    assert (first.height, scalar.height, other.height) == (1, 0, 1)
    path = 1 + evidence.trace_height
    forged = replace(
        evidence,
        sources=(first, scalar, first),
        numbers=(evidence.numbers[0], evidence.numbers[1], evidence.numbers[0] + 2 * 2**57),
        leaves=(*evidence.leaves[:3], evidence.leaves[1]),
        hashes=evidence.hashes[:-path] + evidence.hashes[:path],
    )
    assert evidence_result(judges, frame, position, forged) == "evidence: bytes do not match"


def test_results_of_parts__under_another_root__are_refused(judges):
    frame, position, evidence = part_evidence(FORMS["sum of 2^20, its lanes"])
    assert PARTS_OPERAND in [source.operand for source in evidence.sources]
    assert evidence_result(judges, frame, position, evidence) == ""
    other = replace(frame, parts_root=b"\1" * 32)
    assert evidence_result(judges, other, position, evidence) == "evidence: bytes do not match"


def test_parts_of_other_parts__are_refused(judges, step: TracedStep):
    frame, position, evidence = large(step)
    assert PARTS_OPERAND not in [
        source.operand for source in evidence.sources
    ]  # what it carries on lies in the shown leaf
    _, _, other = step.part(step.node("dot"), 0, 2)
    assert evidence_result(judges, frame, position, other) in ("evidence: not false",)
    assert evidence_result(judges, frame, position, replace(other, number=3)) == "evidence: other words"
    assert evidence_result(judges, frame, position, replace(evidence, number=2)) == "evidence: other words"
    first, *rest = evidence.places  # which begin with the part that it carries on, here taken to be part 0
    assert first >> 240 == 2
    carries = replace(evidence, places=(first & (1 << 240) - 1, *rest))
    assert evidence_result(judges, frame, position, carries) == "evidence: other words"


def test_the_leaf_of_the_element__for_a_part_of_it__is_no_word_to_take(judges, step: TracedStep):
    """In ELEMENTS nothing of the shown leaf is an operand's."""
    frame, position, evidence = step.part(step.node("copy"), 5)
    own = replace(evidence, places=(5 << 240,))
    assert evidence_result(judges, frame, position, own) == "evidence: other words"


def test_words_of_a_leaf_that_was_not_opened__are_no_words_to_take(judges, step: TracedStep):
    """Behind the last leaf the call holds whatever its sender put there."""
    frame, position, evidence = step.part(step.node("copy"), 5)
    assert step.parts(step.node("copy"), 5)[0].reads == ((0, 5),)
    for leaf in (1, 2, 16, 17, 511):
        forged = replace(
            evidence, sources=(), numbers=(), leaves=evidence.leaves[:1], hashes=(), places=((leaf << 7 | 5) << 240,)
        )
        data = encode(forged) + bytes(range(256)) * 80
        assert evidence_result(judges, frame, position, data, kind=8) in ("evidence: other words", "?"), leaf
        if leaf <= 16:
            assert evidence_result(judges, frame, position, data, kind=8) == "evidence: other words"


def test_an_element_of_several_parts__is_judged_by_its_parts(judges, step: TracedStep):
    node = step.node("dot")
    frame, _, evidence = step.part(node, 0, 0)
    _, at_element, element = step.part(node, 0)
    first = replace(evidence, number=0, leaves=element.leaves[:1])
    assert evidence_result(judges, frame, at_element, first) == "evidence: several parts"


def test_a_leaf_that_was_not_shown__and_a_tree_that_is_not_of_words__are_no_place_for_it(judges, step: TracedStep):
    frame, position, evidence = step.part(step.node("fma"), 140, lie=1)
    assert evidence_result(judges, frame, replace(position, open_leaf=bytes(32)), evidence) == "evidence: not here"
    assert evidence_result(judges, frame, replace(position, phase=Phase.NODES), evidence) == "evidence: not here"
    assert evidence_result(judges, frame, replace(position, index=0), evidence) == "evidence: no such element"
    assert (
        evidence_result(judges, frame, replace(position, open_leaf=b"\1" * 32), evidence)
        == "evidence: bytes do not match"
    )
    for wrong in ("descriptor", "trace_root"):
        assert evidence_result(judges, replace(frame, **{wrong: b"\1" * 32}), position, evidence) != ""


@pytest.mark.parametrize("form", FORMS)
def test_a_part_of_a_large_element__with_up_to_32_leaves__is_judged(judges, form: str):
    """Of tensors too large to be made; what benchmarks measure."""
    assert evidence_result(judges, *part_evidence(FORMS[form], lie=0)) == "evidence: not false"
    assert evidence_result(judges, *part_evidence(FORMS[form], lie=8)) == ""


def test_the_most_that_a_part_opens__fits_a_call():
    """As many leaves as are opened at all, far apart in a tree of 2^20, and the shown one."""
    leaf = Leaf(512, (bytes(32),) * 16)
    source = Source(PARTS_OPERAND, 16, 20, 0, (bytes(32),) * 3)
    most = Part(bytes(1468), 0, 18, 32, (source,), (0,) * 16, (leaf,) * 17, (bytes(32),) * 16 * 16, (0,) * 2)
    assert len(encode(most)) <= 45_056
