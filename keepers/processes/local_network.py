"""A whole network on one machine: a devnet chain, and operators with their own folders, brokers, stores and processes.

For `zoo devnet --nodes`, the demo, tests and benchmarks. Operators share nothing but the chain and each other's gateways.
"""

from __future__ import annotations

import dataclasses
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from keepers.config import OperatorConfig, from_dict, read_unchecked, save
from keepers.processes.daemon import Daemon, SupervisedProcess, commands, gateway_command
from keepers.services.verification import read_reports
from zoo_compute.atomic import write_atomically
from zoo_compute.chain import keystore
from zoo_compute.chain.events import scan
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.snapshot import read_operator
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.errors import NeedsOperator
from zoo_compute.paths import HOT_KEY, PASSPHRASE, REPORTS
from zoo_compute.spec.params import ZEN
from zoo_compute.subprocesses import LOOPBACK, free_port, is_free, tied_to_parent

HOT_COIN = 10 * 10**18  # wei of native coin for a hot key's gas
GATEWAY_START_S = 15.0
READY_S = 90.0


@dataclass(frozen=True)
class OperatorPlan:
    """One operator to enlist. `gpu_class` is a label here: every worker of a local network runs on this machine's CPU."""

    name: str
    roles: tuple[str, ...] = ("provider",)
    gpu_class: int = 1
    vram_gb: int = 24
    price: str = "1"
    aggregator_price: str = "1"
    capacity: int = 4
    sample_rate: float = 0.25
    demand_after_s: float = 2  # a local network's windows are short
    ask_zen: int = 0  # ZEN of the hot key, to prepay heavy asks with
    worker_command: tuple[str, ...] = ()  # starts its workers, before a worker's options; empty: the usual command
    stake: int = 1_000 * ZEN
    collateral: int = 2_000 * ZEN
    audit_deposit: int = (
        1_000 * ZEN
    )  # of a verifier: the bond of its place as an auditor, and what its verdicts reserve
    custody_deposit: int = 1_000 * ZEN  # of a custodian: what its offers reserve
    settings: Mapping[str, Any] = field(default_factory=dict)  # other keys of its operator.json


@dataclass
class LocalOperators:
    """Operators on a devnet that runs: `enlist` them, then call `poll()` now and then. A later run in the same folder has the same ones."""

    folder: Path
    plans: tuple[OperatorPlan, ...]
    devnet: Devnet
    daemons: dict[str, Daemon] = field(default_factory=dict)
    operators: dict[int, str] = field(default_factory=dict)  # number -> name

    def enlist(self, plan: OperatorPlan) -> OperatorConfig:
        """Register and fund one operator, unless an earlier run did, and start its processes."""
        home = self.folder / plan.name
        (home / "store").mkdir(parents=True, exist_ok=True)
        secret = self.devnet.passphrase_file.read_text()
        write_atomically(home / PASSPHRASE, secret.encode(), mode=0o600)
        key_file = home / HOT_KEY
        hot = keystore.address_of(key_file) if key_file.exists() else keystore.create(key_file, secret, work=keystore.DEVNET_WORK)  # fmt: skip
        self.devnet.fund(hot, coin=HOT_COIN, zen=plan.ask_zen)
        signer = keystore.unlock(key_file, secret)
        port = _port_of(home)
        endpoint = f"http://{LOOPBACK}:{port}"
        operator = self._registered(plan, hot, endpoint)
        if "custodian" in plan.roles and not self.devnet.chain.custody.notes(operator).since:
            Sender(self.devnet.chain, signer, folder=home).send(self.devnet.chain.custody.note_stake(operator))
        raw = {
            "name": plan.name,
            "network": str(self.devnet.network_file),
            "operator": operator,
            "roles": list(plan.roles),
            "price": plan.price,
            "aggregator_price": plan.aggregator_price,
            "capacity": plan.capacity,
            "sample_rate": plan.sample_rate,
            "demand_after_s": plan.demand_after_s,
            "threads": 1,  # the operators share this machine's cores
            "spares": 0,  # and its memory
            "free_space_gb": 0.1,  # and its disk
            "dispute_workers": 1,
            "gateway_port": port,
            "endpoint": endpoint,
            "poll_s": 0.7,
            **plan.settings,
        }
        config = from_dict(raw, home)
        save(config)
        self.daemons[plan.name] = Daemon(config, command_overrides=self.command_overrides(plan, config))
        self.daemons[plan.name].start()
        return config

    def command_overrides(self, plan: OperatorPlan, config: OperatorConfig) -> dict[str, list[str]]:
        """Command lines that differ from an operator's own, by process."""
        if not plan.worker_command:
            return {}
        usual = {name: command for name, command in commands(config).items() if name.startswith("worker-")}
        return {
            name: [*plan.worker_command, *command[command.index("worker") + 1 :]] for name, command in usual.items()
        }

    def _registered(self, plan: OperatorPlan, hot: str, endpoint: str) -> int:
        """The operator with this hot key: of an earlier run, its endpoint announced anew where that changed, or a new one."""
        chain = self.devnet.chain
        events = scan(chain, chain.network.first_block, chain.head().number, names=("OperatorRegistered",))
        numbers = [int(event.args["operator"]) for event in events if event.args["hot"] == hot]
        operator = numbers[-1] if numbers else self._register(plan, hot, endpoint)
        if read_operator(chain, operator).endpoint != endpoint:
            owner = self.devnet.account(_owner(plan))
            Sender(chain, owner, folder=self.devnet.folder).send(chain.registry.announce(operator, endpoint))
        self.operators[operator] = plan.name
        return operator

    def _register(self, plan: OperatorPlan, hot: str, endpoint: str) -> int:
        """What `zoo node register`, `deposit`, `audit offer` and `custody deposit` do, from an owner's account of its own."""
        chain = self.devnet.chain
        zen = plan.stake + plan.collateral + plan.audit_deposit + plan.custody_deposit
        owner = self.devnet.account(_owner(plan), zen=zen)
        sender = Sender(chain, owner, folder=self.devnet.folder)
        sender.send(chain.zen.approve(chain.registry.address, plan.stake + plan.collateral))
        receipt = sender.send(chain.registry.register(hot, plan.gpu_class, plan.vram_gb, plan.stake, endpoint))
        operator = int(receipt.event("OperatorRegistered").args["operator"])
        if {"provider", "aggregator"} & set(plan.roles):
            sender.send(chain.registry.deposit(operator, chain.zen.address, plan.collateral))
        if "verifier" in plan.roles:
            sender.send(chain.zen.approve(chain.audits.address, plan.audit_deposit))
            sender.send(chain.audits.deposit(operator, chain.zen.address, plan.audit_deposit))
            sender.send(chain.audits.offer(operator, 1))
        if "custodian" in plan.roles:
            sender.send(chain.zen.approve(chain.custody.address, plan.custody_deposit))
            sender.send(chain.custody.deposit(operator, chain.zen.address, plan.custody_deposit))
        return operator

    def age_stake(self) -> None:
        """Let the stake of custodians count at once, not only after the exit delay."""
        chain, custody = self.devnet.chain, self.devnet.chain.custody
        custodians = [n for n, name in self.operators.items() if "custodian" in self.daemons[name].config.roles]
        if any(not custody.aged_stake(operator) for operator in custodians):
            self.devnet.warp(chain.params.exit_delay_s)

    def wait_ready(self, timeout_s: float = READY_S, say: Callable[[str], None] = lambda _: None) -> None:
        """Wait until every keeper and worker process accepts work, so that none misses a bid because it started late."""
        deadline, waiting = time.monotonic() + timeout_s, dict(self.daemons)
        while waiting:
            for name in [name for name, daemon in waiting.items() if all(map(is_ready, daemon.children.values()))]:
                del waiting[name]
                say(f"{name} is ready" + (f"; waiting for the workers of {', '.join(waiting)}" if waiting else ""))
            if time.monotonic() > deadline:
                raise NeedsOperator(
                    f"a process was not ready after {timeout_s:.0f} s", hint=f"see {self.folder}/*/logs"
                )
            self.poll()
            time.sleep(0.2)

    def poll(self) -> None:
        """Keep every operator's processes running."""
        for daemon in self.daemons.values():
            daemon.poll()

    def verification_reports(self) -> list[dict]:
        """Every report of every verifier."""
        return [report for daemon in self.daemons.values() for report in read_reports(daemon.config.folder / REPORTS)]

    def stop(self) -> None:
        """End every process."""
        for daemon in self.daemons.values():
            daemon.begin_stop()
        for daemon in self.daemons.values():
            daemon.stop()


@dataclass
class LocalNetwork(LocalOperators):
    """`with LocalNetwork(folder, plans) as network: ...`: a chain and a storage of its own, too. Nothing outlives it."""

    devnet: Devnet = field(init=False)
    more_storage: Sequence[str] = field(default=(), kw_only=True)  # other gateways of submitters
    _gateway: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.devnet = Devnet(self.folder / "chain")

    @property
    def network_path(self) -> Path:
        return self.devnet.network_file

    @property
    def submitter_store(self) -> Path:
        """The store of whoever submits jobs here; its gateway is the network's storage."""
        return self.folder / "submitter" / "store"

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Chain, storage, then every operator: registered, funded, running."""
        port = free_port()
        self.devnet.start()
        network = dataclasses.replace(self.devnet.network, storage=(f"http://{LOOPBACK}:{port}", *self.more_storage))
        network.save(self.devnet.network_file)
        self._gateway = start_gateway(self.submitter_store, port, self.folder / "submitter" / "gateway.log")
        for plan in self.plans:
            self.enlist(plan)
        self.age_stake()
        self.wait_ready()

    def stop(self) -> None:
        """End every process, the chain last."""
        super().stop()
        if self._gateway is not None:
            self._gateway.terminate()
            self._gateway.wait(10)
        self.devnet.stop()


def _owner(plan: OperatorPlan) -> str:
    return f"{plan.name}-owner"


def _port_of(home: Path) -> int:
    """The gateway's port of the last run if it is free, so that what was announced stays true; else any."""
    last = int((read_unchecked(home) or {}).get("gateway_port", 0))
    return last if last and is_free(last) else free_port()


def is_ready(child: SupervisedProcess) -> bool:
    """Whether a keeper or worker process has said so in its log since it started (other processes are when they run)."""
    if not child.running or child.process is None:
        return False
    if child.name in ("broker", "gateway"):
        return True
    said = f"ready as process {child.process.pid}"
    return child.log_path.exists() and said in child.log_path.read_text(errors="replace")


def start_gateway(store: Path, port: int, log: Path) -> subprocess.Popen[bytes]:
    """A store's gateway as a process of its own; returns when it accepts connections."""
    store.mkdir(parents=True, exist_ok=True)
    command = gateway_command(str(store), LOOPBACK, port)
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, start_new_session=True, preexec_fn=tied_to_parent()
        )
    deadline = time.monotonic() + GATEWAY_START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection((LOOPBACK, port), timeout=1).close()
            return process
        except OSError:
            time.sleep(0.05)
    process.kill()
    raise RuntimeError(f"the gateway did not start; see {log}")
