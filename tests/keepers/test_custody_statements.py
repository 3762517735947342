"""What custodians say off chain: signatures as the contract checks them, in files that strangers may have written."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from eth_account import Account

from keepers.decisions.custody_statements import (
    CHECKPOINT,
    INPUTS,
    KEPT,
    MAX_BYTES,
    START,
    Proposal,
    Signed,
    Statement,
    is_signed_by,
    sign,
)
from repops.fields import BadField
from tests.support.consent import CHAIN_ID
from tests.support.lockstep.custody_records import compact
from zoo_compute.chain.connection import Chain
from zoo_compute.spec.custodians import CheckpointSignature, InputsSignature, StartSignature
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.store.cid import raw_cid

CUSTODY = "0x" + "c5" * 20
NETWORK = SimpleNamespace(chain_id=CHAIN_ID, contracts={"custody": CUSTODY})
CHAIN = cast(Chain, SimpleNamespace(network=NETWORK))
KEY = Account.from_key(b"\7" * 32)
JOB, TURN, SEATS, ROOT, CID = 3, 5, 0b1011, b"\x9a" * 32, b"\xc1" * 32


@pytest.mark.parametrize(
    ("kind", "turn", "value", "expected"),
    [
        (START, 0, bytes(32), StartSignature(1, "", JOB)),
        (INPUTS, TURN, SEATS.to_bytes(32, "big"), InputsSignature(1, "", JOB, TURN, SEATS)),
        (CHECKPOINT, TURN, ROOT + CID, CheckpointSignature(1, "", JOB, TURN, AGGREGATOR_SEAT, ROOT, CID)),
    ],
)
def test_a_signature__is_the_contracts__and_of_its_key_job_turn_and_value_alone(
    kind: str, turn: int, value: bytes, expected: Any
) -> None:
    seat = AGGREGATOR_SEAT if kind == CHECKPOINT else 0
    signed = sign(CHAIN, KEY, JOB, kind, turn, value, seat)
    assert signed.words == compact(bytes(KEY.key), CUSTODY, expected)
    assert is_signed_by(CHAIN, KEY.address, JOB, signed)
    other = Account.from_key(b"\x08" * 32)
    assert not is_signed_by(CHAIN, other.address, JOB, signed)
    assert not is_signed_by(CHAIN, KEY.address, JOB + 1, signed)
    elsewhere = cast(
        Chain, SimpleNamespace(network=SimpleNamespace(chain_id=CHAIN_ID + 1, contracts={"custody": CUSTODY}))
    )
    assert not is_signed_by(elsewhere, KEY.address, JOB, signed)
    if kind != START:
        assert not is_signed_by(CHAIN, KEY.address, JOB, replace(signed, turn=turn + 1))
        other_value = signed.value[:-1] + f"{int(signed.value[-1], 16) ^ 1:x}"
        assert not is_signed_by(CHAIN, KEY.address, JOB, replace(signed, value=other_value))
    if kind == CHECKPOINT:
        assert not is_signed_by(CHAIN, KEY.address, JOB, replace(signed, seat=seat + 1))


@pytest.mark.parametrize("nonsense", ["0" * 128, "f" * 128, "1" * 128])
def test_a_signature__of_nonsense__is_nobodys(nonsense: str) -> None:
    assert not is_signed_by(CHAIN, KEY.address, JOB, Signed(START, 0, "0" * 64, nonsense))


def test_a_statement__keeps_one_signature_of_each_kind_and_turn__the_newest_ones() -> None:
    said = Statement(JOB)
    for turn in range(KEPT):
        said = said.adding(Signed(INPUTS, turn, f"{turn:064x}")).adding(Signed(CHECKPOINT, turn, f"{turn:0128x}"))
    assert len(said.signed) == KEPT
    assert said.of(INPUTS, 0) is None
    changed = said.adding(Signed(INPUTS, KEPT - 1, f"{99:064x}"))
    newest = changed.of(INPUTS, KEPT - 1)
    assert newest is not None
    assert (newest.seats, len(changed.signed)) == (99, KEPT)
    assert len(changed.to_bytes()) <= MAX_BYTES
    proposed = changed.proposing(Proposal(7, ROOT.hex(), raw_cid(CID)))
    assert Statement.from_bytes(proposed.to_bytes()) == proposed


@pytest.mark.parametrize(
    "change",
    [
        {"job": "3"},
        {"signed": [{"kind": "start", "turn": 0, "value": "0" * 64, "signature": "0" * 127}]},
        {"signed": [{"kind": "oath", "turn": 0, "value": "0" * 64, "signature": "0" * 128}]},
        {"signed": [{"kind": "start", "turn": -1, "value": "0" * 64, "signature": "0" * 128}]},
        {"signed": [{"kind": "start", "turn": 0, "value": "0", "signature": "0" * 128}]},
        {"signed": [{"kind": "checkpoint", "turn": 0, "value": "0" * 64, "signature": "0" * 128}]},
        {"proposed": [{"turn": 1, "root": "xyz", "pointer": raw_cid(CID)}]},
        {"proposed": [{"turn": 1, "root": ROOT.hex(), "pointer": "bafk"}]},
        {"more": 1},
    ],
)
def test_a_strangers_statement__is_read_strictly(change: dict[str, object]) -> None:
    plain = {"job": JOB, "signed": [], "proposed": []}
    assert Statement.from_bytes(json.dumps(plain).encode()) == Statement(JOB)
    with pytest.raises(BadField):
        Statement.from_bytes(json.dumps(plain | change).encode())


def test_a_strangers_statement__that_is_huge_or_no_json__is_refused() -> None:
    for data in (b"[" * MAX_BYTES + b"[", b"\xff", b"[]"):
        with pytest.raises(BadField):
            Statement.from_bytes(data)
