"""The contracts in one process: `deploy_all` deploys and wires them, `Play` drives jobs through them on revm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tests.support import sources
from tests.support.contract import Contract
from tests.support.evm import chain, reverts
from tests.support.job_driver import JobDriver
from zoo_compute.spec.auditing import lapse_s
from zoo_compute.spec.params import DEVNET, ZEN, Preset

START = 1_800_000_000  # Unix seconds
SUPPLY = 10**9 * ZEN
UNLIMITED = 2**256 - 1
COIN = 10**24  # wei that a submitter has
AGGREGATION = 128  # the aggregator's seat, and its claims'


@dataclass(frozen=True)
class Deployer:
    """Of a contract; see `tests.support.sources`."""

    name: str

    def deploy(self, *args: Any, sender: Any = None, value: int = 0) -> Contract:
        return chain.deploy(sources.load(self.name), *args, sender=sender, value=value)


def load(name: str) -> Deployer:
    """A contract, or a mock (`mocks/FalseToken`)."""
    return Deployer(name)


def deploy_all(preset: Preset = DEVNET) -> SimpleNamespace:
    """All contracts, wired. The deployer governs the payment tokens and the timelock, and ZEN is allowed."""
    deployer = chain.account("deployer")
    guardian = chain.account("guardian")
    # Accounts here: the referee says, Settlement does.
    referee, audit_pool = chain.account("referee"), chain.account("audit pool")
    # Says who is admitted; the contract has a kit of its own.
    admissions = chain.account("admissions")
    # Says what custodians hold, of jobs that have any.
    custody = chain.account("custody")
    with chain.prank(deployer):
        zen = load("ZenToken").deploy(SUPPLY)
        timelock = load("Timelock").deploy(preset.timelock_s, *3 * [[deployer]])
        treasury = load("Treasury").deploy(timelock)
        contracts = deploy_core(preset, zen, treasury, guardian, timelock, deployer, poster=deployer)
        wire(contracts, referee, custody, admissions, audit_pool)
        contracts["tasks"].allow(zen, True, preset.window_value)
    return SimpleNamespace(
        **contracts,
        zen=zen,
        timelock=timelock,
        treasury=treasury,
        deployer=deployer,
        guardian=guardian,
        referee=referee,
        audit_pool=audit_pool,
        admissions=admissions,
        custody=custody,
    )


def deploy_core(
    preset: Preset,
    zen: Contract,
    treasury: Contract,
    guardian: Any,
    timelock: Any,
    governor: Any,
    *,
    poster: Any,
    needs_admission: bool = False,
) -> dict[str, Contract]:
    """What jobs and their money need, not wired; and other Rewards, to move the pool to. governor: of the payment tokens. poster: of rates."""
    registry = load("NodeRegistry").deploy(
        zen, guardian, preset.min_stake, preset.exit_delay_s, preset.epoch_s, preset.clocks.outage_s
    )
    minting = (preset.epoch_s, preset.mint_per_epoch, preset.rate_step_s, preset.rate_stale_s)
    credits = load("Credits").deploy(zen, treasury, timelock, poster, 0, *minting)
    tasks = load("TaskRegistry").deploy(treasury, governor, guardian, credits, needs_admission)
    auction = load("Auction").deploy(registry, tasks, guardian, preset.bid_window_s, preset.reveal_window_s)
    emission = (preset.epoch_s, preset.emission_per_epoch, preset.weight_per_fee)
    rewards, successor = (load("Rewards").deploy(zen, registry, timelock, *emission) for _ in range(2))
    datasets = load("Datasets").deploy(tasks, rewards)
    channels = load("Channels").deploy(registry, tasks, treasury, preset.notice_s)
    locks = load("Locks").deploy(registry, tasks)
    windows = (preset.ready_window_s, preset.min_window_s)
    fading = (preset.clocks.pay_fades_from_s, preset.clocks.pay_gone_at_s)
    settlement = load("Settlement").deploy(registry, tasks, auction, locks, rewards, zen, *windows, *fading)
    availability = load("Availability").deploy(registry, tasks, settlement, preset.answer_s)
    audit_numbers = (preset.audit_bond, preset.draw_blocks, lapse_s(preset.clocks))
    audits = load("Audits").deploy(registry, tasks, settlement, rewards, zen, *audit_numbers)
    return {
        "credits": credits,
        "registry": registry,
        "tasks": tasks,
        "auction": auction,
        "rewards": rewards,
        "successor": successor,
        "datasets": datasets,
        "channels": channels,
        "locks": locks,
        "settlement": settlement,
        "availability": availability,
        "audits": audits,
    }


def wire(core: dict[str, Contract], referee: Any, custody: Any, admissions: Any, audit_pool: Any) -> None:
    """Each of `deploy_core` to what it calls and obeys."""
    auction, settlement, locks, tasks = (core[name] for name in ("auction", "settlement", "locks", "tasks"))
    core["registry"].wire(auction, settlement, locks, tasks, core["rewards"], admissions)
    tasks.wire(auction, settlement, locks)
    auction.wire(settlement)
    settlement.wire(referee, core["availability"], custody)
    locks.wire(settlement, audit_pool)
    core["rewards"].wire(settlement, core["audits"], core["datasets"])
    core["audits"].wire(referee)
    core["credits"].wire(tasks, core["registry"])


def events_of(contract: Any, of: Any = None) -> list[tuple[str, dict[str, Any]]]:
    """The events of the last call, as (name, fields): those that `of` told, the called contract when nothing is said."""
    address = (of or contract).address
    events = [(type(event).__name__, event._asdict()) for event in contract.get_logs()]
    return [
        (name, {key: fields[key] for key in fields if key != "address"})
        for name, fields in events
        if fields["address"] == address
    ]


@dataclass(frozen=True)
class Operator:
    """A registered operator with its two keys."""

    id: int
    owner: Any
    hot: Any


class Play(JobDriver):
    """Jobs, operators and the clock on revm. Sends as whoever the protocol expects."""

    def __init__(self, kit: SimpleNamespace, preset: Preset = DEVNET, token: Any = None) -> None:
        super().__init__(kit, token or kit.zen, chain.account("submitter"), chain.account("anyone"))
        self.preset = preset
        self.fund(self.submitter, 10**6 * ZEN, self.kit.tasks)
        chain.set_balance(self.submitter, COIN)

    # --- accounts and clock

    @property
    def now(self) -> int:
        return int(chain.timestamp)

    def to(self, now: int) -> None:
        chain.timestamp = now

    def fund(self, account: Any, amount: int, spender: Any, token: Any = None) -> None:
        """Give tokens to an account, which lets `spender` pull them."""
        token = token or self.token
        token.transfer(account, amount, sender=self.kit.deployer)
        token.approve(spender, UNLIMITED, sender=account)

    def register(
        self, name: str, *, gpu_class: int = 1, vram_gb: int = 48, deposit: int = 10**9, units: int = 16
    ) -> Operator:
        """A new operator with stake for a bid of so many units, the least at least, and collateral in the play's token."""
        owner, hot = chain.account(f"{name} owner"), chain.account(f"{name} hot")
        registry = self.kit.registry
        stake = self.preset.min_stake * max(units, 16) // 16
        self.fund(owner, stake, registry, self.kit.zen)
        operator = registry.register(hot, gpu_class, vram_gb, stake, f"http://{name}", sender=owner)
        if deposit:
            self.fund(owner, deposit, registry)
            registry.deposit(operator, self.token, deposit, sender=owner)
        self.operators[operator] = Operator(operator, owner, hot)
        return self.operators[operator]

    def register_all(self, count: int) -> list[Operator]:
        return [self.register(f"operator {index}") for index in range(count)]

    def rate(self, operator: Operator, points: int) -> None:
        """Give an operator reputation."""
        self.kit.registry.reward_outcome(operator.id, points * ZEN, sender=self.kit.settlement.address)

    def ready(self, job: int, *parties: Operator, estimate_s: int | None = 10) -> None:
        super().ready(job, *parties, estimate_s=estimate_s)

    def round(self, job: int, holders: Sequence[Operator], aggregator: Operator) -> None:
        for holder in holders:
            self.commit(job, holder)
        self.post_checkpoint(job, aggregator)

    refused = staticmethod(reverts)
