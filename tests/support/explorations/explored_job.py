"""A job whose claims the Referee explores, contracts and specification in step."""

from __future__ import annotations

from typing import Any

from tests.support.explorations.exploration_moves import Explorer
from tests.support.explorations.hashed_computation import WORK, HashedComputation, Tree
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS
from zoo_compute.spec import settlement
from zoo_compute.spec.disputed_claims import DisputedClaim, Explorations, claim_key
from zoo_compute.spec.frames import Kind, Result
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.spec.state import Claim, ClaimStatus


class ExploredJob:
    """A job whose seats commit computations made up from hashes; asks about them are made as `Explorer` says."""

    def __init__(self, s: Stage, work: Any = WORK, **changes: Any) -> None:
        self.s, self.work = s, work
        self.claims: dict[str, Claim] = {}
        self.sides: dict[tuple[str, int], HashedComputation] = {}
        self.explorer = Explorer(self)
        if "job" in changes:
            self.job = changes["job"]
            return
        if not s.ids:
            s.register_all()
        self.job = s.running(changes.pop("slots", SLOTS), AGGREGATORS, work_root=work.root, **changes)

    # --- what `Explorer` needs

    @property
    def base_fee(self) -> int:
        return self.s.base_fee

    @property
    def explorations(self) -> Explorations:
        return self.s.world.disputes

    def call(self, function: str, sender: str, *args: Any, value: int = 0) -> Any:
        return self.s.ok("referee", function, sender, *args, value=value)

    def hot_of(self, name: str) -> str:
        return self.s.hot_of(self.s.party(self.claims[name].operator))

    # --- rounds

    def commit(self, *names: str) -> None:
        s, run = self.s, self.s.world.run(self.job)
        for name in names:
            number = s.seat_of(self.job, name)
            seat, start = s.world.seat(self.job, number), s.slots_root(self.job)
            sides = [HashedComputation(name, at, start, self.work) for at in range(seat.first, seat.first + seat.count)]
            self.sides |= {(name, side.slot): side for side in sides}
            root = Tree(tuple(side.leaf() for side in sides)).root
            s.ok("settlement", "commit", f"{name} hot", self.job, number, run.turn, root, b"b" * 32)
            self.claims[name] = s.world.claims[self.job, number, run.turn % (run.depth + 1)].claim

    def close_turn(self, name: str = "dave") -> None:
        s, run = self.s, self.s.world.run(self.job)
        self.sides[name, 0] = HashedComputation(name, 0, run.start_root, self.work)
        root, mask = self.sides[name, 0].state(-2).root, (2**run.seats - 1) & ~run.missing
        s.ok("settlement", "post_checkpoint", f"{name} hot", self.job, AGGREGATOR_SEAT, run.turn, mask, root, b"c" * 32)
        self.claims[name] = s.world.claims[self.job, AGGREGATOR_SEAT, run.turn % (run.depth + 1)].claim

    # --- disputes

    def first_slot(self, name: str) -> int:
        return self.claims[name].scope >> 16

    def word(self, name: str) -> DisputedClaim:
        return self.explorations.claims[claim_key(self.job, self.claims[name])]

    def status(self, name: str) -> ClaimStatus:
        status = settlement.status_of(self.s.world, self.job, self.claims[name])
        assert status is not None
        return status

    def expire(self, id: bytes) -> None:
        name, node, _, _ = self.explorer.known[id]
        self.s.to(max(self.s.now, node.clocks.since + node.clocks.committer_left_s))
        args = (self.job, self.claims[name], id, node)
        self.s.no("referee: time left", "referee", "expire", "stranger", *args)
        self.s.wait(1)
        self.s.ok("referee", "expire", "stranger", *args)

    def close(self, name: str) -> None:
        """In the first second in which it is final."""
        s = self.s
        last = max(s.deadline(self.job, self.claims[name]) + s.preset.clocks.asker_s, self.word(name).latest)
        s.to(max(s.now, last))
        if s.now == last:
            s.no("referee: not final", "referee", "close", "stranger", self.job, self.claims[name])
            s.wait(1)
        s.ok("referee", "close", "stranger", self.job, self.claims[name])

    def settle_fees(self) -> None:
        """Of all that is known; everybody withdraws."""
        known = [(id, each[1], each[2]) for id, each in self.explorer.known.items()]
        self.explorer.known = {}
        for at in range(0, len(known), 32):
            ids, records, statuses = zip(*known[at : at + 32], strict=True)
            self.s.ok("referee", "settle", "stranger", ids, records, statuses)
        for (token, account), amount in list(self.explorations.owed.items()):
            if amount:
                self.s.ok("referee", "withdraw", "stranger", token, account)

    def convict(self, name: str, kind: int = Kind.UPDATE, slot: int | None = None, by: str = "stranger") -> None:
        """By a trace, a node of it, and one of its words."""
        explorer = self.explorer
        slot = self.first_slot(name) if slot is None else slot
        trace = explorer.answer(explorer.first(name, kind, slot, by=by))
        explorer.convict(explorer.answer(explorer.down(trace, 0, by)), 0, by)


class TrialComputation(HashedComputation):
    """What a machine shows of itself: nobody asks for its end or an update."""

    @property
    def result(self) -> Result:
        return Result(self.segments.root)
