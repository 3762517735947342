"""Rules of a walk: jobs are posted and auctioned."""

from random import Random

from tests.stateful.disputes import WORK
from tests.stateful.rules import precondition, rule
from tests.stateful.walk import (
    BITS,
    INDEX,
    MAX_JOBS,
    OFFSET,
    TOKENS,
    Walk,
    is_awardable,
    is_biddable,
    is_clearable,
    is_open,
    is_revealable,
    when,
)
from tests.support.job_driver import Offer
from tests.support.lockstep.stage import OPERATORS, Stage
from zoo_compute.spec.params import LAPSE_S, least_posting_deposit
from zoo_compute.spec.requirements import ADMITTED, Requirements

# What a job asks of its operators; four words in ten ask nothing, one is of no meaning. "EU" is a region that rules declare.
ASKS = (
    *4 * (0,), ADMITTED, Requirements(tier=1).word, Requirements(hours=1).word, Requirements(classes=0b1110, vram_gb=48).word,
    Requirements(region=0x45550000).word, 2**255,
)  # fmt: skip


def draw_prices(random: Random) -> list[int]:
    """One an operator and kind."""
    return [random.randint(1, 30) for _ in range(10)]


def has_bids(s: Stage, job: int) -> bool:
    return any(of == job for of, _, _ in s.world.bids)


class Auctions(Walk):
    """From the posting to the last award."""

    @precondition(lambda self: self.is_idle and len(self.s.world.jobs) < MAX_JOBS)
    @rule(3, token=TOKENS, rounds=range(1, 4), slots=range(1, 7), quorum=range(8), price=BITS, asks=ASKS)
    def post(self, token: str, rounds: int, slots: int, quorum: int, price: int, asks: int) -> None:
        quorum = min(quorum, slots) if price % 8 else quorum
        deposit = least_posting_deposit(self.s.base_fee) - (price % 64 == 1)
        reserve, most = 20 + price % 100, 20 + price % 100 + price % 7 * 10
        changes = {"rounds": rounds, "slots": slots, "quorum": quorum, "reserve": reserve, "max_price": most}
        terms = self.s.terms(token=token, work_root=WORK.root, requirements=asks, **changes)
        self.s.attempt("tasks", "post", "submitter", terms, value=deposit)

    @when(is_biddable)
    @rule(job=INDEX, kind=range(2), who=INDEX, price=range(1, 131), capacity=INDEX)
    def bid(self, job: int, kind: int, who: int, price: int, capacity: int) -> None:
        self.place(self.job(job, is_biddable), kind, OPERATORS[who % 5], price, capacity)

    def place(self, job: int, kind: int, name: str, price: int, capacity: int) -> None:
        """Bids, and remembers the price for the reveal."""
        attempt = self.s.world.lot(job, kind).attempt
        seal = self.s.seal(job, kind, name, Offer(price, capacity))
        args = (job, kind, self.s.ids[name], seal, capacity)
        if self.s.attempt("auction", "bid", f"{name} hot", *args) is None:
            self.prices[job, kind, name, attempt] = price

    @when(is_biddable)
    @rule(4, job=INDEX, prices=draw_prices, many=BITS, quiet=BITS)
    def hold_auction(self, job: int, prices: list[int], many: int, quiet: int) -> None:
        """From the first bid to the last award, where the bids suffice."""
        self.auction(self.job(job, is_biddable), prices, many, quiet)

    def auction(self, job: int, prices: list[int], many: int, quiet: int) -> None:
        for index, price in enumerate(prices):
            kind, who = divmod(index, 5)
            capacity = 1 + (many >> index & 7) % max(1, self.s.world.lot(job, kind).units)
            self.place(job, kind, OPERATORS[who], price, capacity)
        silent = 0b111 << quiet % 10 if many & 3 == 0 else 0
        self.open_bids(job, self.s.world.lot(job, 0).bid_end, silent=silent)
        self.s.to(max(self.s.now, self.s.world.lot(job, 0).reveal_end))
        for of, kind, operator in [key for key, bid in self.s.world.bids.items() if not bid.revealed]:
            if of == job:
                self.s.attempt("auction", "reclaim", "stranger", job, kind, operator)
        for kind in (0, 1):
            self.s.attempt("auction", "clear", "stranger", job, kind, self.s.order(job, kind))
        for kind in (0, 1):
            self.s.attempt("auction", "award", "stranger", job, kind, self.s.winners(job, kind))

    @when(is_revealable)
    @rule(job=INDEX, offset=OFFSET, silent=BITS)
    def reveal(self, job: int, offset: int, silent: int) -> None:
        """At the edge of the reveal phase everybody opens its bids, but for the silent ones."""
        job = self.job(job, is_revealable)
        lot = self.s.world.lot(job, 0)
        self.open_bids(job, (lot.bid_end if silent & 1 else lot.reveal_end - 1) + offset, silent=silent >> 1)

    def open_bids(self, job: int, now: int, *, silent: int) -> None:
        """At `now` all sealed bids are opened whose three bits in `silent` are not all set."""
        self.s.to(max(self.s.now, now))
        attempt = self.s.world.lot(job, 0).attempt
        for index, ((of, kind, name, attempted), price) in enumerate(list(self.prices.items())):
            if of == job and attempted == attempt and silent >> index % 12 & 7 != 7:
                args = (job, kind, self.s.ids[name], price, self.s.salt(name))
                self.s.attempt("auction", "reveal", "stranger", *args)

    @when(is_clearable)
    @rule(2, job=INDEX, offset=OFFSET, how=BITS)
    def clear(self, job: int, offset: int, how: int) -> None:
        """In order, in parts, with a bid skipped, or not at all because a lot reopens."""
        job = self.job(job, is_clearable)
        self.s.to(max(self.s.now, self.s.world.lot(job, 0).reveal_end + offset))
        for kind in (0, 1):
            order = self.s.order(job, kind)
            if how & 1 and order:  # a rogue goes first
                self.s.attempt("auction", "clear", "stranger", job, kind, order[how >> 1 & 3 :])
                self.s.attempt("auction", "clear", "stranger", job, kind, order[: how >> 3 & 3])
            self.s.attempt("auction", "clear", "stranger", job, kind, order)
            self.s.attempt("auction", "clear", "stranger", job, kind, order[how >> 5 & 3 :])
        if how & 2:
            self.s.attempt("auction", "reopen", "stranger", job, how >> 2 & 1)

    @when(is_awardable)
    @rule(job=INDEX, how=BITS)
    def award(self, job: int, how: int) -> None:
        job = self.job(job, is_awardable)
        for kind in (0, 1):
            winners = self.s.winners(job, kind)
            self.s.attempt("auction", "award", "stranger", job, kind, winners[: how & 3] + winners[:1])
            for operator in winners[how >> 2 & 1 :]:
                self.s.attempt("auction", "award", "stranger", job, kind, (operator,))

    @when(is_open)
    @rule(job=INDEX, kind=range(2), cancel=INDEX)
    def reopen_or_cancel(self, job: int, kind: int, cancel: int) -> None:
        job = self.job(job, is_open)
        if self.s.attempt("auction", "reopen", "stranger", job, kind) is not None and cancel == 0:
            self.s.attempt("tasks", "cancel", "submitter", job)

    @when(is_open)
    @rule(job=INDEX, offset=OFFSET)
    def lapse_job(self, job: int, offset: int) -> None:
        """Nobody has anything to do with a job for a month: anyone closes it."""
        job = self.job(job, is_open)
        self.s.to(max(self.s.now, self.s.world.lot(job, 0).reveal_end + LAPSE_S + offset))
        self.s.attempt("tasks", "lapse", "stranger", job)

    @when(is_biddable)
    @rule(2, job=INDEX, kind=range(2), who=INDEX, capacity=INDEX, offset=OFFSET)
    def stay_silent(self, job: int, kind: int, who: int, capacity: int, offset: int) -> None:
        """A bid that nobody opens costs what it offered, once the reveal phase has ended."""
        job, name = self.job(job, is_biddable), OPERATORS[who % 5]
        self.place(job, kind, name, 20, capacity)
        self.s.to(max(self.s.now, self.s.world.lot(job, kind).reveal_end + offset))
        self.s.attempt("auction", "reclaim", "stranger", job, kind, self.s.ids[name])

    @when(has_bids)
    @rule(who=INDEX)
    def reclaim(self, who: int) -> None:
        """Every bid of some operator, whatever it is worth still."""
        for job, kind, operator in list(self.s.world.bids):
            if who == 7 or operator == who:
                self.s.attempt("auction", "reclaim", "stranger", job, kind, operator)
