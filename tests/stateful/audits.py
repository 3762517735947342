"""Rules of a walk: auditors, and what they say of claims."""

from collections.abc import Iterator

from tests.stateful.rules import rule
from tests.stateful.walk import BITS, BOTH, INDEX, OFFSET, Walk, has_claims, is_closed, is_ended, when
from tests.support.lockstep import committed_results
from tests.support.lockstep.committed_results import SEGMENTS
from tests.support.lockstep.stage import AUDITORS, Stage
from zoo_compute.spec.clocks import End
from zoo_compute.spec.state import Claim, ClaimStatus
from zoo_compute.spec.watching import Attestation, Draw, Seal, Status

LIE, SALT = b"x" * 32, b"s" * 32
NAMES = ("erin", *AUDITORS)


def has_no_plan(s: Stage, job: int) -> bool:
    return job not in s.world.plans


def has_draws(s: Stage, job: int) -> bool:
    return any(of == job and draw.drawn_at for (of, _), draw in s.world.draws.items())


def has_convictions(s: Stage, job: int) -> bool:
    return any(of == job and each.status == ClaimStatus.CONVICTED for (of, _, _), each in s.world.claims.items())


class Audits(Walk):
    """Offers, draws, attestations and how they end."""

    @rule(
        job=INDEX,
        fee=(0, 1, 7, 7),
        rate=(0, 5_000, 10_000),
        amount=range(61),
    )
    def offer(self, job: int, fee: int, rate: int, amount: int) -> None:
        job = self.job(job, has_no_plan)
        self.s.attempt("audits", "offer", "submitter", job, fee, rate, SEGMENTS if amount % 8 else 0)
        self.s.attempt("audits", "fund", "stranger", job, amount)

    @when(is_closed)
    @rule(2, job=INDEX, back=range(4), wait=(-1, 0, 0, 0, 0, 255), some=BITS)
    def draw(self, job: int, back: int, wait: int, some: int) -> None:
        """A turn is scheduled, drawn, and attested; or scheduled or drawn only."""
        job = self.job(job, is_closed)
        turn = max(0, self.s.world.run(job).turn - back)
        self.s.attempt("audits", "schedule", "stranger", job, turn)
        if some & 7:
            self.s.wait(self.s.preset.draw_blocks + 2 + wait)
            self.s.attempt("audits", "draw", "stranger", job, turn)
        for claim in [each for each in self.s.claims(job) if each.turn == turn]:
            self.attest_some(job, claim, some)

    @when(has_draws)
    @rule(job=INDEX, index=BITS, some=BITS, half=BOTH)
    def attest(self, job: int, index: int, some: int, half: bool) -> None:
        """Of a claim of any turn; mostly at once, or once anybody may."""
        job = self.job(job, has_draws)
        claim = self.claim(job, index)
        draw = self.s.world.draws.get((job, claim.turn), Draw())
        if half and draw.drawn_at:
            self.s.to(max(self.s.now, draw.attest_until - draw.phase_s // 2 + index % 2))
        self.attest_some(job, claim, some)

    def attest_some(self, job: int, claim: Claim, some: int) -> None:
        """Three auditors choose among the units of a claim; some of what they say is made up."""
        first = (claim.scope >> 16) * SEGMENTS
        for index, name in enumerate(NAMES):
            unit = first + (some >> 3 * index) % max(1, claim.count * SEGMENTS + 1)
            is_lie = some >> 10 + index & 1
            root = LIE if is_lie else committed_results.unit_root(claim, unit)
            hot, operator = self.s.accounts[f"{name} hot"], self.s.ids[name]
            seal = Seal(job, claim.turn, unit, operator, hot, root, SALT)
            self.s.attempt("audits", "attest", hot, job, claim, unit, operator, seal)

    def attestations(self, *statuses: Status) -> Iterator[tuple[tuple[int, int, int, int], Attestation]]:
        for key, attestation in list(self.s.world.attestations.items()):
            if attestation.status in statuses:
                yield key, attestation

    @when(has_draws)
    @rule(some=BITS, offset=OFFSET, late=BOTH)
    def reveal_roots(self, some: int, offset: int, late: bool) -> None:
        """At the first or last second for it; a few say another root than they sealed."""
        for index, (key, attestation) in enumerate(self.attestations(Status.SEALED)):
            assert attestation.seal
            draw = self.s.world.draws[key[:2]]
            if index == 0:
                self.s.to(max(self.s.now, draw.attest_until + (draw.phase_s if late else 1) + offset))
            root = b"y" * 32 if some >> index % 8 & 7 == 7 else attestation.seal.root
            self.s.attempt("audits", "reveal", "stranger", *key, root, SALT)
        self.open_units(some=some >> 8)

    def open_units(self, some: int) -> None:
        """What claims say of attested units; now and then of the one beside it."""
        for index, ((job, _, unit), record) in enumerate(list(self.s.world.units.items())):
            claim = record.claim
            if not claim or some >> index % 8 & 3 == 3:
                continue
            root = LIE if some >> index % 8 & 15 == 8 else committed_results.unit_root(claim, unit)
            opening = committed_results.unit_opening(claim, unit)
            self.s.attempt("audits", "open", "stranger", job, claim, unit, root, opening)

    @when(has_convictions)
    @rule(some=BITS, leaf=range(1, SEGMENTS + 1))
    def tell_convictions(self, some: int, leaf: int) -> None:
        """By the referee, which slot was false from where on; and by anybody."""
        for index, ((job, _, _), posted) in enumerate(list(self.s.world.claims.items())):
            is_convicted = posted.status == ClaimStatus.CONVICTED
            if not (is_convicted or some & 7 == 0):
                continue
            if is_convicted and some >> index % 16 & 1:
                slot = posted.claim.scope >> 16
                self.s.attempt("audits", "falsify", self.s.world.config.referee, job, posted.claim, slot, leaf)
            self.s.attempt("audits", "record_conviction", "stranger", job, posted.claim)

    @when(has_draws)
    @rule(2, offset=OFFSET, final=BOTH)
    def settle_audits(self, offset: int, final: bool) -> None:
        """At the edge of the last phase; mostly of turns that are final by then."""
        for index, (key, _) in enumerate(self.attestations(Status.SEALED, Status.REVEALED)):
            draw = self.s.world.draws[key[:2]]
            if index == 0:
                self.s.to(max(self.s.now, draw.drawn_at + 3 * draw.phase_s + offset))
            if final and not self.s.world.run(key[0]).holds:
                self.judge_all(key[0], convicted=False)
                self.s.finalise(key[0])
            self.s.attempt("audits", "settle", "stranger", *key)
        for job in self.able(is_ended):
            self.s.attempt("audits", "refund", "stranger", job)

    @when(has_claims)
    @rule(4, job=INDEX, index=BITS, some=BITS, honest=BOTH)
    def whole_audit(self, job: int, index: int, some: int, honest: bool) -> None:
        """From a claim's draw to what its auditors get; convicted on the way or not."""
        job = self.job(job, has_claims)
        claim = self.claim(job, index)
        self.s.attempt("audits", "schedule", "stranger", job, claim.turn)
        self.s.wait(self.s.preset.draw_blocks + 2)
        self.s.attempt("audits", "draw", "stranger", job, claim.turn)
        draw = self.s.world.draws.get((job, claim.turn), Draw())
        if not draw.drawn_at:
            return
        self.s.to(max(self.s.now, draw.attest_until))
        self.attest_some(job, claim, 0b111 & some if honest else some)
        if some & 1:
            self.convict(job, claim)
        self.reveal_roots(some=(some & 0b1011) << 8, offset=0, late=False)
        if some & 2:
            self.tell_convictions(some=~some & 0xFFFF, leaf=1 + some % SEGMENTS)
        self.settle_audits(offset=1, final=True)

    def convict(self, job: int, claim: Claim) -> None:
        self.s.attempt("settlement", "open_dispute", "referee", job, claim)
        self.s.attempt("settlement", "close_dispute", "referee", job, claim, int(End.JUDGED), 0, 0)
