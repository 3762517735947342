"""Many view calls at one block, in one round trip."""

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


def read_all(chain: Chain, block: int, reads: Sequence[Read]) -> list[Any]:
    """The results in order: a struct as a dict of its fields, several values as a tuple. Raises Unreachable.

    The requests go to the provider directly: web3's checks of each call took more CPU than the calls.
    """
    results: list[Any] = []
    for start in range(0, len(reads), CALLS_PER_REQUEST):
        part = reads[start : start + CALLS_PER_REQUEST]
        requests = [(RPCEndpoint("eth_call"), [read.params(chain), hex(block)]) for read in part]
        answers = cast(JSONBaseProvider, chain.w3.provider).make_batch_request(requests)
        answers = answers if isinstance(answers, list) else [answers] * len(part)  # one error for the whole batch
        for read, answer in zip(part, answers, strict=True):
            if "result" not in answer:
                error = f"{read.contract}.{read.function} at block {block}: {answer.get('error')}"
                raise Unreachable(f"the RPC refuses a read: {error}", hint="read again, or use another RPC")
            results.append(_named(read.abi, bytes.fromhex(answer["result"][2:])))
    return results


def _named(abi: Mapping[str, Any], raw: bytes) -> Any:
    value = decode_outputs(abi, raw)
    parts = abi["outputs"][0].get("components") if len(abi["outputs"]) == 1 else None
    return {part["name"]: item for part, item in zip(parts, value, strict=True)} if parts else value
