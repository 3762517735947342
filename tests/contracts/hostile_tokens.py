"""Every place where a contract moves tokens, twice over: in a hostile token and, beside it, in an honest one.

`Payments` holds what may be any token; `Bonds` what is only ever ZEN, with the hostile token in ZEN's place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.evm import chain
from tests.support.job_driver import POSTING_DEPOSIT
from tests.support.protocol_driver import COIN, DEVNET, SUPPLY, UNLIMITED, ZEN, Play, deploy_all, load
from zoo_compute.spec.clocks import NEVER_S
from zoo_compute.spec.params import STAKE_UNIT

TAKE_FEE, ANSWER_FALSE, ANSWER_NOTHING, CALL_BACK, REFUSE_ZERO, REFUSE_LISTED = (1 << bit for bit in range(6))
WEALTH, AMOUNT = 10**9, 500
POSTER, NEIGHBOUR = 0, 1  # who acts, and who must not lose by it
ESCROW = (2_000 * 3 + 1_000) * 3  # of `Play.terms`


@dataclass(frozen=True)
class TokenMovement:
    """One way for tokens to move: a call, how much it moves, and which way."""

    act: Callable[[Any, Any, int], Any]  # market, token, person
    contract: str
    amount: int
    pulls: bool
    payer_or_payee: Callable[[Any, int], Any] = lambda market, person: market.people[person]
    into: str | None = None  # the contract that is sent to


class Market:
    """Contracts that hold two tokens of two people."""

    contracts: dict[str, Any]
    hostile: Any
    honest: Any
    people: list[Any]

    def liabilities(self, token: Any) -> dict[str, int]:
        """What each contract says it holds of a token."""
        raise NotImplementedError

    def balances(self, token: Any) -> dict[str, int]:
        return {name: token.balanceOf(contract) for name, contract in self.contracts.items()}

    def surplus(self, token: Any) -> dict[str, int]:
        """What each contract has of a token beyond what it says it holds."""
        funds, said = self.balances(token), self.liabilities(token)
        return {name: funds[name] - said[name] for name in funds}

    def views(self, token: Any) -> Any:
        people = [token.balanceOf(person) for person in self.people]
        return self.balances(token), self.liabilities(token), people

    def give(self, token: Any, account: Any, amount: int) -> None:
        send = token.mint if token is self.hostile else token.transfer
        send(account, amount)

    def callbacks(self) -> list[tuple[str, bytes]]:
        """Calls, by contract, that the hostile token itself could make at any time."""
        raise NotImplementedError

    def arm(self) -> None:
        self.hostile.play(CALL_BACK)
        chain.set_balance(self.hostile, COIN)
        calls = self.callbacks()
        self.hostile.arm([(self.contracts[name].address, payload, self.coin_of(payload)) for name, payload in calls])

    def coin_of(self, payload: bytes) -> int:
        """What the token sends with a call."""
        return 0

    def succeeds(self, name: str, payload: bytes) -> bool:
        """Would the token's call go through by itself?"""
        with chain.anchor():
            chain.set_balance(self.hostile, COIN)
            value = self.coin_of(payload)
            return not chain.call(self.contracts[name], payload, sender=self.hostile, value=value).failure


class Payments(Market):
    """TaskRegistry, NodeRegistry, Treasury and Audits, each holding both tokens."""

    def __init__(self) -> None:
        self.kit = kit = deploy_all()
        self.play = Play(kit)
        numbers = (DEVNET.audit_bond, DEVNET.draw_blocks, 0)
        audits = load("Audits").deploy(kit.registry, kit.tasks, kit.settlement, kit.rewards, kit.zen, *numbers)
        self.contracts = {"tasks": kit.tasks, "registry": kit.registry, "treasury": kit.treasury, "audits": audits}
        self.hostile, self.honest = load("mocks/HostileToken").deploy(), load("ZenToken").deploy(SUPPLY)
        self.people = [chain.account(name) for name in ("poster", "neighbour")]
        self.operators = []
        for person in self.people:
            chain.set_balance(person, COIN)
            kit.zen.transfer(person, DEVNET.min_stake, sender=kit.deployer)
            kit.zen.approve(kit.registry, UNLIMITED, sender=person)
            self.operators.append(kit.registry.register(person, 1, 8, DEVNET.min_stake, "", sender=person))
        # A token may own an operator too, and call back as such.
        kit.zen.transfer(self.hostile, DEVNET.min_stake, sender=kit.deployer)
        kit.zen.approve(kit.registry, UNLIMITED, sender=self.hostile.address)
        self.own = kit.registry.register(kit.guardian, 1, 8, DEVNET.min_stake, "", sender=self.hostile.address)
        self.jobs: dict[tuple[str, int], int] = {}
        for token in (self.hostile, self.honest):
            self._stock(token)
        self.hostile.mint(self.hostile, WEALTH)
        kit.registry.deposit(self.own, self.hostile, AMOUNT, sender=self.hostile.address)

    def _stock(self, token: Any) -> None:
        """Each person has an open job, a cancelled one that is owed back, audits of both, and collateral."""
        kit, audits = self.kit, self.contracts["audits"]
        self.allow(token, True)
        for person, account in enumerate(self.people):
            self.give(token, account, WEALTH)
            for contract in self.contracts.values():
                token.approve(contract, UNLIMITED, sender=account)
            for _ in range(2):
                job = kit.tasks.post(self.play.terms(token=token.address), sender=account, value=POSTING_DEPOSIT)
                audits.fund(job, AMOUNT, sender=account)
                self.jobs.setdefault((str(token.address), person), job)
            kit.tasks.cancel(job, sender=account)
            audits.refund(job)
            kit.registry.deposit(self.operators[person], token, 4 * AMOUNT, sender=account)
        locks, operator = kit.locks.address, self.operators[NEIGHBOUR]
        kit.registry.lock(operator, token, 2 * AMOUNT, True, sender=locks)
        kit.registry.slash(operator, token, 2 * AMOUNT, False, sender=locks)
        self.give(token, kit.treasury, 4 * AMOUNT)
        kit.treasury.collect(token)

    def allow(self, token: Any, allowed: bool) -> None:
        self.kit.tasks.allow(token, allowed, 0, sender=self.kit.deployer)

    def job(self, token: Any, person: int) -> int:
        """The person's open job in a token."""
        return self.jobs[str(token.address), person]

    def liabilities(self, token: Any) -> dict[str, int]:
        kit, audits = self.kit, self.contracts["audits"]
        jobs = range(1, kit.tasks.job_count() + 1)
        jobs = [job for job in jobs if kit.tasks.jobs(job).token == token.address]
        owed = sum(kit.tasks.owed(token, person) for person in self.people)
        plans = [audits.budgets(job) for job in jobs]
        operators = (*self.operators, self.own)
        collateral = sum(kit.registry.collateral(operator, token).balance for operator in operators)
        return {
            "tasks": owed + sum(kit.tasks.jobs(job).escrow for job in jobs),
            "registry": collateral + kit.registry.pot(token) + kit.registry.burned(token),
            "treasury": sum(kit.treasury.buckets(token, bucket) for bucket in range(3)),
            "audits": sum(plan.balance + plan.reserved for plan in plans)
            + sum(audits.owed(token, person) for person in self.people),
        }

    def callbacks(self) -> list[tuple[str, bytes]]:
        kit, audits, token, neighbour = self.kit, self.contracts["audits"], self.hostile, self.people[NEIGHBOUR]
        own = self.own
        return [
            ("tasks", kit.tasks.withdraw.prepare_calldata(token.address, neighbour)),
            ("tasks", kit.tasks.post.prepare_calldata(self.play.terms(token=token.address))),
            ("registry", kit.registry.deposit.prepare_calldata(self.operators[NEIGHBOUR], token.address, 7)),
            ("registry", kit.registry.withdraw.prepare_calldata(own, token.address, AMOUNT)),
            ("audits", audits.withdraw.prepare_calldata(token.address, neighbour)),
            ("audits", audits.fund.prepare_calldata(self.job(token, NEIGHBOUR), 7)),
        ]

    def coin_of(self, payload: bytes) -> int:
        """A posting deposit with a post."""
        post = self.kit.tasks.post.prepare_calldata(self.play.terms())
        return POSTING_DEPOSIT if payload[:4] == post[:4] else 0

    def drain(self, token: Any) -> dict[str, int]:
        """Everyone takes out all that is theirs; what each contract is left with."""
        kit, audits = self.kit, self.contracts["audits"]
        for person, account in enumerate(self.people):
            kit.tasks.cancel(self.job(token, person), sender=account)
            audits.refund(self.job(token, person))
            kit.tasks.withdraw(token, account)
            audits.withdraw(token, account)
            operator = self.operators[person]
            kit.registry.withdraw(operator, token, kit.registry.collateral(operator, token).balance, sender=account)
        for bucket in range(3):
            amount = kit.treasury.buckets(token, bucket)
            kit.treasury.spend(token, bucket, self.people[POSTER], amount, sender=kit.timelock.address)
        pot = kit.registry.pot(token)
        kit.registry.pay_out(token, pot, sender=kit.locks.address)
        return self.balances(token) | {"tasks": token.balanceOf(kit.tasks) - pot}

    def pay_out(self, token: Any, person: int) -> None:
        """As a slash's part reaches a finder."""
        locks = self.kit.locks.address
        self.kit.registry.pay_out(token, AMOUNT, sender=locks)
        self.kit.tasks.restore(self.job(token, person), 0, self.people[person], AMOUNT, sender=locks)


def _post(m: Payments, token: Any, person: int) -> None:
    m.kit.tasks.post(m.play.terms(token=token.address), sender=m.people[person], value=POSTING_DEPOSIT)


def _deposit(m: Payments, token: Any, person: int) -> None:
    m.kit.registry.deposit(m.operators[person], token, AMOUNT, sender=m.people[person])


def _withdraw(m: Payments, token: Any, person: int) -> None:
    m.kit.registry.withdraw(m.operators[person], token, AMOUNT, sender=m.people[person])


def _spend(m: Payments, token: Any, person: int) -> None:
    m.kit.treasury.spend(token, 0, m.people[person], AMOUNT, sender=m.kit.timelock.address)


def _fund(m: Payments, token: Any, person: int) -> None:
    m.contracts["audits"].fund(m.job(token, person), AMOUNT, sender=m.people[person])


PAYMENTS = {
    "a job is posted": TokenMovement(_post, "tasks", ESCROW, True),
    "what is owed is withdrawn": TokenMovement(
        lambda m, t, p: m.kit.tasks.withdraw(t, m.people[p]), "tasks", ESCROW, False
    ),
    "collateral is deposited": TokenMovement(_deposit, "registry", AMOUNT, True),
    "collateral is withdrawn": TokenMovement(_withdraw, "registry", AMOUNT, False),
    "a slash is paid out": TokenMovement(
        Payments.pay_out, "registry", AMOUNT, False, lambda m, _: m.kit.tasks, "tasks"
    ),
    "a bucket is spent": TokenMovement(_spend, "treasury", AMOUNT, False),
    "audits are funded": TokenMovement(_fund, "audits", AMOUNT, True),
    "audits are withdrawn": TokenMovement(
        lambda m, t, p: m.contracts["audits"].withdraw(t, m.people[p]), "audits", AMOUNT, False
    ),
}


class Bonds(Market):
    """NodeRegistry, Rewards and Audits of a deployment whose ZEN is the hostile token; the registry holds honest collateral."""

    def __init__(self) -> None:
        names = ("settlement", "audits", "datasets", "poster", "neighbour")
        accounts = {name: chain.account(name) for name in names}
        self.accounts = accounts
        self.hostile, self.honest = load("mocks/HostileToken").deploy(), load("ZenToken").deploy(SUPPLY)
        zen, guardian = self.hostile, accounts["settlement"]
        registry = load("NodeRegistry").deploy(
            zen, guardian, DEVNET.min_stake, DEVNET.exit_delay_s, DEVNET.epoch_s, NEVER_S
        )
        rewards = load("Rewards").deploy(
            zen, registry, accounts["settlement"], DEVNET.epoch_s, DEVNET.emission_per_epoch, DEVNET.weight_per_fee
        )
        audits = load("Audits").deploy(
            registry, registry, registry, registry, zen, DEVNET.audit_bond, DEVNET.draw_blocks, 0
        )
        rewards.wire(accounts["settlement"], accounts["audits"], accounts["datasets"])
        self.contracts = {"registry": registry, "rewards": rewards, "audits": audits}
        self.people = [accounts["poster"], accounts["neighbour"]]
        self.operators = []
        for account in (*self.people, zen.address):
            zen.mint(account, 10**6 * ZEN)
            number = registry.register(account, 1, 8, DEVNET.min_stake, "", sender=account)
            self.operators.append(number)
            audits.deposit(number, zen, 3 * DEVNET.audit_bond, sender=account)
        for number, account in zip(self.operators[:2], self.people, strict=True):
            self.honest.transfer(account, AMOUNT)
            self.honest.approve(registry, AMOUNT, sender=account)
            registry.deposit(number, self.honest, AMOUNT, sender=account)
        self._earn()

    def _earn(self) -> None:
        """Work of the last epoch, as much of each, whose rewards can be claimed; exits that have run."""
        registry, rewards = self.contracts["registry"], self.contracts["rewards"]
        rewards.fund(100 * ZEN, sender=self.people[POSTER])
        self.epoch = chain.timestamp // DEVNET.epoch_s
        for number in self.operators:
            rewards.record(1, number, 100, 1_000, sender=self.accounts["settlement"])
        for number, account in zip(self.operators, (*self.people, self.hostile.address), strict=True):
            registry.request_exit(number, sender=account)
        chain.timestamp += max(DEVNET.epoch_s, DEVNET.exit_delay_s)
        # The budget of the epoch is drawn from the pool at the first claim: the token's own, so that all after it are alike.
        rewards.claim(self.operators[2], self.epoch, [1])

    def liabilities(self, token: Any) -> dict[str, int]:
        registry, rewards, audits = (self.contracts[name] for name in ("registry", "rewards", "audits"))
        collateral = sum(registry.collateral(number, token).balance for number in self._all())
        if token is self.honest:
            return {"registry": collateral, "rewards": 0, "audits": 0}
        epoch = rewards.epochs(self.epoch)
        owners = (*self.people, self.hostile.address)
        stakes = sum(registry.operators(number).stake for number in self._all())
        return {
            "registry": collateral + stakes + registry.burned(token),
            "rewards": rewards.pool() + epoch.budget - epoch.paid,
            "audits": sum(audits.funds(number, token).balance for number in self.operators)
            + sum(audits.owed(token, owner) for owner in owners),
        }

    def _all(self) -> range:
        return range(1, self.contracts["registry"].operator_count() + 1)

    def callbacks(self) -> list[tuple[str, bytes]]:
        registry, rewards, audits = (self.contracts[name] for name in ("registry", "rewards", "audits"))
        own, neighbour = self.operators[2], self.operators[NEIGHBOUR]
        return [
            ("registry", registry.withdraw_stake.prepare_calldata(own)),
            ("registry", registry.add_stake.prepare_calldata(neighbour, STAKE_UNIT)),
            ("rewards", rewards.claim.prepare_calldata(neighbour, self.epoch, [1])),
            ("rewards", rewards.fund.prepare_calldata(7)),
            ("audits", audits.pay_out.prepare_calldata(own, self.hostile.address, 7)),
            ("audits", audits.deposit.prepare_calldata(own, self.hostile.address, 7)),
        ]

    def drain(self, token: Any) -> dict[str, int]:
        registry = self.contracts["registry"]
        for number, account in zip(self.operators[:2], self.people, strict=True):
            registry.withdraw(number, token, AMOUNT, sender=account)
        return self.balances(token)


def _register(m: Bonds, token: Any, person: int) -> None:
    m.contracts["registry"].register(m.people[person], 1, 8, DEVNET.min_stake, "", sender=m.people[person])


def _add_stake(m: Bonds, token: Any, person: int) -> None:
    m.contracts["registry"].add_stake(m.operators[person], STAKE_UNIT, sender=m.people[person])


def _withdraw_stake(m: Bonds, token: Any, person: int) -> None:
    m.contracts["registry"].withdraw_stake(m.operators[person], sender=m.people[person])


def _enlist(m: Bonds, token: Any, person: int) -> None:
    m.contracts["audits"].deposit(m.operators[person], token, AMOUNT, sender=m.people[person])


def _claim(m: Bonds, token: Any, person: int) -> None:
    m.contracts["rewards"].claim(m.operators[person], m.epoch, [1])


BONDS = {
    "an operator registers": TokenMovement(_register, "registry", DEVNET.min_stake, True),
    "stake is added": TokenMovement(_add_stake, "registry", STAKE_UNIT, True),
    "stake is withdrawn": TokenMovement(_withdraw_stake, "registry", DEVNET.min_stake, False),
    "the pool is funded": TokenMovement(
        lambda m, t, p: m.contracts["rewards"].fund(AMOUNT, sender=m.people[p]), "rewards", AMOUNT, True
    ),
    "rewards are claimed": TokenMovement(_claim, "rewards", 700, False),
    "an auditor deposits": TokenMovement(_enlist, "audits", AMOUNT, True),
    "a deposit is paid out": TokenMovement(
        lambda m, t, p: m.contracts["audits"].pay_out(m.operators[p], t, AMOUNT, sender=m.people[p]),
        "audits",
        AMOUNT,
        False,
    ),
}
