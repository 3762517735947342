"""One vocabulary for a job's life: post, bid, reveal, clear, award, ready, commit, post_checkpoint, finalise, release.

Terms, seals, bitmaps, roots and claims are built here and nowhere else. A subclass is the chain behind the words:
`protocol_driver.Play` (contracts on revm), `lockstep.stage.Stage` (the specification, with contracts in lockstep),
`devnet_driver.DevnetDriver` (anvil), and ape's conftest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, ClassVar

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from zoo_compute.spec.params import AGGREGATOR_SEAT, POLICY_DELAYED, Terms, least_posting_deposit
from zoo_compute.spec.pricing import RevealedBid, order_bids
from zoo_compute.spec.seats import deadline_of
from zoo_compute.spec.state import Claim, Seal

SLOTS, AGGREGATOR = KINDS = 0, 1  # what a lot sells
POSTING_DEPOSIT = 2 * least_posting_deposit(0)  # wei
MOST_A_CALL = 64  # operators that one call clears or awards, claims that it pays

Party = Any  # what a driver calls an operator: a name, or an object with `id` and `hot`
Offers = Mapping[Party, "Offer"]


@dataclass(frozen=True)
class Offer:
    """What an operator bids."""

    price: int
    capacity: int = 1


class JobDriver:
    """Sends each call as the account that the protocol expects.

    The chain behind the words is `kit`: contracts as attributes, each call a method, as tests have them on revm and ape has
    them. Other chains override the first part. Offers and claims, of which contracts keep hashes only, are kept here.
    """

    TERMS: ClassVar[Mapping[str, Any]] = {}  # what differs from the small job of `terms`
    now: int  # the chain's second

    def __init__(self, kit: Any, token: Any, submitter: Any, anyone: Any) -> None:
        self.kit, self.token, self.submitter, self.anyone = kit, token, submitter, anyone
        self.operators: dict[int, Party] = {}
        self.sealed: dict[tuple[int, int, int], Offer] = {}
        self.refs: dict[int, list[Any]] = {}  # claims not yet paid, by job
        self.aggregations: dict[int, Claim] = {}  # the newest of each job

    # --- the chain behind the words

    @property
    def sent_at(self) -> int:
        """The second of the block with the last call."""
        return self.now

    def to(self, now: int) -> None:
        """Jump to a second."""
        raise NotImplementedError

    def send(self, contract: str, function: str, sender: Any, *args: Any, value: int = 0) -> Any:
        return getattr(getattr(self.kit, contract), function)(*args, sender=sender, value=value)

    def posted(self, result: Any) -> int:
        """The job that a call of `post` made."""
        return int(result)

    def pack(self, value: Terms | Seal | Claim) -> Any:
        """A struct as the chain takes it."""
        if isinstance(value, Seal):
            return bytes(keccak(encode(["uint256"] * 6 + ["bytes32"], astuple(value))))
        return astuple(value)

    def lot(self, job: int, kind: int) -> Any:
        return self.kit.auction.lots(job, kind)

    def bid_of(self, job: int, kind: int, operator: int) -> Any:
        return self.kit.auction.bids(job, kind, operator)

    def run(self, job: int) -> Any:
        return self.kit.settlement.runs(job)

    def seat(self, job: int, seat: int) -> Any:
        return self.kit.settlement.seats(job, seat)

    def deadline(self, job: int, *claims: Any) -> int:
        """The last second at which the last of these claims can be challenged."""
        turns = {claim.turn if isinstance(claim, Claim) else claim[0] for claim in claims}
        return max(int(self.kit.settlement.claim_deadline(job, turn)) for turn in turns)

    def deadline_of(self, job: int, seat: int) -> int:
        """The last second at which the seat's holder cannot be timed out."""
        return int(deadline_of(self.run(job), self.seat(job, seat)))

    def slots_root(self, job: int) -> bytes:
        """What slots start from; in a delayed job what the turn before started from, unless that was rolled back."""
        run, last = self.run(job), self.aggregations.get(job)
        follows = last is not None and (last.turn + 1, last.round + 1) == (run.turn, run.round)
        return last.start_root if last and follows and run.policy & POLICY_DELAYED else bytes(run.start_root)

    def bidders(self, job: int, kind: int) -> Iterable[int]:
        return [number for of, lot, number in self.sealed if (of, lot) == (job, kind)]

    def record(self, job: int, claim: Claim) -> Any:
        """A claim was accepted; the claim as the chain takes it."""
        if claim.is_aggregation:
            self.aggregations[job] = claim
        packed = self.pack(claim)
        self.refs.setdefault(job, []).append(packed)
        return packed

    def pending(self, job: int) -> Sequence[Any]:
        """Claims that were recorded and not yet paid."""
        return self.refs.pop(job)

    # --- operators

    def id_of(self, party: Party) -> int:
        return int(party.id)

    def hot_of(self, party: Party) -> Any:
        return party.hot

    def party(self, operator: int) -> Party:
        return self.operators[operator]

    def salt(self, party: Party) -> bytes:
        return self.id_of(party).to_bytes(32, "big")

    # --- a job's auctions

    def terms(self, **changes: Any) -> Any:
        """A small job."""
        terms = {
            "token": getattr(self.token, "address", self.token),
            "work_root": b"p" * 32,
            "state_root": b"s" * 32,
            "data_root": b"d" * 32,
            "manifest": b"m" * 32,
            "rounds": 3,
            "slots": 3,
            "quorum": 2,
            "reserve": 1_000,
            "max_price": 2_000,
            "aggregator_reserve": 500,
            "aggregator_max_price": 1_000,
            "slot_s": 60,
            "aggregate_s": 30,
            "reexecute_s": 20,
            "flops": 10**12,
            "depth": 4,
            "policy": 0,
            "audit_bps": 500,
        }
        return self.pack(Terms(**{**terms, **self.TERMS, **changes}))

    def post(self, **changes: Any) -> int:
        return self.posted(self.send("tasks", "post", self.submitter, self.terms(**changes), value=POSTING_DEPOSIT))

    def seal(self, job: int, kind: int, party: Party, offer: Offer) -> Any:
        attempt = self.lot(job, kind).attempt
        return self.pack(Seal(job, kind, attempt, self.id_of(party), offer.price, offer.capacity, self.salt(party)))

    def bid(self, job: int, kind: int, party: Party, offer: Offer) -> None:
        seal = self.seal(job, kind, party, offer)
        self.send("auction", "bid", self.hot_of(party), job, kind, self.id_of(party), seal, offer.capacity)
        self.sealed[job, kind, self.id_of(party)] = offer

    def reveal(self, job: int, kind: int, party: Party, offer: Offer | None = None) -> None:
        """By default what the operator sealed."""
        offer = offer or self.sealed[job, kind, self.id_of(party)]
        args = (job, kind, self.id_of(party), offer.price, self.salt(party))
        self.send("auction", "reveal", self.anyone, *args)

    def bid_all(self, job: int, *lots: Offers) -> None:
        """lots: offers for the slots, then those for the aggregator's seat."""
        for kind, offers in enumerate(lots):
            for party, offer in offers.items():
                self.bid(job, kind, party, offer)

    def reveal_all(self, job: int, *lots: Offers) -> None:
        """All bids revealed at the first second of the phase; the clock is then at its end."""
        self.to(self.lot(job, SLOTS).bid_end)
        for kind, offers in enumerate(lots):
            for party, offer in offers.items():
                self.reveal(job, kind, party, offer)
        self.to(self.lot(job, SLOTS).reveal_end)

    def order(self, job: int, kind: int, parties: Iterable[Party] | None = None) -> tuple[int, ...]:
        """The clearing order of the revealed bids: all of them, or those of `parties`."""
        numbers = self.bidders(job, kind) if parties is None else map(self.id_of, parties)
        attempt = self.lot(job, kind).attempt
        bids = [(number, self.bid_of(job, kind, number)) for number in numbers]
        revealed = [
            RevealedBid(number, bid.price, bid.discount_bps, bid.capacity)
            for number, bid in bids
            if bid.revealed and bid.attempt == attempt
        ]
        return tuple(bid.operator for bid in order_bids(revealed))

    def winners(self, job: int, kind: int, parties: Iterable[Party] | None = None) -> tuple[int, ...]:
        return tuple(number for number in self.order(job, kind, parties) if self.bid_of(job, kind, number).won)

    def clear(self, job: int, kind: int, parties: Iterable[Party] | None = None) -> None:
        for some in _calls(self.order(job, kind, parties)):
            self.send("auction", "clear", self.anyone, job, kind, some)

    def award(self, job: int, kind: int, parties: Iterable[Party] | None = None) -> None:
        for some in _calls(self.winners(job, kind, parties)):
            self.send("auction", "award", self.anyone, job, kind, some)

    def award_all(self, job: int) -> None:
        for step in (self.clear, self.award):
            for kind in KINDS:
                step(job, kind)

    def revealed(self, slots: Offers, aggregator: Offers, /, **changes: Any) -> int:
        """A job at the end of its reveal phase."""
        job = self.post(**changes)
        self.bid_all(job, slots, aggregator)
        self.reveal_all(job, slots, aggregator)
        return job

    def awarded(self, slots: Offers, aggregator: Offers, /, **changes: Any) -> int:
        """A job through its auctions."""
        job = self.revealed(slots, aggregator, **changes)
        self.award_all(job)
        return job

    # --- a job's rounds

    def seats_of(self, job: int, party: Party) -> tuple[int, ...]:
        """The operator's seats of slots."""
        operator = self.id_of(party)
        return tuple(seat for seat in range(self.run(job).seats) if self.seat(job, seat).operator == operator)

    def seat_of(self, job: int, party: Party) -> int:
        """The operator's only seat of slots."""
        (seat,) = self.seats_of(job, party)
        return seat

    def ready(self, job: int, *parties: Party, estimate_s: int | None = None) -> None:
        """For all seats of these operators that are missing; the estimate is a third of the slot's time by default."""
        estimate_s = self.run(job).slot_s // 3 if estimate_s is None else estimate_s
        for party in parties:
            for seat in self.seats_of(job, party):
                if self.run(job).missing >> seat & 1:
                    self.send("settlement", "ready", self.hot_of(party), job, seat, estimate_s)

    def running(self, slots: Offers, aggregator: Offers, /, **changes: Any) -> int:
        """A job whose operators are all ready: turn 0 is open."""
        job = self.awarded(slots, aggregator, **changes)
        self.ready(job, *slots)
        return job

    def results(self, job: int, turn: int, seat: Any) -> tuple[bytes, bytes]:
        """What a seat commits: a root, and the digest of its data's CID."""
        return bytes(keccak(encode(["uint256"] * 4, (job, turn, seat.first, seat.count)))), b"b" * 32

    def checkpoint(self, job: int, turn: int) -> tuple[bytes, bytes]:
        return bytes(keccak(encode(["uint256"] * 2, (job, turn + 1)))), b"c" * 32

    def commit(self, job: int, party: Party, number: int | None = None) -> Any:
        """The results of seat `number`, by default of the operator's only seat; the claim."""
        number = self.seat_of(job, party) if number is None else number
        run, seat, start = self.run(job), self.seat(job, number), self.slots_root(job)
        root, data = self.results(job, run.turn, seat)
        self.send("settlement", "commit", self.hot_of(party), job, number, run.turn, root, data)
        price, scope = seat.count * seat.price, seat.first << 16 | seat.count
        return self.record(job, Claim(run.turn, run.round, number, seat.operator, scope, price, start, root))

    def commit_all(self, job: int) -> None:
        """Every seat that is missing and has an operator."""
        run = self.run(job)
        for number in range(run.seats):
            operator = self.seat(job, number).operator
            if operator and run.missing >> number & 1:
                self.commit(job, self.party(operator), number)

    def post_checkpoint(self, job: int, party: Party | None = None) -> Any:
        """The aggregators close the open turn with what was committed, or the given one posts; the last claim."""
        for number in range(AGGREGATOR_SEAT, AGGREGATOR_SEAT + self.run(job).aggregators):
            claim = self.post_share(job, number, party)
        return claim

    def post_share(self, job: int, number: int, party: Party | None = None) -> Any:
        """One aggregator posts, of what was committed; its claim."""
        run, seat = self.run(job), self.seat(job, number)
        party = self.party(seat.operator) if party is None else party
        mask, (root, data) = (2**run.seats - 1) & ~run.missing, self.checkpoint(job, run.turn)
        args = (job, number, run.turn, mask, root, data)
        self.send("settlement", "post_checkpoint", self.hot_of(party), *args)
        fixed = (run.turn, run.round, number, seat.operator, mask, seat.price, run.start_root, root)
        return self.record(job, Claim(*fixed))

    def finalise(self, job: int) -> None:
        """Pay the pending claims, after the last of their windows."""
        claims = self.pending(job)
        if claims:
            self.to(max(self.now, self.deadline(job, *claims) + 1))
        for some in _calls(claims):
            self.send("settlement", "finalise", self.anyone, job, some)

    def release(self, job: int, *parties: Party) -> None:
        for party in parties:
            self.send("locks", "release", self.anyone, job, self.id_of(party))


def _calls(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """As many at once as one call takes."""
    return (values[index : index + MOST_A_CALL] for index in range(0, len(values), MOST_A_CALL))
