"""What an answer carried is read as the contract reads it, however it was encoded: one crafted answer must blind nobody."""

from __future__ import annotations

from hashlib import sha256

import pytest

from zoo_compute.disputes.stage_data import TYPES, decode_stage, encode_stage
from zoo_compute.spec.descents import BeginAnswer, NodeAnswer, ResultAnswer, SegmentAnswer, StepAnswer
from zoo_compute.spec.frames import Program, Result, States, Steps, Trace, head_of
from zoo_compute.spec.state import Claim


def hash_of(name: str) -> bytes:
    return sha256(name.encode()).digest()


PROGRAM = Program(b"head of twenty bytes", hash_of("entries"), hash_of("nodes"))
HASHES = (hash_of("a"), hash_of("b"))
TRACE = Trace(hash_of("trace"), PROGRAM, HASHES)
STATES = States(hash_of("before"), hash_of("after"), HASHES)
RECORDS = [
    PROGRAM,
    TRACE,
    BeginAnswer(hash_of("root"), PROGRAM, HASHES),
    NodeAnswer(b"descriptor", PROGRAM, HASHES, hash_of("elements"), (), b"words"),
    ResultAnswer(Claim(1, 2, 3, 4, 5, 6, hash_of("start"), hash_of("root")), Result(path=HASHES)),
    SegmentAnswer(STATES, Steps(hash_of("steps"), HASHES, (), HASHES)),
    StepAnswer(STATES, TRACE),
]


def plain(value):
    if isinstance(value, tuple(TYPES)) or hasattr(value, "__dataclass_fields__"):
        return tuple(plain(getattr(value, name)) for name in value.__dataclass_fields__)
    return value


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_stage_data__is_read_as_it_was_written(record):
    assert decode_stage(type(record), encode_stage(record)) == plain(record)


def test_stage_data__with_other_bytes_as_padding_or_none__says_the_same():
    record = NodeAnswer(b"descriptor", PROGRAM, HASHES, hash_of("elements"), (), b"words")
    data = encode_stage(record)
    at = data.index(b"words")
    assert decode_stage(NodeAnswer, data[: at + 5]) == plain(record), "no padding at the end"
    at = data.index(b"descriptor") + 10
    dirty = data[:at] + b"\xff" * 22 + data[at + 22 :]
    assert decode_stage(NodeAnswer, dirty) == plain(record), "padding of other bytes"
    at = data.index(PROGRAM.head) + 20
    assert decode_stage(NodeAnswer, data[:at] + b"\xff" * 12 + data[at + 12 :]) == plain(record)


def test_head_of_a_descriptor__takes_the_low_byte_as_the_contract_does():
    words = (3, 256 + 1, 0, 0, 0, 0)
    assert head_of(b"".join(word.to_bytes(4, "big") for word in words)) == (b"\1\0", 1)
