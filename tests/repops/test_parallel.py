"""A program over several ranks has the bits of one process: every placement, and any other choice of owners."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest

from repops import fallback, reference
from repops.builder import Builder
from repops.commitments import tensor_root
from repops.graph import F32, I32, PARAMETER, STATE_ROLE, Graph, Operand, contiguous, span
from repops.parallel.owners import data, pipeline
from repops.parallel.placement import NotParallel, Piece, PlacedProgram, is_free, with_copied_sources, with_state_owners
from repops.parallel.roots import combine_root, leaves_of
from repops.parallel.split import Price, SplitValue, piece_view, rows, tensor
from repops.plan.memory import rounded
from tests.repops.parallel_ranks import MODELS, case_of, model_case
from tests.support.programs.random_programs import fill, random_program

EVERYTHING = Price(message=0, least=1)
PLACEMENTS = {
    "pipeline": pipeline,
    "data": data,
    "tensor": tensor,
    "rows": rows,
    "tensor, all that can be": partial(tensor, price=EVERYTHING),
    "rows, all that can be": partial(rows, price=EVERYTHING),
}


LAID_OUT = [
    pytest.param(name, parts, ranks, marks=[pytest.mark.long] if ranks == 3 else [])
    for name in PLACEMENTS
    for parts in (1, 3)
    for ranks in (2, 3)
    if name != "data" or parts == 3
]


@pytest.mark.parametrize(("placement", "parts", "ranks"), LAID_OUT)
@pytest.mark.parametrize("model", MODELS)
def test_steps_on_ranks__have_the_bits_of_one_process(model: str, placement: str, parts: int, ranks: int):
    case = model_case(model, parts)
    placed = PLACEMENTS[placement](case.graph, ranks, parts)
    assert {owner for owner in placed.owner if owner is not None} == set(range(ranks))
    case.check(placed)


def test_any_owners__have_the_bits_of_one_process():
    """Each node on a rank drawn at random, over the whole operator table."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        graph = random_program(seed)
        case = case_of(graph, 1, *_filled(rng, graph))
        whole = with_copied_sources(graph)
        drawn = [None if is_free(node) else int(rng.integers(3)) for node in whole.nodes]
        made, owner = with_state_owners(whole, drawn)
        pieces = {e.name: (Piece(e.name, 0, (*whole.nodes[e.before].shape, 1)[0]),) for e in whole.state}
        case.check(PlacedProgram(made, owner, pieces, 3, 1))


def test_any_program__taken_apart_wherever_it_can_be__has_the_bits_of_one_process():
    split = 0
    for seed in range(16):
        rng = np.random.default_rng(seed)
        graph = random_program(seed)
        case = case_of(graph, 1, *_filled(rng, graph))
        for how in (tensor, rows):
            try:
                placed = how(graph, 2, 1, EVERYTHING)
            except NotParallel:
                continue
            split += 1
            case.check(placed)
    assert split >= 10


def _filled(rng: np.random.Generator, graph: Graph):
    state, batch = fill(rng, graph)
    return state, [batch, batch]


@pytest.mark.parametrize("kernels", [reference, fallback], ids=["reference", "numba"])
def test_kernels_with_memory_of_their_own__have_the_same_bits(kernels):
    graph = random_program(7, nodes=24)
    case = case_of(graph, 1, *_filled(np.random.default_rng(7), graph))
    case.check(tensor(graph, 2, 1, EVERYTHING), kernels.prepare)


@pytest.mark.parametrize("placement", ["pipeline", "data", "tensor"])
def test_the_state__is_shared_out_and_no_part_of_it_lies_on_two_ranks(placement: str):
    case = model_case("gpt", 3)
    together = case.check(PLACEMENTS[placement](case.graph, 3, 3))
    sizes = [rank.memory["state"] for rank in together.ranks]
    pieces = [array for rank in together.ranks for array in rank.state.values()]
    assert sum(array.nbytes for array in pieces) == sum(array.nbytes for array in case.state.values())
    assert sum(sizes) == sum(rounded(array.nbytes) for array in pieces)
    assert max(sizes) < 0.5 * sum(sizes)


def test_a_pipeline__sends_activations_and_their_gradients_and_no_weights():
    case = model_case("gpt", 1)
    together = case.check(pipeline(case.graph, 2, 1))
    activation = 4 * 16 * 32
    sent = [sum(m.words for stage in part.step.stages for m in stage.sends) for part in together.parts]
    tied = case.state["tokens.weight"].size  # the embedding is the head too: both ends need it, and give its gradient
    assert sum(sent) <= 3 * activation + tied + 512  # the last: rows of norms, and what the clipping and the guard need
    large = [m.words for part in together.parts for m in part.step.first_sends if m.words > 64]
    assert large == [tied]


def test_micro_batches__overlap_in_a_pipeline():
    """The first stage begins the second micro-batch before it ends the first."""
    case = model_case("gpt", 3)
    first = case.check(pipeline(case.graph, 2, 3)).parts[0].step.stages
    sending = [at for at, stage in enumerate(first) if any(m.words >= 4 * 16 * 32 for m in stage.sends)]
    receiving = [at for at, stage in enumerate(first) if any(m.words >= 4 * 16 * 32 for m in stage.receives)]
    assert sending[1] < receiving[0]


def test_too_few_micro_batches__are_refused():
    with pytest.raises(NotParallel, match="2 micro-batches cannot keep 3 ranks busy"):
        data(model_case("gpt", 3).graph, 3, 2)


@pytest.mark.parametrize("ranks", [1, 33])
@pytest.mark.parametrize("placement", [pipeline, partial(data, parts=40), tensor, rows])
def test_numbers_of_ranks_that_make_no_sense__are_refused(placement, ranks: int):
    with pytest.raises(NotParallel, match=f"{ranks} ranks; expected 2 to 32"):
        placement(model_case("gpt", 1).graph, ranks)


def test_a_program_with_nothing_to_split__is_refused():
    b = Builder()
    p = b.input(F32, (3,), STATE_ROLE, 0)
    graph = b.finish([("p", PARAMETER, p, b.map("mul", p, 0.5))], [], b.sum(p, [0]))
    with pytest.raises(NotParallel, match="no tensor of the state has at least 256 words and 2 rows"):
        tensor(graph, 2)
    with pytest.raises(NotParallel, match="0 nodes of the forward pass for 2 ranks"):
        pipeline(graph, 2)


def test_a_view_within_one_piece__reads_the_same_words():
    """Against every index, for views drawn at random."""
    chance, within = random.Random(3), 0
    for _ in range(2000):
        source = tuple(chance.randint(1, 5) for _ in range(chance.randint(1, 3)))
        axis = chance.randrange(len(source))
        cut = chance.randint(0, source[axis])
        value = SplitValue((0, 1), axis, (0, cut, source[axis]))
        shape = tuple(chance.randint(1, 4) for _ in range(chance.randint(1, 3)))
        steps = [chance.choice((0, 1, -1, 2, *contiguous(source))) for _ in shape]
        operand = Operand(9, chance.randrange(int(np.prod(source))), tuple(steps))
        least, most = span(shape, operand)
        if least < 0 or most >= np.prod(source):
            continue
        hit = piece_view(value, source, shape, operand)
        if hit is None:
            continue
        within += 1
        words = np.arange(np.prod(source)).reshape(source)
        piece = np.split(words, [cut], axis)[hit[0]]
        assert hit[1].node == hit[0]
        assert _seen(piece, shape, hit[1]) == _seen(words, shape, operand)
    assert within > 300


def _seen(words: np.ndarray, shape: tuple[int, ...], operand: Operand) -> list[int]:
    places = [operand.offset + sum(s * i for s, i in zip(operand.strides, at, strict=True)) for at in np.ndindex(shape)]
    assert min(places) >= 0
    return words.reshape(-1)[places].tolist()


@pytest.mark.parametrize("count", [1, 127, 128, 129, 1000])
def test_a_tensors_root__is_put_together_from_runs_of_any_length(count: int):
    chance = random.Random(count)
    array = np.random.default_rng(count).standard_normal(count, np.float32)
    for _ in range(20):
        cuts = sorted(chance.randint(0, count) for _ in range(chance.randint(0, 4)))
        ends = list(zip([0, *cuts], [*cuts, count], strict=True))
        runs = [leaves_of(array[start:stop], 4 * start) for start, stop in ends]
        assert combine_root(0, array.shape, runs) == tensor_root(array)
    changed = [leaves_of(array + np.float32(1), 0)]
    assert combine_root(0, array.shape, changed) != tensor_root(array)


def test_a_scatter__split_along_its_rows__hits_the_same_rows():
    """Indices outside, and near the ends of the words, come to no piece's rows."""
    b = Builder()
    base = b.input(F32, (6, 50), STATE_ROLE, 0)
    index = b.constant(np.array([0, 5, -1, 6, 3, 2, -(2**31), 2**31 - 1, 3, -3], np.int32))
    terms = b.constant(np.random.default_rng(0).standard_normal((10, 50)).astype(np.float32))
    after = b.scatter(base, 0, index, terms, adds=True)
    graph = b.finish([("base", PARAMETER, base, after)], [], b.sum(base, [0, 1]))
    case = case_of(graph, 1, {"base": np.ones((6, 50), np.float32)}, [{}])
    for ranks in (2, 3, 6):
        placed = rows(graph, ranks)
        assert sum(node.op == "scatter_add" for node in placed.graph.nodes) == ranks
        case.check(placed)


def test_tensors_that_change_places__and_a_loss_that_is_one__are_copied_first():
    b = Builder()
    one, other, loss = (b.input(F32, shape, STATE_ROLE, at) for at, shape in enumerate([(4,), (4,), ()]))
    kept = b.input(I32, (300, 2), STATE_ROLE, 3)
    entries = [("one", other), ("other", one), ("loss", b.sum(one, [0])), ("kept", kept)]
    views = {"one": one, "other": other, "loss": loss, "kept": kept}
    graph = b.finish([(name, PARAMETER, views[name], after) for name, after in entries], [], loss)
    rng = np.random.default_rng(0)
    state = {
        name: rng.integers(0, 9, view.shape).astype(np.int32 if name == "kept" else np.float32)
        for name, view in views.items()
    }
    case = case_of(graph, 1, state, [{}, {}, {}])
    case.check(tensor(graph, 2, 1, EVERYTHING))
