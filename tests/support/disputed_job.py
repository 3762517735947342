"""A devnet's job whose round is closed by hand, for tests of disputes."""

from __future__ import annotations

from typing import Any

from repops.merkle import merkle_root
from tests.support.devnet_driver import DevnetDriver
from tests.support.job_driver import Offer
from zoo_compute.chain.generated.bindings.referee import Result, Work
from zoo_compute.chain.sender import Receipt
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import Claim as Posted
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec import frames, merkle

WORK = Work((b"\x01" * 32, b"\x02" * 32, b"\x03" * 32), inner_steps=8, segment_steps=4, rows=2, carry=1)
STATES = [merkle.segment_leaf(step, bytes([step]) * 32) for step in (0, 4, 8)]
RESULT = Result(merkle_root(STATES), b"\x05" * 32, b"\x06" * 32, ())  # it does not end where its last segment does
BUNDLE = b"\x08" * 32
START = b"s" * 32
TRAINING, AGGREGATION = int(frames.Kind.TRAINING), int(frames.Kind.AGGREGATION)
FEE = 10**16  # more than any ask prepays


class Dispute(DevnetDriver):
    """A job whose only round is closed: the first operator's claim, and the second one's aggregation; the third asks.

    work: what is posted and claimed, if it is computed: its terms, `commit(slot, operator)` and `aggregate()`, each a root and a CID's digest.
    """

    def __init__(self, devnet: Devnet, work: Any = None) -> None:
        super().__init__(devnet)
        self.work = work
        one, two, three = self.parties = [
            self.operator(name, price) for name, price in (("one", 5), ("two", 6), ("three", 7))
        ]
        offers = {party: Offer(party.price) for party in self.parties}
        terms = work.terms if work else {"work_root": frames.Work(*WORK).root}
        self.job = self.running(offers, {two: Offer(4)}, **terms)
        self.commit(self.job, one)
        self.commit(self.job, two)
        self.post_checkpoint(self.job)
        three.send(self.chain.zen.approve(self.chain.referee.address, 2**256 - 1))

    def results(self, job: int, turn: int, seat: Any) -> tuple[bytes, bytes]:
        if self.work:
            return self.work.commit(seat.first, seat.operator)
        result = (seat.first, START, RESULT.segment_root, RESULT.end_root, RESULT.update_root)
        return merkle.result_root(*result), BUNDLE

    def checkpoint(self, job: int, turn: int) -> tuple[bytes, bytes]:
        return self.work.aggregate() if self.work else (b"\x09" * 32, BUNDLE)

    def claim(self, seat: int) -> Posted:
        (claim,) = (claim for claim in read_job(self.chain, self.job).claims if claim.seat == seat)
        return claim

    def ask(self, claim: Posted, kind: int, slot: int = 0, work: Work = WORK) -> Receipt:
        """At the root of the slot's segments, or for the trace."""
        nothing: Any = (0, (bytes(32), bytes(32), []), [])
        args: Any = (self.job, claim.fields, kind, slot, work, RESULT)
        return self.parties[2].send(self.chain.referee.ask_claim(*args, *nothing), value=FEE)
