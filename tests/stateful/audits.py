"""Rules of a walk: auditors, and what they say of claims."""

from tests.stateful.rules import precondition, rule
from tests.stateful.walk import BITS, BOTH, INDEX, OFFSET, Walk, has_claims, is_closed, is_ended, when
from tests.support.lockstep.stage import AUDITORS, Stage
from zoo_compute.spec import audit_ends
from zoo_compute.spec.auditing import FIRST_SLOT_UNIT, Role, Verdicts, lapses_at, verdicts_of
from zoo_compute.spec.audits import judge_of
from zoo_compute.spec.clocks import End
from zoo_compute.spec.disputed_claims import claim_key
from zoo_compute.spec.state import Claim

NAMES = ("erin", *AUDITORS)
NOTHING = Verdicts()


def has_draws(s: Stage, job: int) -> bool:
    return any(of == job and draw.is_drawn for (of, _), draw in s.world.draws.items())


def has_budget(s: Stage, job: int) -> bool:
    return is_closed(s, job) and s.world.budget_of(job).balance > 0


class Audits(Walk):
    """Budgets, places, draws, verdicts and how they end."""

    @rule(job=INDEX, amount=(0, 7, 1_000, 10_000))
    def fund_audits(self, job: int, amount: int) -> None:
        self.s.attempt("audits", "fund", "submitter", self.job(job), amount)
        if amount == 7:
            for ended in self.able(is_ended):
                self.s.attempt("audits", "refund", "stranger", ended)

    @rule(who=INDEX, count=(0, 1, 1, 2), index=INDEX, leaves=BOTH)
    def change_places(self, who: int, count: int, index: int, leaves: bool) -> None:
        """An auditor takes places, or leaves one of its own or of another's."""
        name = NAMES[who % 3]
        operator = self.s.ids[name]
        if leaves:
            places = tuple((index + offset) % max(1, self.s.world.place_count + 1) for offset in range(count))
            self.s.attempt("audits", "leave", f"{name} owner", operator, places)
        else:
            self.s.attempt("audits", "offer", f"{name} owner", operator, count)

    @when(has_budget)
    @rule(2, job=INDEX, back=range(4), wait=(-1, 0, 0, 0, 0, 256), some=BITS)
    def draw(self, job: int, back: int, wait: int, some: int) -> None:
        """A block is named, and read; now and then too early, or when nobody knows its hash any more."""
        job = self.job(job, has_budget)
        self.draw_turn(job, max(0, self.s.world.run(job).turn - back), wait)
        self.speak(job, max(0, self.s.world.run(job).turn - back), some)

    def draw_turn(self, job: int, turn: int, wait: int = 0) -> None:
        self.s.attempt("audits", "draw_units", "stranger", job, turn)
        self.s.wait(self.s.preset.draw_blocks + 2 + wait)
        self.s.attempt("audits", "draw_units", "stranger", job, turn)

    @when(has_draws)
    @rule(2, job=INDEX, index=INDEX, some=BITS, late=BOTH, offset=OFFSET)
    def give(self, job: int, index: int, some: int, late: bool, offset: int) -> None:
        """Around the edges of both halves."""
        job = self.job(job, has_draws)
        turns = [turn for of, turn in self.s.world.draws if of == job] or [0]
        turn = turns[index % len(turns)]
        draw = self.s.world.draw_of(job, turn)
        if draw.is_drawn:
            self.s.to(max(self.s.now, (draw.deadline if late else draw.half_at) + offset))
        self.speak(job, turn, some)

    def speak(self, job: int, turn: int, some: int) -> None:
        """Auditors judge the units that are theirs, and now and then others; what they say is as the bits have it."""
        draw = self.s.world.draw_of(job, turn)
        role = draw.role_at(self.s.now)
        claims = [
            each.claim for (of, _, _), each in self.s.world.claims.items() if of == job and each.claim.turn == turn
        ]
        for index, name in enumerate(NAMES):
            operator = self.s.ids[name]
            mine = [
                unit
                for claim in claims
                for unit in audit_ends.units_of(claim)
                if draw.is_drawn and judge_of(self.s.world, draw, unit, claim.operator, role) == operator
            ]
            units = mine or ([FIRST_SLOT_UNIT] if some >> index & 1 else [])
            wrong = [unit for unit in units if some >> (unit + 3 * index) % 16 & 3 == 3]
            clean = [unit for unit in units if unit not in wrong or some & 31 == 31]
            said = verdicts_of(clean, wrong)
            sender = f"{name} hot" if some & 63 else "stranger"
            self.s.attempt("audits", "give_verdicts", sender, job, turn, operator, said)

    @precondition(lambda self: bool(self.s.world.statements))
    @rule(3, index=BITS, some=BITS, offset=OFFSET, waits=BOTH)
    def settle_verdicts(self, index: int, some: int, offset: int, waits: bool) -> None:
        """At the edge of the window, of claims that are decided or not."""
        if not self.s.world.statements:
            return
        key = list(self.s.world.statements)[index % len(self.s.world.statements)]
        deadline = self.s.world.draw_of(*key[:2]).deadline
        if waits:
            self.s.to(max(self.s.now, deadline + offset))
        self.settle_given(key, some)

    def settle_given(self, key: tuple[int, int, int, int], some: int = 0) -> None:
        job, turn, operator, role = key
        w = self.s.world
        claims = tuple(each.claim for (of, _, _), each in w.claims.items() if of == job)
        claims += tuple(claim for of, claim in w.parked if of == job and claim not in claims)
        left = NOTHING if some & 15 == 15 else w.statements[key].left
        firsts = {
            other: w.statements[job, turn, other, Role.AUDITOR].verdicts
            for _, _, other, of in self.given_in(job, turn)
            if of == Role.AUDITOR
        }
        for first in [NOTHING] if role == Role.AUDITOR else [NOTHING, *firsts.values()]:
            args = (job, turn, operator, int(role), left, claims, first)
            if self.s.attempt("audits", "settle_verdicts", "stranger", *args) is None:
                left = self.s.world.statements[key].left

    def given_in(self, job: int, turn: int) -> list[tuple[int, int, int, int]]:
        return [key for key in self.s.world.statements if key[:2] == (job, turn)]

    @precondition(lambda self: self.is_idle and bool(self.s.world.statements))
    @rule(index=BITS, offset=OFFSET)
    def lapse_verdicts(self, index: int, offset: int) -> None:
        """What was never settled, at the edge of its time."""
        keys = [key for key, given in self.s.world.statements.items() if given.left.units] or list(
            self.s.world.statements
        )
        if not keys:
            return
        key = keys[index % len(keys)]
        job, turn = key[:2]
        deadline = self.s.world.draw_of(job, turn).deadline
        last = lapses_at(deadline, self.s.world.terms[job].reexecute_s, self.s.preset.clocks)
        self.s.to(max(self.s.now, last + offset))
        left = self.s.world.statements[key].left
        self.s.attempt("audits", "lapse_verdicts", "stranger", *key[:3], int(key[3]), left)

    @when(has_claims)
    @rule(4, job=INDEX, index=BITS, some=BITS, convicts=BOTH)
    def whole_audit(self, job: int, index: int, some: int, convicts: bool) -> None:
        """From a turn's draw to what its auditors get; its claims convicted on the way or not."""
        job = self.job(job, has_claims)
        claim = self.claim(job, index)
        if not is_closed(self.s, job):
            return
        self.s.attempt("audits", "fund", "submitter", job, 10_000)
        self.draw_turn(job, claim.turn)
        draw = self.s.world.draw_of(job, claim.turn)
        if not draw.is_drawn:
            return
        self.speak(job, claim.turn, some)
        if convicts:
            self.convict_for_audit(job, claim)
        if self.s.world.run(job).holds:
            return
        self.s.to(max(self.s.now, draw.deadline + 1))
        for key in self.given_in(job, claim.turn):
            self.settle_given(key, some & ~15)
        self.s.attempt("audits", "withdraw", "stranger", self.s.world.job(job).token, self.s.accounts["frank owner"])

    def convict_for_audit(self, job: int, claim: Claim) -> None:
        """By the referee, as others of the walk do it; of a claim that nobody explored by its word alone."""
        if claim_key(job, claim) not in self.s.world.disputes.claims:
            self.s.attempt("settlement", "open_dispute", "referee", job, claim)
            self.s.attempt("settlement", "close_dispute", "referee", job, claim, int(End.JUDGED), 0, 0)
