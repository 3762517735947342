"""Many requests in one round trip: view calls at one block, and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from web3.providers.base import JSONBaseProvider
from web3.types import RPCEndpoint, TxParams

from zoo_compute.chain.call import Call, decode_outputs, functions_of
from zoo_compute.chain.network import CONTRACTS
from zoo_compute.errors import Unreachable

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain

CALLS_PER_REQUEST = 100


@dataclass(frozen=True)
class Read:
    """`contract` is a name of network.CONTRACTS."""

    contract: str
    function: str
    args: tuple[Any, ...]

    @property
    def abi(self) -> dict[str, Any]:
        return functions_of(CONTRACTS[self.contract])[self.function]

    def params(self, chain: Chain) -> TxParams:
        address = chain.network.contracts[self.contract]
        data = Call(CONTRACTS[self.contract], address, self.function, self.args, self.abi).encode()
        return {"to": address, "data": "0x" + data.hex()}  # type: ignore[typeddict-item]


@dataclass(frozen=True)
class RpcRequest:
    """One request of JSON-RPC. what: for the error where it is refused."""

    what: str
    method: str
    params: Sequence[Any]


def read_all(chain: Chain, block: int, reads: Sequence[Read]) -> list[Any]:
    """The results in order: a struct as a dict of its fields, several values as a tuple. Raises Unreachable."""
    asks = [
        RpcRequest(f"{read.contract}.{read.function} at block {block}", "eth_call", [read.params(chain), hex(block)])
        for read in reads
    ]
    answers = zip(reads, request_all(chain, asks), strict=True)
    return [_named(read.abi, bytes.fromhex(result[2:])) for read, result in answers]


def request_all(chain: Chain, asks: Sequence[RpcRequest]) -> list[Any]:
    """The results in order, as the RPC gives them. Raises Unreachable.

    The requests go to the provider directly. web3's checks of each call took more CPU than the calls. And web3 keeps the method of
    `eth.get_block`, by hash or by number, in an object that all threads share: one thread could send another one's.
    """
    results: list[Any] = []
    for start in range(0, len(asks), CALLS_PER_REQUEST):
        part = asks[start : start + CALLS_PER_REQUEST]
        requests = [(RPCEndpoint(each.method), each.params) for each in part]
        answers = cast(JSONBaseProvider, chain.w3.provider).make_batch_request(requests)
        answers = answers if isinstance(answers, list) else [answers] * len(part)  # one error for the whole batch
        for each, answer in zip(part, answers, strict=True):
            if answer.get("result") is None:
                error = f"{each.what}: {answer.get('error', 'it does not have it')}"
                raise Unreachable(f"the RPC refuses a read: {error}", hint="read again, or use another RPC")
            results.append(answer["result"])
    return results


def _named(abi: Mapping[str, Any], raw: bytes) -> Any:
    value = decode_outputs(abi, raw)
    parts = abi["outputs"][0].get("components") if len(abi["outputs"]) == 1 else None
    return {part["name"]: item for part, item in zip(parts, value, strict=True)} if parts else value
