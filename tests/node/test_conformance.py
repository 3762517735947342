"""A device is used only after it computed the CPU's bits here; what it did is kept, and a check that dies harms nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from node import conformance, conformance_process, device
from node.cli import conformance as command
from node.conformance import ConformanceResult, check, kept
from node.device import computes_on
from node.errors import NoDevice
from node.hardware import CPU, Device, device_named
from repops.backend import NoBackend
from repops.conformance import source_digest
from repops.cuda import driver
from tests.support.waiting import HANG_S
from zoo_compute.cli.context import Settings

CUDA = Device("cuda", 0)
FACTS = {"name": "NVIDIA Imaginary", "uuid": "ab" * 16, "driver": "550.54.15", "cuda": "12.4", "nvrtc": "12.4"}
RIGHT = {"cases": 212, "differing": []}
WRONG = {"cases": 212, "differing": ["sweep: exp", "product 7x3000x5000 tl: dot", "product 7x3000x5000 tl: step"]}


class Examiner:
    """Stands in for the run on a device; counts how often it was asked."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer, self.runs = answer, 0

    def __call__(self, device: str, say: Callable[[str], None]) -> dict[str, Any]:
        self.runs += 1
        return self.answer


@pytest.fixture(autouse=True)
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A machine with one NVIDIA card, whose facts a test may change."""
    facts = dict(FACTS)
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(driver, "facts", lambda ordinal: dict(facts))
    monkeypatch.setattr(driver, "gpu", lambda ordinal: None)
    computes_on.cache_clear()
    yield facts
    computes_on.cache_clear()


def test_a_device__that_computes_the_cpus_bits__is_used_and_not_checked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(conformance_process, "examine", examine := Examiner(RIGHT))
    with caplog.at_level("WARNING"):
        for _ in range(3):
            computes_on.cache_clear()  # as another process of this machine would find it
            assert computes_on(CUDA) == CUDA
    assert examine.runs == 1
    assert caplog.text == ""


def test_a_worker__checks_its_card_before_work_and_outlives_one_that_is_absent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(conformance_process, "examine", examine := Examiner(RIGHT))
    monkeypatch.setattr(device, "pick_device", lambda name: CUDA)
    with caplog.at_level("INFO"):
        device.ensure_checked(None)
    assert examine.runs == 1
    assert "programs run on cuda:0" in caplog.text
    monkeypatch.undo()
    device.ensure_checked("gpu0")
    assert "device 'gpu0': expected cpu" in caplog.text


def test_a_device__with_one_wrong_bit__leaves_the_work_to_the_cpu_and_says_why_in_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(conformance_process, "examine", examine := Examiner(WRONG))
    with caplog.at_level("WARNING"):
        assert computes_on(CUDA) == computes_on(CUDA) == CPU
    (record,) = caplog.records
    assert record.getMessage() == (
        "NVIDIA Imaginary: 3 of 212 cases differ from the CPU (exp, dot); programs run on the CPU, with the same bits. "
        f"Please report it with {conformance.record_path_of(FACTS)}"
    )
    assert examine.runs == 1
    computes_on.cache_clear()
    assert computes_on(CUDA) == CPU
    assert examine.runs == 1, "what differed once is not tried again"


@pytest.mark.parametrize("fact", ["name", "uuid", "driver", "cuda", "nvrtc"])
def test_the_check__is_repeated__when_card_driver_or_compiler_change(fact: str, card: dict[str, str]) -> None:
    examine = Examiner(RIGHT)
    assert check(CUDA, examine=examine).conformed
    card[fact] = "another"
    assert kept(CUDA).why == conformance.UNCHECKED
    examine.answer = WRONG
    assert not check(CUDA, examine=examine).conformed
    assert examine.runs == 2


@pytest.mark.parametrize(
    ("where", "name"), [(conformance, "source_digest"), (conformance, "_release"), (torch, "__version__")]
)
def test_the_check__is_repeated__when_our_kernels_or_torch_change(
    where: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    examine = Examiner(RIGHT)
    check(CUDA, examine=examine)
    monkeypatch.setattr(where, name, "2.99" if name == "__version__" else lambda: "another")
    check(CUDA, examine=examine)
    assert examine.runs == 2


def test_two_cards__that_take_turns_as_number_0__keep_a_result_each(card: dict[str, str]) -> None:
    examine = Examiner(RIGHT)
    for uuid in ("aa" * 16, "bb" * 16, "aa" * 16, "bb" * 16):
        card["uuid"] = uuid
        assert check(CUDA, examine=examine).conformed
    assert examine.runs == 2


def test_the_check__asked_for_again__runs_although_a_result_is_kept() -> None:
    examine = Examiner(WRONG)
    check(CUDA, examine=examine)
    examine.answer = RIGHT
    assert not check(CUDA, examine=examine).conformed
    assert check(CUDA, again=True, examine=examine).conformed
    assert kept(CUDA).conformed
    assert examine.runs == 2


def test_a_check_that_dies__is_tried_once_more_and_then_no_more() -> None:
    examine = Examiner({"died": "ended by SIGSEGV, at program 'sweep'"})
    for _ in range(4):
        result = check(CUDA, examine=examine)
        assert not result.conformed
        assert "the check of its bits ended by SIGSEGV, at program 'sweep'; programs run on the CPU" in result.line
        assert "`zoo node conformance --again`" in result.line
    assert examine.runs == conformance.TRIES == 2


def test_a_machine_that_goes_down_in_the_check__counts_as_not_conformed(monkeypatch: pytest.MonkeyPatch) -> None:
    def goes_down(device: str, say: Callable[[str], None]) -> dict[str, Any]:
        conformance.record_path_of(FACTS).with_suffix(".bak").write_bytes(
            conformance.record_path_of(FACTS).read_bytes()
        )
        return RIGHT

    def after_reboot(number: int) -> None:
        os.replace(conformance.record_path_of(FACTS).with_suffix(".bak"), conformance.record_path_of(FACTS))
        monkeypatch.setattr(conformance, "_boot", lambda: f"boot {number}")

    for number in range(conformance.TRIES):
        check(CUDA, again=number == 0, examine=goes_down)
        after_reboot(number)
    examine = Examiner(RIGHT)
    result = check(CUDA, examine=examine)
    assert (result.conformed, examine.runs) == (False, 0)
    assert "the machine went down while its bits were checked" in result.line


def test_a_check_whose_process_was_ended__runs_again_and_blames_nobody() -> None:
    def interrupted(device: str, say: Callable[[str], None]) -> dict[str, Any]:
        raise KeyboardInterrupt

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            check(CUDA, examine=interrupted)
    assert check(CUDA, examine=Examiner(RIGHT)).conformed


def test_a_check_killed_with_its_whole_process__runs_again_on_the_same_boot() -> None:
    check(CUDA, examine=Examiner(RIGHT))
    path = conformance.record_path_of(FACTS)
    for deaths in range(1, 4):
        path.write_text(json.dumps({**json.loads(path.read_text()), "status": "running", "deaths": deaths}))
        assert check(CUDA, examine=Examiner(RIGHT)).conformed


def test_too_little_free_memory__is_of_the_moment_and_not_kept() -> None:
    examine = Examiner({"error": "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY", "out_of_memory": True})
    result = check(CUDA, examine=examine)
    assert (result.conformed, result.kept) == (False, "")
    assert "OUT_OF_MEMORY" in result.line
    assert kept(CUDA).why == conformance.UNCHECKED
    examine.answer = RIGHT
    assert check(CUDA, examine=examine).conformed


@pytest.mark.parametrize("content", [b"", b"no json", b"[]", b"\xff"])
def test_a_damaged_record__is_as_none(content: bytes) -> None:
    conformance.record_path_of(FACTS).parent.mkdir(parents=True)
    conformance.record_path_of(FACTS).write_bytes(content)
    assert check(CUDA, examine=Examiner(RIGHT)).conformed


def test_a_home_that_cannot_be_written__costs_a_check_and_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "file"))
    result = check(CUDA, examine=Examiner(RIGHT))
    assert (result.conformed, result.kept) == (True, "")


@pytest.mark.parametrize(
    ("device", "hip", "said"),
    [
        ("mps", None, "Apple GPU (MPS): this release has no kernels for mps; programs run on the CPU, with the same bits"),
        ("cuda:0", "6.4", "cuda:0: this release has no kernels for AMD GPUs; programs run on the CPU, with the same bits"),
        ("xpu", None, "xpu: this release has no kernels for xpu; programs run on the CPU, with the same bits"),
    ],
)  # fmt: skip
def test_a_device_without_kernels__computes_on_the_cpu_and_says_so(
    device: str, hip: str | None, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.version, "hip", hip)
    with caplog.at_level("WARNING"):
        assert computes_on(device_named(device)) == CPU
    assert [record.getMessage() for record in caplog.records] == [said]


def test_a_driver_that_is_missing_or_fails__computes_on_the_cpu_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_driver(ordinal: int) -> None:
        raise NoBackend(f"no NVIDIA driver here for {ordinal}")

    monkeypatch.setattr(driver, "facts", no_driver)
    with caplog.at_level("WARNING"):
        assert computes_on(Device("cuda", 1)) == CPU
    assert "cuda:1: no NVIDIA driver here for 1; programs run on the CPU, with the same bits" in caplog.text
    monkeypatch.setattr(driver, "facts", lambda ordinal: FACTS)
    monkeypatch.setattr(driver, "gpu", no_driver)
    monkeypatch.setattr(conformance_process, "examine", Examiner(RIGHT))
    computes_on.cache_clear()
    with caplog.at_level("WARNING"):
        assert computes_on(CUDA) == CPU
    assert "NVIDIA Imaginary: no NVIDIA driver here for 0; programs run on the CPU" in caplog.text


@pytest.mark.parametrize(("built_for", "advice"), [(None, "in place of this one"), ("12.4", "new enough for it")])
def test_a_card_that_torch_cannot_use__is_named_once(
    built_for: str | None, advice: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(driver, "name_of", lambda ordinal: "NVIDIA Imaginary")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", built_for)
    device._say_unused.cache_clear()
    with caplog.at_level("WARNING"):
        assert device.pick_device() == device.pick_device() == CPU
    device._say_unused.cache_clear()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"NVIDIA Imaginary: torch {torch.__version__} cannot use it; programs run on the CPU")
    assert advice in line


WAITS = """
import sys, time, pathlib
from node import conformance
from node.hardware import Device
from repops.cuda import driver
from zoo_compute.cli.context import Settings
driver.facts = lambda ordinal: {"name": "card", "uuid": "ab", "driver": "1"}
def examine(device, say):
    with pathlib.Path(sys.argv[1]).open("a") as file:
        file.write("run\\n")
    time.sleep(2)
    return {"cases": 1, "differing": []}
print(conformance.check(Device("cuda", 0), say=print, examine=examine).conformed)
"""


def test_workers_of_one_machine__check_a_card_once_and_share_the_result(tmp_path: Path) -> None:
    ran = [
        subprocess.Popen([sys.executable, "-c", WAITS, str(tmp_path / "runs")], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    outputs = [process.communicate(timeout=HANG_S)[0] for process in ran]
    assert all(text.endswith("True\n") for text in outputs)
    assert (tmp_path / "runs").read_text() == "run\n"
    assert sum("another process checks it" in text for text in outputs) <= 2


# --- the commands


def run(*arguments: str) -> int:
    return int(command.main(args=list(arguments), standalone_mode=False, obj=Settings()))


def test_command__prints_the_verdict_and_where_it_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("node.device.pick_device", lambda name: CUDA)
    monkeypatch.setattr(conformance_process, "examine", examine := Examiner(WRONG))
    assert run("--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert {key: answer[key] for key in ("device", "computes_on", "conformed", "cases", "driver")} == {
        "device": "cuda:0", "computes_on": "cpu", "conformed": False, "cases": 212, "driver": "550.54.15",
    }  # fmt: skip
    assert answer["differing"] == WRONG["differing"]
    assert json.loads(Path(answer["kept"]).read_text())["facts"]["driver"] == "550.54.15"
    examine.answer = RIGHT
    assert run("--again") == 0
    assert examine.runs == 2
    assert "computes_on  cuda:0" in capsys.readouterr().out


def test_command__a_device_without_kernels__is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("node.device.pick_device", lambda name: Device("mps"))
    assert run() == 0
    assert "this release has no kernels for mps" in capsys.readouterr().out


def test_command__a_device_that_is_absent__is_refused() -> None:
    with pytest.raises(NoDevice, match="expected cpu, cuda"):
        run("--device", "gpu0")


def test_line__many_operators__are_counted() -> None:
    differing = tuple(f"sweep: op{at}" for at in range(9))
    record = {"status": "differs", "cases": 50, "differing": differing}
    result = conformance._verdict("cuda:0", Path("kept"), FACTS, record)
    assert "9 of 50 cases differ from the CPU (op0, op1, op2, op3, op4, op5 and 3 more)" in result.line


def test_line__of_a_cpu_with_wrong_kernels__names_another_backend() -> None:
    record = {"status": "differs", "cases": 50, "differing": ["cpu elementwise: exp"]}
    result = conformance._verdict("cpu", Path("kept"), FACTS, record)
    assert isinstance(result, ConformanceResult)
    assert "the CPU's own kernels differ from the definition in 1 of 50 cases (exp)" in result.line
    assert "REPOPS_BACKEND=numba" in result.line


def test_source_digest__follows_every_source_and_nothing_else(tmp_path: Path) -> None:
    seen = set()
    for name, text in [("a.cuh", "x"), ("a.cuh", "y"), ("b.py", "x"), ("b.so", "x")]:
        (tmp_path / name).write_text(text)
        source_digest.cache_clear()
        seen.add(source_digest(tmp_path))
    source_digest.cache_clear()
    assert len(seen) == 3
