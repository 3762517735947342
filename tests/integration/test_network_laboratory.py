"""The network laboratory does what it says: links measured from inside, every fault counted, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.lab import Faults, Laboratory, Link, laboratory, tun_missing
from benchmarks.lab.laboratory import remove_abandoned
from tests.support.waiting import HANG_S, wait_until
from zoo_compute.store import BlockStore

KINDS = ("tun", "relay")
LINKS = {"a": Link.of_round_trip(100, 0.05), "b": Link.of_round_trip(100, 0.05), "c": Link.of_round_trip(20, 0.1)}
GATEWAY = 8077


@pytest.fixture(params=KINDS)
def lab(request: pytest.FixtureRequest):
    with opened(request.param) as lab:
        yield lab


def opened(kind: str):
    if kind == "tun" and (missing := tun_missing()):
        pytest.skip(f"hosts in namespaces: {missing}")
    return laboratory(LINKS, kind)


def gateway(lab: Laboratory, host: str, folder: Path, *, seen_from: str) -> str:
    """A store's gateway on the host; its URL for another host."""
    port = lab.free_port(GATEWAY)
    command = [sys.executable, "-m", "zoo_compute.store.gateway", "--root", str(folder), "--host", lab.address(host)]
    lab.start(host, [*command, "--port", str(port)], stdout=subprocess.DEVNULL)
    address, seen = lab.endpoint(host, port, seen_from=seen_from)
    return f"http://{address}:{seen}"


READ = """
import sys, time
from pathlib import Path
from zoo_compute.store import BlockStore
from zoo_compute.store.errors import ContentTampered, StoreError
store = BlockStore(Path(sys.argv[1]), peers=[sys.argv[2]])
end = time.monotonic() + 300
while True:
    try:
        data = store.read(sys.argv[3], max_bytes=2**24, timeout_s=20)
        break
    except ContentTampered:
        print("tampered"); raise SystemExit
    except StoreError:
        if time.monotonic() > end: raise
        time.sleep(0.1)
print(len(data))
"""


def read(lab: Laboratory, host: str, folder: Path, url: str, cid: str) -> subprocess.Popen[bytes]:
    return lab.start(host, [sys.executable, "-c", READ, str(folder), url, cid], stdout=subprocess.PIPE)


def answer(process: subprocess.Popen[bytes]) -> str:
    return process.communicate(timeout=HANG_S)[0].decode().strip()


def test_links__have_the_bandwidth_and_the_round_trip_they_were_given(lab: Laboratory):
    """No measurement beats the limits. One comes close to them: with other work on the machine it may take several."""
    for server, client, mbit, rtt_s in (("a", "b", 100, 0.05), ("a", "c", 20, 0.075)):
        shortest, fastest = 1e9, 0.0
        for size in (3_000_000, *[600_000] * 60):
            speed = lab.measured(server, client, size)
            print(lab.kind, server, client, speed)
            shortest, fastest = min(shortest, speed["rtt_s"]), max(fastest, speed["mbit"])
            assert rtt_s <= shortest
            assert fastest <= 1.1 * mbit
            if shortest <= 1.25 * rtt_s + 0.01 and fastest >= 0.6 * mbit:
                break
        else:
            pytest.fail(f"{shortest} s and {fastest} Mbit/s at best")
    assert lab.counts()["b"]["bytes"] > 3_000_000


def test_a_slower_link__is_slower(lab: Laboratory):
    faults = Faults(lab)
    faults.slow("a", Link(5, 0.01))
    assert lab.measured("a", "b", 500_000)["mbit"] < 6
    faults.assert_fired()


def test_a_partitioned_host__is_heard_again_after_it_is_healed(lab: Laboratory, tmp_path: Path):
    cid = BlockStore(tmp_path / "a").add(os.urandom(300_000))
    url = gateway(lab, "a", tmp_path / "a", seen_from="b")
    faults = Faults(lab)
    faults.partition("a")
    reading = read(lab, "b", tmp_path / "b", url, cid)
    time.sleep(2)
    assert reading.poll() is None, "it cannot have the content"
    faults.heal("a")
    assert answer(reading) == "300000"
    faults.assert_fired()


def test_corrupt_bytes__get_through_tcp_and_are_found_by_the_store(lab: Laboratory, tmp_path: Path):
    cid = BlockStore(tmp_path / "a").add(os.urandom(200_000))
    url = gateway(lab, "a", tmp_path / "a", seen_from="b")
    assert answer(read(lab, "b", tmp_path / "first", url, cid)) == "200000"
    faults = Faults(lab)
    faults.corrupt("a", 2)
    assert answer(read(lab, "b", tmp_path / "second", url, cid)) == "tampered"
    faults.assert_fired()


def test_packets_sent_twice__change_nothing(tmp_path: Path):
    with opened("tun") as lab:
        cid = BlockStore(tmp_path / "a").add(os.urandom(300_000))
        url = gateway(lab, "a", tmp_path / "a", seen_from="b")
        faults = Faults(lab)
        faults.duplicate("a", 5)
        assert answer(read(lab, "b", tmp_path / "b", url, cid)) == "300000"
        faults.assert_fired()


def test_duplicates__are_refused_by_a_relay_of_streams():
    with opened("relay") as lab, pytest.raises(RuntimeError, match="cannot repeat"):
        Faults(lab).duplicate("a")


def test_a_fault_that_did_not_happen__is_told():
    with opened("relay") as lab:
        faults = Faults(lab)
        faults.corrupt("a")
        with pytest.raises(AssertionError, match=r"not fired: \{'corrupt': 1\}"):
            faults.assert_fired()


def test_kills_and_restarts__are_counted_as_they_happen(lab: Laboratory):
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    faults = Faults(lab)
    process = lab.start("a", sleeper)
    faults.kill(process)
    again = faults.restart(lambda: lab.start("a", sleeper))
    assert process.returncode == -signal.SIGKILL
    assert again.poll() is None
    assert faults.fired() == {"kill": 1, "restart": 1}
    faults.kill(process)  # dead already: asked for, and nothing happened
    with pytest.raises(AssertionError, match=r"not fired: \{'kill': 2\}"):
        faults.assert_fired()


HOLD = """
import sys, time
from benchmarks.lab import Link, laboratory
with laboratory({"a": Link(10, 0.01), "b": Link(10, 0.01)}, sys.argv[1]) as lab:
    print(lab.start("a", [sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_runner_that_is_stopped_or_killed__leaves_nothing(kind: str, how: signal.Signals):
    if kind == "tun" and (missing := tun_missing()):
        pytest.skip(f"hosts in namespaces: {missing}")
    runner = subprocess.Popen(
        [sys.executable, "-c", HOLD, kind], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=Path.cwd()
    )
    assert runner.stdout is not None
    child = int(runner.stdout.readline())
    assert (f"zoolab-{runner.pid}-a" in namespaces()) == (kind == "tun")
    runner.send_signal(how)
    runner.wait(HANG_S)
    runner.stdout.close()
    remove_abandoned()
    wait_until("its child's end", lambda: not alive(child))
    assert f"zoolab-{runner.pid}" not in namespaces()


def namespaces() -> str:
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
