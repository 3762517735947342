"""Rules of a walk: claims are disputed and asked for, and may be convicted."""

from tests.stateful.rules import rule
from tests.stateful.walk import BITS, BOTH, INDEX, OFFSET, Walk, has_claims, when
from tests.support.lockstep import committed_results
from tests.support.lockstep.stage import Stage
from zoo_compute.spec.availability import least_deposit
from zoo_compute.spec.custodians import Committee, Record
from zoo_compute.spec.params import AGGREGATOR_SEAT, STRANGERS_LANE, SUBMITTER_LANE
from zoo_compute.spec.state import Claim
from zoo_compute.spec.watching import Demand

LIE = b"x" * 32


def has_demands(s: Stage, job: int) -> bool:
    return any(of == job and asked.is_open for (of, _, _), asked in s.world.demands.items())


class Verdicts(Walk):
    """What the referee, and who asks for data, do to claims."""

    @when(has_claims)
    @rule(job=INDEX, index=BITS)
    def dispute(self, job: int, index: int) -> None:
        """A dispute is opened of any pending claim; others close it."""
        job = self.job(job, has_claims)
        self.s.attempt("settlement", "open_dispute", "referee", job, self.claim(job, index))

    @when(has_claims)
    @rule(job=INDEX, convicted=BOTH)
    def judge(self, job: int, convicted: bool) -> None:
        self.judge_all(self.job(job, has_claims), convicted=convicted)

    # Data ----------------------------------------------------------------------------------------------------------

    @when(has_claims)
    @rule(6, job=INDEX, index=BITS, lane=INDEX, what=INDEX, short=(0, 0, 0, 0, 0, 0, 1), wait=INDEX)
    def ask(self, job: int, index: int, lane: int, what: int, short: int, wait: int) -> None:
        """A chunk of a claim, by whoever has the lane; whoever is asked answers at once, late, or not now."""
        job = self.job(job, has_claims)
        claim = self.claim(job, index)
        lane = (STRANGERS_LANE, SUBMITTER_LANE, AGGREGATOR_SEAT, STRANGERS_LANE + 1, 0, 1, 2, 3)[lane]
        self.s.base_fee = index % 2 * 3 * 10**9
        slot = (0 if claim.is_aggregation else claim.scope >> 16) + (what == 7)
        args = (job, claim, lane, slot, what % 4, index % 3)
        value = least_deposit(self.s.base_fee) - short
        self.s.attempt("availability", "demand", self.holder(job, lane), *args, value=value)
        if self.s.world.run(job).has_custodians:
            of = (index % 3, self.signers(job, claim))
            self.s.attempt("availability", "demand_of_signer", self.holder(job, lane), *args, *of, value=value)
        if wait < 6:
            self.s.wait(wait)
            self.show(job, claim, lane)

    def signers(self, job: int, claim: Claim) -> Committee:
        """Of the record in the claim's place."""
        place = claim.turn % (self.s.world.run(job).depth + 1)
        record = self.s.world.custody_records.get((job, place), Record())
        return self.s.world.committees.get((job, record.version), ())

    def holder(self, job: int, lane: int) -> str:
        if lane == SUBMITTER_LANE:
            return "submitter"
        return self.hot(self.s.world.seat(job, lane).operator)

    def show(self, job: int, claim: Claim, lane: int) -> None:
        """The bytes, which do not match where the claim is a lie or nothing was asked."""
        asked = self.s.world.demands.get((job, claim, lane), Demand(slot=claim.scope >> 16))
        if claim.is_aggregation or claim.scope >> 16 <= asked.slot < (claim.scope >> 16) + claim.count:
            opening = committed_results.chunk_opening(claim, asked)
            self.s.attempt("availability", "answer", "stranger", job, claim, lane, opening)

    @when(has_demands)
    @rule(4, job=INDEX, some=BITS, offset=OFFSET, shows=BOTH)
    def end_demands(self, job: int, some: int, offset: int, shows: bool) -> None:
        """At the edge of their time some are answered, or closed."""
        job = self.job(job, has_demands)
        demands = [(key, asked) for key, asked in self.s.world.demands.items() if key[0] == job and asked.is_open]
        if demands:
            self.s.to(max(self.s.now, demands[0][1].opened_at + self.s.preset.answer_s + offset))
        for index, ((_, claim, lane), _) in enumerate(demands):
            if shows:
                self.show(job, claim, lane)
            if some >> index % 16 & 1:
                self.s.attempt("availability", "close", "stranger", job, claim, lane)
