"""Who holds the seats of a play, and what they do in a turn."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.economy.custody import Custody
from benchmarks.economy.network import Losers
from benchmarks.economy.table import JOB, MOST_CHANCES
from zoo_compute.spec import seats
from zoo_compute.spec.params import AGGREGATOR_SEAT, STRANGERS_LANE
from zoo_compute.spec.state import Claim


class Work(Custody):
    """Seats are left and taken; turns are trained and aggregated."""

    def decline(self, seat: int, *, whole: bool) -> None:
        name, count = self.holder(seat), self.n.world.seats[JOB, seat].count
        self.n.ok("settlement", "decline", f"{name} hot", JOB, seat, count if whole else max(1, count // 2))

    def _vacant(self) -> Iterator[int]:
        for seat in (*range(self.run.seats), AGGREGATOR_SEAT):
            if not self.operator(seat):
                yield seat

    def fill(self, *only: int) -> None:
        """Vacant seats: the coalition is first, since it can do so in the transaction that leaves them."""
        for seat in only or list(self._vacant()):
            vacant, where = self.n.world.seats[JOB, seat], f"seat {seat} is vacant in turn {self.run.turn}"
            takers = sorted(self.hostile & {"spare", "worker", "peer", "aggregator"})
            halves = [f"half by {name}" for name in takers] if vacant.count > 1 else []
            does = self.pick("spare", where, "leaves it", *(f"taken by {name}" for name in takers), *halves)
            if does != "leaves it":
                count = max(1, vacant.count // 2) if does.startswith("half") else vacant.count
                self.take(does.split()[-1], seat, count)
            if self.circumstances.losers == Losers.THERE and not self.operator(seat):
                taker = "rival" if seat == AGGREGATOR_SEAT else "loser"
                if not any(self.operator(of) == self.n.ids[taker] for of in range(self.run.seats)):
                    self.take(taker, seat, self.n.world.seats[JOB, seat].count)

    def take(self, name: str, seat: int, count: int) -> None:
        """Refused to whoever was convicted in this turn."""
        self.n.attempt("settlement", "take_over", f"{name} hot", JOB, seat, self.n.ids[name], count, 10)

    # --- results

    def commit(self) -> None:
        for seat in range(self.run.seats):
            if self.operator(seat) and seats.is_missing(self.run, seat):
                self.do(seat)
        self.fill()
        for seat in range(self.run.seats):
            if self.operator(seat) and seats.is_missing(self.run, seat) and seat not in self.silent():
                self.do(seat)

    def silent(self) -> set[int]:
        turn = self.run.turn
        return {
            seat
            for seat in range(self.run.seats)
            if self.strategy.met.get(f"{self.holder(seat) if self.operator(seat) else ''} in turn {turn}, seat {seat}")
            == "is silent"
        }

    def do(self, seat: int) -> None:
        name, turn = self.holder(seat), self.run.turn
        lies = ("lies",) if self.circumstances.is_watched or len(self.lies) < MOST_CHANCES else ()
        halves = ("declines half",) if self.n.world.seats[JOB, seat].count > 1 else ()
        does = self.pick(
            name, f"in turn {turn}, seat {seat}", "works", *lies, "is silent", "declines", *halves, "serves nobody"
        )
        if does in ("works", "lies", "serves nobody"):
            root = (b"lie" if does == "lies" else b"true").ljust(32, b"\0")
            self.n.ok("settlement", "commit", f"{name} hot", JOB, seat, turn, root, b"b" * 32)
            claim = self.n.posted_claim(JOB, seat, turn)
            self.pending.setdefault(turn, []).append(claim)
            if does == "lies":
                self.lies.add(claim)
            else:
                self.n.work(name, claim.count)
            if does == "serves nobody":
                self._lose(claim)
        elif does.startswith("declines"):
            self.decline(seat, whole=does == "declines")

    def _post(self, turn: int, name: str, root: bytes) -> None:
        args = (JOB, AGGREGATOR_SEAT, turn, seats.present(self.run), root, b"c" * 32)
        if self.committee:
            signed = self.sign_checkpoint(turn, root, args[-1])
            self.n.ok("custody", "post_checkpoint", f"{name} hot", *args, self.committee, (), signed)
        else:
            self.n.ok("settlement", "post_checkpoint", f"{name} hot", *args)

    def _lose(self, claim: Claim) -> None:
        """Somebody demands what nobody serves; with custodians the seat is left out instead."""
        if self.committee:
            self.unserved.add(claim.seat)
            return
        self.n.demand(JOB, claim, STRANGERS_LANE, "stranger")
        self.n.wait(self.n.preset.answer_s + 1)
        self.n.ok("availability", "close", "stranger", JOB, claim, STRANGERS_LANE)

    def time_out_the_late(self) -> None:
        for seat in range(self.run.seats):
            run = self.run
            if not self.operator(seat) or not seats.is_missing(run, seat):
                continue
            deadline = seats.deadline_of(run, self.n.world.seats[JOB, seat])
            if deadline < run.inputs_close:
                self.n.to(max(self.n.now, deadline + 1))
                self.n.ok("settlement", "time_out", "stranger", JOB, seat)
        self.fill()
        if not seats.inputs_closed(self.run, self.n.now):
            for seat in range(self.run.seats):
                if self.operator(seat) and seats.is_missing(self.run, seat) and seat not in self.silent():
                    self.do(seat)

    def aggregate(self, turn: int) -> Claim | None:
        """The turn's aggregation; None where nobody makes one in time."""
        for attempt in range(4):
            if not self.operator(AGGREGATOR_SEAT):
                self._wait_for_an_aggregator(turn, attempt)
            if not self.operator(AGGREGATOR_SEAT):
                self.n.to(max(self.n.now, self.run.aggregator_due + 1))
                return None
            name = self.holder(AGGREGATOR_SEAT)
            lies = ("lies",) if self.circumstances.is_watched or len(self.lies) < MOST_CHANCES else ()
            silent = ("is silent",) if attempt < 3 else ()
            does = self.pick(name, f"closes turn {turn}, attempt {attempt}", "aggregates", *lies, *silent)
            if does in ("aggregates", "lies"):
                root = does.encode() + bytes([turn]) + b" "
                self._post(turn, name, root.ljust(32, b"\0"))
                claim = self.n.posted_claim(JOB, AGGREGATOR_SEAT, turn)
                if does == "lies":
                    self.lies.add(claim)
                else:
                    self.n.work(name, 0)
                return claim
            self.n.to(max(self.n.now, self.run.aggregator_due + 1))
            self.n.ok("settlement", "time_out", "stranger", JOB, AGGREGATOR_SEAT)
        raise AssertionError("an aggregator that may not be silent")

    def _wait_for_an_aggregator(self, turn: int, attempt: int) -> None:
        self.fill(AGGREGATOR_SEAT)
        if self.operator(AGGREGATOR_SEAT):
            return
        where = f"closes turn {turn}, attempt {attempt}, while nobody aggregates"
        parts = self.pick("spare", where, "leaves it", "waits 1 of 4", "waits 2 of 4", "waits 3 of 4")
        if parts != "leaves it":
            left_at = self.n.world.seats[JOB, AGGREGATOR_SEAT].left_at
            self.n.to(max(self.n.now, left_at + int(parts.split()[1]) * self.run.aggregate_s // 4))
            self.take("spare", AGGREGATOR_SEAT, 1)
