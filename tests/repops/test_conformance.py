"""The conformance programs hold every operator and reach every kernel, and one wrong bit is noticed."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from repops import operators, reference
from repops.backend import DTYPE, NoBackend, Runner, prepare
from repops.commitments import Array
from repops.conformance import __main__ as command
from repops.conformance.compare import compare, training
from repops.conformance.programs import LARGE, SMALL, Sample
from repops.cuda import plan as plans
from repops.cuda.runner import CudaRunner
from repops.graph import Graph
from tests.repops.bit_flipping_runner import BitFlippingRunner
from tests.support.programs.cuda_emulator import Emulator, compiler

TRAINING = Path(__file__).parents[2] / "node" / "generated" / "benchmark.repops"
SAMPLES: dict[str, Sample] = {name: make() for name, make in SMALL.items()}


def uncovered() -> set[str]:
    """Operators of the table that no small program has."""
    return set(operators.TABLE) - {node.op for graph, _, _ in SAMPLES.values() for node in graph.nodes}


def test_programs__between_them__hold_every_operator() -> None:
    assert not uncovered()


def test_programs__a_new_operator_without_a_case__is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(operators.TABLE, "median", operators.TABLE["sum"])
    assert uncovered() == {"median"}


def test_programs__between_them__reach_every_kernel_of_a_gpu() -> None:
    texts = set()
    for graph, _, _ in [make() for make in (SMALL | LARGE).values()]:
        wanted = [graph.loss, *(entry.after for entry in graph.state)]
        plan = plans.make(graph, wanted, fused=True, updates=True)
        texts |= {kernel.text for unit in plan.units for kernel in unit.kernels}
    products = {
        (match[1], "SPLIT = true" in text)
        for text in texts
        if (match := re.search(r"(gemm<KERNEL_NAME_is, \d+u, \d+u>|dot_alone)", text))
    }
    tiles = [f"gemm<KERNEL_NAME_is, {height}u, {width}u>" for height, width in ((128, 128), (64, 64), (32, 64))]
    assert products == {(how, splits) for how in [*tiles, "dot_alone"] for splits in (False, True)}
    whole = "\n".join(texts)
    for name in ("add_blocks(", "fold_in_order<", "fold_in_lanes<", "walk_column<", "link_terms<", "follow_links<"):
        assert name in whole
    for lies in ("true", "false"):
        assert f"OUT_VECTOR = {lies}" in whole
        for reads in ("true", "false"):
            assert f"ALONG_TERMS = {lies}; static constexpr bool VECTOR = {reads}" in whole
    assert any(text.count("const u32 t") > 200 for text in texts), "a long chain in one kernel"


def test_values__meet_what_arithmetic_dislikes() -> None:
    _, _, batch = SAMPLES["elementwise"]
    words = {int(word) for array in batch.values() if array.dtype == np.float32 for word in array.view(np.uint32).flat}
    for odd in (0x80000000, 0x00000001, 0x807FFFFF & 0x007FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001):
        assert odd in words
    graph, state, batch = LARGE["long reductions"]()
    runner = filled(prepare(graph), state)
    runner.step(batch)
    huge, deep = runner.state["sum/huge/1"], runner.state["sum/deep/1"]
    assert not np.isfinite(huge).all(), "a sum beyond float32"
    assert (abs(deep) > 0).all(), "a sum of subnormals, which a device that flushes them makes 0"
    assert (abs(deep) < 2.0**-126).all()


def filled(runner: Runner, state: Mapping[str, Array]) -> Runner:
    for name, array in state.items():
        runner.state[name][...] = array
    return runner


@pytest.mark.parametrize("name", SMALL)
def test_the_cpus_kernels__agree_with_the_reference(name: str) -> None:
    graph = SAMPLES[name][0]
    cases = compare(SAMPLES[name], prepare(graph), reference.prepare(graph))
    assert [case for case, agrees in cases.items() if not agrees] == []


@pytest.mark.skipif(compiler() is None, reason="no g++ here to compile the generated kernels for the CPU")
@pytest.mark.parametrize("name", ["chains", *(name for name in SMALL if name.startswith("product"))])
def test_the_gpus_kernels__emulated__agree_with_the_cpu(name: str, tmp_path: Path) -> None:
    """The other small programs are those of test_cuda_source."""
    graph = SAMPLES[name][0]
    cases = compare(SAMPLES[name], CudaRunner(graph, Emulator(tmp_path), fused=True), prepare(graph))
    assert [case for case, agrees in cases.items() if not agrees] == []


@pytest.mark.parametrize("op", operators.TABLE)
def test_one_operator_wrong_by_one_bit_in_one_element__is_noticed_and_named(op: str) -> None:
    noticed = False
    for sample in SAMPLES.values():
        if any(node.op == op for node in sample[0].nodes):
            wrong = BitFlippingRunner(sample, op)
            cases = compare(sample, wrong, prepare(sample[0]))
            assert {case for case, agrees in cases.items() if not agrees} <= {op, "loss", "step"}
            noticed = noticed or (wrong.flips > 0 and not cases[op])
    assert noticed


class LateFault:
    """Right in its trace and its loss; in the second step one bit of one state is wrong: a fault of a fused kernel."""

    def __init__(self, graph: Graph) -> None:
        self._runner, self._steps = prepare(graph), 0
        self.state, self.loss, self.trace = self._runner.state, self._runner.loss, self._runner.trace

    def step(self, batch: Mapping[str, Array], *, threads: int = 1) -> float:
        loss = self._runner.step(batch, threads=threads)
        self._steps += 1
        if self._steps == 2:
            next(array for array in self.state.values() if array.size).reshape(-1).view(np.uint32)[0] ^= 1
        return loss


def test_a_fault_of_the_second_step_alone__is_noticed() -> None:
    sample = SAMPLES["convolutions"]
    cases = compare(sample, LateFault(sample[0]), prepare(sample[0]))  # type: ignore[arg-type]
    assert {case for case, agrees in cases.items() if not agrees} == {"step"}


def test_training__runs_finite_steps_that_change_the_weights() -> None:
    graph, state, batch = training(TRAINING)
    runner = filled(prepare(graph), state)
    losses = [runner.step(batch) for _ in range(2)]
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[1] < losses[0], "the second step starts from other weights"
    assert {array.dtype for array in batch.values()} <= set(DTYPE.values())


def test_command__one_program_differs__names_it_after_all_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {name: SMALL[name] for name in ("indexed", "convolutions")}
    monkeypatch.setattr(command, "SMALL", kept)
    monkeypatch.setattr(command, "LARGE", {})
    of_graph = {len(sample[0].nodes): sample for sample in SAMPLES.values()}
    made = command.checks("cuda:0", lambda graph: BitFlippingRunner(of_graph[len(graph.nodes)], "dot"), None)
    *progress, last = list(command.answers(made))
    assert [line["program"] for line in progress] == ["cpu indexed", "cpu convolutions", "indexed", "convolutions"]
    assert "convolutions: dot" in last["differing"]
    assert not any(name.startswith(("cpu", "indexed")) for name in last["differing"])
    assert last["cases"] == 2 * (11 + 7)


@pytest.mark.parametrize(("raised", "out_of_memory"), [(MemoryError(), True), (NoBackend("no driver"), False)])
def test_command__a_device_that_refuses__is_an_answer_and_no_traceback(
    raised: Exception, out_of_memory: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(device: str) -> None:
        raise raised

    monkeypatch.setattr(command, "prepare_on", refuse)
    monkeypatch.setattr(sys, "argv", ["conformance", "--device", "cuda:0"])
    assert command.main() == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"error": str(raised) or "MemoryError", "out_of_memory": out_of_memory}


def test_command__a_device_without_kernels__says_so() -> None:
    with pytest.raises(NoBackend, match="no kernels for mps"):
        command.prepare_on("mps")
