"""The rules of all concepts in one walk (see `walk`), and how one is made."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from tests.stateful.walk import BITS, INDEX, MAX_JOBS, TOKENS, prepared, when
from tests.support.evm import chain
from tests.support.job_driver import POSTING_DEPOSIT
from tests.support.lockstep.coverage import Coverage
from zoo_compute.spec.params import AGGREGATOR_SEAT

JOB: dict[str, Any] = {
    "token": TOKENS,
    "rounds": range(2, 6),
    "slots": range(1, 7),
    "quorum": range(1, 4),
    "depth": range(1, 5),
    "policy": range(4),
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
        if many & 3:
            self.ask_for_custodians(job, 3 if many & 4 else 5, quiet)
        if steps:
            self.auction(job, prices, many, quiet)
            self.draw_committee(job)
        if steps > 2:
            self.s.attempt("datasets", "cite", "submitter", job, (1, 2))
            self.answers(job, many >> 3 if steps == 3 else 0, estimate_s=5 + steps)
        for _ in range(steps - 4):
            self.play_all(job)

    @when(has_signing_committee)
    @rule(3, job=INDEX, some=BITS)
    def turn_in_custody(self, job: int, some: int) -> None:
        """Custodians sign for a turn's inputs, and for its checkpoint once it is posted."""
        job = self.job(job, has_signing_committee)
        turn, depth = self.s.world.run(job).turn, self.s.world.run(job).depth
        committee = self.committee_of(job, turn)
        signed = self.inputs(job, turn, committee, EVERYBODY)
        self.s.attempt("custody", "hold_inputs", "stranger", job, turn, committee, signed)
        self.play_all(job)
        posted = self.s.world.claims.get((job, AGGREGATOR_SEAT, turn % (depth + 1)))
        if posted:
            self.sign_checkpoint(job, posted.claim, self.committee_of(job, turn), some)


def walk_from(seed: int, steps: int, coverage: Coverage) -> int:
    """One walk; how many calls it made on the contracts. Raises WalkFailed, which says how to see it again."""
    random, taken = Random(seed), []
    with apart():
        walk = ProtocolWalk(coverage)
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
    shrunk = shrink(taken, fails)
    again = fails(shrunk) or failure
    raise WalkFailed(f"seed {seed}: {again}\n{format_steps(shrunk)}") from again


class WalkFailed(AssertionError):
    """Contracts and specification disagree, or an invariant broke; with the steps that it takes."""


def fails(steps: Sequence[Step]) -> Exception | None:
    """Takes these steps, but for those that make no sense; what went wrong."""
    with apart():
        walk = ProtocolWalk(Coverage())
        try:
            for name, args in steps:
                if is_possible(walk, getattr(ProtocolWalk, name)):
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
