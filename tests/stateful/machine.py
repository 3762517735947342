"""A random walk over the protocol, contracts and specification in lockstep.

Rules draw indices and bits; what they point at is chosen from the world as it stands, so that walks go far, and
`jump` lands on the seconds around every deadline there is. A refused call is as good a step as an accepted one.
titanoboa's plugin anchors the chain around every walk.
"""

from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from zoo_compute.spec import bits, seats
from zoo_compute.spec.params import ZEN
from zoo_compute.spec.state import ClaimRef, JobState, Phase

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
    run = s.world.run(job)
    return run.state in (JobState.AWARDED, JobState.RUNNING) and run.vacant != 0


def has_claims(s: Stage, job: int) -> bool:
    return any(of == job for of, _, _ in s.world.claims)


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
        rounds=st.integers(1, 3),
        slots=st.integers(1, 6),
        quorum=st.integers(1, 3),
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
        prices: list[int],
        many: int,
        standbys: int,
        steps: int,
    ) -> None:
        """Most walks begin with a job that is awarded, or already runs; the rest begin with its posting."""
        changes = {"rounds": rounds, "slots": slots, "quorum": min(quorum, slots), "max_price": 130}
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
                found |= {seats.deadline_of(run, seat) for (of, _), seat in w.seats.items() if of == job and seat.held}
        found |= {claim.deadline for claim in w.claims.values()}
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
        """Every bid of some operator, whatever it is worth still."""
        for job, kind, operator in list(self.s.world.bids):
            if who == 7 or operator == who:
                self.s.attempt("auction", "reclaim", "stranger", job, kind, operator)

    # Rounds --------------------------------------------------------------------------------------------------------

    @when(is_awarded)
    @rule(job=INDEX, choices=BITS, estimate_s=st.sampled_from([0, 1, 5, 15, 30, 31]))
    def answer(self, job: int, choices: int, estimate_s: int) -> None:
        self.answers(self.job(job, is_awarded), choices, estimate_s=estimate_s)

    def answers(self, job: int, choices: int, *, estimate_s: int) -> None:
        """Holders say ready or decline, or are silent until somebody lets them expire."""
        for index, name in enumerate(OPERATORS):
            choice, operator = choices >> 3 * index & 7, self.s.ids[name]
            if choice < 6:
                self.s.attempt("settlement", "ready", f"{name} hot", job, operator, estimate_s)
            elif choice == 6:
                self.s.attempt("settlement", "decline", f"{name} hot", job, operator)
        run = self.s.world.run(job)
        if choices & 1 and run.state == JobState.AWARDED:
            self.s.to(max(self.s.now, run.opened_at + self.s.preset.ready_window_s + (choices >> 1) % 3 - 1))
        for name in OPERATORS:
            self.s.attempt("settlement", "expire", "stranger", job, self.s.ids[name])

    @when(is_running)
    @rule(job=INDEX, who=INDEX, bitmap=BITS, late=st.booleans())
    def commit(self, job: int, who: int, bitmap: int, late: bool) -> None:
        """Any subset of what the operator holds; now and then of what it does not."""
        job, name = self.job(job, is_running), OPERATORS[who % 5]
        run, seat = self.s.world.run(job), self.s.world.seat(job, self.s.ids[name])
        bitmap = bitmap & 63 if bitmap & 1024 else seat.held & (bitmap | run.missing)
        args = (job, run.round + (bitmap == 63), self.s.ids[name], bitmap, bytes([who]) * 32, b"b" * 32)
        self.s.attempt("settlement", "commit", f"{name} hot", *args)

    @when(is_running)
    @rule(job=INDEX, absent=BITS)
    def play_round(self, job: int, absent: int) -> None:
        """Holders commit but for the absent ones; the aggregator closes the round if it may."""
        job = self.job(job, is_running)
        for index, name in enumerate(OPERATORS):
            run, seat = self.s.world.run(job), self.s.world.seat(job, self.s.ids[name])
            if absent >> 2 * index & 3 and seat.held & run.missing:
                args = (job, run.round, self.s.ids[name], seat.held & run.missing, b"r" * 32, b"b" * 32)
                self.s.attempt("settlement", "commit", f"{name} hot", *args)
        run = self.s.world.run(job)
        if run.missing and absent & 1024 and run.state == JobState.RUNNING:
            self.s.to(max(self.s.now, run.inputs_close + absent % 3 - 1))
        self.close_round(job, lie=0)

    @when(is_running)
    @rule(job=INDEX, lie=st.sampled_from([0, 0, 0, 1, 2**255]))
    def post_checkpoint(self, job: int, lie: int) -> None:
        self.close_round(self.job(job, is_running), lie=lie)

    def close_round(self, job: int, *, lie: int) -> None:
        """The aggregator posts a checkpoint; `lie` is what its mask gets wrong."""
        run = self.s.world.run(job)
        sender = self.s.world.operator(run.aggregator).hot if run.aggregator else "stranger"
        args = (job, run.round, run.aggregator, seats.present(run) ^ lie, bytes([run.round]) * 32, b"c" * 32)
        self.s.attempt("settlement", "post_checkpoint", sender, *args)

    @when(is_running)
    @rule(job=INDEX, who=INDEX, offset=OFFSET, bitmap=BITS)
    def time_out(self, job: int, who: int, offset: int, bitmap: int) -> None:
        """At the edge of a holder's deadline; all it owes, or some of it."""
        job, operator = self.job(job, is_running), self.s.ids[OPERATORS[who % 5]]
        run, seat = self.s.world.run(job), self.s.world.seat(job, operator)
        if run.state == JobState.RUNNING and seat.held and bitmap & 3:
            self.s.to(max(self.s.now, seats.deadline_of(run, seat) + offset))
        late = seat.held & run.missing
        self.s.attempt("settlement", "time_out", "stranger", job, operator, late & bitmap >> 2 if bitmap & 4 else late)

    @when(has_vacancy)
    @rule(job=INDEX, who=INDEX, which=INDEX, estimate_s=st.sampled_from([1, 5, 15, 30, 31]))
    def take_over(self, job: int, who: int, which: int, estimate_s: int) -> None:
        job, name = self.job(job, has_vacancy), OPERATORS[who % 5]
        vacant = list(bits.slots_in(self.s.world.run(job).vacant)) or [which]
        args = (job, vacant[which % len(vacant)], self.s.ids[name], estimate_s)
        self.s.attempt("settlement", "take_over", f"{name} hot", *args)

    @when(has_vacancy)
    @rule(job=INDEX)
    def everybody_takes_over(self, job: int) -> None:
        job = self.job(job, has_vacancy)
        for slot in list(bits.slots_in(self.s.world.run(job).vacant)):
            for name in OPERATORS:
                if self.s.attempt("settlement", "take_over", f"{name} hot", job, slot, self.s.ids[name], 10) is None:
                    break

    @when(is_running)
    @rule(job=INDEX, offset=OFFSET, who=INDEX)
    def replace_aggregator(self, job: int, offset: int, who: int) -> None:
        job, name = self.job(job, is_running), OPERATORS[who % 5]
        run = self.s.world.run(job)
        if run.state == JobState.RUNNING:
            self.s.to(max(self.s.now, run.aggregator_due + offset))
        self.s.attempt("settlement", "time_out_aggregator", "stranger", job)
        self.s.attempt("settlement", "take_over_aggregator", f"{name} hot", job, self.s.ids[name])

    @when(is_running)
    @rule(job=INDEX, offset=OFFSET)
    def abandon(self, job: int, offset: int) -> None:
        job = self.job(job, is_running)
        run = self.s.world.run(job)
        if run.state == JobState.RUNNING and job % 2:
            self.s.to(max(self.s.now, (run.inputs_close if run.aggregator else run.aggregator_due) + offset))
        self.s.attempt("settlement", "abandon", "stranger", job)

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
                first = claims[0]
                claims += (ClaimRef(first.round, first.key, forge, first.bitmap, first.root, first.deadline),)
        self.s.attempt("settlement", "finalise", "stranger", job, claims)

    @when(is_ended)
    @rule(job=INDEX)
    def settle(self, job: int) -> None:
        job = self.job(job, is_ended)
        if self.s.world.run(job).state == JobState.ENDED:
            self.s.settle(job)

    @rule(token=TOKENS, who=st.sampled_from(["submitter", "alice owner", "dave owner"]))
    def withdraw_owed(self, token: str, who: str) -> None:
        self.s.attempt("tasks", "withdraw", "stranger", self.s.tokens[token], self.s.accounts[who])
        self.s.attempt("tasks", "withdraw", "stranger", self.s.tokens[token], self.s.world.config.treasury)
        self.s.attempt("treasury", "collect", "stranger", self.s.tokens[token])

    @rule(who=INDEX, back=st.integers(-1, 2))
    def claim_reward(self, who: int, back: int) -> None:
        epoch = self.s.now // self.s.preset.epoch_s - back
        self.s.attempt("rewards", "claim", "stranger", who, epoch)

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
            ("settlement", "ready", job, operator, number),
            ("settlement", "decline", job, operator),
            ("settlement", "expire", job, operator),
            ("settlement", "commit", job, number, operator, number, root, root),
            ("settlement", "time_out", job, operator, number),
            ("settlement", "take_over", job, number, operator, number),
            ("settlement", "post_checkpoint", job, number, operator, number, root, root),
            ("settlement", "take_over_aggregator", job, operator),
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
            ("add_stake", operator, amount),
            ("request_exit", operator),
            ("withdraw_stake", operator),
            ("set_hot", operator, self.s.accounts[f"{name} hot"]),
            ("announce", operator, "http://elsewhere"),
        ]
        self.s.attempt("registry", calls[what][0], owner, *calls[what][1:])

    # What can be done ----------------------------------------------------------------------------------------------

    def able(self, deed: Deed) -> list[int]:
        return [job for job in self.s.world.jobs if deed(self.s, job)]

    def job(self, index: int, deed: Deed | None = None) -> int:
        """A job with which the deed makes sense, where there is one; now and then one that does not exist."""
        jobs = (self.able(deed) if deed else []) or list(self.s.world.jobs)
        return jobs[index % len(jobs)] if jobs and index < 7 else index + 1
