"""Directed sequences about Audits: who offers to audit, what chance draws, what is said of it and what it is paid. See `opening`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.job_driver import POSTING_DEPOSIT, Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, scenario
from tests.support.scenarios.availability import DemandScenario
from zoo_compute.spec import audits
from zoo_compute.spec.auditing import FIRST_SLOT_UNIT, Role, Verdicts, lapses_at, verdicts_of
from zoo_compute.spec.clocks import End
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.spec.state import Claim

FEE, AGGREGATION_FEE = 100, 50  # the reserves of a stage's job
NOTHING = Verdicts()
UNITS = (0, *range(FIRST_SLOT_UNIT, FIRST_SLOT_UNIT + 6))
RICH = 10**6


class AuditScenario(DemandScenario):
    """A watched job all of whose units are drawn, and its first turn. Unit 0 is the aggregation's, the others slot + FIRST_SLOT_UNIT."""

    def __init__(self, s: Stage, audit_bps: int = 10_000, **changes: Any) -> None:
        super().__init__(s, audit_bps=audit_bps, **changes)
        self.token = s.world.job(self.job).token

    def ok(self, function: str, sender: str, *args: Any) -> None:
        self.s.ok("audits", function, sender, *args)

    def no(self, reason: str, function: str, sender: str, *args: Any) -> None:
        self.s.no(f"audits: {reason}", "audits", function, sender, *args)

    def enlist(self, name: str, places: int = 1, amount: int = RICH) -> None:
        """With a deposit for places and for verdicts."""
        operator, zen = self.s.ids[name], self.s.tokens["zen"]
        self.ok("deposit", "stranger", operator, zen, places * self.s.preset.audit_bond)
        self.ok("deposit", "stranger", operator, self.token, amount)
        self.ok("offer", f"{name} owner", operator, places)

    def drawn(self, turn: int = 0) -> None:
        """As soon as can be."""
        self.s.wait(1)
        self.ok("draw_units", "stranger", self.job, turn)
        self.s.wait(self.s.preset.draw_blocks + 2)
        self.ok("draw_units", "stranger", self.job, turn)

    def claim_of(self, unit: int) -> Claim:
        return self.claims[(unit - FIRST_SLOT_UNIT) // 2] if unit else self.claims[AGGREGATOR_SEAT]

    def units_of(self, name: str, role: Role = Role.AUDITOR) -> list[int]:
        draw, operator = self.s.world.draws[self.job, 0], self.s.ids[name]
        authors = ((unit, self.claim_of(unit).operator) for unit in UNITS)
        return [unit for unit, author in authors if audits.judge_of(self.s.world, draw, unit, author, role) == operator]

    def give(self, name: str, verdicts: Verdicts, reason: str = "", **changes: Any) -> None:
        sender = changes.get("sender", f"{name} hot")
        args = (self.job, changes.get("turn", 0), self.s.ids[name], verdicts)
        refusal = self.s.attempt("audits", "give_verdicts", sender, *args)
        assert refusal == (f"audits: {reason}" if reason else None), refusal

    def settle(self, name: str, verdicts: Verdicts, reason: str = "", **changes: Any) -> None:
        role, first = changes.get("role", Role.AUDITOR), changes.get("first", NOTHING)
        claims = tuple(changes.get("claims", self.claims.values()))
        args = (self.job, 0, self.s.ids[name], int(role), verdicts, claims, first)
        refusal = self.s.attempt("audits", "settle_verdicts", "stranger", *args)
        assert refusal == (f"audits: {reason}" if reason else None), refusal

    def paid(self, name: str) -> int:
        return self.s.world.audit_owed.get((self.token, self.s.accounts[f"{name} owner"]), 0)

    def reserved(self, name: str) -> int:
        return self.s.world.audit_funds_of(self.s.ids[name], self.token).reserved

    @property
    def deadline(self) -> int:
        return self.s.deadline(self.job, self.claims[0])

    def after_window(self) -> None:
        self.s.to(max(self.s.now, self.deadline + 1))


@scenario
def auditors_take_places_behind_bonds_and_leave_them(s: Stage) -> None:
    s.register_all()
    erin, dave, zen, bond = s.ids["erin"], s.ids["dave"], s.tokens["zen"], s.preset.audit_bond
    no = lambda reason, function, sender, *args: s.no(f"audits: {reason}", "audits", function, sender, *args)  # noqa: E731
    no("no such operator", "deposit", "erin owner", 99, zen, 1)
    no("zero amount", "deposit", "erin owner", erin, zen, 0)
    no("not the owner", "offer", "erin hot", erin, 1)
    for count in (0, 33):
        no("places out of range", "offer", "erin owner", erin, count)
    no("deposit too small", "offer", "erin owner", erin, 1)
    s.ok("audits", "deposit", "stranger", erin, zen, 40 * bond)
    s.ok("audits", "offer", "erin owner", erin, 32)
    no("amount exceeds free deposit", "pay_out", "erin owner", erin, zen, 8 * bond + 1)
    no("amount exceeds free deposit", "pay_out", "erin owner", erin, zen, 0)
    no("not the owner", "pay_out", "dave owner", erin, zen, 1)
    s.ok("audits", "pay_out", "erin owner", erin, zen, 8 * bond)
    s.ok("audits", "deposit", "dave owner", dave, zen, 2 * bond)
    s.ok("audits", "offer", "dave owner", dave, 2)
    no("not the owner", "leave", "dave owner", erin, (0,))
    no("places out of range", "leave", "erin owner", erin, ())
    for place in (32, 34):
        no("not its place", "leave", "erin owner", erin, (place,))
    at = s.now
    s.wait(1)
    s.ok("audits", "leave", "erin owner", erin, (31, 0))
    # Dave's places moved to where erin's were; what a draw fixed before stays as it was.
    assert [audits.holder(s.world, place, s.now + 1) for place in (0, 31, 32)] == [dave, dave, 0]
    assert [audits.holder(s.world, place, at + 1) for place in (0, 31, 32, 33)] == [erin, erin, dave, dave]
    no("not its place", "leave", "erin owner", erin, (31,))
    s.ok("registry", "request_exit", "dave owner", dave)
    no("not eligible", "offer", "dave owner", dave, 1)
    s.ok("audits", "leave", "dave owner", dave, (31, 0))
    s.ok("audits", "offer", "erin owner", erin, 2)
    assert (s.world.place_count, s.world.place_counts) == (32, {erin: 32, dave: 0})


@scenario
def units_are_drawn_from_a_closed_turn(s: Stage) -> None:
    t = AuditScenario(s, audit_bps=2_000, token="usd")
    job = t.job
    t.no("zero amount", "fund", "submitter", job, 0)
    t.no("no such job", "fund", "submitter", 99, 1)
    t.no("nothing funded", "draw_units", "stranger", job, 0)
    t.ok("fund", "stranger", job, RICH)
    t.no("no auditors", "draw_units", "stranger", job, 0)
    t.enlist("erin")
    t.no("turn still open", "draw_units", "stranger", job, 1)
    t.no("not drawn", "give_verdicts", "erin hot", job, 0, s.ids["erin"], verdicts_of([16], []))
    s.wait(1)
    t.ok("draw_units", "stranger", job, 0)
    t.no("draw block not buried", "draw_units", "stranger", job, 0)
    named = s.world.draws[job, 0]
    s.wait(258)
    t.ok("draw_units", "stranger", job, 0)  # the hash is forgotten: another block is named, and nothing is drawn
    assert not s.world.draws[job, 0].is_drawn
    assert s.world.draws[job, 0].block > named.block
    s.wait(s.preset.draw_blocks + 1)
    t.no("draw block not buried", "draw_units", "stranger", job, 0)
    s.wait(1)
    t.ok("draw_units", "stranger", job, 0)
    t.no("already drawn", "draw_units", "stranger", job, 0)
    t.after_window()
    t.no("window over", "give_verdicts", "erin hot", job, 0, s.ids["erin"], verdicts_of([16], []))
    t.no("job not over", "refund", "stranger", job)
    s.to(max(s.now, s.world.run(job).inputs_close))
    s.ok("settlement", "abandon", "stranger", job)
    s.to(s.now + 601)
    t.no("window over", "draw_units", "stranger", job, 1)
    t.finalise()
    t.ok("refund", "stranger", job)
    t.no("nothing left", "refund", "stranger", job)
    usd, submitter = s.tokens["usd"], s.accounts["submitter"]
    t.ok("withdraw", "stranger", usd, submitter)
    t.no("nothing owed", "withdraw", "stranger", usd, submitter)


@scenario
def verdicts_are_paid_where_nothing_contradicts_them(s: Stage) -> None:
    t = AuditScenario(s, token="zen")
    job, erin, frank = t.job, s.ids["erin"], s.ids["frank"]
    t.ok("fund", "submitter", job, 6 * FEE + AGGREGATION_FEE + 10 * FEE)
    t.enlist("erin")
    t.enlist("frank", places=2)
    t.drawn()
    units = {name: t.units_of(name) for name in ("erin", "frank")}
    assert sorted(units["erin"] + units["frank"]) == list(UNITS)
    assert units["erin"]
    assert units["frank"]
    t.give("erin", NOTHING, "no verdicts")
    t.give("erin", verdicts_of([16], [16, 17]), "two verdicts")
    t.give("erin", verdicts_of([16], []), "not the hot key", sender="frank hot")
    t.give("erin", verdicts_of(list(range(315, 516)), []), "deposit too small")
    t.give("erin", verdicts_of([16], [17, 18]), "budget spent")
    t.give("erin", said := verdicts_of(units["erin"], []))
    t.give("erin", said, "verdicts given")
    t.give("frank", lie := verdicts_of(units["frank"][1:], units["frank"][:1]))
    # Whoever leaves keeps what its verdicts reserve.
    t.ok("leave", "erin owner", erin, (0,))
    too_much = s.world.audit_funds_of(erin, t.token).free + 1
    t.no("amount exceeds free deposit", "pay_out", "erin owner", erin, t.token, too_much)
    t.settle("erin", said, "window open")
    s.to(t.deadline)
    t.settle("erin", said, "window open")
    t.after_window()
    t.settle("erin", lie, "other verdicts")
    t.settle("erin", said, "other verdicts", role=2)
    t.settle("erin", said, "nothing to settle", claims=())
    stray = replace(t.claims[0], root=b"x" * 32)
    t.settle("erin", said, "nothing to settle", claims=(stray, replace(t.claims[0], turn=1)))
    first = t.claim_of(units["erin"][0])
    t.settle("erin", said, claims=(stray, first))  # one that is unknown refuses nothing
    rest = s.world.statements[job, 0, erin, Role.AUDITOR].left
    if rest.units:
        t.settle("erin", said, "other verdicts")
        t.settle("erin", rest)
    t.settle("erin", s.world.statements[job, 0, erin, Role.AUDITOR].left, "nothing to settle")
    t.settle("frank", lie)
    fees = {name: sum(audits.fee_of(s.world, job, unit) for unit in of) for name, of in units.items()}
    assert t.paid("erin") == fees["erin"]
    assert t.paid("frank") == fees["frank"] - audits.fee_of(s.world, job, units["frank"][0])  # the claim is final
    assert t.reserved("frank") == 2 * s.preset.audit_bond
    assert not s.world.audits_burned.get(t.token)
    assert not s.world.budget_of(job).reserved
    t.ok("withdraw", "stranger", t.token, s.accounts["erin owner"])
    assert frank != erin


@scenario
def silence_of_the_auditor_leaves_its_units_to_the_replacement(s: Stage) -> None:
    t = AuditScenario(s, token="usd")
    job, names = t.job, ("erin", "frank", "grace")
    t.ok("fund", "submitter", job, RICH)
    for name in names:
        t.enlist(name, places=2)
    t.drawn()
    draw = s.world.draws[job, 0]
    mine = {name: t.units_of(name) for name in names}
    other = next(name for name in names if mine[name])
    t.give(other, said := verdicts_of(mine[other][:1], []))  # one unit alone of what it owes
    s.to(draw.half_at)
    later = next(name for name in names if t.units_of(name, Role.REPLACEMENT))
    s.wait(1)
    owed = {name: t.units_of(name, Role.REPLACEMENT) for name in names}
    assert owed[later]
    given = {name: verdicts_of(units, []) for name, units in owed.items() if units}
    for name, verdicts in given.items():
        t.give(name, verdicts)
    t.after_window()
    t.settle(other, said)
    before = {name: t.paid(name) for name in names}
    for name, verdicts in given.items():
        # Units whose auditor said something need what it said.
        t.settle(name, verdicts, first=said, role=Role.REPLACEMENT)
        late = [unit for unit in owed[name] if unit == said.units[0]]
        fees = sum(audits.fee_of(s.world, job, unit) for unit in owed[name] if unit not in late)
        assert t.paid(name) == before[name] + fees
        assert not s.world.statements[job, 0, s.ids[name], Role.REPLACEMENT].left.units


@scenario
def verdicts_on_units_of_others_lapse_and_cost_their_fees(s: Stage) -> None:
    t = AuditScenario(s, token="usd")
    job, erin = t.job, s.ids["erin"]
    t.ok("fund", "submitter", job, 20 * FEE)
    t.enlist("erin")
    t.enlist("frank", places=5)
    t.drawn()
    others = t.units_of("frank")
    assert 0 in others  # the aggregation has a fee, and a bounty, of its own
    t.give("erin", said := verdicts_of([unit for unit in others if unit], [0]))
    role, lost = int(Role.AUDITOR), (len(said.units) - 1) * FEE + AGGREGATION_FEE
    t.finalise()
    s.wait(1)
    t.settle("erin", said, "nothing to settle")
    args = (job, 0, erin, role)
    t.no("other verdicts", "lapse_verdicts", "stranger", *args, NOTHING)
    s.to(max(s.now, lapses_at(t.deadline, 200, s.preset.clocks)))
    t.no("time left", "lapse_verdicts", "stranger", *args, said)
    s.wait(1)
    t.ok("lapse_verdicts", "stranger", *args, said)
    t.no("nothing to settle", "lapse_verdicts", "stranger", *args, NOTHING)
    assert s.world.audits_burned[t.token] == lost
    assert s.world.budget_of(job).balance == 20 * FEE
    assert s.world.audit_funds_of(erin, t.token).balance == RICH - lost


@scenario
def what_a_conviction_without_a_judgement_means_for_verdicts(s: Stage) -> None:
    """Data that nobody shows: "clean" was no lie, and "false" is paid without a bounty, for nobody asked about the claim."""
    t = AuditScenario(s, token="usd")
    job = t.job
    t.ok("fund", "submitter", job, RICH)
    t.enlist("erin")
    t.drawn()
    t.give("erin", said := verdicts_of([0, 16, 17, 18], [19, 20]))
    s.lose(job, t.claims[0])
    s.lose(job, t.claims[1])
    t.after_window()
    t.settle("erin", said)
    assert t.paid("erin") == AGGREGATION_FEE + 4 * FEE  # of 5, which is final, nothing
    assert s.world.claims[job, 0, 0].status == 3
    assert not s.world.audits_burned.get(t.token)
    assert End.SILENT == 3


@scenario
def a_hostile_token_stops_only_the_audits_that_are_paid_in_it(s: Stage) -> None:
    s.register_all()
    bad = s.tokens["bad"]
    s.ok("tasks", "allow", "deployer", bad, True, 0)
    for operator in s.ids.values():
        s.ok("registry", "deposit", "stranger", operator, bad, 10**6)
    s.bid_all(
        job := int(s.ok("tasks", "post", "submitter", replace(s.terms(), token=bad), value=POSTING_DEPOSIT)),
        SLOTS,
        AGGREGATORS,
    )
    s.ok("audits", "fund", "stranger", job, 70)
    s.ok("audits", "deposit", "stranger", s.ids["erin"], bad, 70)
    s.ok("token", "refuse", "stranger", bad, True)
    s.no("audits: transfer failed", "audits", "fund", "stranger", job, 1)
    s.no("audits: transfer failed", "audits", "deposit", "stranger", s.ids["erin"], bad, 1)
    s.no("audits: transfer failed", "audits", "pay_out", "erin owner", s.ids["erin"], bad, 70)
    s.ok("tasks", "cancel", "submitter", job)
    s.ok("audits", "refund", "stranger", job)
    s.no("audits: no such job", "audits", "fund", "stranger", job, 1)
    s.no("audits: transfer failed", "audits", "withdraw", "stranger", bad, s.accounts["submitter"])
    s.ok("token", "refuse", "stranger", bad, False)
    s.ok("audits", "withdraw", "stranger", bad, s.accounts["submitter"])


@scenario
def units_are_drawn_and_judged_until_the_window_ends(s: Stage) -> None:
    """The auditor's half and the replacement's, each with its last second; and a block is named before the deadline."""
    t = AuditScenario(s, token="usd")
    job = t.job
    t.ok("fund", "submitter", job, RICH)
    for name in ("erin", "frank"):
        t.enlist(name)
    t.drawn()
    draw = s.world.draws[job, 0]
    s.to(draw.half_at)
    t.give("erin", verdicts_of([0, 16, 17], []))
    s.wait(1)
    t.give("frank", verdicts_of([18], []))
    s.to(t.deadline)
    t.give("erin", verdicts_of([19], []))
    said = [(operator, role) for _, _, operator, role in s.world.statements]
    erin, frank = s.ids["erin"], s.ids["frank"]
    assert said == [(erin, Role.AUDITOR), (frank, Role.REPLACEMENT), (erin, Role.REPLACEMENT)]


@scenario
def a_draws_block_is_named_before_the_deadline(s: Stage) -> None:
    t = AuditScenario(s)
    t.ok("fund", "submitter", t.job, RICH)
    t.enlist("erin")
    s.to(t.deadline - 1)
    t.ok("draw_units", "stranger", t.job, 0)
    s.wait(1)
    s.mine(300)  # its hash is forgotten
    t.no("window over", "draw_units", "stranger", t.job, 0)


@scenario
def a_unit_that_its_auditor_called_false_is_not_paid_twice(s: Stage) -> None:
    t = AuditScenario(s, token="usd")
    names = ("erin", "frank", "grace")
    t.ok("fund", "submitter", t.job, RICH)
    for name in names:
        t.enlist(name, places=2)
    t.drawn()
    auditor = next(name for name in names if t.units_of(name))
    unit = t.units_of(auditor)[0]
    t.give(auditor, first := verdicts_of([], [unit]))
    s.to(s.world.draws[t.job, 0].half_at + 1)
    other = next(name for name in names if unit in t.units_of(name, Role.REPLACEMENT))
    t.give(other, said := verdicts_of([unit], []))
    t.after_window()
    t.settle(other, said, "nothing to settle", role=Role.REPLACEMENT)  # without what the auditor said
    t.settle(other, said, first=first, role=Role.REPLACEMENT)
    assert (t.paid(other), t.reserved(other)) == (0, 0)


@scenario
def verdicts_on_more_units_than_a_word_has_are_each_of_their_own(s: Stage) -> None:
    s.register_all()
    s.back("alice", 300)
    terms = {"slots": 300, "quorum": 1, "audit_bps": 10_000, "reexecute_s": 200}
    job, erin = s.running({"alice": Offer(60, 300)}, {"dave": Offer(30)}, **terms), s.ids["erin"]
    s.ok("audits", "fund", "submitter", job, RICH)
    s.ok("audits", "deposit", "stranger", erin, s.tokens["zen"], s.preset.audit_bond + RICH)
    s.ok("audits", "offer", "erin owner", erin, 1)
    claim = s.commit(job, "alice")
    s.post_checkpoint(job)
    for _ in range(2):
        s.wait(s.preset.draw_blocks + 2)
        s.ok("audits", "draw_units", "stranger", job, 0)
    said = verdicts_of([16, 270, 271, 315], [])
    s.ok("audits", "give_verdicts", "erin hot", job, 0, erin, said)
    s.to(s.deadline(job, claim) + 1)
    s.ok("audits", "settle_verdicts", "stranger", job, 0, erin, Role.AUDITOR, said, (claim,), NOTHING)
    assert s.world.audit_owed[s.tokens["zen"], s.accounts["erin owner"]] == 4 * FEE
