"""Jobs on a devnet's anvil, driven without keepers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from eth_account.signers.local import LocalAccount

from tests.support.job_driver import JobDriver
from zoo_compute.chain.sender import Receipt, Sender
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec.params import ZEN


@contextmanager
def rolled_back(devnet: Devnet) -> Iterator[None]:
    """The chain is afterwards as it was before, and its connection has read nothing: tests can share what takes seconds to build."""
    before = devnet.rpc("evm_snapshot", [])
    try:
        yield
    finally:
        assert devnet.rpc("evm_revert", [before])
        devnet.chain._cache.clear()


class DevnetOperator:
    """A registered operator whose one key is owner and hot key."""

    def __init__(self, devnet: Devnet, name: str, price: int) -> None:
        self.account: LocalAccount = devnet.account(name, zen=5_000 * ZEN)
        self.price = price
        self.chain = devnet.chain
        self.sender = self.hot = Sender(devnet.chain, self.account, folder=devnet.folder)
        registry = self.chain.registry
        self.send(self.chain.zen.approve(registry.address, 5_000 * ZEN))
        stake = self.chain.params.min_stake
        registered = self.send(registry.register(self.account.address, 1, 8, stake, f"http://{name}"))
        self.id: int = registered.event("OperatorRegistered").args["operator"]
        self.send(registry.deposit(self.id, self.chain.zen.address, 1_000 * ZEN))

    def send(self, call: object, **options: Any) -> Receipt:
        return self.sender.send(call, **options)  # type: ignore[arg-type]


class DevnetDriver(JobDriver):
    """Accounts are senders. By default jobs have two slots and one round."""

    TERMS: ClassVar[dict[str, Any]] = {
        "rounds": 1,
        "slots": 2,
        "reserve": 10,
        "max_price": 20,
        "aggregator_reserve": 5,
        "aggregator_max_price": 6,
        "slot_s": 600,
        "aggregate_s": 600,
        "reexecute_s": 100,
    }

    def __init__(self, devnet: Devnet, submitter: Sender | None = None) -> None:
        self.devnet, self.chain = devnet, devnet.chain
        if submitter is None:
            account = devnet.account("submitter", zen=1_000 * ZEN)
            submitter = Sender(self.chain, account, folder=devnet.folder)
            submitter.send(self.chain.zen.approve(self.chain.tasks.address, 1_000 * ZEN))
        super().__init__(self.chain, self.chain.zen, submitter, submitter)

    def operator(self, name: str, price: int) -> Any:
        operator = DevnetOperator(self.devnet, name, price)
        self.operators[operator.id] = operator
        return operator

    @property
    def now(self) -> int:  # type: ignore[override]
        return self.chain.now()

    @property
    def sent_at(self) -> int:
        return int(self.chain.w3.eth.get_block(self.last.block)["timestamp"])

    def to(self, now: int) -> None:
        self.devnet.warp_to(now)

    def send(self, contract: str, function: str, sender: Sender, *args: Any, value: int = 0) -> Receipt:
        self.last = sender.send(getattr(getattr(self.chain, contract), function)(*args), value=value)
        return self.last

    def posted(self, result: Receipt) -> int:
        return int(result.event("JobPosted").args["job"])
