"""Keepers' decisions on the real auction contract, without chain, workers or clocks of their own: `Network.run` is a few days' waiting."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from keepers.decisions.duties import duties
from keepers.decisions.orders import OpenBid, OperatorContext, Progress, SealBid, Send
from tests.support.evm import Reverted
from tests.support.job_driver import POSTING_DEPOSIT, Offer
from tests.support.protocol_driver import Operator, Play
from zoo_compute.chain import snapshot
from zoo_compute.chain.auction_attempts import attempts_of
from zoo_compute.chain.events import Event
from zoo_compute.chain.views import Bid, JobState, JobView, Lot
from zoo_compute.spec.params import DEVNET, Terms

AUCTION_EVENTS = ("LotOpened", "BidSealed", "BidRevealed")
ATTEMPT_S = DEVNET.bid_window_s + DEVNET.reveal_window_s
CONTEXT = OperatorContext(
    0, is_provider=True, is_aggregator=False, price=900, aggregator_price=400, capacity=2, standby=True, free=0, stagger_s=3,
    ready_window_s=20, committer_s=10,
)  # fmt: skip


@dataclass
class SimulatedOperator:
    """An operator and its keeper. since, until: seconds of the network's clock in which the keeper runs; reveals: opens its bids."""

    operator: Operator
    me: OperatorContext
    since: int = 0
    until: int = 10**12
    reveals: bool = True
    progress: Progress = field(default_factory=lambda: Progress(slot_s=5))
    sent: Counter[str] = field(default_factory=Counter)


class AuctionSimulation:
    """Nodes around one job."""

    def __init__(self, play: Play, **terms: Any) -> None:
        self.play, self.nodes = play, list[SimulatedOperator]()
        self.terms = play.terms(**terms)
        self.job = int(play.kit.tasks.post(self.terms, sender=play.submitter, value=POSTING_DEPOSIT))
        self.began = play.now
        self.events: list[Event] = []
        self._seen: JobView | None = None
        self._free: dict[int, int] = {}  # by operator, its collateral that is not locked
        self._sent_at = 0
        self.note(play.kit.tasks)

    def node(
        self, name: str, *, deposit: int = 10**9, since: int = 0, until: int = 10**12, reveals: bool = True, **me: Any
    ) -> SimulatedOperator:
        operator = self.play.register(name, deposit=deposit)
        self.nodes.append(
            SimulatedOperator(
                operator, replace(CONTEXT, operator=operator.id, **me), since=since, until=until, reveals=reveals
            )
        )
        return self.nodes[-1]

    def aggregator(self, name: str, **options: Any) -> SimulatedOperator:
        return self.node(name, **{"is_provider": False, "is_aggregator": True, "capacity": 1} | options)

    @property
    def at(self) -> int:
        """Seconds since the job was posted."""
        return self.play.now - self.began

    @property
    def attempt(self) -> int:
        return int(self.play.kit.auction.lots(self.job, 0).attempt)

    @property
    def awarded(self) -> bool:
        return self.view().state == JobState.AWARDED

    def view(self) -> JobView:
        """The job as `snapshot.read_job` would read it; read again when something was sent."""
        if self._seen is None:
            self._seen = self._read()
        return replace(self._seen, now=self.play.now)

    def _read(self) -> JobView:
        auction = self.play.kit.auction
        bidders = {(event.args["kind"], event.args["operator"]) for event in self.events if event.name == "BidSealed"}
        bids = {key: snapshot._as(Bid, auction.bids(self.job, *key)._asdict()) for key in sorted(bidders)}
        stored = self.play.kit.tasks.jobs(self.job)
        return JobView(
            job=self.job, block=1, now=self.play.now, state=JobState(stored.state), submitter=stored.submitter,
            token=stored.token, terms=Terms(*self.terms), escrow=stored.escrow, posted_block=1, run=None,
            lots={kind: snapshot._as(Lot, auction.lots(self.job, kind)._asdict()) for kind in (0, 1)},
            bids={key: bid for key, bid in bids.items() if bid.attempt}, seats={}, stakes={},
            checkpoint_roots={0: b"\2" * 32}, checkpoint_cids={}, commits=(), checkpoints=(),
            attempts=attempts_of(self.events),
        )  # fmt: skip

    def run(self, until: int) -> None:
        """Let every keeper look once a second, seldom while nothing happens, until the job is awarded or the network's clock says `until`."""
        while not self.awarded and self.at < until:
            for node in self.nodes:
                if node.since <= self.at < node.until and not self.awarded:
                    self._look(node)
            quiet = self.at - self._sent_at
            step = 1 if quiet < 2 * ATTEMPT_S else quiet // 16
            self.play.to(min(self.play.now + step, self.began + max(until, self.at + 1)))

    def _look(self, node: SimulatedOperator) -> None:
        if node.operator.id not in self._free:
            money = self.play.kit.registry.collateral(node.operator.id, self.play.token)
            self._free[node.operator.id] = money.balance - money.locked
        me = replace(node.me, free=self._free[node.operator.id])
        for duty in duties(self.view(), me, node.progress):
            try:
                self._perform(node, duty)
            except Reverted:
                node.sent["refused"] += 1

    def _perform(self, node: SimulatedOperator, duty: Any) -> None:
        auction, play = self.play.kit.auction, self.play
        match duty:
            case SealBid(kind, _, capacity, price):
                play.bid(self.job, kind, node.operator, Offer(price, capacity))
                node.sent["bid"] += 1
            case OpenBid(kind) if node.reveals:
                play.reveal(self.job, kind, node.operator)
                node.sent["reveal"] += 1
            case Send("auction", function, args):
                getattr(auction, function)(*args, sender=node.operator.hot)
                node.sent[function] += 1
            case _:
                return
        self.note(auction)

    def reopen(self, who: Any) -> bool:
        """Anyone's transaction; whether the contract took it."""
        try:
            self.play.kit.auction.reopen(self.job, 0, sender=who)
        except Reverted:
            return False
        self.note(self.play.kit.auction)
        return True

    def note(self, called: Any) -> None:
        """Take in what a contract told, and read everything again."""
        self._seen, self._free, self._sent_at = None, {}, self.at
        for entry in called.get_logs():
            name = type(entry).__name__
            if name in AUCTION_EVENTS and entry._asdict().get("job") == self.job:
                self.events.append(Event(name, "auction", 1, len(self.events), "0x", b"", entry._asdict()))
