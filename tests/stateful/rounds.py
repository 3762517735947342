"""Rules of a walk: a job's holders, and its rounds."""

from tests.stateful.rules import rule
from tests.stateful.walk import BITS, BOTH, INDEX, OFFSET, Walk, has_vacancy, is_awarded, is_running, when
from tests.support.lockstep import committed_results
from tests.support.lockstep.stage import OPERATORS
from zoo_compute.spec import seats
from zoo_compute.spec.state import JobState, Run


class Rounds(Walk):
    """From the first word of a holder to the last checkpoint."""

    @when(is_awarded)
    @rule(job=INDEX, choices=BITS, estimate_s=(0, 1, 5, 15, 30, 31))
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

    @when(is_running)
    @rule(2, job=INDEX, index=INDEX, late=BOTH)
    def commit(self, job: int, index: int, late: bool) -> None:
        """Any seat, which knows no results; now and then in a turn that is not open yet."""
        job = self.job(job, is_running)
        run, seat = self.s.world.run(job), self.seat(job, index)
        args = (job, seat, run.turn + late, bytes([index]) * 32, b"b" * 32)
        self.s.attempt("settlement", "commit", self.hot(self.s.world.seat(job, seat).operator), *args)

    def play_all(self, job: int) -> None:
        """A round in which nobody is absent, and nothing final."""
        if self.s.world.run(job).is_open:
            for number, _ in self.seats(job):
                self.commit_results(job, number)
            self.close_turn(job, lie=0)

    def commit_results(self, job: int, number: int) -> None:
        run, seat = self.s.world.run(job), self.s.world.seat(job, number)
        root = committed_results.round_root(seat.first, seat.count, run.turn, seats.slots_root(self.s.world, job))
        self.s.attempt("settlement", "commit", self.hot(seat.operator), job, number, run.turn, root, b"b" * 32)

    @when(is_running)
    @rule(6, job=INDEX, absent=BITS)
    def play_round(self, job: int, absent: int) -> None:
        """Holders commit but for the absent ones; the aggregator closes the turn if it may."""
        job = self.job(job, is_running)
        for number, seat in self.seats(job):
            run = self.s.world.run(job)
            if absent >> 2 * (number % 5) & 3 and seat.operator and run.missing >> number & 1:
                self.commit_results(job, number)
        run = self.s.world.run(job)
        if run.missing and absent & 1024 and run.is_open:
            self.s.to(max(self.s.now, run.inputs_close + absent % 3 - 1))
        self.close_turn(job, lie=0)

    @when(is_running)
    @rule(job=INDEX, lie=(0, 0, 0, 1, 2**255))
    def post_checkpoint(self, job: int, lie: int) -> None:
        self.close_turn(self.job(job, is_running), lie=lie)

    def close_turn(self, job: int, *, lie: int) -> None:
        """An aggregator that has not posted posts its share; `lie` is what its mask gets wrong."""
        run = self.s.world.run(job)
        for seat in self.aggregators(job):
            self.post_share(job, seat, run, lie)

    def post_share(self, job: int, seat: int, run: Run, lie: int) -> None:
        sender = self.hot(self.s.world.seat(job, seat).operator)
        args = (job, seat, run.turn, seats.present(run) ^ lie, committed_results.checkpoint_root(run.turn), b"c" * 32)
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
    @rule(job=INDEX, index=INDEX, count=range(1, 4))
    def decline(self, job: int, index: int, count: int) -> None:
        job = self.job(job, is_running)
        number = self.seat(job, index)
        sender = self.hot(self.s.world.seat(job, number).operator)
        self.s.attempt("settlement", "decline", sender, job, number, count)

    @when(has_vacancy)
    @rule(job=INDEX, who=INDEX, index=INDEX, count=range(4), estimate_s=(1, 5, 15, 30, 31))
    def take_over(self, job: int, who: int, index: int, count: int, estimate_s: int) -> None:
        job, name = self.job(job, has_vacancy), OPERATORS[who % 5]
        args = (job, self.seat(job, index), self.s.ids[name], count, estimate_s)
        self.s.attempt("settlement", "take_over", f"{name} hot", *args)

    @when(has_vacancy)
    @rule(2, job=INDEX, some=BITS)
    def everybody_takes_over(self, job: int, some: int) -> None:
        """Every vacant seat, whole or in part; the aggregator's too."""
        job = self.job(job, has_vacancy)
        for number, seat in [
            *self.seats(job),
            *((each, self.s.world.seat(job, each)) for each in self.aggregators(job)),
        ]:
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
        seat = self.aggregators(job)[-1]
        self.s.attempt("settlement", "time_out", "stranger", job, seat)
        for name in OPERATORS:
            args = (job, seat, self.s.ids[name], 1, 10)
            self.s.attempt("settlement", "take_over", f"{name} hot", *args)

    @when(is_running)
    @rule(job=INDEX, offset=OFFSET)
    def abandon(self, job: int, offset: int) -> None:
        job = self.job(job, is_running)
        run = self.s.world.run(job)
        if run.is_open and job % 2:
            is_led = all(self.s.world.seat(job, seat).operator for seat in self.aggregators(job))
            self.s.to(max(self.s.now, (run.inputs_close if is_led else run.aggregator_due) + offset))
        self.s.attempt("settlement", "abandon", "stranger", job)
