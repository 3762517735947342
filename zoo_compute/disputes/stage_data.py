"""What asks and answers that lead into another tree carry, as `Descent` decodes it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from eth_abi.abi import encode

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
CLAIM = "(uint256,uint256,uint256,uint256,uint256,uint256,uint256,bytes32,bytes32)"
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


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(_plain(getattr(value, each.name)) for each in fields(value))
    return list(value) if isinstance(value, tuple) else value
