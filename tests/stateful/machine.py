"""The rules of all walks in one machine (see `walk`)."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from ..differential.results import SEGMENTS
from .auctions import Auctions
from .audits import Audits
from .money import Money
from .operators import Operators
from .rounds import Rounds
from .verdicts import Verdicts
from .walk import BITS, INDEX, MAX_JOBS, TOKENS

JOB: dict[str, Any] = {
    "token": TOKENS,
    "rounds": st.integers(1, 4),
    "slots": st.integers(1, 6),
    "quorum": st.integers(1, 3),
    "depth": st.integers(1, 4),
    "policy": st.integers(0, 1),
    "prices": st.lists(st.integers(1, 30), min_size=10, max_size=10),
    "many": BITS,
    "standbys": BITS,
    "steps": INDEX,
    "rate_bps": st.sampled_from([0, 5_000, 10_000, 10_000]),
}


class ProtocolMachine(Auctions, Rounds, Verdicts, Audits, Money, Operators):
    """One walk, from a job on."""

    @initialize(**JOB)
    def begin(self, **job: Any) -> None:
        self.start(**job)

    @precondition(lambda self: self.is_idle and len(self.s.world.jobs) < MAX_JOBS)
    @rule(**JOB)
    def begin_again(self, **job: Any) -> None:
        self.start(**job)

    def start(self, *, prices: list[int], many: int, standbys: int, steps: int, rate_bps: int, **terms: Any) -> None:
        """Most jobs are driven to some turn at once, some to a step of their auctions. Most pay for audits."""
        terms["quorum"] = min(terms["quorum"], terms["slots"])
        if self.s.attempt("tasks", "post", "submitter", self.s.terms(max_price=130, **terms)):
            return
        job = self.s.result
        if rate_bps:
            self.s.attempt("audits", "offer", "submitter", job, 7, rate_bps, SEGMENTS)
            self.s.attempt("audits", "fund", "stranger", job, 70)
        if steps:
            self.auction(job, prices, many, standbys)
        if steps > 2:
            self.s.attempt("datasets", "cite", "submitter", job, (1, 2))
            self.answers(job, many >> 3 if steps == 3 else 0, estimate_s=5 + steps)
        for _ in range(steps - 4):
            self.play_all(job)
