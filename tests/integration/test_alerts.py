"""Every alert of docs/guides/deploy fires in a real Prometheus that scrapes a real node, when what it is for happens. `make test-deploy`."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import redis
import requests
import yaml

from benchmarks.network.hostile_asker import HostileAsker
from keepers.config import load, save
from keepers.processes.local_network import LocalNetwork, OperatorPlan
from keepers.queue.broker import url_of
from tests.integration.real_prometheus import DEPLOY, Prometheus
from tests.support.local_jobs import TINY, submit
from tests.support.waiting import HANG_S, wait_until
from zoo_compute.chain import keystore
from zoo_compute.chain.network import load as load_network
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import Commit
from zoo_compute.paths import HOT_KEY
from zoo_compute.store.errors import StoreError
from zoo_compute.subprocesses import LOOPBACK, free_port, tied_to_parent

NEEDED = ("prometheus", "promtool")
MISSING = [name for name in NEEDED if shutil.which(name) is None]
pytestmark = [
    pytest.mark.integration,
    pytest.mark.deploy,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (Debian's package prometheus)"),
]
RULES = [rule["alert"] for rule in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]]
PLANS = (
    OperatorPlan("alpha", price="0.80", capacity=3, demand_after_s=600),
    OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50", demand_after_s=600),
)
JOB = TINY | {
    "training": TINY["training"] | {"rounds": 8, "slots": 2, "quorum": 1, "inner_steps": 4},
    "limits": {"slot_s": 20, "aggregate_s": 60, "reexecute_s": 20},
}
MIB = 2**20
DISK = 1024 * MIB  # a tenth of it is what a devnet's node keeps free
LARGEST = 512 * MIB - 1  # a value in Redis
# On a devnet, whose windows are seconds, a deadline is near whenever there is one.
ALWAYS_NEAR = {"ZooDeadlineNear"}


class Relay:
    """A second RPC, which passes everything on to the first, and can be closed."""

    def __init__(self, url: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = requests.post(url, data=body, headers={"Content-Type": "application/json"}, timeout=30).content
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{LOOPBACK}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Node:
    """`zoo node start` in a folder that a local network made."""

    def __init__(self, folder: Path, network: Path, store: Path | None) -> None:
        changed: dict[str, Any] = {"metrics_port": free_port(), "network": str(network)}
        if store:
            changed["store"] = str(store)
        self.config = dataclasses.replace(load(folder), **changed)
        save(self.config)
        command = [sys.executable, "-m", "zoo_compute.cli.main", "node", "start", "--home", str(folder)]
        with (folder / "start.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=tied_to_parent())
        wait_until("the node", self._answers, poll_s=0.5)

    def _answers(self) -> bool:
        assert self.process.poll() is None, (self.config.folder / "start.log").read_text()
        with suppress(requests.RequestException):
            return requests.get(f"http://{LOOPBACK}:{self.config.metrics_port}/health", timeout=5).ok
        return False

    def pids(self, *words: str) -> list[int]:
        """Of the daemon's processes with all these words in their command line."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        lines = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0") for pid in children}
        return [pid for pid, line in lines.items() if all(word in line for word in words)]

    def signal(self, number: signal.Signals, *words: str) -> None:
        for pid in self.pids(*words):
            os.kill(pid, number)


@contextmanager
def small_disk(path: Path) -> Iterator[Path | None]:
    """A file system of its own; None where this user may mount none."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(path)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


class Drama:
    """What goes wrong, one thing after the other. seconds: from each until its alert fired; after: what was done."""

    def __init__(
        self, network: LocalNetwork, node: Node, prometheus: Prometheus, relay: Relay, asker: HostileAsker
    ) -> None:
        self.network, self.node, self.prometheus, self.relay, self.asker = network, node, prometheus, relay, asker
        self.seconds: dict[str, float] = {}
        self.after: dict[str, str] = {}
        self.before: set[str] = set()
        self.blind_from_the_start = 0.0
        self._began, self._what = time.monotonic(), ""

    def does(self, what: str, *alerts: str) -> None:
        """What is done next, of which these alerts are to come. None of them fires before it."""
        self._wait(lambda: not set(alerts) & self.prometheus.firing(), HANG_S)
        for alert in alerts:
            self.prometheus.first.pop(alert, None)
        self._what, self._began = what, time.monotonic()

    def until(self, *alerts: str, within_s: float = HANG_S) -> None:
        """Wait for alerts; one that does not come is left out of the table, and its test says so."""
        self._wait(lambda: set(alerts) <= set(self.prometheus.first), within_s)
        for alert in alerts:
            if alert in self.prometheus.first:
                self.seconds[alert] = max(0.0, self.prometheus.first[alert] - self._began)
                self.after[alert] = self._what

    def _wait(self, reached: Callable[[], bool], within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while not reached() and time.monotonic() < deadline:
            self.network.poll()
            time.sleep(0.2)

    def table(self) -> str:
        rows = [f"| `{name}` | {self.after[name]} | {self.seconds[name]:.0f} |" for name in RULES if name in self.after]
        return "\n".join(["| alert | after | seconds |", "|---|---|---|", *rows])

    # -- the acts

    def run(self, store: Path | None) -> None:
        for _ in range(50):  # a node that is well
            self.network.poll()
            time.sleep(0.2)
        self.before = set(self.prometheus.first)
        self.an_rpc()
        job = submit(self.network, JOB)
        self.coin()
        self.unanswered(job)
        if store:
            self.disk(store)
        self.broker()
        self.processes()
        self.chain()
        self.does("`zoo node start` is killed", "ZooNodeDown")
        self.node.process.kill()
        self.until("ZooNodeDown")

    def an_rpc(self) -> None:
        self.does("one of two RPCs is closed", "ZooRpcUnwell")
        self.relay.close()
        self.until("ZooRpcUnwell")

    def coin(self) -> None:
        chain, hot = self.network.devnet, keystore.address_of(self.node.config.folder / HOT_KEY)
        balance = chain.chain.coin(hot)
        self.does("the hot key's coin is taken away while a job takes bids", "ZooCoinLow", "ZooNeedsYou")
        chain.rpc("anvil_setBalance", [hot, hex(1)])
        self.until("ZooCoinLow", "ZooNeedsYou")
        chain.rpc("anvil_setBalance", [hot, hex(balance)])

    def unanswered(self, job: int) -> None:
        """An ask, a demand and a slot-round of which nobody here does anything, until others say so on chain."""
        asker, chain, config = self.asker, self.network.devnet.chain, self.node.config
        deadline = time.monotonic() + HANG_S
        asked, asks = False, ("ZooAskUnanswered", "ZooDeadlineNear", "ZooWorkWaits")
        while not asked:
            self.network.poll()
            assert time.monotonic() < deadline, f"no ask was taken; {asker.done}, logs in {self.network.folder}"
            view = read_job(chain, job)
            for claim in view.pending:
                if isinstance(claim, Commit) and not asked:
                    with suppress(StoreError):
                        asker.prepare(view, claim)
                        self.network.daemons["delta"].kill("keeper", hold=True)
                        self.does("the worker for disputes is stopped (SIGSTOP), and a claim is asked about", *asks)
                        self.node.signal(signal.SIGSTOP, "worker", "disputes")
                        asked = asker.ask(view, claim)
            time.sleep(0.3)
        self.until(*asks)
        moved = config.path(config.store) / "blocks"
        self.does("the store loses its files, and a chunk is demanded", "ZooDemandUnanswered", "ZooDeadlineMissed")
        away = moved.rename(moved.with_name("away"))
        view = read_job(chain, job)
        assert any(asker.demand(view, claim) for claim in view.pending), asker.done
        self.until("ZooDemandUnanswered", "ZooDeadlineMissed")
        self.does("the worker is stopped (SIGSTOP)", "ZooNoWorkers")
        self.node.signal(signal.SIGSTOP, "worker")
        self.until("ZooNoWorkers")
        self.does("another operator's keeper times out what was not answered", "ZooSlashed")
        self.network.daemons["delta"].resume("keeper")
        self.until("ZooSlashed")
        away.rename(moved)
        self.node.signal(signal.SIGCONT, "worker")

    def disk(self, store: Path) -> None:
        filler, full = store / "filler", shutil.disk_usage(store)
        for share, alert in ((0.85, "ZooDiskFull"), (0.97, "ZooDiskAlmostFull")):
            self.does(f"the store's file system is {share:.0%} full", alert)
            with filler.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, int(share * full.total) - full.used)
            self.until(alert)
        filler.unlink()

    def broker(self) -> None:
        client: Any = redis.Redis.from_url(url_of(self.node.config.broker, self.node.config.folder))
        most = int(client.info("memory")["maxmemory"])
        self.does("the broker takes 85 % of what it may", "ZooBrokerGrows")
        client.config_set("appendonly", "no")
        sizes = [min(LARGEST, left) for left in range(int(0.85 * most), 0, -LARGEST)]
        for number, size in enumerate(sizes):
            client.setrange(f"large-{number}", size - 1, b"x")
        self.until("ZooBrokerGrows")
        client.delete(*(f"large-{number}" for number in range(len(sizes))))
        client.config_set("appendonly", "yes")

    def processes(self) -> None:
        self.does("the gateway is killed whenever it runs", "ZooRestarts", "ZooProcessDown")
        deadline = time.monotonic() + HANG_S
        while not {"ZooRestarts", "ZooProcessDown"} <= set(self.prometheus.first) and time.monotonic() < deadline:
            self.node.signal(signal.SIGKILL, "keepers.processes.gateway")
            time.sleep(0.5)
        self.until("ZooRestarts", "ZooProcessDown", within_s=1)
        self.does("the keeper is stopped (SIGSTOP)", "ZooHung")
        self.node.signal(signal.SIGSTOP, "keeper")
        self.until("ZooHung")
        wait_until("the keeper's next look", lambda: self.prometheus.value("zoo_blind_seconds < 10"), poll_s=1)

    def chain(self) -> None:
        anvil = self.network.devnet._anvil
        assert anvil is not None
        self.does("the chain stops (SIGSTOP)", "ZooBlind")
        anvil.process.send_signal(signal.SIGSTOP)
        self.until("ZooBlind")
        anvil.process.send_signal(signal.SIGCONT)
        self.does("the chain's RPC is killed", "ZooLooksFail")
        anvil.process.kill()
        self.until("ZooLooksFail")
        before = self.node.pids("keeper")
        self.node.signal(signal.SIGKILL, "keeper")
        self._wait(lambda: not {*self.node.pids("keeper")} & {*before} and self.node.pids("keeper") != [], HANG_S)
        self._wait(lambda: self.prometheus.value("zoo_blind_seconds > 0") is not None, 60)
        self.blind_from_the_start = self.prometheus.value("zoo_blind_seconds") or 0.0


@pytest.fixture(scope="module")
def drama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drama]:
    folder = tmp_path_factory.mktemp("net")
    with small_disk(folder / "disk") as disk, LocalNetwork(folder, PLANS) as network:
        relay, asker = Relay(network.devnet.url), HostileAsker(network, "stranger")
        network.daemons.pop("alpha").stop()
        both = folder / "network.json"
        mine = load_network(network.network_path)
        dataclasses.replace(mine, rpcs=(*mine.rpcs, relay.url)).save(both)
        node = Node(folder / "alpha", both, disk / "store" if disk else None)
        try:
            with Prometheus(folder / "prometheus", [node.config.metrics_port]) as prometheus:
                drama = Drama(network, node, prometheus, relay, asker)
                drama.run(disk)
                print(f"\n{drama.table()}")
                (folder / "table.json").write_text(json.dumps(drama.seconds))
                yield drama
        finally:
            node.process.kill()
            node.process.wait()


def test_on_a_node_that_is_well__no_alert_fires(drama: Drama) -> None:
    assert drama.before - ALWAYS_NEAR == set()


def test_a_keeper_that_starts_while_no_rpc_answers__counts_as_blind(drama: Drama) -> None:
    assert drama.blind_from_the_start > 0


@pytest.mark.parametrize("alert", RULES)
def test_an_alert__fires_when_what_it_is_for_happens(alert: str, drama: Drama) -> None:
    if alert.startswith("ZooDisk") and os.geteuid():
        pytest.skip("only root can mount a small disk; tests/repository/test_deploy.py fires this one by promtool")
    assert alert in drama.seconds, f"it did not fire; fired:\n{drama.table()}"
