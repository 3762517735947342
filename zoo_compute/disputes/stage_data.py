"""What asks and answers that lead into another tree carry, as `Descent` decodes it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from eth_abi.abi import encode
from eth_abi.grammar import ABIType, BasicType, TupleType, parse

from zoo_compute.spec.descents import (
    BeginAnswer,
    ElementAsk,
    NodeAnswer,
    PartsAnswer,
    ResultAnswer,
    SegmentAnswer,
    StepAnswer,
)
from zoo_compute.spec.frames import Program, Trace

PROGRAM = "(bytes20,bytes32,bytes32)"
STATES = "(bytes32,bytes32,bytes32[])"
STEPS = "(bytes32,bytes32[],bytes32[],bytes32[])"
TRACE = f"(bytes32,{PROGRAM},bytes32[])"
RESULT = "(bytes32,bytes32,bytes32,bytes32[])"
CLAIM = "(uint256,uint256,uint256,uint256,uint256,uint256,bytes32,bytes32)"
TYPES: dict[type, str] = {
    Program: PROGRAM,
    Trace: TRACE,
    BeginAnswer: f"(bytes32,{PROGRAM},bytes32[])",
    NodeAnswer: f"(bytes,{PROGRAM},bytes32[],bytes32,bytes32[],bytes)",
    ResultAnswer: f"({CLAIM},{RESULT})",
    SegmentAnswer: f"({STATES},{STEPS})",
    StepAnswer: f"({STATES},{TRACE})",
    PartsAnswer: "(bytes,bytes32,bytes,bytes32[],bytes32[],bytes)",
    ElementAsk: "(bytes,uint256,bytes32,bytes32[])",
}


def encode_stage(data: Any) -> bytes:
    """data: a record of `TYPES`."""
    return encode([TYPES[type(data)]], [_plain(data)])


def decode_stage(record: type, data: bytes) -> Any:
    """The fields of a record of `TYPES`, as nested tuples, from what `Descent` accepted.

    Vyper reads encodings that eth_abi refuses: other bytes as padding, none at the end, parts that overlap. Anyone can
    send one, and everybody must read the same of it.
    """
    return _read(parse(TYPES[record]), data, 0, 0)


def _word(data: bytes, at: int) -> bytes:
    return data[at : at + 32].ljust(32, b"\0")


def _read(kind: ABIType, data: bytes, at: int, base: int) -> Any:
    """at: of the head; base: what an offset in it counts from."""
    if kind.is_dynamic:
        at = base + int.from_bytes(_word(data, at), "big")
    if kind.is_array:
        count, item = int.from_bytes(_word(data, at), "big"), kind.item_type
        if count > len(data):
            raise ValueError(f"a list of {count} hashes in {len(data)} bytes")
        return tuple(_read(item, data, at + 32 + each * _head_bytes(item), at + 32) for each in range(count))
    if isinstance(kind, TupleType):
        fields_, head = [], at
        for part in kind.components:
            fields_.append(_read(part, data, head, at))
            head += _head_bytes(part)
        return tuple(fields_)
    if kind.is_dynamic:
        return data[at + 32 : at + 32 + int.from_bytes(_word(data, at), "big")]
    assert isinstance(kind, BasicType), "a list and a tuple are read above"
    word = _word(data, at)
    return int.from_bytes(word, "big") if kind.base == "uint" else word[: kind.sub]


def _head_bytes(kind: ABIType) -> int:
    if isinstance(kind, TupleType) and not kind.is_dynamic:
        return sum(map(_head_bytes, kind.components))
    return 32


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(_plain(getattr(value, each.name)) for each in fields(value))
    return list(value) if isinstance(value, tuple) else value
