"""Operators without keepers, and a job for them: what tests share that walk a devnet's windows by hand."""

from __future__ import annotations

from typing import Any

from eth_abi.abi import encode
from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak

from zoo_compute.chain.bindings.task_registry import Terms
from zoo_compute.chain.sender import Receipt, Sender
from zoo_compute.devnet import Devnet
from zoo_compute.spec.params import ZEN

SALT = b"\x05" * 32


class Party:
    """An operator whose one key is owner and hot key."""

    def __init__(self, devnet: Devnet, name: str, price: int) -> None:
        self.account: LocalAccount = devnet.account(name, zen=5_000 * ZEN)
        self.price = price
        self.chain = devnet.chain
        self.sender = Sender(devnet.chain, self.account, folder=devnet.folder)
        registry = self.chain.registry
        self.send(self.chain.zen.approve(registry.address, 5_000 * ZEN))
        stake = self.chain.params.min_stake
        registered = self.send(registry.register(self.account.address, 1, 8, stake, f"http://{name}"))
        self.id: int = registered.event("OperatorRegistered").args["operator"]
        self.send(registry.deposit(self.id, self.chain.zen.address, 100 * ZEN))

    def send(self, call: object, **options: Any) -> Receipt:
        return self.sender.send(call, **options)  # type: ignore[arg-type]

    def seal(self, job: int, kind: int, price: int) -> bytes:
        types = ["uint256"] * 6 + ["bytes32"]
        return bytes(keccak(encode(types, [job, kind, 1, self.id, price, 1, SALT])))

    def bid(self, job: int, kind: int, price: int) -> None:
        self.send(self.chain.auction.bid(job, kind, self.id, self.seal(job, kind, price), 1, True))

    def reveal(self, job: int, kind: int, price: int) -> None:
        self.send(self.chain.auction.reveal(job, kind, self.id, price, SALT))


def post(devnet: Devnet, **changes: Any) -> int:
    """A job of two slots and one round."""
    submitter = devnet.account("submitter", zen=1_000 * ZEN)
    sender, chain = Sender(devnet.chain, submitter, folder=devnet.folder), devnet.chain
    sender.send(chain.zen.approve(chain.tasks.address, 1_000 * ZEN))
    terms = {
        "token": chain.zen.address,
        "work_root": b"p" * 32,
        "state_root": b"s" * 32,
        "data_root": b"d" * 32,
        "manifest": b"m" * 32,
        "rounds": 1,
        "slots": 2,
        "quorum": 2,
        "reserve": 10,
        "max_price": 20,
        "aggregator_reserve": 5,
        "aggregator_max_price": 6,
        "slot_s": 600,
        "aggregate_s": 600,
        "reexecute_s": 100,
        "flops": 10**12,
        "depth": 4,
        "policy": 0,
    }
    call = chain.tasks.post(Terms(**(terms | changes)))
    return int(sender.send(call).event("JobPosted").args["job"])
