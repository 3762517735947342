"""A job whose audits are paid for, on the double of `tests.contracts.protocol_double`."""

from __future__ import annotations

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from tests.contracts.protocol_double import JOB, RUNNING, SEGMENTS, TURN, DoubledJob
from tests.support.evm import chain
from tests.support.openings import segment_opening
from tests.support.protocol_driver import START, UNLIMITED, load

FEE, BUDGET, MIN_BOND, DRAW_BLOCKS, WINDOW_S = 50, 1_000, 100, 3, 30
PHASE = WINDOW_S // 3
HISTORY = "0x0000F90827F1C53a10cb7A02335B175320002935"
# Answers every call with keccak256 of its 32 bytes, as a history that forgets nothing.
HISTORY_CODE = bytes.fromhex("60205f5f3760205f205f5260205ff3")
SALT = b"\x2a" * 32
AUDITORS = (5, 6)


def remembered(number):
    """What HISTORY_CODE answers."""
    return keccak(number.to_bytes(32, "big"))


@pytest.fixture(scope="module", name="deployed")
def deployed_fixture():
    watched = DoubledJob(window_s=WINDOW_S)
    double = watched.double
    zen, usd = load("mocks/FalseToken").deploy(), load("mocks/FalseToken").deploy()
    contract = load("Audits").deploy(double, double, double, double, zen, MIN_BOND, DRAW_BLOCKS)
    for account in (*watched.owner.values(), watched.submitter):
        for token in (zen, usd):
            token.mint(account, 10**6)
            token.approve(contract, UNLIMITED, sender=account)
    return watched, contract, zen, usd


@pytest.fixture(name="job")
def job_fixture(deployed):
    with chain.anchor():
        audited = AuditedJob(*deployed)
        audited.block(1_000)
        chain.timestamp = START
        yield audited


class AuditedJob:
    """A job whose turn 4 is closed, and whose audits the submitter pays for."""

    def __init__(self, watched, contract, zen, usd):
        self.watched, self.contract, self.double, self.zen, self.usd = watched, contract, watched.double, zen, usd
        self.claims = watched.claims
        watched.set_job(RUNNING, usd.address)
        watched.set_run(turn=TURN + 1)

    def block(self, number):
        chain.block = number

    def to(self, second):
        chain.timestamp = START + second

    def offer(self, fee=FEE, rate_bps=10_000, segments=SEGMENTS, sender=None):
        self.contract.offer(JOB, fee, rate_bps, segments, sender=sender or self.watched.submitter)

    def fund(self, amount=BUDGET):
        self.contract.fund(JOB, amount, sender=self.watched.submitter)

    def enlist(self, operator, amount=MIN_BOND):
        self.contract.enlist(operator, amount, sender=self.watched.owner[operator])

    def drawn(self, rate_bps=10_000, bonds=(MIN_BOND, MIN_BOND)):
        """The turn is drawn at second 10, at a block whose hash the chain knows; attesting ends at second 20."""
        self.offer(rate_bps=rate_bps)
        self.fund()
        for operator, bond in zip(AUDITORS, bonds, strict=True):
            self.enlist(operator, bond)
        self.to(1)
        self.contract.schedule(JOB, TURN)
        self.block(1_000 + DRAW_BLOCKS + 2)
        self.to(10)
        self.contract.draw(JOB, TURN)
        return self

    def root(self, unit):
        return self.watched.results[0][unit // SEGMENTS].steps[unit % SEGMENTS + 1][1]

    def seal(self, unit, operator, root, hot=None):
        values = (JOB, TURN, unit, operator, hot or self.watched.key(operator), root, SALT)
        return keccak(encode(["uint256"] * 4 + ["address"] + ["bytes32"] * 2, values))

    def attest(self, unit, operator, root=None, claim=None, sender=None, seal=None):
        seal = seal or self.seal(unit, operator, root or self.root(unit))
        claim = claim or self.claims[0]
        self.contract.attest(JOB, claim, unit, operator, seal, sender=sender or self.watched.key(operator))

    def reveal(self, unit, operator, root=None):
        root = root or self.root(unit)
        self.contract.reveal(JOB, TURN, unit, operator, root, SALT, sender=self.watched.anyone)

    def open(self, unit, root=None, opening=None, sender=None):
        opening = opening or segment_opening(self.watched.results[0], unit // SEGMENTS, unit % SEGMENTS)
        root = root or self.root(unit)
        self.contract.open(JOB, self.claims[0], unit, root, opening, sender=sender or self.watched.anyone)

    def attested(self, unit, operator=5, root=None):
        """An attestation, revealed."""
        self.to(20)
        self.attest(unit, operator, root)
        self.to(21)
        self.reveal(unit, operator, root)

    def finish(self):
        self.to(10 + 3 * PHASE + 1)
        self.double.set_pending(JOB, TURN, 0)

    def settle(self, unit, operator=5):
        self.contract.settle(JOB, TURN, unit, operator, sender=self.watched.anyone)

    def falsify(self, slot, leaf):
        self.contract.falsify(JOB, self.claims[0], slot, leaf, sender=self.referee())

    def referee(self):
        if self.contract.referee() == "0x" + 40 * "0":
            self.contract.wire(self.watched.anyone, sender=self.contract.deployer())
        return self.contract.referee()

    def paid(self, operator=5):
        return self.contract.owed(self.usd, self.watched.owner[operator])

    def bond(self, operator=5):
        return self.contract.auditors(operator).bond

    def budget(self):
        plan = self.contract.plans(JOB)
        return plan.balance, plan.reserved
