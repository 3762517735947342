"""A job whose claims' data is asked for, on the double of `tests.contracts.protocol_double`."""

from __future__ import annotations

import pytest

from tests.contracts.protocol_double import AGGREGATION, JOB, DoubledJob, claim_hash
from tests.support.evm import chain
from tests.support.openings import state_opening, update_opening
from tests.support.protocol_driver import START, load

ANSWER_S = 6
SUBMITTER, STRANGERS = 144, 145  # lanes
ZERO = "0x" + 40 * "0"
DEPOSIT = 2 * 300_000 * 10**9


@pytest.fixture(scope="module", name="deployed")
def deployed_fixture():
    watched = DoubledJob()
    double = watched.double
    return watched, load("Availability").deploy(double, double, double, ANSWER_S)


@pytest.fixture(name="job")
def job_fixture(deployed):
    with chain.anchor():
        chain.timestamp = START
        yield DemandedJob(*deployed)


class DemandedJob:
    """A job, and demands of its claims."""

    def __init__(self, watched, contract):
        self.watched, self.contract, self.double = watched, contract, watched.double
        self.claims = watched.claims

    def holder(self, lane):
        if lane == STRANGERS:
            return self.watched.anyone
        if lane == SUBMITTER:
            return self.watched.submitter
        return self.watched.key(4 if lane == AGGREGATION else self.watched.seats[lane][0])

    def demand(self, seat, lane=STRANGERS, slot=None, tensor=0, group=0, sender=None, value=DEPOSIT, claim=None):
        claim = claim or self.claims[seat]
        slot = (0 if seat == AGGREGATION else claim[4] >> 16) if slot is None else slot
        sender = sender or self.holder(lane)
        self.contract.demand(JOB, claim, lane, slot, tensor, group, sender=sender, value=value)

    def demand_of(self, signer_place, seat, lane=STRANGERS, sender=None, claim=None):
        claim = claim or self.claims[seat]
        slot = 0 if seat == AGGREGATION else claim[4] >> 16
        args = (JOB, claim, lane, slot, 0, 0, signer_place, [])
        self.contract.demand_of_signer(*args, sender=sender or self.holder(lane), value=DEPOSIT)

    def opening(self, seat, lane=STRANGERS):
        asked = self.contract.demands(JOB, claim_hash(self.claims[seat]), lane)
        if seat == AGGREGATION:
            return state_opening(self.watched.state, asked.tensor, asked.group)
        results = self.watched.results[seat]
        return update_opening(results, asked.slot - results[0].slot, asked.tensor, asked.group)

    def answer(self, seat, lane=STRANGERS, opening=None, sender=None):
        opening = opening or self.opening(seat, lane)
        self.contract.answer(JOB, self.claims[seat], lane, opening, sender=sender or self.watched.anyone)

    def close(self, seat, lane=STRANGERS):
        self.contract.close(JOB, self.claims[seat], lane, sender=self.watched.anyone)

    def is_open(self, seat, lane=STRANGERS):
        return self.contract.demands(JOB, claim_hash(self.claims[seat]), lane).demander != ZERO

    def owed(self, account):
        return self.contract.owed(account)

    def resumed(self):
        return [self.double.resumed(index) for index in range(self.double.count_resumed())]

    def to(self, second):
        chain.timestamp = START + second
