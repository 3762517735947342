"""A random walk over the protocol, contracts and specification in lockstep.

Rules draw indices and bits; what they point at is chosen from the world as it stands, so that walks go far, and
`jump` lands on the seconds around every deadline there is. A refused call is as good a step as an accepted one.
"""

from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any

from tests.stateful.rules import precondition, rule
from tests.support.lockstep.contract_mirror import ContractMirror, persistent_deployment
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.stage import AUDITORS, OPERATORS, Stage
from tests.support.scenarios.admissions import admit
from zoo_compute.spec import seats
from zoo_compute.spec.clocks import End
from zoo_compute.spec.exploration import Status
from zoo_compute.spec.params import AGGREGATOR_SEAT, ZEN
from zoo_compute.spec.state import Claim, JobState, Phase, Seat

INDEX = range(8)
BITS = range(2**16)
OFFSET = (-1, 0, 1)
TOKENS = ("zen", "usd")
BOTH = (False, True)
MAX_JOBS = 6

JobCondition = Callable[[Stage, int], bool]


def _is(*states: JobState) -> JobCondition:
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


def is_closed(s: Stage, job: int) -> bool:
    """It has turns whose claims may be pending."""
    return s.world.run(job).turn > 0


is_open = _is(JobState.OPEN)
is_awarded = _is(JobState.AWARDED)
is_running = _is(JobState.RUNNING)
is_ended = _is(JobState.ENDED)
is_living = _is(JobState.OPEN, JobState.AWARDED, JobState.RUNNING)


def when(deed: JobCondition) -> Callable[[Any], Any]:
    """The rule is drawn only where some job can be driven by it; strays are `stray`'s business."""
    return precondition(lambda walk: bool(walk.able(deed)))


@cache
def prepared() -> Stage:
    """Seven operators with collateral, three auditors and two admitted among them; and a funded pool."""
    stage = Stage(Coverage(), persistent_deployment("devnet"))
    stage.register_all(*OPERATORS, *AUDITORS)
    for name, places in {"erin": 1, "frank": 1, "grace": 2}.items():
        for token, amount in {"zen": (places + 1) * stage.preset.audit_bond, "usd": 100_000}.items():
            stage.ok("audits", "deposit", "stranger", stage.ids[name], stage.tokens[token], amount)
        stage.ok("audits", "offer", f"{name} owner", stage.ids[name], places)
    for name in ("bob", "carol"):
        admit(stage, name)
    for name in (*OPERATORS, *AUDITORS):
        stage.ok("custody", "note_stake", f"{name} hot", stage.ids[name])
        for token in TOKENS:
            stage.ok("custody", "deposit", "stranger", stage.ids[name], stage.tokens[token], 30_000)
    stage.wait(stage.preset.exit_delay_s)
    for size in (300, 2**64 - 1):
        stage.ok("datasets", "contribute", "guardian", b"r" * 32, b"c" * 32, size, bytes(32))
    stage.ok("registry", "withdraw", "erin owner", stage.ids["erin"], stage.tokens["zen"], 998_000)  # poor in ZEN
    stage.ok("rewards", "fund", "stranger", 50)
    stage.ok("rewards", "fund", "stranger", 10 * ZEN)
    return stage


class Walk:
    """What all rules share. `self.s` is the stage; every call on it checks the law and the invariants."""

    def __init__(self, coverage: Coverage) -> None:
        self.s = copy(prepared())
        assert isinstance(self.s.mirror, ContractMirror)
        self.mirror = self.s.mirror = self.s.mirror.fork()
        self.s.coverage = coverage
        self.prices: dict[tuple[int, int, str, int], int] = {}

    def compare(self) -> None:
        """All that the contracts show."""
        self.mirror.compare(self.s.world)

    # Time -----------------------------------------------------------------------------------------------------------

    def clocks(self) -> list[int]:
        """Every second at which something changes, ascending."""
        w, seconds = self.s.world, set()
        for lot in w.lots.values():
            seconds |= {lot.bid_end, lot.reveal_end}
        for job, run in w.runs.items():
            if run.state == JobState.AWARDED:
                seconds.add(run.opened_at + w.config.preset.ready_window_s)
            if run.state == JobState.RUNNING:
                seconds |= {run.inputs_close, run.aggregator_due}
                seconds |= {
                    seats.deadline_of(run, seat) for (of, _), seat in w.seats.items() if of == job and seat.operator
                }
        seconds |= {closed.closed_at + w.run(job).window_s for (job, _), closed in w.closed_turns.items()}
        seconds |= {asked.opened_at + w.config.preset.answer_s for asked in w.demands.values() if asked.is_open}
        seconds |= {second for draw in w.draws.values() for second in (draw.half_at, draw.deadline)}
        for job, wanted in w.custody_requests.items():
            seconds.add(wanted.closes_at)
            if w.run(job).is_open:
                seconds.add(w.run(job).inputs_close + w.config.preset.answer_s)
        seconds |= {each.signed_at + w.config.preset.answer_s for each in w.custody_records.values()}
        seconds |= {entry.entered_at + w.config.preset.benchmark_s for entry in w.entries.values()}
        seconds |= {
            node.clocks.since + node.clocks.committer_left_s
            for node, status in w.disputes.nodes.values()
            if status == Status.ASKED
        }
        seconds |= {trial.deadline for trial in w.trials.values()}
        seconds |= {recall.due for recall in w.recalls.values()}
        seconds |= {channel.ends_at for channel in w.channels.values()}
        seconds |= {operator.exit_at for operator in w.operators.values()}
        seconds.add((self.s.now // w.config.preset.epoch_s + 1) * w.config.preset.epoch_s)
        return sorted(clock for clock in seconds if clock >= self.s.now)

    @rule(index=INDEX, offset=OFFSET)
    def jump(self, index: int, offset: int) -> None:
        """To the second before, of, or after one of the next deadlines."""
        clocks = self.clocks()
        self.s.to(max(self.s.now, clocks[index % min(4, len(clocks))] + offset))

    @property
    def epoch(self) -> int:
        return self.s.now // self.s.preset.epoch_s

    @property
    def is_idle(self) -> bool:
        """No job's clocks run: the time for what takes whole epochs."""
        return not self.able(is_living)

    # What can be done -----------------------------------------------------------------------------------------------

    def able(self, deed: JobCondition) -> list[int]:
        return [job for job in self.s.world.jobs if deed(self.s, job)]

    def job(self, index: int, deed: JobCondition | None = None) -> int:
        """A job with which the deed makes sense, where there is one; of strays now and then one that does not exist."""
        jobs = (self.able(deed) if deed else []) or list(self.s.world.jobs)
        return jobs[index % len(jobs)] if jobs and (deed or index < 7) else index + 1

    def seats(self, job: int) -> list[tuple[int, Seat]]:
        """All seats of slots."""
        return [(number, seat) for (of, number), seat in self.s.world.seats.items() if of == job and number < 128]

    def aggregators(self, job: int) -> list[int]:
        """Seats of aggregators that have not posted in the open turn; of a job that does not run all."""
        run = self.s.world.run(job)
        seats_of = range(AGGREGATOR_SEAT, AGGREGATOR_SEAT + max(1, run.aggregators))
        return [seat for seat in seats_of if not seats.has_posted(run, seat)] or [AGGREGATOR_SEAT]

    def hot(self, operator: int) -> str:
        return self.s.world.operator(operator).hot if operator else "stranger"

    def seat(self, job: int, index: int) -> int:
        """One of the seats of slots; now and then the aggregator's, or none."""
        count = self.s.world.run(job).seats
        return index % count if count and index < 6 else 122 + index

    def claim(self, job: int, index: int) -> Claim:
        """A pending claim of the job; of one that has none, a claim that nobody made."""
        claims = self.s.claims(job) or (Claim(0, 0, 0, 1, 1, 1, b"s" * 32, b"r" * 32),)
        return claims[index % len(claims)]

    def judge_all(self, job: int, *, convicted: bool) -> None:
        """Every open dispute of the job is closed; without a conviction those of closed turns."""
        for posted in [each for (of, _, _), each in self.s.world.claims.items() if of == job]:
            is_closed = (job, posted.claim.turn) in self.s.world.closed_turns
            if posted.is_disputed and (convicted or is_closed):
                end = End.JUDGED if convicted else End.FINAL
                self.s.attempt("settlement", "close_dispute", "referee", job, posted.claim, int(end), 0, 0)
        for claim in seats.parked_of(self.s.world, job):
            end = End.JUDGED if convicted else End.FINAL
            self.s.attempt("settlement", "close_dispute", "referee", job, claim, int(end), 0, 0)
