"""The contracts that judge evidence, over a protocol that says what it was told."""

from __future__ import annotations

from dataclasses import astuple
from types import SimpleNamespace

import numpy as np

from tests.support.evm import Reverted, chain
from tests.support.protocol_driver import load
from zoo_compute.disputes.evidence import Evidence, encode
from zoo_compute.spec.frames import Frame, Position

MANIFEST = bytes(range(32))
SLOTS = 5


def deploy(data_root: bytes) -> SimpleNamespace:
    """Job 1, of SLOTS slots, with this data."""
    double = load("mocks/ProtocolDouble").deploy()
    operators = load("OpExecutor").deploy()
    bindings = load("ConsistencyProofs").deploy(double.address, double.address)
    nobody = chain.account()
    double.set_job(1, (nobody, nobody, 3, 0, bytes(32), bytes(32), data_root, MANIFEST))
    double.set_run(1, run_of(nobody))
    judge = load("Evidence").deploy(operators.address, bindings.address)
    return SimpleNamespace(double=double, operators=operators, bindings=bindings, judge=judge)


def run_of(nobody: str) -> tuple[object, ...]:
    """Settlement's record of a job, of which evidence reads the slots."""
    return (3, 0, 0, 9, SLOTS, *[0] * 9, nobody, *[0] * 6, bytes(32), 0, 0)


def evidence_result(
    judges: SimpleNamespace, frame: Frame, position: Position, evidence: Evidence | bytes, kind: int = 0
) -> str:
    """Empty where the claim is shown to be false, else what does not hold; `?` for a revert that says nothing."""
    data = evidence if isinstance(evidence, bytes) else encode(evidence)
    number = kind if isinstance(evidence, bytes) else evidence.KIND
    try:
        assert judges.judge.judge(number, astuple(frame), astuple(position), data)
    except Reverted as error:
        return error.reason or "?"
    return ""


def flips(data: bytes, count: int, seed: int = 0) -> list[bytes]:
    """The data with one bit changed: `count` places, all over."""
    rng, samples = np.random.default_rng(seed), []
    for at in sorted(rng.choice(len(data), min(count, len(data)), replace=False).tolist()):
        bent = bytearray(data)
        bent[at] ^= 1 << int(rng.integers(0, 8))
        samples.append(bytes(bent))
    return samples
