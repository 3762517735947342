"""Many view calls at one block, in one round trip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from hexbytes import HexBytes
from web3.types import TxParams

from zoo_compute.chain.call import Call, decode_outputs, functions_of
from zoo_compute.chain.network import CONTRACTS

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
    """The results in order: a struct as a dict of its fields, several values as a tuple."""
    results: list[Any] = []
    for start in range(0, len(reads), CALLS_PER_REQUEST):
        part = reads[start : start + CALLS_PER_REQUEST]
        with chain.w3.batch_requests() as batch:
            for read in part:
                batch.add(chain.w3.eth.call(read.params(chain), block))
            answers = batch.execute()
        results += [_named(read.abi, bytes(cast(HexBytes, raw))) for read, raw in zip(part, answers, strict=True)]
    return results


def _named(abi: Mapping[str, Any], raw: bytes) -> Any:
    value = decode_outputs(abi, raw)
    parts = abi["outputs"][0].get("components") if len(abi["outputs"]) == 1 else None
    return {part["name"]: item for part, item in zip(parts, value, strict=True)} if parts else value
