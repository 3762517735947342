"""The units of docs/guides/deploy under a real systemd, installed by the lines of docs/guides/monitoring.md. `make test-deploy`."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration import systemd_machine
from tests.integration.systemd_machine import ROOT, Machine, built_wheel
from tests.support.waiting import wait_until
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec.params import ZEN

MISSING = systemd_machine.missing()
pytestmark = [pytest.mark.integration, pytest.mark.deploy, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
PARTS = ("broker", "gateway", "keeper", "worker")
KEYLESS = ("broker", "gateway", "worker")
SECRETS = ("hot.json", "passphrase")
FOLDER = Path("/var/lib/zoo/node")
HERE = Path("/root/recipe")  # in the machine: where the recipe is typed


def recipe() -> list[str]:
    """The commands of the guide's section on systemd."""
    section = (GUIDES / "monitoring.md").read_text().partition("\n## systemd\n")[2].partition("\n## ")[0]
    [block] = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    return str(block).splitlines()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine on which the recipe was typed, word for word, but for the wheel, which comes from here."""
    folder = tmp_path_factory.mktemp("systemd")
    wheel = built_wheel(folder)
    with Devnet(folder / "devnet") as devnet, Machine(folder / "log") as machine:
        devnet.account("owner", zen=10_000 * ZEN)
        here = ROOT / HERE.relative_to("/")
        shutil.rmtree(ROOT / "var/lib/zoo", ignore_errors=True)
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir(parents=True)
        for path in (wheel, devnet.network_file, *GUIDES.glob("deploy/zoo*")):
            shutil.copy(path, here)
        shutil.copy(devnet.key_file("owner"), here / "owner.json")
        machine.run("sh", "-c", "systemctl disable zoo.target; systemctl stop zoo.target 'zoo-*'; userdel zoo; true")
        machine.run("sh", "-c", "rm -f /etc/systemd/system/zoo*; systemctl daemon-reload")
        machine.run("sh", "-c", "/opt/zoo/bin/pip uninstall --yes --quiet zoo-compute; true")
        secret = f"ZOO_PASSPHRASE={devnet.passphrase_file.read_text()}"
        for line in recipe():
            line = line.replace("'zoo-compute[keeper]'", f"--quiet './{wheel.name}[keeper]'")
            line = line.replace(" ZOO_HOME=", f" {secret} ZOO_HOME=")
            machine.run("sh", "-c", f"cd {HERE} && {line}")
        active = [f"zoo-{part}" for part in PARTS]
        wait_until(
            "all parts", lambda: all(machine.property(each, "ActiveState") == "active" for each in active), poll_s=1
        )
        try:
            yield machine
        finally:
            machine.run("systemctl", "stop", "zoo.target", *(f"zoo-{part}" for part in PARTS))


def pid_of(machine: Machine, part: str) -> str:
    """Of a process that the part's daemon started."""
    daemon = machine.property(f"zoo-{part}", "MainPID")
    return machine.run("pgrep", "-P", daemon).split()[0]


def read(machine: Machine, part: str, path: object) -> str:
    """What a process of this part reads there, or why it does not."""
    return machine.run_as(pid_of(machine, part), "zoo", "head", "-c", "200", str(path))


@pytest.mark.parametrize("part", PARTS)
def test_a_unit__is_active_and_what_it_said_is_in_the_journal(part: str, machine: Machine) -> None:
    assert machine.property(f"zoo-{part}", "ActiveState") == "active"
    assert "logs in /var/lib/zoo/node/logs" in machine.run("journalctl", "--no-pager", "-b", "-u", f"zoo-{part}")


@pytest.mark.parametrize("part", PARTS)
def test_a_unit__is_safe_by_systemds_own_reckoning(part: str, machine: Machine) -> None:
    machine.run("systemd-analyze", "security", "--no-pager", "--threshold=20", f"zoo-{part}.service")


def test_the_keeper__reads_its_key_and_looks_at_the_chain(machine: Machine) -> None:
    assert '"crypto"' in read(machine, "keeper", FOLDER / "hot.json")
    wait_until("a look", lambda: '"block"' in machine.run("sh", "-c", f"cat {FOLDER}/status.json; true"), poll_s=0.5)


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("part", KEYLESS)
def test_another_part__cannot_read_what_is_the_keepers(part: str, name: str, machine: Machine) -> None:
    assert '"name"' in read(machine, part, FOLDER / "operator.json"), "what it may read it reads"
    assert "Permission denied" in read(machine, part, FOLDER / name)


@pytest.mark.parametrize("what", ["root/var/lib/zoo/node/hot.json", "environ", "mem"])
@pytest.mark.parametrize("part", KEYLESS)
def test_another_part__cannot_read_it_through_the_keepers_process_either(
    part: str, what: str, machine: Machine
) -> None:
    """All run as one user: /proc/PID/root of the keeper would show its files."""
    for pid in (pid_of(machine, "keeper"), machine.property("zoo-keeper", "MainPID")):
        assert "No such file" in read(machine, part, f"/proc/{pid}/{what}")
    assert "No such file" not in read(machine, "keeper", f"/proc/{pid}/{what}")


def test_a_daemon_that_hangs__is_ended_and_started_again(machine: Machine) -> None:
    before, starts = (machine.property("zoo-keeper", name) for name in ("MainPID", "NRestarts"))
    machine.run("kill", f"-{signal.SIGSTOP.name.removeprefix('SIG')}", before)
    wait_until("the watchdog", lambda: machine.property("zoo-keeper", "NRestarts") != starts, poll_s=1)
    wait_until("the new keeper", lambda: machine.property("zoo-keeper", "ActiveState") == "active", poll_s=1)
    assert machine.property("zoo-keeper", "MainPID") != before
    assert "Failed with result 'watchdog'" in machine.run("journalctl", "--no-pager", "-b", "-u", "zoo-keeper")


def test_stopping_the_target__ends_every_process_in_order(machine: Machine) -> None:
    machine.run("systemctl", "stop", "zoo.target", *(f"zoo-{part}" for part in PARTS))
    for part in PARTS:
        state = [machine.property(f"zoo-{part}", name) for name in ("ActiveState", "Result")]
        assert state == ["inactive", "success"], part
    machine.run("pgrep", "-u", "zoo", fails=True)
    machine.run("systemctl", "start", "zoo.target")
    wait_until(
        "all", lambda: all(machine.property(f"zoo-{part}", "ActiveState") == "active" for part in PARTS), poll_s=1
    )
