"""`make gpu` where there is no GPU, and with a machine that is made up: what fails costs no other's figures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.arithmetic import cuda, gpu
from benchmarks.arithmetic.gpu import PARTS, PartFailed, Tools, counted, measure
from benchmarks.arithmetic.models import TINY
from repops.backend import NoBackend, prepare
from repops.cuda import driver
from tests.support.programs.cuda_emulator import Emulator, compiler
from tests.support.waiting import ended

ROOT = Path(__file__).resolve().parents[2]
REPORT = """<testsuites><testsuite name="pytest">
<testcase name="test_a" /><testcase name="test_b"><failure message="no">x</failure></testcase>
<testcase name="test_c"><skipped /></testcase><testcase name="test_d"><error /></testcase>
</testsuite></testsuites>"""


class Machine:
    """Answers a part's commands as a machine with a card would. replies: by a word of the command, in place of the good ones."""

    def __init__(self, **replies: Any) -> None:
        self.replies, self.commands, self.now = replies, list[str](), 0.0

    def run(self, command: Sequence[str], environment: dict[str, str], most_s: float) -> str:
        text = " ".join(command[1:])
        self.commands.append(text)
        self.now += 10
        for word, reply in self.replies.items():
            if word in text:
                if isinstance(reply, Exception):
                    raise reply
                return str(reply)
        return self._good(text)

    def _good(self, text: str) -> str:
        if "repops.conformance" in text:
            return '{"done": 0, "of": 2, "program": "a"}\n{"cases": 212, "differing": []}\n'
        if "pytest" in text:
            Path(text.rpartition("--junitxml=")[2]).write_text('<testsuite><testcase name="test_a" /></testsuite>')
            return "1 passed"
        if "cuda.py" in text:
            part = text.split()[1]
            return json.dumps({"device": "card", "target": "sm_90", "torch": "2", f"{part}_figure": 0.5})
        if "node.admission.benchmark" in text:
            on_card = "cuda:0" in text
            return json.dumps(
                {"root": "aa", "step_s": 0.1 if on_card else 2.0, "flops_per_s": 9e12, "computes_on": "cuda:0"}
            )
        return "hash\n"


def measured(machine: Machine, **options: Any) -> tuple[bool, dict[str, Any], list[dict[str, Any]]]:
    """Whether all is well, the result, and what was written after each part."""
    written: list[dict[str, Any]] = []
    result: dict[str, Any] = {}
    tools = Tools(machine.run, clock=lambda: machine.now, **options)
    good = measure(tools, result, lambda measured_run: written.append(json.loads(json.dumps(measured_run))), PARTS)
    return good, result, written


def test_all_parts__on_a_card__are_in_one_result() -> None:
    good, result, written = measured(Machine())
    assert good
    assert result["failed"] == {}
    assert result["conformance"] == {"cases": 212, "differing": []}
    assert result["tests"] == {"passed": 1, "failed": 0, "skipped": 0, "failures": []}
    assert result["figures"]["matmul_figure"] == 0.5
    assert result["figures"]["node_step_over_cpu"] == pytest.approx(0.05)
    assert result["figures"]["bits_200_steps"] is True
    assert set(result["seconds"]) == set(PARTS)
    assert len(written) == len(PARTS)
    assert "figures" in written[0]


def test_one_part_that_fails__costs_no_others_figures_and_is_named() -> None:
    good, result, written = measured(Machine(matmul=PartFailed("signal 11: cuLaunchKernel"), conformance="no object"))
    assert not good
    assert result["failed"] == {"conformance": "printed no JSON object", "matmul": "signal 11: cuLaunchKernel"}
    assert result["figures"]["step_figure"] == 0.5
    assert result["tests"]["passed"] == 1
    assert written[-1] == result


@pytest.mark.parametrize(
    "replies",
    [
        {"conformance": '{"cases": 212, "differing": ["sweep: exp"]}'},
        {"operators": '{"bits_operators": false}'},
        {"node.admission.benchmark --json --device cpu": '{"root": "bb", "step_s": 1}'},
    ],
)
def test_a_wrong_bit_anywhere__is_no_success(replies: dict[str, str]) -> None:
    good, result, _ = measured(Machine(**replies))
    assert not good
    assert result["failed"] == {}


def test_failed_tests__are_counted_by_name_though_pytest_fails() -> None:
    class Failing(Machine):
        def _good(self, text: str) -> str:
            if "pytest" in text:
                Path(text.rpartition("--junitxml=")[2]).write_text(REPORT)
                raise PartFailed("exit code 1")
            return super()._good(text)

    good, result, _ = measured(Failing())
    assert not good
    assert result["tests"] == {"passed": 1, "failed": 2, "skipped": 1, "failures": ["test_b", "test_d"]}
    assert counted(REPORT)["failed"] == 2


def test_time_that_runs_out__leaves_the_last_parts_and_says_so() -> None:
    good, result, _ = measured(Machine(), budget_s=45.0)
    assert not good
    assert result["conformance"]["cases"] == 212
    assert result["failed"]["compile"] == "not begun: no time was left"


def test_a_command__that_hangs__is_ended_with_what_it_started(tmp_path: Path) -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(3600)'])"
    with pytest.raises(PartFailed, match="took more than 2 s"):
        ended(lambda: gpu.run([sys.executable, "-c", script], {}, 2.0))


def test_a_command__that_crashes__is_told_without_this_machines_paths() -> None:
    with pytest.raises(PartFailed) as crashed:
        gpu.run([sys.executable, "-c", "open('/home/me/of.this/machine.txt')"], {}, 60.0)
    assert str(crashed.value) == "exit code 1: FileNotFoundError: [Errno 2] No such file or directory: 'machine.txt'"
    with pytest.raises(PartFailed, match="signal 11"):
        gpu.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"], {}, 60.0)


@pytest.mark.parametrize(("required", "code"), [((), 0), (("--required",), 1)])
def test_without_a_gpu__nothing_is_written_and_a_person_sees_it(
    required: tuple[str, ...],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def none(ordinal: int) -> None:
        raise NoBackend("no NVIDIA driver here")

    monkeypatch.setattr(driver, "facts", none)
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--out", str(tmp_path / "gpu.json"), *required])
    assert gpu.main() == code
    assert "NOTHING WAS MEASURED: no NVIDIA driver here" in capsys.readouterr().out
    assert not (tmp_path / "gpu.json").exists()


def test_with_a_gpu__the_result_says_of_what_and_has_no_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Card:
        target = "sm_90"

    monkeypatch.setattr(driver, "facts", lambda ordinal: {"name": "card", "uuid": "ab", "driver": "550.54"})
    monkeypatch.setattr(driver, "gpu", lambda ordinal: Card())
    monkeypatch.setattr(gpu, "run", Machine(step=PartFailed("exit code 1: /home/me/cuda.py broke")).run)
    out = tmp_path / "results" / "gpu.json"
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--out", str(out)])
    assert gpu.main() == 1
    assert "NOT ALL IS WELL" in capsys.readouterr().err
    result = json.loads(out.read_text())
    assert result["device"] == {"name": "card", "driver": "550.54", "target": "sm_90"}
    assert result["versions"]["torch"]
    assert result["failed"] == {"step": "exit code 1: cuda.py broke"}
    assert "/home" not in out.read_text()


def test_gpu_tests__are_collected_without_touching_a_driver() -> None:
    """Their modules may be imported by anything; a driver is asked when a test is to run."""
    code = (
        "import ctypes; real = ctypes.CDLL.__init__\n"
        "def refuse(self, name, *a, **k):\n"
        "    assert not any(w in str(name) for w in ('libcuda.so', 'nvrtc', 'nvidia-ml')), name\n"
        "    real(self, name, *a, **k)\n"
        "ctypes.CDLL.__init__ = refuse\n"
        "import tests.gpu.conftest, tests.gpu.test_cuda_bits, tests.gpu.test_training_gpu\n"
        "import torch; assert not torch.cuda.is_initialized()\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_gpu_tests__without_a_gpu__say_why_they_are_skipped() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:ape_test", "tests/gpu/test_training_gpu.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0 or "failed" in ran.stdout, ran.stderr
    assert "passed" in ran.stdout or "no GPU to test here: " in ran.stdout


# --- benchmarks/arithmetic/cuda.py, without a card


@pytest.fixture
def emulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU's kernels on the CPU, and a torch without CUDA."""
    if compiler() is None:
        pytest.skip("no g++ here to compile the generated kernels for the CPU")
    device = Emulator(tmp_path)
    monkeypatch.setattr(cuda, "gpu", lambda: device)
    monkeypatch.setattr(cuda.torch.cuda, "is_available", lambda: False)


def test_cuda_benchmark__product_on_a_torch_without_cuda__is_compared_with_the_cpu_alone(emulated: None) -> None:
    figures = cuda.matmul(32)
    assert set(figures) == {"matmul_32_tflops", "matmul_32_over_cpu"}
    assert all(value > 0 for value in figures.values())


def test_cuda_benchmark__step_on_a_torch_without_cuda__is_compared_with_the_cpu_alone(
    emulated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "prepare_cuda", prepare)
    monkeypatch.setattr(
        cuda, "interleaved", lambda timed, *_: {name: 0.003 for name, run in timed.items() if run() > 0}
    )
    monkeypatch.setattr(cuda, "on_cpu", lambda run: 0.002 if run() > 0 else 0.0)
    figures = cuda.step("gpt_tiny", TINY)
    assert figures == pytest.approx({"step_gpt_tiny_ms": 3.0, "step_gpt_tiny_over_cpu": 1.5}), "both steps have a loss"
