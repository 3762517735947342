"""`zoo node register` without its questions: compute what is left to pay; then hot key, stake, collateral, coin, operator.json.

Every step first checks what exists, so the command resumes after an interruption and registers once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from eth_utils.address import to_checksum_address

from zoo_compute.amounts import format_amount
from zoo_compute.atomic import write_atomically
from zoo_compute.chain import network
from zoo_compute.chain.addresses import is_address
from zoo_compute.chain.snapshot import read_operator
from zoo_compute.chain.views import OperatorView
from zoo_compute.errors import ConfigError, NotFunded, UserError
from zoo_compute.operators.account import Operators, Say, check_url
from zoo_compute.operators.balances import RegistrationResult
from zoo_compute.paths import CONFIG
from zoo_compute.spec.params import GpuClass

GAS = 1_500_000  # upper bound for approvals, registration, deposit and a transfer


@dataclass(frozen=True)
class RegistrationPlan:
    """The wanted operator. Amounts are final balances; settings are keys of operator.json."""

    gpu: GpuClass
    vram_gb: int
    stake: int
    collateral: int
    hot_coin: int
    endpoint: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RegistrationCost:
    """Amounts left to send, in the smallest units of ZEN and of the chain's coin."""

    stake: int
    collateral: int
    coin: int


class Registration:
    """One folder's registration, possibly unfinished. hot: an existing hot key's address; by default the folder's, made if absent.

    Raises ConfigError if the folder belongs to another network, UserError if its operator has another owner.
    """

    def __init__(self, operators: Operators, folder: Path, network_file: Path, hot: str | None = None) -> None:
        self._operators, self._folder, self._network_file = operators, folder, network_file
        self._own_key = hot is None
        if hot is not None and not is_address(hot):
            raise UserError(f"--hot takes an address, not {hot!r}", hint="omit it to create a hot key")
        _check_network(folder, network_file)
        self.hot = operators.hot_key(folder) if hot is None else str(to_checksum_address(hot))
        self.view = self._registered()

    def cost(self, wanted: RegistrationPlan) -> RegistrationCost:
        """Amounts that are missing."""
        chain, view = self._operators.chain, self.view
        zen = chain.network.contracts["zen"]
        collateral = view.collateral.get(zen, (0, 0))[0] if view else 0
        return RegistrationCost(
            stake=0 if view else wanted.stake,
            collateral=max(0, wanted.collateral - collateral),
            coin=max(0, wanted.hot_coin - chain.coin(self.hot)),
        )

    def check(self, wanted: RegistrationPlan, cost: RegistrationCost) -> None:
        """Check everything before sending, to avoid a half-done registration. Raises UserError, NotFunded."""
        if wanted.endpoint:
            check_url(wanted.endpoint)
        if self.view is None:
            self._operators.check_stake(wanted.stake)
        chain, account = self._operators.chain, self._operators.sender.address
        block = chain.w3.eth.get_block("latest")
        gas = GAS * int(block.get("baseFeePerGas", 0)) if any(vars(cost).values()) else 0
        zen, coin = chain.zen.balanceOf(account), chain.coin(account)
        missing = [format_amount(cost.stake + cost.collateral - zen)] if cost.stake + cost.collateral > zen else []
        missing += (
            [f"{format_amount(cost.coin + gas - coin, '', places=4)} coin for gas"] if cost.coin + gas > coin else []
        )
        if missing:
            raise NotFunded(
                f"the account {account} has {format_amount(zen)} and {format_amount(coin, '', places=4)} coin; it lacks "
                f"{' and '.join(missing)}: the stake is {format_amount(cost.stake)}, the collateral {format_amount(cost.collateral)}",
                hint=f"send it to {account} and run the same command again, or choose a smaller --deposit",
            )

    def complete(self, wanted: RegistrationPlan, cost: RegistrationCost, say: Say) -> RegistrationResult:
        """Send what is missing, and write operator.json."""
        operators, is_new = self._operators, self.view is None
        if self.view is None:
            terms = (wanted.gpu, wanted.vram_gb, wanted.stake, wanted.endpoint)
            number = operators.register(self.hot, *terms, say=say)
        else:
            number = self.view.operator
        if self._own_key:  # now, so that `zoo node status` works if the next step fails
            _write_config(self._folder, self._network_file, number, wanted)
        if cost.collateral:
            say(f"depositing {format_amount(cost.collateral)} of collateral")
            operators.deposit(number, operators.token(None), cost.collateral)
        operators.top_up(self.hot, wanted.hot_coin, say)
        view = read_operator(operators.chain, number)
        self.view = view
        return RegistrationResult(number, view.owner, view.hot, view.stake, is_new)

    def _registered(self) -> OperatorView | None:
        known = self._operators.registered_with(self.hot)
        if not known:
            return None
        mine = self._operators.sender.address
        numbers = [number for number, owner in known if owner == mine]
        if not numbers:
            number, owner = known[-1]
            raise UserError(
                f"the hot key {self.hot} already belongs to operator {number}, owned by {owner}",
                hint="pass its owner as --account, or --home FOLDER for another operator",
            )
        return read_operator(self._operators.chain, numbers[-1])


def _check_network(folder: Path, network_file: Path) -> None:
    """One folder is one operator of one network. Raises ConfigError."""
    path = folder / CONFIG
    try:
        old = network.load((folder / json.loads(path.read_text())["network"]).resolve())
    except (OSError, ValueError, KeyError, TypeError, ConfigError):
        return  # no operator.json, or its network file is gone
    new = network.load(network_file)
    if not old.is_same(new):
        raise ConfigError(
            f"{folder} belongs to an operator of the network {old.name} (chain {old.chain_id}, preset {old.preset}), "
            f"not of {new.name} (chain {new.chain_id}, preset {new.preset})",
            hint="pass --home FOLDER for an operator of another network",
        )


def values_of(folder: Path, wanted: RegistrationPlan) -> dict[str, Any]:
    """The new operator.json: existing values stay, except those chosen now."""
    path = folder / CONFIG
    values: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"name": folder.name}
    if wanted.endpoint and not values.get("endpoint"):
        values["endpoint"] = wanted.endpoint
        values.setdefault("gateway_port", urlsplit(wanted.endpoint).port or 0)
    return values | dict(wanted.settings)


def _write_config(folder: Path, network_file: Path, operator: int, wanted: RegistrationPlan) -> None:
    """operator.json for `zoo node start`."""
    values = values_of(folder, wanted) | {"network": str(network_file.resolve()), "operator": operator}
    write_atomically(folder / CONFIG, (json.dumps(values, indent=2) + "\n").encode(), mode=0o600)
