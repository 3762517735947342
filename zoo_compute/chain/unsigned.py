"""Transactions without a signature: for hardware wallets, multisigs and the wallet of a browser.

An `UnsignedAccount` takes the place of a signer. `Sender` hands it every transaction, whatever sends it. It keeps each one, simulated after
those before it, and from then on the connection reads as if they were mined: what is decided next is decided after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eth_utils.address import to_checksum_address
from web3.providers.base import JSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse

from zoo_compute.chain.batched_simulation import Outcome, simulate_all
from zoo_compute.chain.call import Call, decode_outputs
from zoo_compute.chain.events import Event, decode
from zoo_compute.chain.receipt import Receipt
from zoo_compute.chain.simulate import Request, dry_run, estimate_gas
from zoo_compute.errors import ConfigError

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain

REFUND_PERCENT = 25  # a transaction needs up to a quarter more gas than it uses: refunds come at its end
MARGIN_PERCENT = 25  # state moves until it is mined
AGAIN = "once it is mined, run the same command again: it goes on with what is left"
# Events that give something its number, which nobody knows before the transaction is mined: another's may be mined first.
NUMBERED = {
    "JobPosted": f"the job gets its number when it is mined; {AGAIN}",
    "OperatorRegistered": f"the operator gets its number when it is mined; {AGAIN}",
    "DatasetContributed": "the dataset gets its number when it is mined: `zoo dataset list` shows it",
}
BLIND = f"the RPC cannot simulate several transactions in a row (eth_simulateV1); {AGAIN}"


class NotMinedYet(Exception):
    """What comes next depends on recorded transactions that are not mined. The message says what to do then.

    Not a ZooError: code that goes on after one must not go on here.
    """


@dataclass(frozen=True)
class UnsignedTransaction:
    """One transaction to sign. value: wei of coin. gas: a limit, with a margin. call: None for a transfer of coin."""

    sender: str
    to: str
    data: str  # 0x...
    value: int
    chain_id: int
    gas: int
    call: Call | None

    def to_rpc(self) -> dict[str, str]:
        """The object that `eth_sendTransaction` takes."""
        return {
            "from": self.sender,
            "to": self.to,
            "data": self.data,
            "value": hex(self.value),
            "chainId": hex(self.chain_id),
            "gas": hex(self.gas),
        }


@dataclass(frozen=True)
class PlannedReceipt(Receipt):
    """Of a transaction that is only recorded. is_simulated: whether the events are known."""

    is_simulated: bool = True

    def event(self, name: str) -> Event:
        """As it would be now. Raises NotMinedYet where nobody can know it."""
        if name in NUMBERED:
            raise NotMinedYet(NUMBERED[name])
        if not self.is_simulated:
            raise NotMinedYet(BLIND)
        return super().event(name)


@dataclass
class UnsignedAccount:
    """An address whose key is elsewhere. It cannot sign: what is sent from it is kept in `transactions`, in order."""

    address: str
    transactions: list[UnsignedTransaction] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.address = to_checksum_address(self.address)

    def sign_transaction(self, _: Any, /) -> Any:
        raise ConfigError(
            f"the key of {self.address} is not here", hint="its transactions can only be printed: --unsigned"
        )

    def record(self, chain: Chain, request: Request, call: Call | None) -> PlannedReceipt:
        """Simulate the transaction after those before it, and keep it.

        Raises Refusal where the contract would refuse it; NotFunded; NotMinedYet where the RPC cannot simulate it after the others.
        """
        provider: Any = chain.w3.provider
        below = provider.below if isinstance(provider, AfterRecorded) else provider
        outcome = self.simulated(below, [request.params])
        if outcome is None:
            if self.requests:
                raise NotMinedYet(BLIND)
            returned, logs = dry_run(chain.w3, request), None
        else:
            returned, logs = outcome[0].returned(request.operation), outcome[0].logs
        gas = estimate_gas(chain.w3, request) if outcome is None or not self.requests else _limit(outcome[0].gas_used)
        if provider is below:
            chain.w3.provider = AfterRecorded(chain, self)
        self.requests.append(request)
        self.transactions.append(
            UnsignedTransaction(
                request.sender, request.to, request.data, request.value, chain.network.chain_id, gas, call
            )
        )
        result = decode_outputs(call.abi, returned) if call and call.abi["outputs"] and returned else None
        events = decode(chain, logs) if logs else []
        head = chain.head().number
        return PlannedReceipt("", head, gas, request.operation, events, result, is_simulated=logs is not None)

    def simulated(self, provider: Any, calls: Sequence[Any], block: str = "latest") -> list[Outcome] | None:
        """What the calls would do after all recorded transactions; None where the RPC cannot say."""
        outcomes = simulate_all(provider.make_request, [*(each.params for each in self.requests), *calls], block)
        return None if outcomes is None else outcomes[len(self.requests) :]

    def needs_mined(self, why: str) -> None:
        """Raises NotMinedYet, if anything is recorded: what follows would be wrong before it is mined."""
        if self.transactions:
            raise NotMinedYet(why)


class AfterRecorded(JSONBaseProvider):
    """Answers calls at the newest block as they will be after the recorded transactions. Passes everything else on."""

    def __init__(self, chain: Chain, account: UnsignedAccount) -> None:
        super().__init__()
        self._chain, self._account = chain, account
        self.below: Any = chain.w3.provider
        self._head = chain.head().number

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        if not self._is_newer(method, params):
            return self.below.make_request(method, params)
        return self._after(params[0], params[1] if len(params) > 1 else "latest")

    def make_batch_request(self, requests: list[tuple[RPCEndpoint, Any]]) -> list[RPCResponse] | RPCResponse:
        if not any(self._is_newer(method, params) for method, params in requests):
            return self.below.make_batch_request(requests)
        return [self.make_request(method, params) for method, params in requests]

    def _is_newer(self, method: str, params: Any) -> bool:
        if method != "eth_call":
            return False
        block = params[1] if len(params) > 1 else "latest"
        if isinstance(block, str) and block.startswith("0x"):
            return int(block, 16) >= self._head
        return block in ("latest", "pending")

    def _after(self, call: Any, block: str) -> RPCResponse:
        outcome = self._account.simulated(self.below, [call], block if block.startswith("0x") else "latest")
        if outcome is None:
            raise NotMinedYet(BLIND)
        return outcome[0].as_call()


def _limit(used: int) -> int:
    return used * (100 + REFUND_PERCENT) * (100 + MARGIN_PERCENT) // 10_000
