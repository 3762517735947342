"""The rules of all concepts in one walk (see `walk`), and how one is made."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from tests.stateful.admissions import Admissions
from tests.stateful.auctions import Auctions, draw_prices
from tests.stateful.audits import Audits
from tests.stateful.custody import EVERYBODY, Custody, has_signing_committee
from tests.stateful.disputes import WORK, Disputes
from tests.stateful.money import Money
from tests.stateful.operators import Operators
from tests.stateful.rounds import Rounds
from tests.stateful.rules import Step, draw_step, format_steps, is_possible, precondition, rule, shrink
from tests.stateful.verdicts import Verdicts
from tests.stateful.walk import BITS, BOTH, INDEX, MAX_JOBS, TOKENS, Walk, prepared, when
from tests.support.evm import chain
from tests.support.job_driver import POSTING_DEPOSIT
from tests.support.lockstep.coverage import Coverage
from zoo_compute.spec.params import AGGREGATOR_SEAT, CUSTODIANS_AT

JOB: dict[str, Any] = {
    "token": TOKENS,
    "rounds": range(2, 6),
    "slots": range(1, 7),
    "quorum": range(1, 4),
    "depth": range(1, 5),
    "policy": range(4),
    "aggregators": (1, 1, 2, 3),
    "prices": draw_prices,
    "many": BITS,
    "quiet": BITS,
    "steps": (0, 1, 3, 5, 5, 6, 6, 7),
    "reexecute_s": (5, 5, 40),  # so windows of 15 and of 120 seconds
    "audit_bps": (200, 5_000, 10_000, 10_000),
}


class ProtocolWalk(Auctions, Rounds, Verdicts, Disputes, Audits, Custody, Admissions, Money, Operators):
    """A walk over all of the protocol."""

    @precondition(lambda self: self.is_idle and len(self.s.world.jobs) < MAX_JOBS)
    @rule(4, **JOB)
    def begin(self, *, prices: list[int], many: int, quiet: int, steps: int, **terms: Any) -> None:
        """Most jobs are driven to some turn at once, some to a step of their auctions. Most pay for audits."""
        terms["quorum"] = min(terms["quorum"], terms["slots"])
        if not many & 2 and many % 8:
            terms["aggregators"] = 1  # mostly: several need custodians
        if many & 2:
            terms["policy"] |= (3 if many & 4 else 5) << CUSTODIANS_AT
        if self.s.attempt(
            "tasks",
            "post",
            "submitter",
            self.s.terms(max_price=130, work_root=WORK.root, **terms),
            value=POSTING_DEPOSIT,
        ):
            return
        job = self.s.result
        if terms["audit_bps"] > 200:
            self.s.attempt("audits", "fund", "stranger", job, 7_000)
        if many & 2:
            self.ask_for_custodians(job, quiet | EVERYBODY if steps > 3 else quiet)
        if steps:
            self.auction(job, prices, many, quiet)
            self.draw_committee(job)
        if steps > 2:
            self.s.attempt("datasets", "cite", "submitter", job, (1, 2))
            self.answers(job, many >> 3 if steps == 3 else 0, estimate_s=5 + steps)
        if steps > 3:
            self.start(job, EVERYBODY)
        for _ in range(steps - 4):
            self.play_all(job)

    @when(has_signing_committee)
    @rule(3, job=INDEX, some=BITS, lacking=BOTH)
    def turn_in_custody(self, job: int, some: int, lacking: bool) -> None:
        """Custodians sign for a turn's inputs before its checkpoint; now and then they lack a seat, which is left out."""
        job = self.job(job, has_signing_committee)
        run = self.s.world.run(job)
        for number, _ in self.seats(job):
            self.commit_results(job, number)
        self.count_all(job)
        committee = self.committee_of(job, run.turn)
        signed = self.inputs(job, run.turn, committee, EVERYBODY)
        if lacking:
            signed = tuple(replace(each, seats=each.seats & ~(1 + (some & 3))) for each in signed)
        self.s.attempt("custody", "hold_inputs", "stranger", job, run.turn, committee, signed)
        record = self.record_of(job, run.turn)
        if lacking and record.inputs:
            self.s.to(max(self.s.now, record.signed_at + self.s.preset.answer_s + (some >> 2 & 3 != 3)))
            self.s.attempt("custody", "leave_out", "stranger", job, run.turn)
        self.post_in_custody(job, 0, EVERYBODY if some & 48 else some)
        posted = self.s.world.claims.get((job, AGGREGATOR_SEAT, run.turn % (run.depth + 1)))
        if posted:
            self.sign_checkpoint(job, posted.claim, self.committee_of(job, run.turn), some)

    def close_turn(self, job: int, *, lie: int) -> None:
        if self.s.world.run(job).has_custodians:
            self.post_in_custody(job, lie, EVERYBODY)
        else:
            super().close_turn(job, lie=lie)


def walk_from(seed: int, steps: int, coverage: Coverage, kind: type[Walk] = ProtocolWalk) -> int:
    """One walk; how many calls it made on the contracts. Raises WalkFailed, which says how to see it again."""
    random, taken = Random(seed), []
    with apart():
        walk = kind(coverage)
        try:
            for _ in range(steps):
                name, args = draw_step(walk, random)
                taken.append((name, args))
                getattr(walk, name)(**args)
            walk.compare()
        except Exception as error:  # noqa: BLE001 (a specification that crashes fails as well)
            failure = error
        else:
            return walk.mirror.calls
    shrunk = shrink(taken, partial(fails, kind=kind))
    again = fails(shrunk, kind) or failure
    raise WalkFailed(f"seed {seed}: {again}\n{format_steps(shrunk)}") from again


class WalkFailed(AssertionError):
    """Contracts and specification disagree, or an invariant broke; with the steps that it takes."""


def fails(steps: Sequence[Step], kind: type[Walk] = ProtocolWalk) -> Exception | None:
    """Takes these steps, but for those that make no sense; what went wrong."""
    with apart():
        walk = kind(Coverage())
        try:
            for name, args in steps:
                if is_possible(walk, getattr(kind, name)):
                    getattr(walk, name)(**args)
            walk.compare()
        except Exception as error:  # noqa: BLE001 (a specification that crashes fails as well)
            return error
    return None


@contextmanager
def apart() -> Iterator[None]:
    """What a walk does is undone."""
    prepared()
    with chain.anchor():
        yield
