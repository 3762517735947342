"""A job as Availability and Audits see it, told to a double of the other contracts (`mocks/ProtocolDouble`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from eth_abi.abi import encode
from eth_account import Account
from eth_utils.crypto import keccak

from repops import commitments
from tests.support.evm import chain
from tests.support.openings import SlotRound, round_root
from tests.support.protocol_driver import START, load

JOB, TURN, AGGREGATION = 7, 4, 128
RUNNING, ENDED, CANCELLED = 3, 4, 5  # states of a job
PENDING, PAID, CONVICTED = 1, 2, 3  # statuses of a claim
SEGMENTS, STEPS = 4, 3  # of a slot-round; of a segment
START_ROOT = b"\x11" * 32
CLAIM_TYPE = "(uint256,uint256,uint256,uint256,uint256,uint256,bytes32,bytes32)"
Claim = tuple[Any, ...]


def claim_hash(claim: Claim) -> bytes:
    return bytes(keccak(encode([CLAIM_TYPE], [claim])))


def state(seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Four tensors: of several groups, of one, of no element, of one word."""
    rng = np.random.default_rng(seed)
    big = rng.standard_normal((40, 128), dtype=np.float32)
    return {"big": big, "empty": np.zeros((0, 3), np.float32), "small": big[:2], "word": np.int32([seed])}


def slot_round(slot: int) -> SlotRound:
    roots = [START_ROOT, *(bytes([slot, step]) * 16 for step in range(1, SEGMENTS + 1))]
    steps = tuple((index * STEPS, root) for index, root in enumerate(roots))
    return SlotRound(slot, START_ROOT, steps, state(slot))


@dataclass
class DoubledJob:
    """Operators 1..3 hold seats of 3, 2 and 1 slots, operator 4 aggregates; the claims are of turn 4."""

    double: Any = field(default_factory=lambda: load("mocks/ProtocolDouble").deploy())
    window_s: int = 30
    run: dict[str, Any] = field(default_factory=dict)
    seats: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # operator, first, count
    hot: dict[int, Any] = field(default_factory=dict)
    owner: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.double.set_deadline(JOB, TURN, START + self.window_s)
        for turn in (TURN - 1, TURN):
            self.double.set_pending(JOB, turn, 4)
        for operator in range(1, 7):
            self.hot[operator] = Account.create()
            self.owner[operator] = chain.account(f"owner {operator}")
            self.double.set_operator(operator, self.owner[operator], self.hot[operator].address)
        self.submitter = chain.account("submitter")
        self.anyone = chain.account("anyone")
        for account in (self.submitter, self.anyone, *(key.address for key in self.hot.values())):
            chain.set_balance(account, 10**21)
        self.set_job(RUNNING)
        names = "round rounds quorum depth policy slot_s aggregate_s aggregator_due committed missing holds held_s said posted"
        self.run = dict.fromkeys(names.split(), 1) | {
            "state": RUNNING,
            "turn": TURN,
            "slots": 6,
            "opened_at": START - 5,
            "window_s": self.window_s,
            "aggregators": 1,
            "token": "0x" + 40 * "0",
            "flops": 10**12,
            "seats": 3,
            "start_root": START_ROOT,
        }
        self.set_run()
        for seat, where in enumerate(((1, 0, 3), (2, 3, 2), (3, 5, 1))):
            self.set_seat(seat, *where)
        self.double.set_seat(JOB, AGGREGATION, (4, 0, 0, 0, 0, 0, 0, 0))
        self.results = {
            seat: [slot_round(first + at) for at in range(count)] for seat, (_, first, count) in self.seats.items()
        }
        self.state = state(100)
        self.claims = {seat: self.claim(seat) for seat in self.seats} | {AGGREGATION: self.claim(AGGREGATION)}
        for claim in self.claims.values():
            self.set_claim(claim)

    def claim(self, seat: int) -> Claim:
        if seat == AGGREGATION:
            operator, scope, root = 4, 0b111, commitments.state_root(self.state)
        else:
            operator, first, count = self.seats[seat]
            scope, root = first << 16 | count, round_root(self.results[seat])
        return (TURN, 3, seat, operator, scope, 10, START_ROOT, root)

    def set_claim(self, claim: Claim, status: int = PENDING) -> None:
        self.double.set_claim(JOB, claim, status)

    def set_job(self, job_state: int, token: Any = None) -> None:
        token = token or chain.account("token")
        self.double.set_job(JOB, (self.submitter, token, job_state, 0, *(bytes(32),) * 4))

    def set_run(self, **changes: Any) -> None:
        self.run |= changes
        order = (
            "state round turn rounds slots quorum depth policy opened_at window_s slot_s aggregate_s aggregators "
            "aggregator_due token flops seats missing committed holds held_s start_root said posted"
        )
        self.double.set_run(JOB, tuple(self.run[name] for name in order.split()))

    def set_seat(self, seat: int, operator: int, first: int, count: int) -> None:
        self.seats[seat] = (operator, first, count)
        self.double.set_seat(JOB, seat, (operator, first, count, 0, 0, 0, 1, 0))

    def key(self, operator: int) -> Any:
        return self.hot[operator].address


def changed(claim: Claim, **changes: Any) -> Claim:
    names = ["turn", "round", "seat", "operator", "scope", "price", "start_root", "root"]
    return tuple({**dict(zip(names, claim, strict=True)), **changes}.values())
