"""Three weeks of one model on a rotating pool: 24 slots, 40 nodes of one operator each, played on the specification.

    python -m benchmarks.economy.season [--json] [--seeds 3] [--weeks 3]

Every payment, deadline, takeover, slash and conviction is the specification's; what nodes do is drawn from the seed. A week is a job: its
result is the next one's start, so that prices follow the market. Nodes come and go, die with what they had trained, or fall silent; free
ones take over what is vacant. Each week one operator lies in a slot-round, is convicted half an hour after its turn closed, and is gone.
The seed document of the project states 8,400 GPU-hours for 21,000 ZEN, 89 % of the efficiency of one cluster, and 99.2 % of uptime
(of the network).

  cost_per_gpu_hour  what the submitter paid, with fees, over the hours of slot-rounds that were paid
  efficiency         hours of slot-rounds that count, over 24 GPUs for the whole time
  uptime             time in which a job ran, over the whole: not that of auctions
  training           time in which slots were trained: beside that neither exchange nor waiting for silent nodes
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from benchmarks.scaling.network import Market
from zoo_compute.spec import params, seats, settlement
from zoo_compute.spec.clocks import End
from zoo_compute.spec.params import AGGREGATOR_SEAT, LIST_LIMIT, PRODUCTION, ZEN, Terms
from zoo_compute.spec.state import Claim, ClaimStatus, JobState, Posted

POOL, SLOTS, QUORUM = 40, 24, 16
HOUR_S = 3_600
DAY_S, WEEK_S = 24 * HOUR_S, 168 * HOUR_S
TRAIN_S, EXCHANGE_S = 1_200, 60  # of a slot-round; from the last commitment to the next turn's first step
RESTART_S = 300  # of a node that was killed
AWAY_S = 6 * HOUR_S  # of one that fell silent, and of one that left
REFERENCE = ZEN * 5 // 2  # a GPU-hour (params.REFERENCE_FLOPS is of its GPU)
# A node's chances in a round.
KILLED, SILENT, LEAVES = TRAIN_S / (72 * HOUR_S), TRAIN_S / (240 * HOUR_S), TRAIN_S / (120 * HOUR_S)
PRICE_MOVE = 0.06  # of all costs in a day, standard deviation of the logarithm; of each node's own, half of it
SEED = {"cost_zen": 21_000, "gpu_hours": 8_400, "efficiency": 0.89, "uptime": 0.992}


@dataclass
class Node:
    """cost: of an hour, in ZEN's smallest units. away_until: it is silent or gone until then."""

    operator: int
    cost: int
    away_until: int = 0
    is_banned: bool = False

    def is_here(self, now: int) -> bool:
        return not self.is_banned and now >= self.away_until


@dataclass
class Season(Market):
    """The pool, its jobs one after another, and what came of it."""

    chance: random.Random = field(default_factory=lambda: random.Random(1))
    nodes: dict[int, Node] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    training_s: int = 0
    running_s: int = 0
    paying_s: int = 0
    level: float = 1.0
    priced_day: int = 0

    def join(self) -> None:
        operator = self.register(1)
        cost = round(REFERENCE * math.exp(self.chance.gauss(-0.25, 0.2)))
        self.nodes[operator] = Node(operator, cost)
        self.counts["joined"] += 1

    def free(self, job: int) -> list[Node]:
        """Who could take a seat now, the cheapest first."""
        seated = {seat.operator for (of, _), seat in self.world.seats.items() if of == job}
        free = [n for n in self.nodes.values() if n.operator not in seated and n.is_here(self.now)]
        return sorted(free, key=lambda node: node.cost)

    def price_of(self, node: Node) -> int:
        """What a node asks for a slot-round."""
        return round(node.cost * self.level) * TRAIN_S // HOUR_S

    def move_prices(self, day: int) -> None:
        for _ in range(self.priced_day, day):
            self.level *= math.exp(self.chance.gauss(0, PRICE_MOVE))
            for node in self.nodes.values():
                node.cost = round(node.cost * math.exp(self.chance.gauss(0, PRICE_MOVE / 2)))
        self.priced_day = day

    # -- a week

    def week(self, began: int, aggregator: int) -> None:
        self.move_prices((self.now - began) // DAY_S)
        rounds = (WEEK_S - PRODUCTION.bid_window_s - PRODUCTION.reveal_window_s) // (TRAIN_S + EXCHANGE_S)
        job = self.post_week(rounds)
        offers = {node.operator: (self.price_of(node), 1) for node in self.free(job)}
        self.auction({job: offers}, aggregator)
        absent = self.get_ready(job)
        if absent:
            self.now = self.world.run(job).opened_at + PRODUCTION.ready_window_s + 1
            for seat in absent:
                self.call("settlement", "expire", "submitter", job, seat)
        started, liar_in = self.now, self.chance.randrange(rounds // 4, 3 * rounds // 4)
        while self.world.run(job).state == JobState.RUNNING:
            self.move_prices((self.now - began) // DAY_S)
            self.play_turn(job, lies=self.world.run(job).round == liar_in)
        self.running_s += self.now - started
        window_s = self.world.run(job).window_s + 1  # the next job need not wait for the last payments
        self.now, self.paying_s = self.now + window_s, self.paying_s + window_s
        self.finalise(job)
        for operator in {key[1] for key in self.world.stakes if key[0] == job}:
            self.call("locks", "release", "submitter", job, operator)
        assert seats.pending_of(self.world, job) == 0, "everything is paid"
        self.counts["rounds"] += rounds

    def get_ready(self, job: int) -> list[int]:
        """Who is here says so. Returns the seats of those who are not."""
        absent = []
        for seat, record in self.seats(job).items():
            if self.nodes[record.operator].is_here(self.now):
                self.call("settlement", "ready", f"hot {record.operator}", job, seat, TRAIN_S)
            else:
                absent.append(seat)
        return absent

    def post_week(self, rounds: int) -> int:
        self.world.balances["zen", "submitter"] = 10**12 * ZEN
        reserve = 2 * REFERENCE * TRAIN_S // HOUR_S
        terms = Terms(
            token="zen", work_root=b"p" * 32, state_root=b"s" * 32, data_root=b"d" * 32, manifest=b"m" * 32, rounds=rounds,
            slots=SLOTS, quorum=QUORUM, reserve=reserve, max_price=reserve, aggregator_reserve=ZEN, aggregator_max_price=ZEN,
            slot_s=2 * TRAIN_S, aggregate_s=600, reexecute_s=TRAIN_S, flops=10**15, depth=16, policy=0,
            audit_bps=params.DEFAULT_AUDIT_BPS,
        )  # fmt: skip
        return int(self.call("tasks", "post", "submitter", terms, value=params.least_posting_deposit(0)))

    # -- a turn

    def play_turn(self, job: int, *, lies: bool) -> None:
        run = self.world.run(job)
        opened, turn = run.opened_at, run.turn
        self.now = max(self.now, opened)
        self.fill(job)
        liar = self.chance.choice([s for s, seat in self.seats(job).items() if seat.operator]) if lies else None
        done = {
            seat: at
            for seat, record in self.seats(job).items()
            if record.operator and (at := self.finishes(record.operator))
        }
        for seat, at in sorted(done.items(), key=lambda each: each[1]):
            self.now = max(self.now, at)
            operator = self.world.seats[job, seat].operator
            self.call("settlement", "commit", f"hot {operator}", job, seat, turn, b"r" * 32, b"b" * 32)
        late = [(seats.deadline_of(run, r), s) for s, r in self.seats(job).items() if r.operator and s not in done]
        for deadline, seat in sorted(late):  # as soon as keepers may
            self.now = max(self.now, deadline + 1)
            self.call("settlement", "time_out", "submitter", job, seat)
            self.counts["timed out"] += 1
        run = self.world.run(job)
        self.training_s += max([at - opened for at in done.values()], default=0)
        aggregator = self.world.seats[job, AGGREGATOR_SEAT].operator
        self.now += EXCHANGE_S
        args = (AGGREGATOR_SEAT, turn, seats.present(run), bytes([turn % 251]) * 32, b"c" * 32)
        self.call("settlement", "post_checkpoint", f"hot {aggregator}", job, *args)
        if liar is not None:
            self.convict(job, turn, liar)
        for node in self.nodes.values():  # between turns: some leave for a while, others are back
            if node.is_here(self.now) and self.chance.random() < LEAVES:
                node.away_until = self.now + round(self.chance.expovariate(1 / AWAY_S))
                self.counts["left"] += 1
        self.finalise(job)

    def fill(self, job: int) -> None:
        """Free nodes take over what is vacant and pays them, the cheapest first; who left gives its seat back."""
        for seat, record in self.seats(job).items():
            if record.operator and not self.nodes[record.operator].is_here(self.now):
                self.call("settlement", "decline", f"hot {record.operator}", job, seat, 1)
        for seat, record in self.seats(job).items():
            if record.operator:
                continue
            pays = seats.price_now(self.world, job, seat, self.now)
            banned = {o for o in self.nodes if self.world.record_of(job, o).void_before > self.world.run(job).turn}
            able = [n for n in self.free(job) if self.price_of(n) <= pays and n.operator not in banned]
            if able:
                node = able[0]
                self.call("settlement", "take_over", f"hot {node.operator}", job, seat, node.operator, 1, TRAIN_S)
                self.counts["taken over"] += 1
            else:
                self.counts["vacant slot-rounds"] += 1

    def finishes(self, operator: int) -> int | None:
        """When a node has trained its slot; None if it will not in time."""
        node, at = self.nodes[operator], self.now
        if self.chance.random() < SILENT:
            node.away_until = at + round(self.chance.expovariate(1 / AWAY_S))
            self.counts["silent"] += 1
            return None
        if self.chance.random() < KILLED:
            self.counts["killed"] += 1
            lost_s = round(self.chance.random() * TRAIN_S) + RESTART_S
            return at + lost_s + TRAIN_S if lost_s < TRAIN_S - 5 else None
        return at + round(TRAIN_S * self.chance.uniform(0.97, 1.0))

    # -- money

    def claims_of(self, job: int) -> list[Claim]:
        posted = (p for (of, _, _), p in self.world.claims.items() if of == job and isinstance(p, Posted))
        return [p.claim for p in posted if p.status == ClaimStatus.PENDING]

    def finalise(self, job: int) -> None:
        """Pay what is due, an operator's claims together."""
        due = defaultdict[int, list[Claim]](list)
        for claim in self.claims_of(job):
            if self.now > seats.claim_deadline(self.world, job, claim.turn):
                due[claim.operator].append(claim)
        for claims in due.values():
            for start in range(0, len(claims), LIST_LIMIT):
                some = claims[start : start + LIST_LIMIT]
                self.call("settlement", "finalise", "submitter", job, tuple(some))
                ends = [settlement.status_of(self.world, job, claim) for claim in some if not claim.is_aggregation]
                self.counts["paid"] += sum(end == ClaimStatus.PAID for end in ends)
                self.counts["void"] += sum(end == ClaimStatus.VOID for end in ends)

    def convict(self, job: int, turn: int, seat: int) -> None:
        claim = next((c for c in self.claims_of(job) if (c.turn, c.seat) == (turn, seat)), None)
        if claim is None:  # it was silent as well
            return
        referee = self.world.config.referee
        self.call("settlement", "open_dispute", referee, job, claim)
        self.call("settlement", "close_dispute", referee, job, claim, End.JUDGED, 0, 0)
        self.nodes[claim.operator].is_banned = True
        self.counts["convicted"] += 1
        self.join()  # another one comes in its place


def play(seed: int, weeks: int) -> dict[str, Any]:
    season = Season(chance=random.Random(seed))
    for _ in range(POOL):
        season.join()
    aggregator, began = season.register(3), season.now
    before = 10**12 * ZEN
    paid = 0
    for _ in range(weeks):
        season.world.balances["zen", "submitter"] = before
        season.week(began, aggregator)
        paid += before - season.world.balances["zen", "submitter"] - season.world.owed.pop(("zen", "submitter"), 0)
    hours = season.counts["paid"] * TRAIN_S / HOUR_S
    wall_h = (season.now - began - season.paying_s) / HOUR_S
    return {
        "cost_zen": paid / ZEN,
        "gpu_hours": hours,
        "cost_per_gpu_hour": paid / ZEN / hours,
        "efficiency": hours / (SLOTS * wall_h),
        "uptime": season.running_s / HOUR_S / wall_h,
        "training": season.training_s / HOUR_S / wall_h,
        "wall_h": wall_h,
        "counts": dict(season.counts),
        "cost_of_seed_hours": paid / ZEN / hours * SEED["gpu_hours"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="runs; the figures are their medians")
    parser.add_argument("--weeks", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    runs = [play(seed, options.weeks) for seed in range(1, options.seeds + 1)]
    figures = [key for key, value in runs[0].items() if isinstance(value, float)]
    result = {
        "parameters": {
            "seeds": options.seeds,
            "weeks": options.weeks,
            "pool": POOL,
            "slots": SLOTS,
            "train_s": TRAIN_S,
            "exchange_s": EXCHANGE_S,
        },
        **{key: statistics.median(run[key] for run in runs) for key in figures},
        "counts": [run["counts"] for run in runs],
        "seed_document": SEED,
    }
    print(json.dumps(result, indent=None if options.json else 2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
