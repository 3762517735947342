"""The CUDA kernels on a real GPU: the reference's bits on every operator, the CPU kernels' on whole training steps."""

from __future__ import annotations

import numpy as np
import pytest

from repops.backend import prepare
from repops.conformance.programs import product
from repops.cuda import runner as cuda
from repops.cuda.driver import OutOfMemory, gpu
from repops.graph import Graph
from tests.support.programs.random_programs import fill, random_program
from tests.support.programs.table_programs import assert_agree, assert_elements, table

SAMPLES = table()


def runners(graph: Graph) -> list[cuda.CudaRunner]:
    return [cuda.prepare(graph, fused=fused) for fused in (True, False)]


@pytest.mark.parametrize("name", SAMPLES)
def test_kernels__of_every_operator__agree_with_the_reference(name: str) -> None:
    assert_agree(SAMPLES[name], runners(SAMPLES[name][0]))


@pytest.mark.parametrize("seed", range(5))
def test_program__random__agrees_with_the_reference(seed: int) -> None:
    graph = random_program(seed)
    sample = (graph, *fill(np.random.default_rng(seed), graph))
    assert_agree(sample, runners(sample[0]))


@pytest.mark.parametrize(
    ("sizes", "layout"),
    [
        ((1024, 1024, 1024), "tt"),
        ((1024, 1024, 1024), "ll"),
        ((2048, 2050, 700), "tl"),
        ((333, 1001, 2049), "xlz"),
        ((4, 3000, 5000), "tl"),
        ((48, 64, 64), "lt"),
    ],
)
def test_dot__of_real_sizes__agrees_with_the_reference(sizes: tuple[int, int, int], layout: str) -> None:
    graph, _, batch = product(*sizes, layout)
    runner = cuda.prepare(graph)
    runner.step(batch)
    assert_elements(graph, batch, runner.state["out"])
    rows, columns, _ = sizes
    assert (runner.state["out"].view(np.uint32).reshape(2, -1)[0] == 0x80000000).all(), (rows, columns)


def test_state__written_between_steps__is_what_the_next_step_reads() -> None:
    graph, state, batch = SAMPLES["regression"]
    ours, theirs = cuda.prepare(graph), prepare(graph, name="reference")
    for scale in (1.0, -0.5):
        for runner in (ours, theirs):
            for name, array in state.items():
                runner.state[name][...] = array * scale if array.dtype == np.float32 else array
        assert ours.step(batch) == theirs.step(batch)
        for name in state:
            assert ours.state[name].tobytes() == theirs.state[name].tobytes()


def test_state__of_a_runner_that_is_gone__can_still_be_read() -> None:
    graph, state, batch = SAMPLES["regression"]
    runner = cuda.prepare(graph)
    runner.state["weight"][...] = state["weight"]
    runner.loss(batch)
    weight = runner.state["weight"]
    del runner
    assert weight.tobytes() == state["weight"].tobytes()


def test_device__asked_for_more_state_than_is_free__refuses() -> None:
    with pytest.raises(OutOfMemory):
        gpu().shared(1 << 40)
