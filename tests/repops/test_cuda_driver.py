"""How the driver is called, against one that runs nothing but checks and counts (`fake_cuda_driver.c`)."""

from __future__ import annotations

import ctypes
import gc
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from repops.backend import NoBackend, prepare
from repops.cuda import driver, nvrtc
from tests.support.programs.table_programs import lookup_sample

SOURCE = Path(__file__).with_name("fake_cuda_driver.c")
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here to build the stand-in for the driver")


class FakeCompiler:
    """NVRTC's place: every source becomes the same image."""

    version = (13, 0)

    def target(self, capability: int) -> str:
        return f"sm_{capability}"

    def compile(self, source: str, target: str) -> bytes:
        assert target == "sm_90"
        return b"\x7fELF" + source.encode()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("driver") / "fake.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", str(SOURCE), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


@pytest.fixture
def fake(built: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ctypes.CDLL]:
    monkeypatch.setattr(driver, "_library", lambda: built)
    monkeypatch.setattr(nvrtc, "compiler", lambda major: FakeCompiler())
    monkeypatch.setenv("REPOPS_CACHE", str(tmp_path))
    driver.gpu.cache_clear()
    yield built
    gc.collect()
    driver.gpu.cache_clear()


def count(library: ctypes.CDLL, name: str) -> int:
    return ctypes.c_long.in_dll(library, f"fake_{name}").value


def test_runner__steps_and_goes__gives_everything_back(fake: ctypes.CDLL) -> None:
    graph, state, batch = lookup_sample()
    assert driver.gpu().name == "fake"
    runner = prepare(graph, name="cuda")
    for name, array in state.items():
        runner.state[name][...] = array
    runner.step(batch)
    launched = count(fake, "launches")
    runner.step(batch)
    assert count(fake, "launches") == launched, "the second step replays the first"
    assert count(fake, "replays") == 2
    runner.loss(batch)
    assert len(runner.trace(batch)) == len(graph.nodes)
    assert count(fake, "prefetched") >= 4 * sum(array.nbytes for array in state.values())
    table = runner.state["table"]
    del runner
    gc.collect()
    assert [count(fake, name) for name in ("memory", "modules", "graphs")] == [1, 0, 0], "the state alone is left"
    assert table.tobytes() == state["table"].tobytes()
    del table
    gc.collect()
    assert count(fake, "memory") == 0


def test_memory__more_than_there_is__is_refused_by_name(fake: ctypes.CDLL) -> None:
    with pytest.raises(driver.OutOfMemory, match="cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY"):
        driver.gpu().memory(1 << 40)
    with pytest.raises(driver.OutOfMemory, match="free"):
        driver.gpu().shared(1 << 40)


def test_words__written__are_read_back(fake: ctypes.CDLL) -> None:
    device = driver.gpu()
    memory, words = device.memory(5), np.arange(5, dtype=np.uint32)
    device.write(memory.address, words)
    assert (device.read(memory.address, 5) == words).all()


def test_facts__of_a_gpu__take_no_context(fake: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_driver_version", lambda: "550.54.15")
    assert driver.facts(0) == {
        "name": "fake", "uuid": "ab" * 16, "driver": "550.54.15", "cuda": "13.0", "nvrtc": "13.0",
    }  # fmt: skip
    assert not driver.gpu.cache_info().currsize


def test_gpu__that_is_not_there__says_what_is_missing(fake: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> ctypes.CDLL:
        raise NoBackend("no NVIDIA driver here")

    monkeypatch.setattr(driver, "_library", nothing)
    with pytest.raises(NoBackend, match="no NVIDIA driver"):
        prepare(lookup_sample()[0], name="cuda")
