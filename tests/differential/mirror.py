"""The contracts' side of a stage: deployed once a process, rolled back after every use, called and compared."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple
from functools import cache
from pathlib import Path
from typing import Any

import boa
from boa.contracts.vyper.vyper_contract import VyperContract
from eth_abi import decode
from eth_account import Account
from eth_utils import keccak

from tests.consent_kit import Signer
from tests.unit.rewards_kit import receipt_signature
from zoo_compute.spec.params import PRESETS, Preset, Terms
from zoo_compute.spec.state import Claim, Config, Consent, Receipt, Seal, World
from zoo_compute.spec.trials import Trial, Workload
from zoo_compute.spec.world import Call

from .stage import ACCOUNTS, START, WEALTH, block_hash
from .views import VIEWS, View, changed_keys, expected_field, seal_bytes

ROOT = Path(__file__).parents[2]
# Where the contracts under test lie: mutation runs point this at a copy.
CONTRACTS = Path(os.environ.get("ZOO_CONTRACTS", ROOT / "contracts"))
SPENDERS = ("registry", "tasks", "rewards")
ERROR_SELECTOR = keccak(text="Error(string)")[:4]
UNLIMITED = 2**256 - 1
CONFIGURED = ("registry", "tasks", "rewards", "treasury", "admissions")
FULL_COMPARISON_EVERY = 25  # steps; every step compares what the specification wrote


class Disagreement(AssertionError):
    """Contract and specification differ; the message says where."""


@contextmanager
def mirrored(preset_name: str) -> Iterator["ContractMirror"]:
    """A fresh deployment of the preset, undone at the end."""
    kit = deployed(preset_name)
    with boa.env.anchor():
        yield ContractMirror(PRESETS[preset_name], *kit)


def deployed_apart(preset_name: str) -> "ContractMirror":
    """A deployment of its own that lives as long as the process; its user anchors."""
    return ContractMirror(PRESETS[preset_name], *deployed.__wrapped__(preset_name))


@cache
def _loaded(name: str) -> Any:
    return boa.load_partial(str(CONTRACTS / f"{name}.vy"))


@cache
def deployed(preset_name: str) -> tuple[dict[str, VyperContract], dict[str, str]]:
    """Contracts by the names of docs/protocol.md, tokens as `token ADDRESS`; and the accounts' addresses."""
    preset = PRESETS[preset_name]
    boa.env.timestamp = START
    accounts = {name: Signer(name).address for name in ACCOUNTS}
    with boa.env.prank(accounts["deployer"]):
        contracts = _deploy(preset, accounts)
        bad = _loaded("mocks/FalseToken").deploy()
        supply = 2 * WEALTH * len(ACCOUNTS)
        tokens = {"zen": contracts["zen"], "usd": _loaded("ZenToken").deploy(supply), "bad": bad}
        for name, token in tokens.items():
            contracts[f"token {token.address}"] = token
            contracts[name] = token
            for account in accounts.values():
                if name == "bad":
                    token.mint(account, WEALTH)
                elif account != accounts["deployer"]:
                    token.transfer(account, WEALTH)
            if name != "bad":
                token.transfer(accounts["sink"], token.balanceOf(accounts["deployer"]) - WEALTH)
    for account in accounts.values():
        for name in ("zen", "usd"):
            for spender in SPENDERS:
                contracts[name].approve(contracts[spender].address, UNLIMITED, sender=account)
    return contracts, accounts


def _deploy(preset: Preset, accounts: dict[str, str]) -> dict[str, VyperContract]:
    """As docs/protocol.md has the constructors; governor and timelock are plain accounts here."""
    guardian = accounts["guardian"]
    zen = _loaded("ZenToken").deploy(2 * WEALTH * len(accounts))
    treasury = _loaded("Treasury").deploy(accounts["timelock"])
    registry = _loaded("NodeRegistry").deploy(zen, guardian, preset.min_stake, preset.exit_delay_s, preset.epoch_s)
    tasks = _loaded("TaskRegistry").deploy(treasury, accounts["deployer"], guardian)
    auction = _loaded("Auction").deploy(registry, tasks, guardian, preset.bid_window_s, preset.reveal_window_s)
    rewards = _loaded("Rewards").deploy(zen, registry, preset.epoch_s, preset.emission_per_epoch, preset.weight_per_fee)
    datasets = _loaded("Datasets").deploy(tasks, rewards)
    settlement = _loaded("Settlement").deploy(
        registry, tasks, auction, rewards, zen, preset.ready_window_s, preset.min_window_s
    )
    admissions = _loaded("Admissions").deploy(
        registry, accounts["deployer"], preset.benchmark_s, preset.min_window_s, preset.epoch_s
    )
    admissions.wire(accounts["referee"])
    registry.wire(auction, settlement, tasks, rewards, admissions)
    tasks.wire(auction, settlement)
    auction.wire(settlement)
    settlement.wire(accounts["referee"], accounts["availability"], accounts["audit pool"])
    rewards.wire(settlement, accounts["deployer"], datasets)
    return {
        "zen": zen,
        "treasury": treasury,
        "registry": registry,
        "tasks": tasks,
        "auction": auction,
        "rewards": rewards,
        "datasets": datasets,
        "settlement": settlement,
        "admissions": admissions,
    }


class ContractMirror:
    """Makes the same calls on the contracts, and compares what they show."""

    def __init__(self, preset: Preset, contracts: dict[str, VyperContract], accounts: dict[str, str]) -> None:
        self.contracts = contracts
        self.accounts = accounts
        self.tokens = {name: str(contracts[name].address) for name in ("zen", "usd", "bad")}
        self.config = Config(
            preset=preset,
            zen=self.tokens["zen"],
            deployer=accounts["deployer"],
            guardian=accounts["guardian"],
            governor=accounts["deployer"],
            treasury_governor=accounts["timelock"],
            referee=accounts["referee"],
            availability=accounts["availability"],
            audit_pool=accounts["audit pool"],
            audits=accounts["deployer"],
            **{name: str(contracts[name].address) for name in CONFIGURED},
        )
        self._signers = {address: Signer(name) for name, address in accounts.items()}
        self._steps = 0
        self._seen: dict[tuple[str, Any], None] = {}

    def accept(self, call: Call, before: World, after: World, result: Any) -> None:
        """The contract must accept, return the same and show the same."""
        actual = self._invoke(call)
        if result is not None and actual != result:
            raise Disagreement(f"{call.contract}.{call.function}: returned {actual}, specification says {result}")
        written = list(changed_keys(before, after))
        self._seen.update(dict.fromkeys(written))
        self._compare_keys(after, written)
        self._steps += 1
        if self._steps % FULL_COMPARISON_EVERY == 0:
            self.compare(after)

    def refuse(self, call: Call, reason: str, world: World) -> None:
        """The contract must refuse for the same reason; a revert undoes all it did."""
        try:
            self._invoke(call)
        except boa.BoaError:
            given = _revert_reason(self._target(call)._computation.output)
            if given != reason:
                raise Disagreement(f"{call}: refused with {given!r}, specification says {reason!r}") from None
        else:
            raise Disagreement(f"{call}: accepted, specification says {reason!r}")

    def compare(self, world: World) -> None:
        """Everything the contracts show of keys that any step ever wrote."""
        self._compare_keys(world, list(self._seen))
        self._check(View("rewards", "pool", (), world.pool))

    def _compare_keys(self, world: World, keys: list[tuple[str, Any]]) -> None:
        for name, key in keys:
            for view in VIEWS[name](world, key):
                self._check(view)

    def _check(self, view: View) -> None:
        actual = getattr(self.contracts[view.contract], view.name)(*view.args)
        where = f"{view.contract}.{view.name}{view.args}"
        if not hasattr(actual, "_fields"):
            if actual != view.expected:
                raise Disagreement(f"{where} shows {actual!r}, specification says {view.expected!r}")
            return
        for field in actual._fields:
            shown, expected = getattr(actual, field), expected_field(view.expected, field)
            if shown != expected:
                raise Disagreement(f"{where}.{field} shows {shown!r}, specification says {expected!r}")

    def _invoke(self, call: Call) -> Any:
        boa.env.timestamp = call.now
        _mine(call.block)
        method = getattr(self._target(call), call.function)
        args = call.args[1:] if call.contract == "token" else call.args or _zeros(method)
        return method(*map(self._argument, args), sender=call.sender)

    def _argument(self, arg: Any) -> Any:
        if isinstance(arg, Consent):
            terms = asdict(arg)
            signer = self._signers[terms.pop("signer")]
            return signer.signs_at(str(self.contracts["registry"].address), terms)
        if isinstance(arg, Receipt):
            name = self._signers[arg.signer].name
            account = Account.from_key(keccak(text=name))
            at = str(self.contracts["rewards"].address)
            return receipt_signature(account, at, arg.server, arg.client, arg.epoch, arg.total)
        return _encoded(arg)

    def _target(self, call: Call) -> VyperContract:
        return self.contracts[f"token {call.args[0]}" if call.contract == "token" else call.contract]


def _mine(number: int) -> None:
    """The chain stands in this block, and knows the hashes of 256 before it."""
    patch = boa.env.evm.patch
    if patch.block_number != number:
        patch.block_number = number
        patch.prev_hashes = [block_hash(number - back) for back in range(1, 257)]


def _revert_reason(output: bytes) -> str:
    """The string of `Error(string)`; anything else as it is, which no specification says."""
    if output[:4] != ERROR_SELECTOR:
        return f"no reason ({output.hex()})"
    return str(decode(["string"], output[4:])[0])


def _encoded(arg: Any) -> Any:
    """A specification's argument as boa takes it."""
    if isinstance(arg, Seal):
        return seal_bytes(arg)
    if isinstance(arg, Terms | Claim | Workload | Trial):
        return astuple(arg)
    if isinstance(arg, tuple):
        return [_encoded(item) for item in arg]
    return arg


def _zeros(method: Any) -> tuple[Any, ...]:
    """Zeros for every argument of a function that refuses accounts whatever they pass."""
    zeros = {"address": "0x" + 40 * "0", "bytes32": bytes(32), "bool": False, "DynArray[address, 16]": []}
    return tuple(zeros.get(str(arg.typ), 0) for arg in method.fn_ast._metadata["func_type"].arguments)
