"""Operators that show their machines: a registry, the admissions, and a chain whose blocks a test makes."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from tests.support.evm import chain
from tests.support.evm import reverts as refused
from tests.support.protocol_driver import START, SUPPLY, UNLIMITED, load
from zoo_compute.spec.clocks import NEVER_S
from zoo_compute.spec.merkle import result_root
from zoo_compute.spec.params import DEVNET
from zoo_compute.spec.trials import TRIALS, Workload

EPOCH_S, BENCHMARK_S, WINDOW_S = 60, 10, 30
WORKLOAD = Workload(b"p" * 32, b"s" * 32, 64, 10**15)
ROOT, FIRST_BLOCK = b"r" * 32, 1_000
WORKLOAD_TYPE = "(bytes32,bytes32,uint256,uint256)"

__all__ = ["deployed_fixture", "entrant_fixture", "refused"]


def seed_of(number: int, operator: int, workload: Workload = WORKLOAD) -> bytes:
    return seed_under(chain.block_hash(number), operator, workload)


def seed_under(block_hash: bytes, operator: int, workload: Workload = WORKLOAD) -> bytes:
    """Written from docs/protocol/."""
    types = ["bytes32", "uint256", WORKLOAD_TYPE]
    return bytes(keccak(encode(types, [block_hash, operator, astuple(workload)])))


def chance(number: int, epoch: int, operator: int) -> int:
    values = (chain.block_hash(number), epoch, operator)
    return int.from_bytes(keccak(encode(["bytes32", "uint256", "uint256"], values)), "big") % 10_000


@dataclass(frozen=True)
class Node:
    id: int
    owner: Any
    hot: Any


class AdmissionsDriver:
    """A datacenter operator of 48 GB, and a workload for 40 GB."""

    def __init__(self, deployed: tuple[Any, ...]) -> None:
        self.zen, self.registry, self.contract, self.deployer, self.referee = deployed
        self.anyone = chain.account("anyone")
        self.second, self.number = 0, 0
        self.at(FIRST_BLOCK, 0)
        self.ada = self.register("ada")

    def at(self, number: int, second: int) -> None:
        """Block `number`, `second` seconds after the start."""
        self.number, self.second = number, second
        chain.timestamp = START + second
        chain.block = number

    def after(self, blocks: int, seconds: int) -> None:
        self.at(self.number + blocks, self.second + seconds)

    @property
    def epoch(self) -> int:
        return (START + self.second) // EPOCH_S

    def register(self, name: str, gpu_class: int = 3, vram_gb: int = 48) -> Node:
        owner, hot = chain.account(f"{name} owner"), chain.account(f"{name} hot")
        self.zen.transfer(owner, 2 * DEVNET.min_stake, sender=self.deployer)
        self.zen.approve(self.registry, UNLIMITED, sender=owner)
        operator = self.registry.register(hot, gpu_class, vram_gb, DEVNET.min_stake, "http://", sender=owner)
        return Node(operator, owner, hot)

    def set_workload(self, vram_gb: int = 40, workload: Workload = WORKLOAD, sender: Any = None) -> None:
        self.contract.set_workload(vram_gb, astuple(workload), sender=sender or self.deployer)

    def enter(self, node: Node | None = None) -> None:
        node = node or self.ada
        self.contract.enter(node.id, sender=node.hot)

    def answer(self, node: Node | None = None, seed: bytes | None = None) -> tuple[Any, ...]:
        """Answered with the chain's seed; the claim, written from docs/protocol/."""
        node = node or self.ada
        entry = self.contract.entries(node.id)
        workload = Workload(*self.contract.workload_of(node.id))
        seed = seed or seed_of(entry.block, node.id, workload)
        self.contract.answer(node.id, seed, ROOT, sender=node.hot)
        root = result_root(0, workload.state_root, ROOT, bytes(32), bytes(32))
        number = int.from_bytes(seed, "big")
        return (node.id, number, 0, node.id, 1, 0, workload.state_root, root)

    def answered(self, seconds: int = 5, node: Node | None = None) -> tuple[Any, ...]:
        self.enter(node)
        self.after(2, seconds)
        return self.answer(node)

    def settle(self, claim: tuple[Any, ...]) -> None:
        self.contract.settle(claim, sender=self.anyone)

    def admitted(self) -> None:
        claim = self.answered()
        self.after(9, WINDOW_S + 1)
        self.settle(claim)

    def drawn(self) -> None:
        """An epoch whose draw picks ada, and whose draw's block is known."""
        self.after(0, EPOCH_S - (START + self.second) % EPOCH_S)
        while chance(self.number + 1, self.epoch, self.ada.id) >= 1_000:
            self.after(1, 0)
        self.contract.schedule(sender=self.anyone)
        self.after(2, 0)

    def recall(self) -> None:
        self.contract.recall(self.ada.id, sender=self.anyone)

    def dispute(self, claim: tuple[Any, ...], sender: Any = None) -> None:
        self.contract.open_dispute(TRIALS, claim, sender=sender or self.referee)

    def close(self, claim: tuple[Any, ...], outcome: int, sender: Any = None) -> None:
        self.contract.close_dispute(TRIALS, claim, outcome, 7, 11, sender=sender or self.referee)

    def multiplier(self) -> int:
        return int(self.registry.multiplier_of(self.ada.id))


@pytest.fixture(scope="module", name="deployed")
def deployed_fixture():
    chain.timestamp = START
    deployer, referee = chain.account("deployer"), chain.account("referee")
    with chain.prank(deployer):
        zen = load("ZenToken").deploy(SUPPLY)
        registry = load("NodeRegistry").deploy(zen, deployer, DEVNET.min_stake, DEVNET.exit_delay_s, EPOCH_S, NEVER_S)
        contract = load("Admissions").deploy(registry, deployer, BENCHMARK_S, DEVNET.min_window_s, EPOCH_S)
        registry.wire(deployer, deployer, deployer, deployer, deployer, contract)
        contract.wire(referee)
    return zen, registry, contract, deployer, referee


@pytest.fixture(name="entrant")
def entrant_fixture(deployed):
    with chain.anchor():
        entrant = AdmissionsDriver(deployed)
        entrant.set_workload()
        yield entrant
