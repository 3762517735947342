"""Several transactions in a row, simulated on the newest state: `eth_simulateV1`, which most nodes have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hexbytes import HexBytes
from web3 import Web3
from web3.datastructures import AttributeDict
from web3.exceptions import ContractLogicError
from web3.types import RPCEndpoint, RPCResponse

from zoo_compute.chain.reverts import refusal_of
from zoo_compute.errors import ChainError

METHOD = RPCEndpoint("eth_simulateV1")
REVERTED, VM_ERROR = 3, -32015  # of one call, in its own `error`
REFUSED = range(-38_999, -37_999)  # errors of the method itself: it is there, and refuses these transactions


@dataclass(frozen=True)
class Outcome:
    """What one transaction would do. data: what it returns, or the revert's data. logs: as a receipt has them."""

    ok: bool
    data: bytes
    gas_used: int
    logs: list[Any]
    message: str = ""

    def returned(self, operation: str) -> bytes:
        """The return data. Raises Refusal."""
        if not self.ok:
            raise refusal_of(ContractLogicError(self.message, data="0x" + self.data.hex()), operation)
        return self.data

    def as_call(self) -> RPCResponse:
        """As the answer to an `eth_call`."""
        if self.ok:
            return {"jsonrpc": "2.0", "id": 0, "result": "0x" + self.data.hex()}
        error: Any = {"code": REVERTED, "message": self.message or "execution reverted", "data": "0x" + self.data.hex()}
        return {"jsonrpc": "2.0", "id": 0, "error": error}


def simulate_all(
    ask: Callable[[RPCEndpoint, Any], RPCResponse], calls: Sequence[Mapping[str, Any]], block: str = "latest"
) -> list[Outcome] | None:
    """The outcome of each call after the ones before it; None where the RPC lacks the method. Raises ChainError.

    ask: a provider's `make_request`.
    """
    options = {"blockStateCalls": [{"calls": [_call(each) for each in calls]}], "validation": False}
    answer: Any = ask(METHOD, [options, block])
    if error := answer.get("error"):
        if isinstance(error, Mapping) and error.get("code") in REFUSED:
            raise ChainError(f"the RPC refuses the simulation: {error.get('message')}")
        return None
    return [_outcome(each) for each in answer["result"][0]["calls"]]


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    value = call.get("value", 0)
    made = {"to": call["to"], "input": call.get("data", "0x"), "value": hex(value) if isinstance(value, int) else value}
    return made | ({"from": call["from"]} if "from" in call else {})


def _outcome(answer: Mapping[str, Any]) -> Outcome:
    error = answer.get("error") or {}
    data = error.get("data")
    return Outcome(
        ok=int(answer["status"], 16) == 1,
        data=bytes(HexBytes(data if isinstance(data, str) else answer["returnData"])),
        gas_used=int(answer["gasUsed"], 16),
        logs=[_log(each) for each in answer["logs"]],
        message=str(error.get("message", "")),
    )


def _log(log: Mapping[str, Any]) -> Any:
    """As web3 has a receipt's log."""
    numbers = {key: int(log[key], 16) for key in ("blockNumber", "logIndex", "transactionIndex") if log.get(key)}
    hashes = {key: HexBytes(log[key]) for key in ("blockHash", "transactionHash") if log.get(key)}
    topics = [HexBytes(each) for each in log["topics"]]
    return AttributeDict(
        {
            "blockNumber": 0, "logIndex": 0, "transactionIndex": 0, "blockHash": HexBytes(b""), "transactionHash": HexBytes(b""),
            "removed": False, "address": Web3.to_checksum_address(log["address"]), "data": HexBytes(log["data"]), "topics": topics,
            **numbers, **hashes,
        }
    )  # fmt: skip
