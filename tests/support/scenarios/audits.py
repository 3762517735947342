"""Directed sequences about Audits: chance picks what is re-executed, and who is paid for it. See `opening`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.job_driver import POSTING_DEPOSIT
from tests.support.lockstep import committed_results
from tests.support.lockstep.committed_results import SEGMENTS
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, scenario
from tests.support.scenarios.availability import DemandScenario
from zoo_compute.spec import audits
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.spec.watching import Seal

SALT, LIE = b"s" * 32, b"x" * 32
UNITS = 6 * SEGMENTS


class AuditScenario(DemandScenario):
    """A watched job, with what an audit of its first turn takes."""

    def ok(self, function: str, sender: str, *args: Any) -> None:
        self.s.ok("audits", function, sender, *args)

    def no(self, reason: str, function: str, sender: str, *args: Any) -> None:
        self.s.no(f"audits: {reason}", "audits", function, sender, *args)

    def drawn(self) -> None:
        """Two auditors with unequal bonds; the first turn is drawn as soon as it can be."""
        s, bond = self.s, self.s.preset.audit_bond
        for name, times in (("erin", 1), ("frank", 39)):
            self.ok("enlist", f"{name} owner", s.ids[name], times * bond)
        s.wait(1)
        self.ok("schedule", "stranger", self.job, 0)
        s.wait(s.preset.draw_blocks + 1)
        self.no("draw block not buried", "draw", "stranger", self.job, 0)
        s.wait(1)
        self.ok("draw", "stranger", self.job, 0)

    def claim_of(self, unit: int) -> Any:
        return self.claims[unit // SEGMENTS // 2 % 3]

    def root(self, unit: int) -> bytes:
        return committed_results.unit_root(self.claim_of(unit), unit % UNITS)

    def is_drawn(self, unit: int) -> bool:
        return audits.is_drawn(self.s.world.draws[self.job, 0], self.s.world.plans[self.job], unit)

    def attest(self, unit: int, name: str, reason: str = "", **changes: Any) -> None:
        hot = self.s.accounts[f"{name} hot"]
        operator, root = self.s.ids[name], changes.get("root") or self.root(unit)
        seal = Seal(self.job, 0, unit, operator, hot, root, SALT)
        args = (self.job, changes.get("claim", self.claim_of(unit)), unit, operator, seal)
        refusal = self.s.attempt("audits", "attest", changes.get("sender", hot), *args)
        assert refusal == (f"audits: {reason}" if reason else None), refusal

    def open_args(self, unit: int) -> tuple[Any, ...]:
        claim = self.claim_of(unit)
        return (self.job, claim, unit, self.root(unit), committed_results.unit_opening(claim, unit))

    def after_phases(self, count: int) -> None:
        """To the last second of attesting, revealing or contradicting."""
        draw = self.s.world.draws[self.job, 0]
        self.s.to(max(self.s.now, draw.drawn_at + count * draw.phase_s))


@scenario
def audits_are_offered_funded_and_drawn(s: Stage) -> None:
    t = AuditScenario(s, token="usd")
    job, erin, bond = t.job, s.ids["erin"], s.preset.audit_bond
    t.no("nothing offered", "fund", "submitter", job, 9)
    t.no("nothing offered", "schedule", "submitter", job, 0)
    t.no("not the submitter", "offer", "stranger", job, 7, 10_000, SEGMENTS)
    for fee in (0, 2**96):
        t.no("fee out of range", "offer", "submitter", job, fee, 10_000, SEGMENTS)
    for rate in (0, 10_001):
        t.no("rate out of range", "offer", "submitter", job, 7, rate, SEGMENTS)
    for segments in (0, 65_537):
        t.no("segments out of range", "offer", "submitter", job, 7, 10_000, segments)
    t.ok("offer", "submitter", job, 7, 5_000, SEGMENTS)
    t.no("already offered", "offer", "submitter", job, 7, 10_000, SEGMENTS)
    t.no("zero amount", "fund", "submitter", job, 0)
    t.ok("fund", "stranger", job, 30)
    t.no("not the owner", "enlist", "erin hot", erin, bond)
    t.no("bond below the minimum", "enlist", "erin owner", erin, bond - 1)
    t.no("not the owner", "resign", "erin hot", erin)
    t.no("not enlisted", "resign", "erin owner", erin)
    t.no("job not over", "refund", "stranger", job)
    t.no("turn still open", "schedule", "stranger", job, 1)
    t.no("not scheduled", "draw", "stranger", job, 0)
    seal = Seal(job, 0, 0, erin, s.accounts["erin hot"], LIE, SALT)
    t.no("not drawn", "attest", "erin hot", job, t.claims[0], 0, erin, seal)
    t.drawn()
    t.no("already scheduled", "schedule", "stranger", job, 0)
    t.no("already drawn", "draw", "stranger", job, 0)
    t.attest(next(unit for unit in range(UNITS) if not t.is_drawn(unit)), "frank", "unit not drawn")
    units = [unit for unit in range(UNITS) if t.is_drawn(unit)]
    draw = s.world.draws[job, 0]
    far = next(unit for unit in units if not audits.is_selected(draw, unit, erin, bond))
    t.attest(far, "erin", "not selected")
    for unit in units[:4]:
        t.attest(unit, "frank")
    t.attest(units[4], "frank", "budget spent")
    t.no("attestations open", "resign", "frank owner", s.ids["frank"])
    t.ok("resign", "erin owner", erin)
    zen, owner = s.tokens["zen"], s.accounts["erin owner"]
    t.ok("withdraw", "stranger", zen, owner)
    t.no("nothing owed", "withdraw", "stranger", zen, owner)
    t.no("no attestation", "settle", "stranger", job, 0, units[0], erin)
    t.finalise()
    t.after_phases(3)
    t.no("not final", "settle", "stranger", job, 0, units[0], s.ids["frank"])
    s.wait(1)
    for unit in units[:4]:
        t.ok("settle", "stranger", job, 0, unit, s.ids["frank"])


@scenario
def an_attestation_is_judged_by_what_the_claim_says_and_what_became_of_it(s: Stage) -> None:
    t = AuditScenario(s, token="zen")
    job, bond, referee = t.job, s.preset.audit_bond, "referee"
    t.ok("offer", "submitter", job, 7, 10_000, SEGMENTS)
    t.ok("fund", "submitter", job, 500)
    t.ok("enlist", "alice owner", s.ids["alice"], bond)
    t.drawn()
    t.after_phases(1)
    t.attest(0, "erin", "not the hot key", sender="stranger")
    t.attest(0, "grace", "not enlisted in time")
    t.attest(0, "alice", "own work")
    t.attest(6, "erin", "no such unit", claim=t.claims[0])
    t.attest(0, "erin", "no such unit", claim=t.claims[AGGREGATOR_SEAT])
    said = {0: t.root(0), 1: LIE, 2: t.root(2), 3: LIE, 6: t.root(6), 12: LIE}
    for unit, root in said.items():
        t.attest(unit, "erin", root=root)
    t.attest(0, "erin", "already attested")
    t.attest(0, "frank")
    t.ok("enlist", "grace owner", s.ids["grace"], bond)
    t.attest(6, "alice")
    t.attest(6, "frank", "places taken")
    t.no("attesting runs", "open", "stranger", *t.open_args(0))
    erin = s.ids["erin"]
    t.no("not revealing", "reveal", "stranger", job, 0, 0, erin, t.root(0), SALT)
    s.wait(1)
    t.attest(4, "erin", "attesting is over")
    t.no("seal does not match", "reveal", "stranger", job, 0, 0, erin, LIE, SALT)
    for unit, root in said.items():
        t.ok("reveal", "stranger", job, 0, unit, erin, root, SALT)
    t.no("no attestation", "reveal", "stranger", job, 0, 0, erin, t.root(0), SALT)
    t.no("no attestation", "open", "stranger", *t.open_args(5))
    t.no("root does not match", "open", "stranger", *t.open_args(1)[:4], t.open_args(2)[4])
    for unit in (0, 1, 2, 3, 6):
        t.ok("open", "guardian", *t.open_args(unit))
    t.no("already opened", "open", "stranger", *t.open_args(0))
    t.no("not final", "settle", "stranger", job, 0, 0, erin)
    # Leaf 3 of slot 0 is false: what was said of leaves before it was right for all one knows.
    t.no("not the referee", "falsify", "stranger", job, t.claims[0], 0, 3)
    s.convict(job, t.claims[0], "stranger")
    for leaf in (3, SEGMENTS + 9):
        t.ok("falsify", referee, job, t.claims[0], 0, leaf)
    t.finalise()
    t.after_phases(3)
    s.wait(1)
    who = [(unit, "erin") for unit in said]
    for unit, name in (*who, (0, "frank"), (6, "alice")):
        t.ok("settle", "stranger", job, 0, unit, s.ids[name])
    t.no("no attestation", "settle", "stranger", job, 0, 0, erin)
    # Erin alone is slashed, and once: she said of a false leaf what the node had said. Half of it is the opener's.
    assert s.world.bonds_burned == s.world.audit_owed[s.tokens["zen"], s.accounts["guardian"]] == bond // 10
    for token, account in [key for key, amount in s.world.audit_owed.items() if amount]:
        t.ok("withdraw", "stranger", token, account)


@scenario
def a_draw_that_waits_until_its_block_is_forgotten_draws_everything(s: Stage) -> None:
    t = AuditScenario(s, token="usd")
    job, erin = t.job, s.ids["erin"]
    t.ok("offer", "submitter", job, 7, 1, SEGMENTS)
    t.ok("fund", "submitter", job, 21)
    t.ok("enlist", "erin owner", erin, s.preset.audit_bond)
    s.wait(1)
    t.ok("schedule", "stranger", job, 0)
    s.wait(1 + 257)
    t.ok("draw", "stranger", job, 0)
    assert s.world.draws[job, 0].stale
    t.attest(17, "erin")
    s.convict(job, t.claims[1])
    t.attest(7, "erin", "unknown claim")
    t.finalise()
    t.after_phases(3)
    s.wait(1)
    s.to(max(s.now, s.world.run(job).inputs_close))
    s.ok("settlement", "abandon", "stranger", job)
    t.no("turn is final", "schedule", "stranger", job, 1)
    t.ok("refund", "stranger", job)
    t.no("nothing left", "refund", "stranger", job)
    t.ok("settle", "stranger", job, 0, 17, erin)


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
    s.ok("audits", "offer", "submitter", job, 7, 1, SEGMENTS)
    s.ok("audits", "fund", "stranger", job, 70)
    s.ok("token", "refuse", "stranger", bad, True)
    s.no("audits: transfer failed", "audits", "fund", "stranger", job, 1)
    s.ok("audits", "enlist", "erin owner", s.ids["erin"], s.preset.audit_bond)
    s.ok("tasks", "cancel", "submitter", job)
    s.ok("audits", "refund", "stranger", job)
    s.no("audits: transfer failed", "audits", "withdraw", "stranger", bad, s.accounts["submitter"])
    s.ok("token", "refuse", "stranger", bad, False)
    s.ok("audits", "withdraw", "stranger", bad, s.accounts["submitter"])
