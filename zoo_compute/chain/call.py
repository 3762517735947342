"""Contract calls as data, and the base class of the generated bindings.

A binding never sends: a function that changes state returns a `Call`, which `Sender` simulates, signs and sends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from eth_abi.abi import decode, encode
from eth_typing import ChecksumAddress
from eth_utils.abi import function_signature_to_4byte_selector
from eth_utils.address import to_checksum_address
from web3 import Web3
from web3.types import BlockIdentifier, TxParams

from zoo_compute.chain.artifacts import abi


@dataclass(frozen=True)
class Call:
    """One call of a contract's function, not yet sent."""

    contract: str
    address: str
    function: str
    args: tuple[Any, ...]
    abi: dict[str, Any]

    def encode(self) -> bytes:
        """The calldata: selector and arguments. Raises eth_abi's EncodingError when an argument does not fit its type."""
        return _calldata(self.abi, self.args)


class Binding:
    """A contract at an address. Generated subclasses name its functions."""

    NAME: ClassVar[str]

    def __init__(self, w3: Web3, address: str) -> None:
        self.w3 = w3
        self.address: ChecksumAddress = to_checksum_address(address)

    def _call(self, function: str, args: tuple[Any, ...]) -> Call:
        return Call(self.NAME, self.address, function, args, functions_of(self.NAME)[function])

    def _view(self, function: str, args: tuple[Any, ...], block: BlockIdentifier | None) -> Any:
        """What a view returns at `block` (the newest when None): one value, or a tuple of several or of a struct."""
        entry = functions_of(self.NAME)[function]
        transaction: TxParams = {"to": self.address, "data": Web3.to_hex(_calldata(entry, args))}
        raw = self.w3.eth.call(transaction, "latest" if block is None else block)
        return decode_outputs(entry, bytes(raw))


@cache
def functions_of(name: str) -> Mapping[str, dict[str, Any]]:
    """ABI entries of a contract's functions by name. No contract here overloads one."""
    return {entry["name"]: entry for entry in abi(name) if entry["type"] == "function"}


def signature(entry: Mapping[str, Any]) -> str:
    """Canonical signature of an ABI entry: `finalise(uint256,(uint256,...)[])`."""
    return f"{entry['name']}({','.join(_type(i) for i in entry['inputs'])})"


def decode_outputs(entry: Mapping[str, Any], raw: bytes) -> Any:
    """Decode what a function returned; addresses come out checksummed, structs as tuples."""
    outputs = entry["outputs"]
    values = decode([_type(o) for o in outputs], raw)
    plain = tuple(_plain(o, value) for o, value in zip(outputs, values, strict=True))
    return plain[0] if len(plain) == 1 else plain


def _calldata(entry: Mapping[str, Any], args: Sequence[Any]) -> bytes:
    if len(args) != len(entry["inputs"]):
        raise ValueError(f"{entry['name']} takes {len(entry['inputs'])} arguments, got {len(args)}")
    return selector(entry) + encode(input_types(entry), args)


def selector(entry: Mapping[str, Any]) -> bytes:
    """The first four bytes of a function's calldata."""
    return _selector(signature(entry))


def input_types(entry: Mapping[str, Any]) -> list[str]:
    """The types of a function's arguments, as eth_abi names them."""
    return [_type(each) for each in entry["inputs"]]


@cache
def _selector(signature_: str) -> bytes:
    return function_signature_to_4byte_selector(signature_)


def _type(parameter: Mapping[str, Any]) -> str:
    kind: str = parameter["type"]
    if kind.startswith("tuple"):
        return f"({','.join(_type(c) for c in parameter['components'])}){kind[len('tuple') :]}"
    return kind


def _plain(parameter: Mapping[str, Any], value: Any) -> Any:
    kind: str = parameter["type"]
    if kind.endswith("]"):
        element = {**parameter, "type": kind[: kind.rindex("[")]}
        return [_plain(element, each) for each in value]
    if kind == "tuple":
        return tuple(_plain(c, each) for c, each in zip(parameter["components"], value, strict=True))
    return to_checksum_address(value) if kind == "address" else value
