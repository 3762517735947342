"""Rules of a walk: custodians are drawn, sign, are paid, and leave."""

from tests.stateful.rules import rule
from tests.stateful.walk import BITS, BOTH, INDEX, OFFSET, Walk, has_claims, is_ended, is_running, when
from tests.support.lockstep import committed_results
from tests.support.lockstep.stage import AUDITORS, OPERATORS, Stage
from zoo_compute.spec import seats
from zoo_compute.spec.custodians import (
    CheckpointSignature,
    Committee,
    InputsSignature,
    Progress,
    Record,
    StartSignature,
)
from zoo_compute.spec.params import SIGNED_BYTES, custodians_of
from zoo_compute.spec.state import Claim, JobState

NAMES = (*OPERATORS, *AUDITORS)
FEE = 3
EVERYBODY = 0b0101010101  # of a committee: two bits each


def has_request(s: Stage, job: int) -> bool:
    return job in s.world.custody_requests


def has_committee(s: Stage, job: int) -> bool:
    return has_request(s, job) and s.world.custody[job].version > 0


def has_vacant_place(s: Stage, job: int) -> bool:
    is_awarded = s.world.job(job).state in (JobState.AWARDED, JobState.RUNNING)
    return has_request(s, job) and is_awarded and s.world.custody[job].vacant > 0


def has_signing_committee(s: Stage, job: int) -> bool:
    return has_committee(s, job) and is_running(s, job)


def has_posted_turns(s: Stage, job: int) -> bool:
    return has_committee(s, job) and has_claims(s, job)


def has_ended_with_custody(s: Stage, job: int) -> bool:
    return has_request(s, job) and (is_ended(s, job) or s.world.job(job).state == JobState.CANCELLED)


class Custody(Walk):
    """From a request to the last reserve."""

    def ask_for_custodians(self, job: int, some: int) -> None:
        """Nearly enough operators offer, or a few more."""
        self.s.attempt("custody", "request", "submitter", job, FEE, SIGNED_BYTES)
        rounds, custodians = self.s.world.terms[job].rounds, custodians_of(self.s.world.terms[job].policy)
        self.s.attempt("custody", "fund", "stranger", job, 2 * FEE * custodians * rounds - (some & 15 == 15))
        self.offers(job, some)

    def offers(self, job: int, some: int) -> None:
        for index, name in enumerate(NAMES):
            if some >> 2 * index & 3:
                self.s.attempt("custody", "offer", f"{name} hot", job, self.s.ids[name])

    def committee(self, job: int, version: int | None = None) -> Committee:
        newest = self.s.world.custody.get(job, Progress()).version
        return self.s.world.committees.get((job, newest if version is None else version), ())

    @when(has_vacant_place)
    @rule(4, job=INDEX, some=BITS, wait=(-1, 0, 0, 0, 0, 0, 300))
    def draw_custodians(self, job: int, some: int, wait: int) -> None:
        """More offers come, one ends; then a draw that may be too early or lost."""
        job = self.job(job, has_vacant_place)
        if some & 4:
            self.offers(job, some >> 1)
        if some & 8:
            self.s.attempt("custody", "retire", f"{NAMES[some % 7]} hot", job, some % 3)
        self.draw_committee(job, wait, None if some & 3 else 1)

    def draw_committee(self, job: int, wait: int = 0, version: int | None = None) -> None:
        progress = self.s.world.custody.get(job, Progress())
        if progress.version and wait >= 0:
            self.s.to(max(self.s.now, progress.vacated_at + self.s.preset.answer_s))
        self.s.attempt("custody", "schedule", "stranger", job)
        self.s.mine(self.s.preset.draw_blocks + 2 + wait)
        self.s.attempt("custody", "draw", "stranger", job, self.committee(job, version))

    def places(self, job: int, some: int) -> list[int]:
        """Most of the committee, now and then a vacant place or one that there is not."""
        count = len(self.committee(job)) + (some & 31 == 31)
        return [place for place in range(count) if some >> 2 * place & 3]

    def key(self, committee: Committee, place: int) -> str:
        known = committee[place].key if place < len(committee) else ""
        return known if known in self.mirror.accounts.values() else self.s.accounts["stranger"]

    @when(has_committee)
    @rule(job=INDEX, some=BITS)
    def hold_start(self, job: int, some: int) -> None:
        self.start(self.job(job, has_committee), some)

    def start(self, job: int, some: int) -> None:
        committee = self.committee(job)
        signed = tuple(StartSignature(place, self.key(committee, place), job) for place in self.places(job, some))
        self.s.attempt("custody", "hold_start", "stranger", job, committee, signed)

    def inputs(self, job: int, turn: int, committee: Committee, some: int) -> tuple[InputsSignature, ...]:
        """All seats, or some that each lacks."""
        seats, lacking = 2 ** self.s.world.run(job).seats - 1, some >> 8 & 3
        return tuple(
            InputsSignature(
                place, self.key(committee, place), job, turn, seats & ~(some >> place & 7) if lacking == 3 else seats
            )
            for place in self.places(job, some)
        )

    def record_of(self, job: int, turn: int) -> Record:
        depth = self.s.world.custody.get(job, Progress()).depth
        record = self.s.world.custody_records.get((job, turn % (depth + 1)), Record())
        return record if record.turn == turn else Record()

    def committee_of(self, job: int, turn: int) -> Committee:
        record = self.record_of(job, turn)
        return self.committee(job, record.version if record.signed_at else None)

    @when(has_signing_committee)
    @rule(8, job=INDEX, some=BITS, late=(0, 0, 0, 0, 0, 0, 1, -1))
    def sign_inputs(self, job: int, some: int, late: int) -> None:
        """Of the open turn; now and then of another, or one custodian before the others."""
        job = self.job(job, has_signing_committee)
        turn = max(0, self.s.world.run(job).turn + late)
        for group in (1, 9) if some & 3 == 3 else (9,):
            committee = self.committee_of(job, turn)
            signed = self.inputs(job, turn, committee, some)[:group]
            self.s.attempt("custody", "hold_inputs", "stranger", job, turn, committee, signed)

    @when(has_posted_turns)
    @rule(8, job=INDEX, index=INDEX, some=BITS, wrong=INDEX)
    def sign_turns(self, job: int, index: int, some: int, wrong: int) -> None:
        """Checkpoints that are posted, with or without their inputs."""
        job = self.job(job, has_posted_turns)
        posted = [claim for claim in self.s.claims(job) if claim.is_aggregation] or [self.claim(job, index)]
        posted.sort(key=lambda each: not self.record_of(job, each.turn).inputs)  # mostly of turns with a mask
        claim: Claim = posted[0 if index < 6 else index % len(posted)]
        committee = self.committee_of(job, claim.turn)
        signed = self.checkpoint_signatures(job, claim, committee, some, cid=b"c" * 32 if wrong else b"x" * 32)
        inputs = self.inputs(job, claim.turn, committee, some >> 3) if some & 1 else ()
        self.s.attempt("custody", "hold_turn", "stranger", job, claim.seat, claim.turn, committee, inputs, signed)

    def post_in_custody(self, job: int, lie: int, some: int) -> None:
        """By the aggregator, with inputs that are not on record, or some that are; `lie` is what its mask gets wrong."""
        run = self.s.world.run(job)
        self.count_all(job)
        committee = self.committee_of(job, run.turn)
        root = committed_results.checkpoint_root(run.turn)
        is_on_record = self.record_of(job, run.turn).inputs and some & 64
        inputs = () if is_on_record else self.inputs(job, run.turn, committee, EVERYBODY)
        mask = seats.present(run) ^ lie
        for seat in self.aggregators(job):
            signed = tuple(
                CheckpointSignature(place, self.key(committee, place), job, run.turn, seat, root, b"c" * 32)
                for place in self.places(job, some)
            )
            args = (job, seat, run.turn, mask, root, b"c" * 32, committee, inputs, signed)
            self.s.attempt("custody", "post_checkpoint", self.hot(self.s.world.seat(job, seat).operator), *args)

    def count_all(self, job: int) -> None:
        """All turns that are final."""
        for _ in range(2):
            self.count_first(job)

    def count_first(self, job: int, back: int = 0) -> None:
        if job not in self.s.world.custody:
            return
        first = self.record_of(job, self.s.world.custody[job].counted)
        version = max(0, (first.version or self.s.world.custody[job].version) - back)
        self.s.attempt("custody", "count", "stranger", job, version, self.committee(job, version))

    def sign_checkpoint(self, job: int, claim: Claim, committee: Committee, some: int) -> None:
        signed = self.checkpoint_signatures(job, claim, committee, some | EVERYBODY & -4)
        self.s.attempt("custody", "hold_turn", "stranger", job, claim.seat, claim.turn, committee, (), signed)

    def checkpoint_signatures(
        self, job: int, claim: Claim, committee: Committee, some: int, cid: bytes = b"c" * 32
    ) -> tuple[CheckpointSignature, ...]:
        return tuple(
            CheckpointSignature(place, self.key(committee, place), job, claim.turn, claim.seat, claim.root, cid)
            for place in self.places(job, some)
        )

    @when(has_committee)
    @rule(4, job=INDEX, back=(0, 0, 0, 1))
    def count_turns(self, job: int, back: int) -> None:
        self.count_first(self.job(job, has_committee), back)

    @when(has_committee)
    @rule(2, job=INDEX, place=INDEX, who=INDEX)
    def change_custodians(self, job: int, place: int, who: int) -> None:
        """A key is noted, or a wish to leave."""
        job = self.job(job, has_committee)
        operator = self.committee(job)[place % len(self.committee(job))].operator if place < 6 else 0
        hot = self.hot(operator)
        if operator and who > 4:
            owner, other = self.s.owner(operator), self.s.accounts["guardian"]
            self.s.attempt("registry", "set_hot", owner, operator, other)
            self.s.attempt("custody", "note_key", "stranger", job, self.committee(job), place % 5)
            self.s.attempt("registry", "set_hot", owner, operator, hot)
        self.s.attempt("custody", "note_key", "stranger", job, self.committee(job), place)
        if who < 3:
            self.s.attempt("custody", "resign", hot, job, self.committee(job), place % 5)

    @when(has_signing_committee)
    @rule(3, job=INDEX, offset=OFFSET, jumps=BOTH)
    def let_lapse(self, job: int, offset: int, jumps: bool) -> None:
        """Around the second from which on it is too late to sign."""
        job = self.job(job, has_signing_committee)
        run = self.s.world.run(job)
        if jumps and run.is_open:
            self.s.to(max(self.s.now, run.inputs_close + self.s.preset.answer_s + offset))
        for place in range(len(self.committee(job))):
            self.s.attempt("custody", "lapse", "stranger", job, self.committee(job), place)

    @when(has_committee)
    @rule(job=INDEX, who=INDEX, known=(True, True, True, False), kept=(0, 10, 10**30))
    def expel(self, job: int, who: int, known: bool, kept: int) -> None:
        """By Availability; now and then by a stranger."""
        job = self.job(job, has_committee)
        sender = self.s.world.config.availability if who < 7 else "stranger"
        self.s.attempt("custody", "forfeit", sender, job, self.s.ids[NAMES[who % 7]], kept)
        committee = self.committee(job) if known else ()
        for place in range(len(self.committee(job))):
            self.s.attempt("custody", "expel", "stranger", job, committee, place)

    @when(has_ended_with_custody)
    @rule(2, job=INDEX, final=BOTH)
    def end_custody(self, job: int, final: bool) -> None:
        """Turns are counted, reserves go back, and what is left."""
        job = self.job(job, has_ended_with_custody)
        if final and is_ended(self.s, job):
            self.judge_all(job, convicted=False)
            self.s.finalise(job)
        for _ in range(4):
            if has_committee(self.s, job):
                self.count_turns(job=list(self.able(has_committee)).index(job), back=0)
        for name in NAMES:
            self.s.attempt("custody", "release", "stranger", job, self.s.ids[name])
        self.s.attempt("custody", "refund", "stranger", job)

    @rule(who=INDEX, token=("zen", "usd"), amount=(0, 1, 500, 10**9), forth=BOTH)
    def move_funds(self, who: int, token: str, amount: int, forth: bool) -> None:
        """In or out; and the stake that counts."""
        name, address = NAMES[who % 7], self.s.tokens[token]
        if forth:
            self.s.attempt(
                "custody", "deposit", "stranger", self.s.ids[name] if who else 99, address, min(amount, 10**6)
            )
        else:
            sender = f"{name} owner" if who < 7 else "stranger"
            self.s.attempt("custody", "withdraw", sender, self.s.ids[name], address, amount)
        self.s.attempt("custody", "note_stake", f"{name} hot", self.s.ids[name])
