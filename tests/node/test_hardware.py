"""A worker on a machine without a GPU never loads torch; where a GPU may be, torch decides as before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from node import hardware
from node.errors import NoDevice
from node.hardware import Device, device_named, gpus_of, torch_build, torch_may_find_gpu
from tests.support.small_job import publish

# argv: a folder without device files; a store; what every request carries.
WORKS = """
import json, sys
from pathlib import Path
from node import device, hardware, tasks
from node.inputs import bundles
from zoo_compute.store import BlockStore
hardware.DEV = Path(sys.argv[1])
store, base = BlockStore(Path(sys.argv[2])), json.loads(sys.argv[3])
device.ensure_checked(None)
tasks.prepare(base, store)
report = tasks.run_shard(base | {"slot": 1}, store)
results = [bundles.result_of(report)]
commit = {"bundle": store.add(bundles.bundle_bytes(1, 0, 7, results)), "root": bundles.round_root(results).hex()}
commit |= {"operator": 7, "slots": [1], "start_root": base["start_root"]}
verified = tasks.run_verification(base | commit | {"slot": 1}, store)
tasks.run_aggregation(base | {"bundles": [commit]}, store)
assert "torch" not in sys.modules
print(json.dumps({"end": report["end_root"], "agrees": verified["agrees"], "device": report["device"]}))
"""
ASKS = """
import json, sys
from pathlib import Path
from node import device, hardware
hardware.DEV = Path(sys.argv[1])
print(device.pick_device(), "torch" in sys.modules)
"""


def in_process(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch is asked")
def test_a_worker_without_a_gpu__prepares_trains_verifies_and_aggregates__without_torch(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    job = publish(tmp_path)
    out = in_process(WORKS, str(tmp_path / "dev"), str(tmp_path / "store"), json.dumps(job.base))
    answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert (answer["agrees"], answer["device"]) == (True, "cpu")
    assert answer["end"] == job.train(1)["end_root"], "the same bits as with torch loaded"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch is asked")
def test_a_machine_with_a_drivers_file__asks_torch(tmp_path: Path) -> None:
    assert in_process(ASKS, str(tmp_path)) == "cpu False\n"
    (tmp_path / "nvidia0").write_text("")
    assert in_process(ASKS, str(tmp_path)).split()[1] == "True"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch is asked")
@pytest.mark.parametrize("file", ["nvidia0", "nvhost-ctrl-gpu", "dxg", "kfd"])
def test_a_drivers_file__says_that_torch_may_find_a_gpu(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "DEV", tmp_path)
    assert not torch_may_find_gpu()
    (tmp_path / file).write_text("")
    assert torch_may_find_gpu()


def test_other_systems_and_torch_for_intel__always_ask_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "DEV", tmp_path)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert torch_may_find_gpu()
    monkeypatch.setattr(sys, "platform", "linux")
    assert not torch_may_find_gpu()
    monkeypatch.setattr(torch.version, "xpu", "20250201")
    assert torch_may_find_gpu()


def test_gpus__are_those_of_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "nvidiactl").write_text("")
    monkeypatch.setattr(hardware, "DEV", tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    from node.device import pick_device

    assert gpus_of("cuda") == 2
    assert pick_device() == Device("cuda")
    assert pick_device("cuda:1") == Device("cuda", 1)
    with pytest.raises(NoDevice, match="not on this machine"):
        pick_device("cuda:2")


def test_the_build__is_read_without_torch_as_torch_says_it() -> None:
    code = "from node.hardware import torch_build; import sys; print(torch_build()); assert 'torch' not in sys.modules"
    assert in_process(code) == f"{torch_build()}\n"


def test_threads__are_as_many_as_torch_takes() -> None:
    code = "from node.hardware import threads; import sys; print(threads()); assert 'torch' not in sys.modules"
    theirs = in_process("import torch; print(torch.get_num_threads())")
    assert in_process(code) == theirs


@pytest.mark.parametrize("name", ["cpu", "cuda", "cuda:1", "mps"])
def test_a_devices_name__is_torchs(name: str) -> None:
    device = device_named(name)
    assert (str(device), device.type, device.index) == (
        str(torch.device(name)),
        torch.device(name).type,
        torch.device(name).index,
    )


@pytest.mark.parametrize("name", ["gpu0", "cuda:", "cuda:01", "cuda:-1", "", "CPU"])
def test_a_name_of_no_device__is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="names no device"):
        device_named(name)


@pytest.mark.parametrize(
    ("version", "limits", "expected"),
    [
        (2, {"": "max", "a": "max", "a/b": "max"}, None),
        (2, {"": "max", "a": "3000000", "a/b": "max"}, (2_000_000, 3_000_000)),
        (2, {"": "max", "a": "3000000", "a/b": "2000000"}, (1_000_000, 2_000_000)),
        (2, {"": "5000000"}, (4_000_000, 5_000_000)),  # of a container, which sees its own group at the root
        (2, {"a/b": "500000"}, (0, 500_000)),
        (1, {"a": "9223372036854771712", "a/b": "3000000"}, (2_000_000, 3_000_000)),
        (1, {}, None),
    ],
)
def test_the_machines_memory__is_what_its_control_groups_leave(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    limits: dict[str, str],
    expected: tuple[int, int] | None,
) -> None:
    """A worker in a container with 3 MB took jobs for all of the machine's memory, and was killed."""
    whole = hardware.machine_memory()[1]
    root, used, limit = (
        (tmp_path, "memory.current", "memory.max")
        if version == 2
        else (tmp_path / "memory", "memory.usage_in_bytes", "memory.limit_in_bytes")
    )
    for place, text in limits.items():
        (root / place).mkdir(parents=True, exist_ok=True)
        (root / place / limit).write_text(f"{text}\n")
        (root / place / used).write_text("1000000\n")
    own = tmp_path / "own"
    own.write_text({2: "0::/a/b\n", 1: "3:cpu:/x\n5:memory:/a/b\n"}[version])
    monkeypatch.setattr(hardware, "CGROUPS", tmp_path)
    monkeypatch.setattr(hardware, "OWN_CGROUP", own)
    free, total = hardware.machine_memory()
    if expected is None:
        assert total >= whole
    else:
        assert (free, total) == expected
