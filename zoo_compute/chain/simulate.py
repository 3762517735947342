"""Simulates a call: what it returns, how much gas it needs, why it reverts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexbytes import HexBytes
from web3 import Web3
from web3.exceptions import ContractLogicError, Web3RPCError
from web3.types import BlockIdentifier, TxParams

from zoo_compute.chain import fees
from zoo_compute.chain.reverts import refusal, refusal_of
from zoo_compute.errors import ChainError, NotFunded, Refusal

if TYPE_CHECKING:
    from zoo_compute.chain.call import Call

GAS_MARGIN_PERCENT = 25  # state moves between estimate and mining

# `pending` is the block that would include the transaction, after the account's earlier ones.
# Nodes without a pending block use the latest one.
BLOCKS: tuple[BlockIdentifier, ...] = ("pending", "latest")


@dataclass(frozen=True)
class Request:
    """A transaction to send, without gas fees."""

    operation: str  # "Settlement.commit"
    sender: str
    to: str
    data: str  # 0x...
    value: int

    @property
    def params(self) -> TxParams:
        return {"from": self.sender, "to": self.to, "data": self.data, "value": self.value}  # type: ignore[typeddict-item]


def request_of(call: Call, sender: str, value: int = 0) -> Request:
    data = "0x" + HexBytes(call.encode()).hex()
    return Request(f"{call.contract}.{call.function}", sender, Web3.to_checksum_address(call.address), data, value)


def dry_run(w3: Web3, request: Request) -> bytes:
    """The return data in the next block. Raises Refusal, NotFunded."""
    for block in BLOCKS:
        try:
            return bytes(w3.eth.call(request.params, block))
        except ContractLogicError as error:
            raise refusal_of(error, request.operation) from None
        except Web3RPCError as error:
            _raise_unless_unsupported(error, block, w3, request)
    raise AssertionError("the last block always raises or returns")


def estimate_gas(w3: Web3, request: Request) -> int:
    """A gas limit with a margin. Raises Refusal, NotFunded."""
    for block in BLOCKS:
        try:
            gas = w3.eth.estimate_gas(request.params, block)
        except ContractLogicError as error:
            raise refusal_of(error, request.operation) from None
        except Web3RPCError as error:
            _raise_unless_unsupported(error, block, w3, request)
            continue
        return gas if request.data == "0x" else gas + gas * GAS_MARGIN_PERCENT // 100
    raise AssertionError("the last block always raises or returns")


def why_reverted(w3: Web3, request: Request, block: int) -> Refusal:
    """Why a mined transaction failed: the same call on the state of its block, then of the one before."""
    for number in (block, block - 1):
        try:
            w3.eth.call(request.params, number)
        except ContractLogicError as error:
            return refusal_of(error, request.operation)
        except Web3RPCError:
            break  # the node has pruned this state
    return refusal("reverted without a reason", request.operation)


def not_funded(w3: Web3, account: str, needed: int) -> NotFunded:
    have = Web3.from_wei(w3.eth.get_balance(Web3.to_checksum_address(account)), "ether")
    return NotFunded(
        f"{account} has {have} coin and needs {Web3.from_wei(needed, 'ether')} for gas and value",
        hint=f"send coin to {account}; on a devnet: `zoo account fund ADDRESS`",
    )


def _raise_unless_unsupported(error: Web3RPCError, block: BlockIdentifier, w3: Web3, request: Request) -> None:
    if fees.is_unfunded(error):
        raise not_funded(w3, request.sender, request.value) from None
    text = str(error).lower()
    if block == "latest" or not any(word in text for word in ("pending", "unsupported", "not supported")):
        raise ChainError(f"{request.operation}: the RPC refuses the simulation: {error.message}") from error
