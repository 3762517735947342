"""Turns reverts into exceptions: the contract decides the class, `hints.py` has the hint."""

from __future__ import annotations

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from web3.exceptions import ContractLogicError, Web3RPCError

from zoo_compute.chain.revert_hints import HINTS
from zoo_compute.errors import (
    AdmissionsRefusal,
    AuctionRefusal,
    AuditsRefusal,
    AvailabilityRefusal,
    BareRevert,
    ChannelsRefusal,
    CreditsRefusal,
    CustodyRefusal,
    DatasetsRefusal,
    EvidenceRefusal,
    ExecutorRefusal,
    GuardianRefusal,
    RefereeRefusal,
    Refusal,
    RegistryRefusal,
    RewardsRefusal,
    ServingRefusal,
    SettlementRefusal,
    TasksRefusal,
    TimelockRefusal,
    TokenRefusal,
    TreasuryRefusal,
)

CLASSES: dict[str, type[Refusal]] = {
    "registry": RegistryRefusal,
    "tasks": TasksRefusal,
    "auction": AuctionRefusal,
    "settlement": SettlementRefusal,
    "rewards": RewardsRefusal,
    "datasets": DatasetsRefusal,
    "channels": ChannelsRefusal,
    "availability": AvailabilityRefusal,
    "custody": CustodyRefusal,
    "audits": AuditsRefusal,
    "admissions": AdmissionsRefusal,
    "serving": ServingRefusal,
    "referee": RefereeRefusal,
    "evidence": EvidenceRefusal,
    "executor": ExecutorRefusal,
    "credits": CreditsRefusal,
    "treasury": TreasuryRefusal,
    "pool": TreasuryRefusal,
    "guardian": GuardianRefusal,
    "timelock_controller": TimelockRefusal,
    "access_control": TimelockRefusal,
    "erc20": TokenRefusal,
    "ownable": TokenRefusal,
}

ERROR_STRING = bytes.fromhex("08c379a0")  # Error(string)
PANIC = bytes.fromhex("4e487b71")  # Panic(uint256)


def refusal(reason: str, operation: str = "") -> Refusal:
    """The exception of a reason string."""
    return CLASSES.get(reason.partition(":")[0], BareRevert)(reason, operation=operation, hint=HINTS.get(reason, ""))


def refusal_of(error: ContractLogicError | Web3RPCError, operation: str) -> Refusal:
    """The exception for an error that web3 raised because a call reverted."""
    data = getattr(error, "data", None)
    if isinstance(data, str) and data.startswith("0x"):
        return refusal(reason_of(bytes.fromhex(data[2:])), operation)
    text = (error.message or "") if isinstance(error, ContractLogicError) else str(error)
    return refusal(text.removeprefix("execution reverted:").strip() or "reverted without a reason", operation)


def reason_of(data: bytes) -> str:
    """The reason in a revert's return data."""
    if not data:
        return "reverted without a reason"
    try:
        if data[:4] == ERROR_STRING:
            return str(decode(["string"], data[4:])[0])
        if data[:4] == PANIC:
            return f"panic {decode(['uint256'], data[4:])[0]:#x}"
    except (DecodingError, UnicodeDecodeError):
        pass
    return f"reverted with 0x{data[:68].hex()}"
