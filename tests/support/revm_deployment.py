"""What `zoo_compute.chain.deployment` deploys, on revm: the whole protocol, governed as in production."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.support.contract import Contract
from tests.support.evm import chain
from tests.support.protocol_driver import load
from zoo_compute.chain.deployment import Deployment, deploy
from zoo_compute.chain.network import CONTRACTS
from zoo_compute.chain.roles import Roles


class RevmDeployer:
    """deployment.Deployer in this process. `at`: the contracts by their addresses."""

    def __init__(self, address: str = "") -> None:
        self.address = address or chain.account("deployer")
        self.at: dict[str, Contract] = {}

    def block(self) -> int:
        return chain.block

    def deploy(self, contract: str, *args: Any) -> str:
        made = load(contract).deploy(*args, sender=self.address)
        self.at[str(made.address)] = made
        return str(made.address)

    def call(self, contract: str, address: str, function: str, *args: Any) -> None:
        getattr(self.bound(contract, address), function)(*args, sender=self.address)

    def read(self, contract: str, address: str, function: str) -> str:
        return str(getattr(self.bound(contract, address), function)())

    def code(self, address: str) -> bytes:
        return chain.code(address)

    def bound(self, contract: str, address: str) -> Contract:
        """Of another deployer too: a version before."""
        return self.at.get(address) or chain.contracts[address]


def multisig() -> str:
    """A contract in a multisig's place: it has code, and revm lets it send."""
    return str(load("mocks/SilentToken").deploy().address)


def five_multisigs() -> Roles:
    """Each role its own contract."""
    guardian, proposer, executor, canceller, holder = (multisig() for _ in range(5))
    return Roles(guardian, (proposer,), (executor,), (canceller,), holder)


def kit_of(deployer: RevmDeployer, deployment: Deployment) -> SimpleNamespace:
    """As `protocol_driver.deploy_all` has it."""
    contracts = {name: deployer.bound(CONTRACTS[name], at) for name, at in deployment.contracts.items()}
    return SimpleNamespace(**contracts, deployer=deployer.address)


def deployed(params: Any, roles: Roles | None = None, **options: Any) -> tuple[SimpleNamespace, Deployment]:
    """The contracts, and what the deployment says of them."""
    deployer = RevmDeployer()
    deployment = deploy(deployer, params, roles=roles, **options)
    return kit_of(deployer, deployment), deployment


def govern(kit: SimpleNamespace, roles: Roles, delay_s: int, target: Contract, function: str, *args: Any) -> None:
    """Through the timelock, by those that have the roles; the clock goes on by the delay."""
    payload = getattr(target, function).prepare_calldata(*args)
    call = (target.address, 0, payload, bytes(32), chain.timestamp.to_bytes(32, "big"))
    kit.timelock.schedule(*call, delay_s, sender=roles.proposers[0])
    chain.timestamp += delay_s
    kit.timelock.execute(*call, sender=roles.executors[0])
