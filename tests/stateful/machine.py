"""A random walk over the protocol, contracts and specification in lockstep.

Rules draw indices and bits; what they point at is chosen from the world as it stands, so that walks go far, and
`jump` lands on the seconds around every deadline there is. A refused call is as good a step as an accepted one.
titanoboa's plugin anchors the chain around every walk.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from zoo_compute.spec import seats
from zoo_compute.spec.params import AGGREGATOR_SEAT, PERIODS, STAKE_UNIT, ZEN
from zoo_compute.spec.state import Claim, JobState, Phase, Seat

from ..differential.coverage import Coverage
from ..differential.mirror import deployed_apart
from ..differential.stage import OPERATORS, Stage

COVERAGE = Coverage()  # of all walks of the process
INDEX = st.integers(0, 7)
BITS = st.integers(0, 2**16 - 1)
OFFSET = st.sampled_from([-1, 0, 1])
TOKENS = st.sampled_from(["zen", "usd"])
MAX_JOBS = 3

Deed = Callable[[Stage, int], bool]


def _is(*states: JobState) -> Deed:
    return lambda s, job: s.world.job(job).state in states


def is_biddable(s: Stage, job: int) -> bool:
    lot = s.world.lot(job, 0)
    return is_open(s, job) and lot.phase == Phase.OPEN and s.now < lot.bid_end


def is_revealable(s: Stage, job: int) -> bool:
    lot, bids = s.world.lot(job, 0), s.world.bids.items()
    is_sealed = any(of == job and bid.attempt == lot.attempt and not bid.revealed for (of, _, _), bid in bids)
    return is_open(s, job) and is_sealed and s.now < lot.reveal_end


def is_clearable(s: Stage, job: int) -> bool:
    return is_open(s, job) and any(s.world.lot(job, kind).phase < Phase.CLEARED for kind in (0, 1))


def is_awardable(s: Stage, job: int) -> bool:
    return any(s.world.lot(job, kind).phase == Phase.CLEARED for kind in (0, 1))


def has_vacancy(s: Stage, job: int) -> bool:
    is_taking = s.world.run(job).state in (JobState.AWARDED, JobState.RUNNING)
    return is_taking and any(of == job and not seat.operator for (of, _), seat in s.world.seats.items())


def has_claims(s: Stage, job: int) -> bool:
    return bool(s.claims(job))


is_open = _is(JobState.OPEN)
is_awarded = _is(JobState.AWARDED)
is_running = _is(JobState.RUNNING)
is_ended = _is(JobState.ENDED)


def when(deed: Deed) -> Callable[[Any], Any]:
    """The rule is drawn only where some job can be driven by it; strays are `stray`'s business."""
    return precondition(lambda machine: bool(machine.able(deed)))


@cache
def prepared() -> Stage:
    """Five operators with collateral, and a funded pool: where every walk begins."""
    stage = Stage(COVERAGE, deployed_apart("devnet"))
    stage.register_all()
    stage.ok("registry", "withdraw", "erin owner", stage.ids["erin"], stage.tokens["zen"], 998_000)  # poor in ZEN
    stage.ok("rewards", "fund", "stranger", 50)
    stage.ok("rewards", "fund", "stranger", 10 * ZEN)
    return stage


class ProtocolMachine(RuleBasedStateMachine):
    """One walk. `self.s` is the stage; every call on it checks the law and the invariants."""

    def __init__(self) -> None:
        super().__init__()
        self.s = copy(prepared())
        self.prices: dict[tuple[int, int, str, int], int] = {}

    def teardown(self) -> None:
        assert self.s.mirror
        self.s.mirror.compare(self.s.world)

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
    ) -> None:
        """Most walks begin with a job that is awarded, or already runs; the rest begin with its posting."""
        changes = {"rounds": rounds, "slots": slots, "quorum": min(quorum, slots), "max_price": 130}
        changes |= {"depth": depth, "policy": policy}
        job = self.s.post(token=token, **changes)
        if steps:
            self.auction(job, prices, many, standbys)
        if steps > 2:
            self.answers(job, many >> 3, estimate_s=5 + steps)

    # Time ----------------------------------------------------------------------------------------------------------

    def clocks(self) -> list[int]:
        """Every second at which something changes, ascending."""
        w, found = self.s.world, set()
        for lot in w.lots.values():
            found |= {lot.bid_end, lot.reveal_end}
        for job, run in w.runs.items():
            if run.state == JobState.AWARDED:
                found.add(run.opened_at + w.config.preset.ready_window_s)
            if run.state == JobState.RUNNING:
                found |= {run.inputs_close, run.aggregator_due}
                found |= {
                    seats.deadline_of(run, seat) for (of, _), seat in w.seats.items() if of == job and seat.operator
                }
        found |= {posted.claim.deadline for posted in w.claims.values()}
        found |= {operator.exit_at for operator in w.operators.values()}
        found.add((self.s.now // w.config.preset.epoch_s + 1) * w.config.preset.epoch_s)
        return sorted(clock for clock in found if clock >= self.s.now)

    @rule(index=INDEX, offset=OFFSET)
    def jump(self, index: int, offset: int) -> None:
        """To the second before, of, or after one of the next deadlines."""
        clocks = self.clocks()
        self.s.to(max(self.s.now, clocks[index % min(4, len(clocks))] + offset))

    # Jobs and auctions ---------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.s.world.jobs) < MAX_JOBS)
    @rule(token=TOKENS, rounds=st.integers(1, 3), slots=st.integers(1, 6), quorum=st.integers(0, 7), price=BITS)
    def post(self, token: str, rounds: int, slots: int, quorum: int, price: int) -> None:
        quorum = min(quorum, slots) if price % 8 else quorum
        reserve, most = 20 + price % 100, 20 + price % 100 + price % 7 * 10
        changes = {"rounds": rounds, "slots": slots, "quorum": quorum, "reserve": reserve, "max_price": most}
        self.s.attempt("tasks", "post", "submitter", self.s.terms(token=token, **changes))

    @when(is_biddable)
    @rule(
        job=INDEX, kind=st.integers(0, 1), who=INDEX, price=st.integers(1, 130), capacity=INDEX, standby=st.booleans()
    )
    def bid(self, job: int, kind: int, who: int, price: int, capacity: int, standby: bool) -> None:
        self.place(self.job(job, is_biddable), kind, OPERATORS[who % 5], price, capacity, standby)

    def place(self, job: int, kind: int, name: str, price: int, capacity: int, standby: bool) -> None:
        """Bids, and remembers the price for the reveal."""
        attempt = self.s.world.lot(job, kind).attempt
        seal = self.s.seal(job, kind, name, price, capacity)
        args = (job, kind, self.s.ids[name], seal, capacity, standby)
        if self.s.attempt("auction", "bid", f"{name} hot", *args) is None:
            self.prices[job, kind, name, attempt] = price

    @when(is_biddable)
    @rule(job=INDEX, prices=st.lists(st.integers(1, 30), min_size=10, max_size=10), many=BITS, standbys=BITS)
    def hold_auction(self, job: int, prices: list[int], many: int, standbys: int) -> None:
        """From the first bid to the last award, where the bids suffice."""
        self.auction(self.job(job, is_biddable), prices, many, standbys)

    def auction(self, job: int, prices: list[int], many: int, standbys: int) -> None:
        for index, price in enumerate(prices):
            kind, who = divmod(index, 5)
            capacity = 1 + (many >> index & 7) % max(1, self.s.world.lot(job, kind).units)
            self.place(job, kind, OPERATORS[who], price, capacity, standbys >> index & 3 != 0)
        self.open_bids(job, self.s.world.lot(job, 0).bid_end, silent=0)
        self.s.to(max(self.s.now, self.s.world.lot(job, 0).reveal_end))
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
        for index, ((of, kind, name, when), price) in enumerate(list(self.prices.items())):
            if of == job and when == attempt and silent >> index % 12 & 7 != 7:
                args = (job, kind, self.s.ids[name], price, self.s.salt(name))
                self.s.attempt("auction", "reveal", "stranger", *args)

    @when(is_clearable)
    @rule(job=INDEX, offset=OFFSET, how=BITS)
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
    @rule(job=INDEX, kind=st.integers(0, 1), cancel=INDEX)
    def reopen_or_cancel(self, job: int, kind: int, cancel: int) -> None:
        job = self.job(job, is_open)
        if self.s.attempt("auction", "reopen", "stranger", job, kind) is not None and cancel == 0:
            self.s.attempt("tasks", "cancel", "submitter", job)

    @rule(who=INDEX)
    def reclaim(self, who: int) -> None:
        """Every bid of some operator, whatever it is worth still: given back, or its place freed."""
        for job, kind, operator in list(self.s.world.bids):
            if who == 7 or operator == who:
                self.s.attempt("auction", "retire", "stranger", job, kind, operator)
                self.s.attempt("auction", "reclaim", "stranger", job, kind, operator)

    # Rounds --------------------------------------------------------------------------------------------------------

    @when(is_awarded)
    @rule(job=INDEX, choices=BITS, estimate_s=st.sampled_from([0, 1, 5, 15, 30, 31]))
    def answer(self, job: int, choices: int, estimate_s: int) -> None:
        self.answers(self.job(job, is_awarded), choices, estimate_s=estimate_s)

    def answers(self, job: int, choices: int, *, estimate_s: int) -> None:
        """Holders say ready or decline all or some, or are silent until somebody lets them expire."""
        for number, seat in self.seats(job):
            choice, hot = choices >> 3 * (number % 5) & 7, self.hot(seat.operator)
            if choice < 6:
                self.s.attempt("settlement", "ready", hot, job, number, estimate_s)
            else:
                self.s.attempt("settlement", "decline", hot, job, number, seat.count - (choice == 7))
        run = self.s.world.run(job)
        if choices & 1 and run.state == JobState.AWARDED:
            self.s.to(max(self.s.now, run.opened_at + self.s.preset.ready_window_s + (choices >> 1) % 3 - 1))
        for number, _ in self.seats(job):
            self.s.attempt("settlement", "expire", "stranger", job, number)

    def seats(self, job: int) -> list[tuple[int, Seat]]:
        """All seats of slots."""
        return [(number, seat) for (of, number), seat in self.s.world.seats.items() if of == job and number < 128]

    def hot(self, operator: int) -> str:
        return self.s.world.operator(operator).hot if operator else "stranger"

    def seat(self, job: int, index: int) -> int:
        """One of the seats of slots; now and then the aggregator's, or none."""
        count = self.s.world.run(job).seats
        return index % count if count and index < 6 else 122 + index

    @when(is_running)
    @rule(job=INDEX, index=INDEX, late=st.booleans())
    def commit(self, job: int, index: int, late: bool) -> None:
        """Any seat; now and then in a turn that is not open yet."""
        job = self.job(job, is_running)
        run, seat = self.s.world.run(job), self.seat(job, index)
        args = (job, seat, run.turn + late, bytes([index]) * 32, b"b" * 32)
        self.s.attempt("settlement", "commit", self.hot(self.s.world.seat(job, seat).operator), *args)

    @when(is_running)
    @rule(job=INDEX, absent=BITS)
    def play_round(self, job: int, absent: int) -> None:
        """Holders commit but for the absent ones; the aggregator closes the turn if it may."""
        job = self.job(job, is_running)
        for number, seat in self.seats(job):
            run = self.s.world.run(job)
            if absent >> 2 * (number % 5) & 3 and seat.operator and run.missing >> number & 1:
                args = (job, number, run.turn, b"r" * 32, b"b" * 32)
                self.s.attempt("settlement", "commit", self.hot(seat.operator), *args)
        run = self.s.world.run(job)
        if run.missing and absent & 1024 and run.is_open:
            self.s.to(max(self.s.now, run.inputs_close + absent % 3 - 1))
        self.close_turn(job, lie=0)

    @when(is_running)
    @rule(job=INDEX, lie=st.sampled_from([0, 0, 0, 1, 2**255]))
    def post_checkpoint(self, job: int, lie: int) -> None:
        self.close_turn(self.job(job, is_running), lie=lie)

    def close_turn(self, job: int, *, lie: int) -> None:
        """The aggregator posts a checkpoint; `lie` is what its mask gets wrong."""
        run = self.s.world.run(job)
        sender = self.hot(self.s.world.seat(job, AGGREGATOR_SEAT).operator)
        args = (job, run.turn, seats.present(run) ^ lie, bytes([run.turn % 256]) * 32, b"c" * 32)
        self.s.attempt("settlement", "post_checkpoint", sender, *args)

    @when(is_running)
    @rule(job=INDEX, index=INDEX, offset=OFFSET)
    def time_out(self, job: int, index: int, offset: int) -> None:
        """At the edge of a holder's deadline."""
        job = self.job(job, is_running)
        run, number = self.s.world.run(job), self.seat(job, index)
        seat = self.s.world.seat(job, number)
        if run.is_open and seat.operator and index % 2:
            self.s.to(max(self.s.now, seats.deadline_of(run, seat) + offset))
        self.s.attempt("settlement", "time_out", "stranger", job, number)

    @when(is_running)
    @rule(job=INDEX, index=INDEX, count=st.integers(1, 3))
    def decline(self, job: int, index: int, count: int) -> None:
        job = self.job(job, is_running)
        number = self.seat(job, index)
        sender = self.hot(self.s.world.seat(job, number).operator)
        self.s.attempt("settlement", "decline", sender, job, number, count)

    @when(has_vacancy)
    @rule(job=INDEX, who=INDEX, index=INDEX, count=st.integers(0, 3), estimate_s=st.sampled_from([1, 5, 15, 30, 31]))
    def take_over(self, job: int, who: int, index: int, count: int, estimate_s: int) -> None:
        job, name = self.job(job, has_vacancy), OPERATORS[who % 5]
        args = (job, self.seat(job, index), self.s.ids[name], count, estimate_s)
        self.s.attempt("settlement", "take_over", f"{name} hot", *args)

    @when(has_vacancy)
    @rule(job=INDEX, some=BITS)
    def everybody_takes_over(self, job: int, some: int) -> None:
        """Every vacant seat, whole or in part; the aggregator's too."""
        job = self.job(job, has_vacancy)
        for number, seat in [*self.seats(job), (AGGREGATOR_SEAT, self.s.world.seat(job, AGGREGATOR_SEAT))]:
            count = 1 if some >> number % 16 & 1 else seat.count
            for name in () if seat.operator else OPERATORS:
                args = (job, number, self.s.ids[name], count, 10)
                if self.s.attempt("settlement", "take_over", f"{name} hot", *args) is None:
                    break

    @when(is_running)
    @rule(job=INDEX, offset=OFFSET)
    def replace_aggregator(self, job: int, offset: int) -> None:
        job = self.job(job, is_running)
        run = self.s.world.run(job)
        if run.is_open:
            self.s.to(max(self.s.now, run.aggregator_due + offset))
        self.s.attempt("settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
        for name in OPERATORS:
            args = (job, AGGREGATOR_SEAT, self.s.ids[name], 1, 10)
            self.s.attempt("settlement", "take_over", f"{name} hot", *args)

    @when(is_running)
    @rule(job=INDEX, offset=OFFSET)
    def abandon(self, job: int, offset: int) -> None:
        job = self.job(job, is_running)
        run = self.s.world.run(job)
        if run.is_open and job % 2:
            is_led = self.s.world.seat(job, AGGREGATOR_SEAT).operator
            self.s.to(max(self.s.now, (run.inputs_close if is_led else run.aggregator_due) + offset))
        self.s.attempt("settlement", "abandon", "stranger", job)

    # Verdicts ------------------------------------------------------------------------------------------------------

    @when(has_claims)
    @rule(job=INDEX, index=BITS, convicted=st.booleans(), challengers=st.integers(0, 3))
    def dispute(self, job: int, index: int, convicted: bool, challengers: int) -> None:
        """A dispute is opened, and mostly closed again, of any pending claim."""
        job, referee = self.job(job, has_claims), self.s.world.config.referee
        claim = self.claim(job, index)
        self.s.attempt("settlement", "open_dispute", referee, job, claim)
        if index & 64:
            accounts = tuple(self.s.accounts[f"{name} owner"] for name in OPERATORS[:challengers])
            self.s.attempt("settlement", "close_dispute", referee, job, claim, convicted, accounts)

    @when(has_claims)
    @rule(job=INDEX, convicted=st.booleans())
    def judge(self, job: int, convicted: bool) -> None:
        self.judge_all(self.job(job, has_claims), convicted=convicted)

    def judge_all(self, job: int, *, convicted: bool) -> None:
        """Every open dispute of the job is closed."""
        referee = self.s.world.config.referee
        for posted in [each for (of, _, _), each in self.s.world.claims.items() if of == job]:
            for _ in range(posted.disputes):
                self.s.attempt("settlement", "close_dispute", referee, job, posted.claim, convicted, ())

    @when(has_claims)
    @rule(job=INDEX, index=BITS)
    def void(self, job: int, index: int) -> None:
        job = self.job(job, has_claims)
        sender = "stranger"
        self.s.attempt("settlement", "void", sender, job, self.claim(job, index))

    def claim(self, job: int, index: int) -> Claim:
        """A pending claim of the job; of one that has none, a claim that nobody made."""
        claims = self.s.claims(job) or (Claim(0, 0, 0, 1, 1, 1, 0, b"s" * 32, b"r" * 32, 0),)
        return claims[index % len(claims)]

    @when(is_running)
    @rule(job=INDEX, seconds=st.integers(0, 90))
    def hold_or_resume(self, job: int, seconds: int) -> None:
        job, sender = self.job(job, is_running), "stranger"
        if self.s.world.run(job).holds:
            self.s.attempt("settlement", "resume", sender, job, seconds)
        else:
            self.s.attempt("settlement", "hold", sender, job)

    # Money ---------------------------------------------------------------------------------------------------------

    @when(has_claims)
    @rule(job=INDEX, some=BITS, offset=OFFSET, forge=INDEX)
    def finalise(self, job: int, some: int, offset: int, forge: int) -> None:
        job = self.job(job, has_claims)
        claims = tuple(claim for index, claim in enumerate(self.s.claims(job)) if some >> index % 16 & 1)
        if claims:
            latest = max(claim.deadline for claim in claims)
            self.s.to(max(self.s.now, latest + offset))
            if forge == 0:
                claims += (replace(claims[0], price=claims[0].price + 1),)
        self.s.attempt("settlement", "finalise", "stranger", job, claims)

    @when(is_ended)
    @rule(job=INDEX)
    def settle(self, job: int) -> None:
        job = self.job(job, is_ended)
        if self.s.world.run(job).state == JobState.ENDED:
            self.judge_all(job, convicted=False)
            self.s.settle(job)

    @rule(token=TOKENS, who=st.sampled_from(["submitter", "alice owner", "dave owner"]))
    def withdraw_owed(self, token: str, who: str) -> None:
        self.s.attempt("tasks", "withdraw", "stranger", self.s.tokens[token], self.s.accounts[who])
        self.s.attempt("tasks", "withdraw", "stranger", self.s.tokens[token], self.s.world.config.treasury)
        self.s.attempt("treasury", "collect", "stranger", self.s.tokens[token])

    @rule(who=INDEX, back=st.integers(-1, 2))
    def claim_reward(self, who: int, back: int) -> None:
        epoch = self.s.now // self.s.preset.epoch_s - back
        self.s.attempt("rewards", "claim", "stranger", who, epoch, tuple(self.s.world.jobs))

    @rule(token=TOKENS, bucket=st.integers(0, 3), amount=st.integers(0, 20))
    def spend(self, token: str, bucket: int, amount: int) -> None:
        args = (self.s.tokens[token], bucket, self.s.accounts["stranger"], amount)
        self.s.attempt("treasury", "spend", "timelock", *args)

    # Strays --------------------------------------------------------------------------------------------------------

    @rule(job=INDEX, who=INDEX, which=st.integers(0, 11), number=st.sampled_from([0, 1, 2, 3, 2**256 - 1]))
    def stray(self, job: int, who: int, which: int, number: int) -> None:
        """Any call on any job, whatever its state."""
        job, name = self.job(job), OPERATORS[who % 5]
        operator, root = self.s.ids[name], b"r" * 32
        calls: list[tuple[Any, ...]] = [
            ("settlement", "ready", job, number, number),
            ("settlement", "decline", job, number, number),
            ("settlement", "expire", job, number),
            ("settlement", "commit", job, number, number, root, root),
            ("settlement", "time_out", job, number),
            ("settlement", "take_over", job, number, operator, number, number),
            ("settlement", "post_checkpoint", job, number, number, root, root),
            ("settlement", "time_out", job, AGGREGATOR_SEAT),
            ("settlement", "release", job, operator),
            ("auction", "reopen", job, number),
            ("auction", "award", job, number, (operator,)),
            ("auction", "clear", job, number, (operator,)),
        ]
        contract, function, *args = calls[which]
        self.s.attempt(contract, function, f"{name} hot", *args)

    # Operators -----------------------------------------------------------------------------------------------------

    @rule(who=INDEX, what=INDEX, amount=st.sampled_from([0, 1, 100, 5_000, 998_000, 10**6]), token=TOKENS)
    def manage(self, who: int, what: int, amount: int, token: str) -> None:
        """An owner's business, exits included."""
        name = OPERATORS[who % 5]
        owner, operator, address = f"{name} owner", self.s.ids[name], self.s.tokens[token]
        calls: list[tuple[Any, ...]] = [
            ("deposit", operator, address, amount),
            ("withdraw", operator, address, amount),
            ("withdraw", operator, address, self.s.world.deposit_of(operator, address).free),
            ("add_stake", operator, amount * (STAKE_UNIT if amount % 100 == 0 else 1)),
            ("request_exit", operator),
            ("withdraw_stake", operator),
            ("set_hot", operator, self.s.accounts[f"{name} hot"]),
            ("announce", operator, "http://elsewhere"),
        ]
        self.s.attempt("registry", calls[what][0], owner, *calls[what][1:])

    @rule(who=INDEX, tier=st.sampled_from([0, 0, 1, 2]), hours=st.integers(0, 2**PERIODS))
    def declare(self, who: int, tier: int, hours: int) -> None:
        name = OPERATORS[who % 5]
        self.s.attempt("registry", "declare", f"{name} owner", self.s.ids[name], tier, hours)

    @rule(who=INDEX, periods=st.integers(0, 3))
    def beat(self, who: int, periods: int) -> None:
        """Signs of life, the clock running on by a period or so between them."""
        name = OPERATORS[who % 5]
        for _ in range(periods):
            self.s.attempt("registry", "heartbeat", f"{name} hot", self.s.ids[name])
            self.s.wait(self.s.preset.epoch_s // PERIODS)
        self.s.attempt("registry", "heartbeat", f"{name} hot", self.s.ids[name])

    @rule(who=INDEX, back=st.integers(-1, 3))
    def breach(self, who: int, back: int) -> None:
        self.s.attempt("registry", "breach", "stranger", who, self.s.now // self.s.preset.epoch_s - back)

    # What can be done ----------------------------------------------------------------------------------------------

    def able(self, deed: Deed) -> list[int]:
        return [job for job in self.s.world.jobs if deed(self.s, job)]

    def job(self, index: int, deed: Deed | None = None) -> int:
        """A job with which the deed makes sense, where there is one; now and then one that does not exist."""
        jobs = (self.able(deed) if deed else []) or list(self.s.world.jobs)
        return jobs[index % len(jobs)] if jobs and index < 7 else index + 1
