"""A step in less memory: values dropped and computed again give the same bits, and the peak that was promised."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch

import repops
from repops import backend, reference
from repops.batches import named_arrays
from repops.builder import Builder
from repops.commitments import Array
from repops.graph import BATCH_ROLE, F32, PARAMETER, STATE_ROLE, Graph
from repops.native import runner
from repops.plan import memory, recompute, split, values
from repops.plan.access import axes_of
from repops.plan.fit import Fitted, Fitting, TooLarge
from repops.plan.ir import Argument, Group, Instruction, Item, Memory
from tests.repops.parallel_ranks import MODELS, Case, bits, case_of, model_case
from tests.repops.step_programs import STEPS
from tests.support.programs.random_programs import fill, random_program
from zoo_compute.models import gpt


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds for programs of a few kilobytes."""
    monkeypatch.setattr(recompute, "SMALL", 1)
    monkeypatch.setattr(split, "LEAST_WORDS", 2)


@cache
def _unclipped(parts: int) -> Case:
    """A GPT whose gradients are not clipped: its updates could all be computed before any is made."""
    torch.manual_seed(1)
    made = gpt.build(3, 2, 32, 16, vocab=64)
    shape = (4, 16) if parts == 1 else (parts, 4, 16)
    batches = [(torch.randint(0, 64, shape), torch.randint(0, 64, shape)) for _ in range(2)]
    program = repops.trace(*made, batches[0], accumulate=parts)
    state = {name: tensor.numpy().copy() for name, tensor in program.initial_state(made[0], seed=5).items()}
    return case_of(program.graph, parts, state, [named_arrays(each) for each in batches])


def _case(name: str, parts: int) -> Case:
    return _unclipped(parts) if name == "unclipped" else model_case(name, parts)


@cache
def _fitting(name: str, parts: int) -> Fitting:
    """Only for tests with `tiny`."""
    return Fitting(_case(name, parts).graph)


def _check(case: Case, made: backend.Runner) -> None:
    for name, array in case.state.items():
        made.state[name][...] = array
    for batch, loss in zip(case.batches, case.losses, strict=True):
        assert bits(made.step(batch, threads=2)) == loss
    assert {name for name, data in case.after.items() if bits(made.state[name]) != data} == set()


def _lives(plan: runner.Plan, fitted: Fitted) -> dict[int, tuple[int, int, int, int]]:
    """node -> the first and the last item that touch it, its first byte and the one after the last."""
    out: dict[int, tuple[int, int, int, int]] = {}
    for at, item in enumerate(plan.items):
        for node in {*item.reads(), *item.writes()} - plan.source_of.keys():
            first = out[node][0] if node in out else at
            last = len(plan.items) if node in fitted.step.kept else at
            out[node] = (first, last, plan.offsets[node], plan.offsets[node] + plan._bytes(node))
    return out


@pytest.mark.parametrize("share", [0.7, 0.5, 0.0])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", [*MODELS, "unclipped"])
def test_a_step_in_less_memory__has_the_same_bits(name: str, parts: int, share: float, tiny: None):
    """Among them dropout, running statistics, a sum over micro-batches, and state that is updated in place."""
    case, fitting = _case(name, parts), _fitting(name, parts)
    limit = max(int(fitting.plain.size * share), fitting.least.size)
    made = runner.prepare(case.graph, memory=limit)
    assert made.plan.size <= limit
    assert made.plan.arena.words.nbytes <= memory.rounded(limit)
    assert limit < 0.9 * fitting.plain.size
    _check(case, made)


@pytest.mark.parametrize("name", ["gpt", "masked", "unclipped"])
def test_values_alive_at_once__share_no_memory(name: str, tiny: None):
    case = _case(name, 3)
    fitted = _fitting(name, 3).least
    lives = list(_lives(runner.prepare(case.graph, memory=fitted.size).plan, fitted).values())
    met = 0
    for at, (first, last, start, end) in enumerate(lives):
        for others_first, others_last, others_start, others_end in lives[:at]:
            if first <= others_last and others_first <= last:
                met += 1
                assert end <= others_start or others_end <= start
        assert end <= fitted.size
    assert met > 1_000


@pytest.mark.parametrize("name", ["gpt", "masked", "unclipped"])
def test_each_item__reads_what_an_earlier_one_wrote(name: str, tiny: None):
    graph = _case(name, 1).graph
    fitted = _fitting(name, 1).least
    written = {at for at, node in enumerate(graph.nodes) if node.op in ("input", "constant", "scalar")}
    for item in fitted.step.items:
        assert written.union(item.writes()).issuperset(item.reads())
        written.update(item.writes())


@pytest.mark.parametrize("name", STEPS)
def test_small_steps__in_the_least_memory__have_the_references_bits(name: str, tiny: None):
    graph, state, batch = STEPS[name]()
    _compare(graph, state, batch)


def test_random_programs__in_the_least_memory__have_the_references_bits(tiny: None):
    again = 0.0
    for seed in range(40):
        graph = random_program(1000 * seed + 7, nodes=60)
        again += _compare(graph, *fill(np.random.default_rng(seed), graph))
    assert again > 0.5, "hardly anything was computed twice"


def _compare(graph: Graph, state: dict[str, Array], batch: dict[str, Array]) -> float:
    """Work that was done again."""
    least = Fitting(graph).least
    wanted, made = reference.prepare(graph), runner.prepare(graph, memory=least.size)
    for each in (wanted, made):
        for name, array in state.items():
            each.state[name][...] = array
    with np.errstate(all="ignore"):
        for _ in range(2):
            assert bits(np.float32(made.step(batch, threads=2))) == bits(np.float32(wanted.step(batch)))
    assert {name for name, array in wanted.state.items() if bits(made.state[name]) != bits(array)} == set()
    return least.extra


def overwritten_early() -> Graph:
    """exp(w) is read once before w is overwritten and once long after, when much else was in between."""
    b = Builder()
    x, w = b.input(F32, (16, 16), BATCH_ROLE, 0), b.input(F32, (16, 16), STATE_ROLE, 0)
    value = b.map("exp", w)
    chain = b.matmul(value, x)
    after = b.map("mul", b.map("add", w, chain), 0.01)
    for _ in range(4):
        chain = b.map("add", b.matmul(chain, after), b.matmul(after, chain))
    return b.finish(
        [("w", PARAMETER, w, after)], [("x", x)], b.sum(b.map("mul", b.matmul(chain, value), value), [0, 1])
    )


@pytest.mark.parametrize("careless", [False, True])
def test_a_value_of_overwritten_state__is_not_computed_again(
    careless: bool, tiny: None, monkeypatch: pytest.MonkeyPatch
):
    """careless: without that rule the bits differ, so this program needs it."""
    graph = overwritten_early()
    rng = np.random.default_rng(0)
    state = {"w": rng.normal(0, 0.1, (16, 16)).astype(np.float32)}
    batch = {"x": rng.normal(0, 0.1, (16, 16)).astype(np.float32)}
    if not careless:
        _compare(graph, state, batch)
        return
    monkeypatch.setattr(values, "min", lambda *_, **__: math.inf, raising=False)
    with pytest.raises(AssertionError):
        _compare(graph, state, batch)


def test_a_limit_that_is_too_low__is_refused_with_the_least_that_would_do(tiny: None):
    graph, fitting = _case("gpt", 1).graph, _fitting("gpt", 1)
    with pytest.raises(
        TooLarge, match=rf"{fitting.least.size:,} with recomputation; the limit is 1,000 bytes"
    ) as refused:
        backend.prepare(graph, memory=1_000, name="native")
    assert refused.value.least == fitting.least.size < refused.value.plain == fitting.plain.size
    assert isinstance(refused.value, MemoryError)
    assert runner.prepare(graph, memory=refused.value.least).plan.size <= refused.value.least


def test_a_limit_that_is_no_limit__changes_nothing():
    graph = _case("gpt", 1).graph
    plain = runner.prepare(graph).plan
    assert runner.prepare(graph, memory=plain.size).plan.items == plain.items


def test_less_memory__is_more_work(tiny: None):
    fitting = _fitting("unclipped", 1)
    fitted = [fitting.within(int(share * fitting.plain.size)) for share in (1.0, 0.8, 0.6)]
    assert 0 == fitted[0].extra < fitted[1].extra < fitted[2].extra < recompute.MOST_WORK
    assert [len(each.step.items) for each in fitted] == sorted(len(each.step.items) for each in fitted)


def test_loss__of_a_limited_runner__shares_the_steps_memory(tiny: None):
    case = _case("gpt", 1)
    made = runner.prepare(case.graph, memory=_fitting("gpt", 1).least.size)
    for name, array in case.state.items():
        made.state[name][...] = array
    assert bits(made.loss(case.batches[0])) == case.losses[0]
    assert made._loss.arena is made.plan.arena
    assert bits(made.step(case.batches[0])) == case.losses[0]


def test_a_search_that_takes_too_long__ends(monkeypatch: pytest.MonkeyPatch, tiny: None):
    monkeypatch.setattr(recompute, "EFFORT", 10)
    graph = _case("gpt", 1).graph
    with pytest.raises(TooLarge):
        Fitting(graph).within(1_000)


@pytest.mark.parametrize("name", ["numba", "reference"])
def test_other_backends__ignore_the_limit(name: str):
    graph, _, batch = STEPS["norm"]()
    assert math.isfinite(backend.prepare(graph, memory=1, name=name).step(batch))


def test_place_tightly__puts_a_small_early_value_beside_large_ones():
    sizes = {0: 64, 1: 128, 2: 128, 3: 64}

    def making(target: int, *read: int) -> Item:
        arguments: list[Argument] = [Memory(node, 0, (), axes_of((16,), (1,))) for node in read]
        return Group(1, 16, [Instruction("add", target, False, arguments)], {target: Memory(target, 0, (), ())})

    items = [making(0), making(1, 0), making(2, 1), making(3, 1, 2)]
    # Where each value takes the best hole when it is made, nothing ever fits where the first was.
    assert memory.place(items, sizes.__getitem__, [3], [])[1] == 64 + 128 + 128
    assert memory.place_tightly(items, sizes.__getitem__, [3], [])[1] == 128 + 128
