"""The rules of all walks in one machine (see `walk`)."""

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from ..differential.results import SEGMENTS
from .auctions import Auctions
from .audits import Audits
from .money import Money
from .operators import Operators
from .rounds import Rounds
from .verdicts import Verdicts
from .walk import BITS, INDEX, TOKENS


class ProtocolMachine(Auctions, Rounds, Verdicts, Audits, Money, Operators):
    """One walk, from a job on."""

    @initialize(
        token=TOKENS,
        rounds=st.integers(1, 4),
        slots=st.integers(1, 6),
        quorum=st.integers(1, 3),
        depth=st.integers(1, 4),
        policy=st.integers(0, 1),
        prices=st.lists(st.integers(1, 30), min_size=10, max_size=10),
        many=BITS,
        standbys=BITS,
        steps=INDEX,
        rate_bps=st.sampled_from([0, 5_000, 10_000, 10_000]),
    )
    def begin(
        self,
        token: str,
        rounds: int,
        slots: int,
        quorum: int,
        depth: int,
        policy: int,
        prices: list[int],
        many: int,
        standbys: int,
        steps: int,
        rate_bps: int,
    ) -> None:
        """Most walks begin with a job that is awarded, or already runs; the rest with its posting. Most pay for audits."""
        changes = {"rounds": rounds, "slots": slots, "quorum": min(quorum, slots), "max_price": 130}
        changes |= {"depth": depth, "policy": policy}
        job = self.s.post(token=token, **changes)
        if rate_bps:
            self.s.ok("audits", "offer", "submitter", job, 7, rate_bps, SEGMENTS)
            self.s.ok("audits", "fund", "stranger", job, 70)
        if steps:
            self.auction(job, prices, many, standbys)
        if steps > 2:
            self.s.attempt("datasets", "cite", "submitter", job, (1, 2))
            self.answers(job, many >> 3 if steps == 3 else 0, estimate_s=5 + steps)
        for _ in range(steps - 4):
            self.play_all(job)
