"""The generated CUDA kernels, run on the CPU (`cuda_emulator`), against the reference executor, bit for bit."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from repops.backend import NoBackend
from repops.builder import Builder, View
from repops.conformance.programs import Sample, exchange, ordinary, product, program_returning
from repops.cuda import dots, nvrtc, reductions
from repops.cuda import plan as plans
from repops.cuda.runner import CudaRunner
from repops.cuda.source import distinct, templates
from repops.graph import BATCH_ROLE, F32, I32
from repops.operators import TABLE
from repops.words import PRIMITIVES
from tests.support.programs import samples
from tests.support.programs.cuda_emulator import Emulator, compiler
from tests.support.programs.random_programs import fill, random_program
from tests.support.programs.table_programs import assert_agree, assert_elements, table

emulated = pytest.mark.skipif(compiler() is None, reason="no g++ here to compile the generated kernels for the CPU")


def assert_emulation_agrees(sample: Sample, folder: Path) -> None:
    emulator = Emulator(folder)
    assert_agree(sample, [CudaRunner(sample[0], emulator, fused=fused) for fused in (True, False)])
    emulator.check_guards()


def test_words__every_primitive__has_a_function() -> None:
    for name in PRIMITIVES:
        assert f"DEVICE u32 w_{name}(" in templates()


SAMPLES = table()


@emulated
@pytest.mark.parametrize("name", SAMPLES)
def test_kernels__of_every_operator__agree_with_the_reference(name: str, tmp_path: Path) -> None:
    assert_emulation_agrees(SAMPLES[name], tmp_path)


def test_samples__between_them__hold_every_operator() -> None:
    assert {node.op for graph, _, _ in SAMPLES.values() for node in graph.nodes} == set(TABLE)


@emulated
@pytest.mark.parametrize(
    ("tile", "splits", "sizes", "layout"),
    [
        ((128, 128), False, (130, 132, 520), "tt"),
        ((128, 128), True, (128, 128, 516), "ll"),
        ((64, 64), False, (65, 66, 257), "tl"),
        ((64, 64), True, (64, 68, 300), "ltz"),
        ((32, 64), False, (33, 70, 21), "xt"),
        ((32, 64), True, (36, 64, 264), "lx"),
        ((32, 64), False, (12, 9, 8), "xlz"),
        ((32, 64), False, (32, 64, 16), "op"),
        (None, False, (1, 40, 600), "tl"),
        (None, True, (5, 3, 600), "xt"),
        (None, False, (3, 2, 0), "tt"),
        (None, False, (20, 70, 0), "tt"),
    ],
)
def test_dot__every_kernel_layout_and_rest__agrees(
    tile: tuple[int, int] | None,
    splits: bool,
    sizes: tuple[int, int, int],
    layout: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, _, batch = product(*sizes, layout)
    monkeypatch.setattr(dots, "ENOUGH_UNITS", 1 << 30 if splits else 0)
    if tile:
        monkeypatch.setattr(dots, "TILES", (tile,))
    emulator = Emulator(tmp_path)
    runner = CudaRunner(graph, emulator, fused=True)
    runner.state["out"][...] = 1  # what is never written shows
    runner.step(batch)
    emulator.check_guards()
    assert (f"gemm<kernel_0_is, {tile[0]}u, {tile[1]}u>" if tile else "dot_alone<kernel_0_is>") in emulator.sources[0]
    assert ("SPLIT = true" in emulator.sources[0]) == (splits and sizes[2] > 256)
    assert_elements(graph, batch, runner.state["out"])
    got = runner.state["out"].reshape(-1).view(np.uint32)
    if sizes[2]:
        assert (got[: got.size // 2] == 0x80000000).all(), "the first batch underflows to -0"


@emulated
def test_scatter__more_terms_than_are_linked__walks_columns_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = Builder()
    table, index, value = (
        b.input(dtype, shape, BATCH_ROLE, at)
        for at, (dtype, shape) in enumerate([(F32, (4, 3)), (I32, (9,)), (F32, (9, 3))])
    )
    graph = program_returning(
        b, {"after": b.scatter(table, 0, index, value, adds=True)}, {"t": table, "i": index, "v": value}
    )
    rng = np.random.default_rng(5)
    batch = {"t": ordinary(rng, (4, 3)), "i": rng.integers(-1, 5, 9).astype(np.int32), "v": ordinary(rng, (9, 3))}
    monkeypatch.setattr(reductions, "MAX_LINKED", 8)
    assert_emulation_agrees((graph, {}, batch), tmp_path)


@emulated
@pytest.mark.parametrize("seed", range(3))
def test_program__random__agrees(seed: int, tmp_path: Path) -> None:
    graph = random_program(seed)
    assert_emulation_agrees((graph, *fill(np.random.default_rng(seed), graph)), tmp_path)


def test_plan__state_swapped_shared_and_read_late__is_saved_and_copied() -> None:
    graph, _, _ = exchange()
    plan = plans.make(graph, [graph.loss, *(e.after for e in graph.state)], fused=True, updates=True)
    assert len(plan.saved) == 3
    assert len(plan.home) == 1


def test_plan__a_long_chain__is_few_kernels_and_little_memory() -> None:
    graph = samples.long_chain(1000)
    wanted = [graph.loss, *(entry.after for entry in graph.state)]
    fused = plans.make(graph, wanted, fused=True, updates=True)
    plain = plans.make(graph, wanted, fused=False, updates=True)
    assert len(fused.units) * 8 < len(plain.units)
    assert plain.arena <= 8 * plans.ALIGNMENT


def test_plan__everything_alive_at_once__never_overlaps() -> None:
    """An interval check that knows nothing of how places were found."""
    graph = samples.lookup()
    plan = plans.make(graph, [graph.loss, *(entry.after for entry in graph.state)], fused=False, updates=True)
    unit_of = {at: number for number, unit in enumerate(plan.units) for at in unit.members}
    lives = []
    for at, place in plan.addresses.items():
        readers = [unit_of[r] for r in unit_of if any(o.node == at for o in graph.nodes[r].operands)]
        wanted = at == graph.loss or any(entry.after == at for entry in graph.state)
        lives.append((unit_of[at], len(plan.units) if wanted else max(readers), place, graph.nodes[at].elements))
    lives += [(unit, unit, place, plan.units[unit].scratch[name]) for (unit, name), place in plan.scratch.items()]
    assert len(lives) > 8
    for (s, e, p, n), (s2, e2, p2, n2) in itertools.combinations(lives, 2):
        assert e < s2 or e2 < s or p + n <= p2 or p2 + n2 <= p


def test_source__equal_layers__are_compiled_once() -> None:
    b = Builder()
    x = b.input(F32, (64, 64), BATCH_ROLE, 0)
    y: View = x
    for _ in range(6):
        y = b.matmul(b.map("max", y, 0.0), x)
    graph = b.finish([], [("x", x)], b.sum(y, [0, 1]))
    plan = plans.make(graph, [graph.loss], fused=True, updates=False)
    texts, names = distinct([kernel for unit in plan.units for kernel in unit.kernels])
    assert len(names) == 13
    assert len(texts) <= 4


def nvrtc_here() -> nvrtc.Compiler | None:
    try:
        return nvrtc.compiler(99)
    except NoBackend:
        return None


needs_nvrtc = pytest.mark.skipif(
    nvrtc_here() is None, reason="no libnvrtc here; `pip install nvidia-cuda-nvrtc` brings one"
)


@needs_nvrtc
@pytest.mark.parametrize("capability", [75, 80, 86, 89, 90, 100, 120])
def test_source__of_every_operator__compiles_to_machine_code(capability: int) -> None:
    tool = nvrtc_here()
    assert tool is not None
    assert tool.target(capability) == f"sm_{capability}"
    for graph, _, _ in [*SAMPLES.values(), product(256, 256, 512, "tl")]:
        wanted = [graph.loss, *(entry.after for entry in graph.state)]
        plan = plans.make(graph, wanted, fused=True, updates=True)
        texts, _ = distinct([*(kernel for unit in plan.units for kernel in unit.kernels), *plan.copies])
        image = tool.compile("\n".join([templates(), *texts.values()]), f"sm_{capability}")
        assert image.startswith(b"\x7fELF")


ROUNDED = re.compile(r"\b(?:add|sub|mul|div|fma|mad|sqrt|rcp|rsqrt|ex2|lg2|sin|cos|tanh)(?:\.\w+)*\.f32\b")


@needs_nvrtc
def test_source__compiled__rounds_to_nearest_and_neither_flushes_nor_approximates() -> None:
    """What -fmad, -ftz, -prec-div and -prec-sqrt could spoil, read off the machine-independent code."""
    tool, rounded = nvrtc_here(), set[str]()
    assert tool is not None
    for graph, _, _ in [*SAMPLES.values(), product(256, 256, 512, "tl")]:
        plan = plans.make(graph, [graph.loss, *(e.after for e in graph.state)], fused=True, updates=True)
        texts, _ = distinct([*(kernel for unit in plan.units for kernel in unit.kernels), *plan.copies])
        image = tool.compile("\n".join([templates(), *texts.values()]), f"compute_{tool.architectures()[0]}")
        rounded |= set(ROUNDED.findall(image.decode()))
        assert b".ftz" not in image
    assert rounded == {f"{name}.rn.f32" for name in ("add", "sub", "mul", "div", "fma", "sqrt")}


def test_compiler__where_there_is_none_the_driver_takes__says_what_to_install() -> None:
    nvrtc.compiler.cache_clear()
    with pytest.raises(NoBackend, match="pip install nvidia-cuda-nvrtc"):
        nvrtc.compiler(1)


class _Tool:
    """A substitute for NVRTC."""

    version = (12, 9)

    def __init__(self) -> None:
        self.runs = 0

    def compile(self, source: str, target: str) -> bytes:
        self.runs += 1
        return f"{target} {source}".encode()


def test_cache__damaged_file__is_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPOPS_CACHE", str(tmp_path / "cache"))
    tool = _Tool()
    for _ in range(2):
        assert nvrtc.compiled(tool, "text", "sm_90") == b"sm_90 text"  # type: ignore[arg-type]
    assert tool.runs == 1
    assert nvrtc.compiled(tool, "text", "sm_80") == b"sm_80 text"  # type: ignore[arg-type]
    (kept,) = (tmp_path / "cache").glob("*.sm_90")
    kept.write_bytes(kept.read_bytes()[:-1] + b"!")
    assert nvrtc.compiled(tool, "text", "sm_90") == b"sm_90 text"  # type: ignore[arg-type]
    assert tool.runs == 3
    assert len(list((tmp_path / "cache").iterdir())) == 2
