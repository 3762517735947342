"""One play: a job from its award to the last payment. Honest parties do what keepers do; a coalition does what its strategy says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.economy.choices import Chance, Strategy
from benchmarks.economy.money import Worth
from benchmarks.economy.network import AUDITORS, Circumstances, Losers, Network, awarded
from zoo_compute.spec import audits, seats, settlement
from zoo_compute.spec.auditing import AGGREGATION_UNIT, Draw, Role, Verdicts, verdicts_of
from zoo_compute.spec.clocks import End
from zoo_compute.spec.custodians import CheckpointSignature, Committee, InputsSignature, StartSignature
from zoo_compute.spec.disputed_claims import DisputedClaim, Finder, claim_key
from zoo_compute.spec.params import (
    AGGREGATOR_SEAT,
    BPS,
    DILIGENT_OF,
    DILIGENT_PARTS,
    HONEST_OF,
    HONEST_PARTS,
    STRANGERS_LANE,
)
from zoo_compute.spec.state import Claim, ClaimStatus, JobState, Run

JOB = 1
# What each party of a coalition decides for. Every coalition has another name to take seats under, and an account that finds lies.
ROLES: dict[str, tuple[str, ...]] = {
    "submitter": ("submitter",),
    "provider": ("worker",),
    "second provider": ("peer",),
    "aggregator": ("aggregator",),
    "auditor": ("auditor",),
    "custodian": ("custodian",),
}
ALWAYS = ("spare", "sink")
MOST_TURNS = 4  # beyond the job's rounds, in which a coalition decides anything
MOST_CHANCES = 3  # lies of a play that are left to chance: each doubles its outcomes


@dataclass
class Dispute:
    """Of a claim: in how many turns it ends, and how."""

    claim: Claim
    turns: int
    end: End
    finder: str


@dataclass
class Play:
    """Of a coalition in some circumstances."""

    circumstances: Circumstances
    coalition: frozenset[str]
    strategy: Strategy
    chance: Chance
    lies: set[Claim] = field(default_factory=set)
    pending: dict[int, list[Claim]] = field(default_factory=dict)  # by turn
    disputes: dict[Claim, Dispute] = field(default_factory=dict)
    said: dict[tuple[int, str, Role], Verdicts] = field(default_factory=dict)
    committee: Committee = ()

    def __post_init__(self) -> None:
        self.n: Network = awarded(self.circumstances).forked()
        self.hostile = {name for role in self.coalition for name in ROLES[role]} | set(ALWAYS)
        self.worth = Worth(self.n, self.hostile)

    @property
    def run(self) -> Run:
        return self.n.world.runs[JOB]

    def pick(self, name: str, where: str, *options: str) -> str:
        """What a party does; the first option is the honest one."""
        if name not in self.hostile or self.run.turn > self.circumstances.rounds + MOST_TURNS:
            return options[0]
        return self.strategy.pick(f"{name} {where}", *options)

    # --- the course of the job

    def play(self) -> Worth:
        if self.circumstances.has_custody:
            self._draw_custodians()
        self._ready()
        while self._goes_on():
            self._play_turn()
        self._end()
        return self.worth

    def _ready(self) -> None:
        silent = []
        for seat in range(self.run.seats):
            name = self._holder(seat)
            does = self.pick(
                name, f"before the first turn, seat {seat}", "is ready", "declines", "declines half", "is silent"
            )
            if does == "is ready":
                self.n.ok("settlement", "ready", f"{name} hot", JOB, seat, 10)
            elif does == "is silent":
                silent.append(seat)
            else:
                self._decline(seat, whole=does == "declines")
        for seat in silent:
            self.n.to(max(self.n.now, self.run.opened_at + self.n.preset.ready_window_s + 1))
            self.n.ok("settlement", "expire", "stranger", JOB, seat)
        for seat in range(self.run.seats):  # halves that were kept
            if self.run.state == JobState.AWARDED and seats.is_missing(self.run, seat) and self._operator(seat):
                self.n.ok("settlement", "ready", f"{self._holder(seat)} hot", JOB, seat, 10)

    def _goes_on(self) -> bool:
        """Up to the next turn that is open; False once the job is over and nothing can run it again."""
        for dispute in list(self.disputes.values()):
            if dispute.turns <= 0:
                self._resolve(dispute)
        while True:
            run = self.run
            if self.said:
                self._settle_verdicts()
            if run.is_open:
                return True
            if run.state == JobState.ENDED and not self.disputes:
                return False
            if run.state == JobState.ENDED or not self.pending:
                self._resolve(next(iter(self.disputes.values())))
            else:
                self._finalise(min(self.pending))

    def _play_turn(self) -> None:
        turn = self.run.turn
        self._fill()
        self._commit()
        if self.run.turn != turn or not self.run.is_open:
            return
        self._time_out_the_late()
        if not seats.inputs_complete(self.n.world, JOB, self.n.now):
            self.n.to(self.run.inputs_close)
        if self.run.committed < self.run.quorum:
            self._close_turn(turn, None)
            return
        if self.committee:
            self._sign_inputs(turn)
        self._close_turn(turn, self._aggregate(turn))

    def _close_turn(self, turn: int, made: Claim | None) -> None:
        if made is None:
            self.n.ok("settlement", "abandon", "stranger", JOB)
        lost = self.pending.pop(turn, [])  # but for those whose data nobody could have
        claims = [claim for claim in lost if self._is_pending(claim)]
        if claims or made is not None:
            self.pending[turn] = claims
        for dispute in self.disputes.values():
            dispute.turns -= 1
        if made is not None:
            claims.append(made)
            if self.committee:
                self._sign_checkpoint(made)
        self.worth.closed(turn, claims, self.lies, made)
        for claim in list(claims):
            self._look(claim)
        self._ask(turn, claims)
        if self.circumstances.has_audits and claims:
            self._audit(turn, list(claims))
        self.n.wait(1)

    def _end(self) -> None:
        for turn in sorted(self.pending):
            self._finalise(turn)
        assert self.n.world.job(JOB).escrow == 0, "the job is not closed"
        self._settle_verdicts()
        if self.committee:
            self._count_signatures()

    # --- seats

    def _operator(self, seat: int) -> int:
        return self.n.world.seats[JOB, seat].operator

    def _holder(self, seat: int) -> str:
        return self.n.named(self._operator(seat))

    def _decline(self, seat: int, *, whole: bool) -> None:
        name, count = self._holder(seat), self.n.world.seats[JOB, seat].count
        self.n.ok("settlement", "decline", f"{name} hot", JOB, seat, count if whole else max(1, count // 2))

    def _vacant(self) -> Iterator[int]:
        for seat in (*range(self.run.seats), AGGREGATOR_SEAT):
            if not self._operator(seat):
                yield seat

    def _fill(self, *only: int) -> None:
        """Vacant seats: the coalition is first, since it can do so in the transaction that leaves them."""
        for seat in only or list(self._vacant()):
            vacant, where = self.n.world.seats[JOB, seat], f"seat {seat} is vacant in turn {self.run.turn}"
            takers = sorted(self.hostile & {"spare", "worker", "peer", "aggregator"})
            halves = [f"half by {name}" for name in takers] if vacant.count > 1 else []
            does = self.pick("spare", where, "leaves it", *(f"taken by {name}" for name in takers), *halves)
            if does != "leaves it":
                count = max(1, vacant.count // 2) if does.startswith("half") else vacant.count
                self._take(does.split()[-1], seat, count)
            if self.circumstances.losers == Losers.THERE and not self._operator(seat):
                taker = "rival" if seat == AGGREGATOR_SEAT else "loser"
                if not any(self._operator(of) == self.n.ids[taker] for of in range(self.run.seats)):
                    self._take(taker, seat, self.n.world.seats[JOB, seat].count)

    def _take(self, name: str, seat: int, count: int) -> None:
        """Refused to whoever was convicted in this turn."""
        self.n.attempt("settlement", "take_over", f"{name} hot", JOB, seat, self.n.ids[name], count, 10)

    # --- results

    def _commit(self) -> None:
        for seat in range(self.run.seats):
            if self._operator(seat) and seats.is_missing(self.run, seat):
                self._do(seat)
        self._fill()
        for seat in range(self.run.seats):
            if self._operator(seat) and seats.is_missing(self.run, seat) and seat not in self._silent():
                self._do(seat)

    def _silent(self) -> set[int]:
        turn = self.run.turn
        return {
            seat
            for seat in range(self.run.seats)
            if self.strategy.met.get(
                f"{self._holder(seat) if self._operator(seat) else ''} in turn {turn}, seat {seat}"
            )
            == "is silent"
        }

    def _do(self, seat: int) -> None:
        name, turn = self._holder(seat), self.run.turn
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
            self._decline(seat, whole=does == "declines")

    def _lose(self, claim: Claim) -> None:
        self.n.demand(JOB, claim, STRANGERS_LANE, "stranger")
        self.n.wait(self.n.preset.answer_s + 1)
        self.n.ok("availability", "close", "stranger", JOB, claim, STRANGERS_LANE)

    def _time_out_the_late(self) -> None:
        for seat in range(self.run.seats):
            run = self.run
            if not self._operator(seat) or not seats.is_missing(run, seat):
                continue
            deadline = seats.deadline_of(run, self.n.world.seats[JOB, seat])
            if deadline < run.inputs_close:
                self.n.to(max(self.n.now, deadline + 1))
                self.n.ok("settlement", "time_out", "stranger", JOB, seat)
        self._fill()
        if not seats.inputs_closed(self.run, self.n.now):
            for seat in range(self.run.seats):
                if self._operator(seat) and seats.is_missing(self.run, seat) and seat not in self._silent():
                    self._do(seat)

    def _aggregate(self, turn: int) -> Claim | None:
        """The turn's aggregation; None where nobody makes one in time."""
        for attempt in range(4):
            if not self._operator(AGGREGATOR_SEAT):
                self._wait_for_an_aggregator(turn, attempt)
            if not self._operator(AGGREGATOR_SEAT):
                self.n.to(max(self.n.now, self.run.aggregator_due + 1))
                return None
            name = self._holder(AGGREGATOR_SEAT)
            lies = ("lies",) if self.circumstances.is_watched or len(self.lies) < MOST_CHANCES else ()
            silent = ("is silent",) if attempt < 3 else ()
            does = self.pick(name, f"closes turn {turn}, attempt {attempt}", "aggregates", *lies, *silent)
            if does in ("aggregates", "lies"):
                root = does.encode() + bytes([turn]) + b" "
                args = (JOB, turn, seats.present(self.run), root.ljust(32, b"\0"), b"c" * 32)
                self.n.ok("settlement", "post_checkpoint", f"{name} hot", *args)
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
        self._fill(AGGREGATOR_SEAT)
        if self._operator(AGGREGATOR_SEAT):
            return
        where = f"closes turn {turn}, attempt {attempt}, while nobody aggregates"
        parts = self.pick("spare", where, "leaves it", "waits 1 of 4", "waits 2 of 4", "waits 3 of 4")
        if parts != "leaves it":
            left_at = self.n.world.seats[JOB, AGGREGATOR_SEAT].left_at
            self.n.to(max(self.n.now, left_at + int(parts.split()[1]) * self.run.aggregate_s // 4))
            self._take("spare", AGGREGATOR_SEAT, 1)

    # --- disputes

    def _look(self, claim: Claim) -> None:
        name = self.n.named(claim.operator)
        if (
            claim in self.lies
            and self._is_pending(claim)
            and (self.circumstances.is_watched or self._found_by_chance(claim))
        ):
            self._dispute(claim, name)

    def _ask(self, turn: int, claims: list[Claim]) -> None:
        """A coalition may ask about one true claim of others, to keep what rests on it waiting. Its author answers."""
        true = {
            f"asks about seat {claim.seat}{until}": (claim, turns)
            for claim in claims
            if claim not in self.lies and self.n.named(claim.operator) not in self.hostile and self._is_pending(claim)
            for turns, until in enumerate(("", " for a turn", " for two turns"))
        }
        asks = self.pick("sink", f"after turn {turn}", "asks nothing", *true)
        if asks in true:
            claim, turns = true[asks]
            self._open(Dispute(claim, turns, End.FINAL, ""))

    def _is_pending(self, claim: Claim) -> bool:
        return settlement.status_of(self.n.world, JOB, claim) == ClaimStatus.PENDING

    def _found_by_chance(self, claim: Claim) -> bool:
        """As locks count on it: drawn, its auditor honest, and looking; each slot for itself."""
        p = self.circumstances.audit_bps * HONEST_PARTS * DILIGENT_PARTS / (BPS * HONEST_OF * DILIGENT_OF)
        return self.chance.finds(1 - (1 - p) ** max(claim.count, 1))

    def _dispute(self, claim: Claim, name: str) -> None:
        where = f"whose lie in turn {claim.turn}, seat {claim.seat} is found,"
        how = self.pick(name, where, "is judged", "is judged, with its own seal first", "is silent")
        when = self.pick(name, where + " is late", "at once", "by a turn", "by two turns")
        finder = "sink" if "own seal" in how else "stranger"
        turns = ("at once", "by a turn", "by two turns").index(when)
        self._open(Dispute(claim, turns, End.SILENT if how == "is silent" else End.JUDGED, finder))

    def _open(self, dispute: Dispute) -> None:
        if dispute.claim not in self.disputes:
            self.n.ok("settlement", "open_dispute", "referee", JOB, dispute.claim)
            self.disputes[dispute.claim] = dispute
            self._tell_audits(dispute.claim, None)

    def _resolve(self, dispute: Dispute) -> None:
        claim = dispute.claim
        del self.disputes[claim]
        if dispute.end == End.FINAL:
            self.n.to(max(self.n.now, seats.claim_deadline(self.n.world, JOB, claim.turn) + 1))
        self.n.ok("settlement", "close_dispute", "referee", JOB, claim, int(dispute.end), 0, 0)
        if dispute.end == End.JUDGED:
            self.n.ok("settlement", "reward_finder", "referee", JOB, claim, dispute.finder)
        self._tell_audits(claim, dispute.end, dispute.finder)
        self._drop(claim)

    def _tell_audits(self, claim: Claim, end: End | None, finder: str = "") -> None:
        """What they read of a dispute in the referee."""
        if not self.circumstances.has_audits:
            return
        disputes, key = self.n.world.disputes, claim_key(JOB, claim)
        known = disputes.claims.get(key)
        deadline = known.deadline if known else seats.claim_deadline(self.n.world, JOB, claim.turn)
        slots, slot = max(claim.count, 1), claim.scope >> 16
        disputes.claims[key] = DisputedClaim(
            JOB, claim.operator, claim.turn, 5, slots, deadline, end=end, slot=slot, left_s=0
        )
        if end == End.JUDGED:
            disputes.finders[key] = Finder(finder, 0, is_rewarded=True)

    def _drop(self, claim: Claim) -> None:
        kept = self.pending.get(claim.turn)
        if kept is not None and claim in kept:
            kept.remove(claim)
            if not kept and claim.turn != self.run.turn:
                del self.pending[claim.turn]

    def _finalise(self, turn: int) -> None:
        """All claims of a turn, at the end of its window; disputes that it waits for end now."""
        for claim in list(self.pending[turn]):
            if claim in self.disputes and not settlement.is_parkable(self.n.world, JOB, claim):
                self._resolve(self.disputes[claim])
        due = [claim for claim in self.pending.get(turn, ()) if settlement.known(self.n.world, JOB, claim) is not None]
        self.pending.pop(turn, None)
        if due:
            self.n.to(max(self.n.now, self.n.deadline(JOB, *due) + 1))
            self.n.ok("settlement", "finalise", "stranger", JOB, tuple(due))

    # --- audits

    def _audit(self, turn: int, claims: list[Claim]) -> None:
        n = self.n
        n.wait(1)
        n.ok("audits", "draw_units", "stranger", JOB, turn)
        n.wait(n.preset.draw_blocks + 2)
        n.ok("audits", "draw_units", "stranger", JOB, turn)
        draw = n.world.draws[JOB, turn]
        units = {unit: claim for claim in claims for unit in units_of(claim)}
        for role in (Role.AUDITOR, Role.REPLACEMENT):
            if role == Role.REPLACEMENT:
                silent = [name for name in AUDITORS if (turn, name, Role.AUDITOR) not in self.said]
                if not silent:
                    return
                n.to(max(n.now, draw.half_at + 1))
            for name in AUDITORS:
                mine = [
                    unit
                    for unit, claim in units.items()
                    if audits.judge_of(n.world, draw, unit, claim.operator, role) == n.ids[name]
                    and (role == Role.AUDITOR or self._is_left(turn, draw, unit, claim))
                ]
                if mine:
                    self._judge(turn, name, role, {unit: units[unit] for unit in mine})

    def _is_left(self, turn: int, draw: Draw, unit: int, claim: Claim) -> bool:
        auditor = audits.judge_of(self.n.world, draw, unit, claim.operator, Role.AUDITOR)
        said = self.said.get((turn, self.n.named(auditor), Role.AUDITOR)) if auditor else None
        return said is None or unit not in said.units

    def _judge(self, turn: int, name: str, role: Role, units: dict[int, Claim]) -> None:
        wrong = [unit for unit, claim in units.items() if claim in self.lies]
        clean = [unit for unit in units if unit not in wrong]
        does = self.pick(
            name,
            f"as {role.name.lower()} of turn {turn}",
            "looks",
            "calls all clean",
            "calls all false",
            "calls each the other way",
            "is silent",
        )
        self.worth.drawn(name, units)
        if does == "is silent":
            return
        if does == "looks":
            self.worth.looked(name, units)
        elif does == "calls all clean":
            self.worth.trusted(name, units)
        verdicts = {
            "looks": verdicts_of(clean, wrong),
            "calls all clean": verdicts_of(list(units), []),
            "calls all false": verdicts_of([], list(units)),
            "calls each the other way": verdicts_of(wrong, clean),
        }[does]
        self.n.ok("audits", "give_verdicts", f"{name} hot", JOB, turn, self.n.ids[name], verdicts)
        self.said[turn, name, role] = verdicts

    def _settle_verdicts(self) -> None:
        """As far as claims are decided."""
        for turn, name, role in self.said:
            operator = self.n.ids[name]
            left = self.n.world.statements[JOB, turn, operator, role].left
            if not left.units or self.n.now <= self.n.world.draws[JOB, turn].deadline:
                continue
            claims = tuple(claim for claim in self.worth.claims if claim.turn == turn)
            auditor = next(who for who in AUDITORS if who != name)
            first = self.said.get((turn, auditor, Role.AUDITOR), Verdicts()) if role == Role.REPLACEMENT else Verdicts()
            self.n.attempt("audits", "settle_verdicts", "stranger", JOB, turn, operator, int(role), left, claims, first)

    # --- custody

    def _draw_custodians(self) -> None:
        n = self.n
        n.to(max(n.now, n.world.custody_requests[JOB].closes_at))
        n.ok("custody", "schedule", "stranger", JOB)
        n.mine(n.preset.draw_blocks + 2)
        n.ok("custody", "draw", "stranger", JOB, ())
        self.committee = n.world.committees[JOB, 1]
        signed = tuple(StartSignature(place, each.key, JOB) for place, each in enumerate(self.committee))
        n.ok("custody", "hold_start", "stranger", JOB, self.committee, signed)

    def _count_signatures(self) -> None:
        """Of turns that are final; nothing where there are none."""
        version = self.n.world.custody[JOB].version
        self.n.attempt("custody", "count", "stranger", JOB, version, self.committee)

    def _signers(self, what: str, turn: int) -> list[int]:
        return [
            place
            for place, each in enumerate(self.committee)
            if self.pick(self.n.named(each.operator), f"of the {what} of turn {turn}", "signs", "does not") == "signs"
        ]

    def _sign_inputs(self, turn: int) -> None:
        if turn > self.run.depth:
            self._count_signatures()
        seen = seats.present(self.run)
        signed = tuple(
            InputsSignature(place, self.committee[place].key, JOB, turn, seen)
            for place in self._signers("inputs", turn)
        )
        self.n.ok("custody", "hold_inputs", "stranger", JOB, turn, self.committee, signed)

    def _sign_checkpoint(self, made: Claim) -> None:
        signed = tuple(
            CheckpointSignature(place, self.committee[place].key, JOB, made.turn, made.root)
            for place in self._signers("checkpoint", made.turn)
        )
        self.n.ok("custody", "hold_turn", "stranger", JOB, made, self.committee, (), signed)


def units_of(claim: Claim) -> tuple[int, ...]:
    return (AGGREGATION_UNIT,) if claim.is_aggregation else tuple(slot + 1 for slot in claim.slots)
