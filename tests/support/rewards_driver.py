"""Rewards and Datasets beside a registry, with named accounts in the place of the contracts that record. For unit tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data

from tests.support.evm import chain, reverts
from tests.support.protocol_driver import DEVNET, START, SUPPLY, UNLIMITED, ZEN, load
from tests.support.sources import of_text
from zoo_compute.spec.clocks import NEVER_S

EPOCH_S = DEVNET.epoch_s
GBPS = 125_000_000 * EPOCH_S  # bytes of an epoch
VERIFICATION, DATA = 3, 4  # flows

# What Datasets asks of TaskRegistry, settable.
TASKS = """
struct Job:
    submitter: address
    token: address
    state: uint256
    escrow: uint256
    work_root: bytes32
    state_root: bytes32
    data_root: bytes32
    manifest: bytes32

jobs: public(HashMap[uint256, Job])

@external
def set_job(job: uint256, submitter: address, state: uint256, escrow: uint256):
    self.jobs[job] = Job(
        submitter=submitter, token=empty(address), state=state, escrow=escrow, work_root=empty(bytes32),
        state_root=empty(bytes32), data_root=empty(bytes32), manifest=empty(bytes32)
    )
"""


def receipt_signature(
    account: Any, contract: str, server: int, client: int, epoch: int, total: int, **domain: Any
) -> bytes:
    """What a client's wallet signs; `domain` changes what it is bound to."""
    bound = {
        "name": "Zoo Rewards",
        "version": "1",
        "chainId": chain.chain_id,
        "verifyingContract": contract,
    }
    types = {"Receipt": [{"name": name, "type": "uint256"} for name in ("server", "client", "epoch", "total")]}
    message = {"server": server, "client": client, "epoch": epoch, "total": total}
    signed = account.sign_message(encode_typed_data({**bound, **domain}, types, message))
    return bytes(signed.signature)


@dataclass(frozen=True)
class Node:
    """A registered operator whose hot key can sign."""

    id: int
    owner: Any
    hot: Any  # eth_account's


class RewardsStage:
    """Deploys, registers, records as the protocol's contracts would, and moves the clock."""

    def __init__(self) -> None:
        chain.timestamp = START // EPOCH_S * EPOCH_S
        accounts = ("deployer", "governor", "guardian", "settlement", "audits", "submitter", "anyone")
        for name in accounts:
            setattr(self, name, chain.account(name))
        with chain.prank(self.deployer):
            self.zen = load("ZenToken").deploy(SUPPLY)
            self.registry = load("NodeRegistry").deploy(
                self.zen, self.guardian, DEVNET.min_stake, DEVNET.exit_delay_s, EPOCH_S, NEVER_S
            )
            self.tasks = chain.deploy(of_text("Tasks", TASKS))
            self.rewards = self.deploy_rewards(DEVNET.weight_per_fee)
            self.datasets = load("Datasets").deploy(self.tasks, self.rewards)
            self.rewards.wire(self.settlement, self.audits, self.datasets)
            self.registry.wire(self.anyone, self.settlement, self.anyone, self.tasks, self.rewards, self.anyone)
            self.zen.approve(self.rewards, UNLIMITED)
        self.count = 0

    def deploy_rewards(self, weight_per_fee: int) -> Any:
        with chain.prank(self.deployer):
            return load("Rewards").deploy(
                self.zen, self.registry, self.governor, EPOCH_S, DEVNET.emission_per_epoch, weight_per_fee
            )

    # --- the clock

    @property
    def epoch(self) -> int:
        return int(chain.timestamp) // EPOCH_S

    def to_epoch(self, epoch: int) -> None:
        chain.timestamp = epoch * EPOCH_S

    def next_epoch(self) -> int:
        """The epoch that is over now."""
        epoch = self.epoch
        self.to_epoch(epoch + 1)
        return epoch

    # --- operators

    def register(self, *, gpu_class: int = 1, stake: int = DEVNET.min_stake) -> Node:
        self.count += 1
        owner = chain.account(f"owner {self.count}")
        hot = Account.from_key(keyed(self.count))
        self.zen.transfer(owner, stake, sender=self.deployer)
        self.zen.approve(self.registry, stake, sender=owner)
        number = self.registry.register(hot.address, gpu_class, 80, stake, "http://node", sender=owner)
        return Node(number, owner, hot)

    def beat(self, node: Node, count: int) -> None:
        """Signs of life in the first `count` periods of this epoch; the clock stays at its last one."""
        start = self.epoch * EPOCH_S
        for period in range(count):
            chain.timestamp = start + -(-period * EPOCH_S // 24)
            self.registry.heartbeat(node.id, sender=node.hot.address)

    # --- what the protocol's contracts record

    def fund(self, amount: int) -> None:
        self.rewards.fund(amount, sender=self.deployer)

    def record(self, job: int, node: Node, weight: int, fee: int) -> None:
        self.rewards.record(job, node.id, weight, fee, sender=self.settlement)

    def verify(self, node: Node, job: int, weight: int) -> None:
        self.rewards.record_verification(node.id, job, weight, sender=self.audits)

    def data(self, contributor: Any, job: int, weight: int, most: int) -> None:
        self.rewards.record_data(contributor, job, weight, most, sender=self.datasets.address)

    # --- receipts

    def sign(self, client: Node, server: Node, epoch: int, total: int, **domain: Any) -> bytes:
        """A receipt of `client` for `server`."""
        return receipt_signature(client.hot, str(self.rewards.address), server.id, client.id, epoch, total, **domain)

    def redeem(self, server: Node, client: Node, total: int, **changes: Any) -> int:
        epoch = changes.get("epoch", self.epoch)
        signature = changes.get("signature") or self.sign(client, server, epoch, total)
        sender = changes.get("sender", server.hot.address)
        return int(self.rewards.redeem(server.id, client.id, epoch, total, signature, sender=sender))

    # --- claims

    def claim(self, node: Node, epoch: int, *jobs: int) -> int:
        return int(self.rewards.claim(node.id, epoch, list(jobs), sender=self.anyone))

    refused = staticmethod(reverts)


def keyed(number: int) -> bytes:
    return number.to_bytes(32, "big")


@pytest.fixture(scope="module", name="deployed")
def deployed_fixture() -> RewardsStage:
    return RewardsStage()


@pytest.fixture(name="s")
def stage_fixture(deployed: RewardsStage) -> Iterator[RewardsStage]:
    with chain.anchor():
        yield deployed


__all__ = ["DATA", "DEVNET", "EPOCH_S", "GBPS", "VERIFICATION", "ZEN", "Node", "RewardsStage", "receipt_signature"]
