"""Directed sequences in which an auditor judges a lie that the Referee explores: what its verdict earns or costs."""

from __future__ import annotations

from typing import Any

from tests.support.explorations.explored_job import ExploredJob
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import scenario
from tests.support.scenarios.explorations import SALT, unit_of_update
from zoo_compute.spec.audit_ends import units_of
from zoo_compute.spec.auditing import FIRST_SLOT_UNIT, Verdicts, verdicts_of
from zoo_compute.spec.disputed_claims import MOST_LEFT_S, claim_key
from zoo_compute.spec.frames import Kind
from zoo_compute.spec.params import bounty_of, lock_of
from zoo_compute.spec.verdicts import sealed


class AuditedLie:
    """A job all of whose units are drawn: erin, the only auditor, says what it will of a turn in which alice's claim is a lie."""

    def __init__(self, s: Stage, says_false: bool, **terms: Any) -> None:
        self.s, self.t = s, (t := ExploredJob(s, rounds=1, token="usd", audit_bps=10_000, **terms))
        self.usd, self.erin, self.fee = s.tokens["usd"], s.ids["erin"], s.world.terms[t.job].reserve
        s.ok("audits", "fund", "submitter", t.job, 100 * self.fee)
        for token, amount in (("zen", s.preset.audit_bond), ("usd", 50 * 20 * self.fee)):
            s.ok("audits", "deposit", "stranger", self.erin, s.tokens[token], amount)
        s.ok("audits", "offer", "erin owner", self.erin, 1)
        t.commit("alice", "bob")
        self.unit = t.first_slot("alice") + FIRST_SLOT_UNIT
        slots = t.claims["alice"].count + t.claims["bob"].count
        units = list(range(FIRST_SLOT_UNIT, FIRST_SLOT_UNIT + slots))
        wrong = [self.unit] if says_false else []
        self.said = verdicts_of([unit for unit in units if unit not in wrong], wrong)

    def close_and_draw(self) -> None:
        self.t.close_turn()
        for _ in range(2):
            self.s.wait(self.s.preset.draw_blocks + 2)
            self.s.ok("audits", "draw_units", "stranger", self.t.job, 0)

    def speak(self) -> None:
        self.s.ok("audits", "give_verdicts", "erin hot", self.t.job, 0, self.erin, self.said)

    def settle(self, reason: str = "") -> None:
        draw = self.s.world.draws[self.t.job, 0]
        self.s.to(max(self.s.now, draw.deadline + 1))
        left = self.s.world.statements[self.t.job, 0, self.erin, 0].left
        args = (self.t.job, 0, self.erin, 0, left, tuple(self.t.claims.values()), Verdicts())
        refusal = self.s.attempt("audits", "settle_verdicts", "stranger", *args)
        assert refusal == (f"audits: {reason}" if reason else None), refusal

    @property
    def bounty(self) -> int:
        """Far below ten fees, where every unit is drawn."""
        claim = self.t.claims["alice"]
        part = lock_of(claim.price, 10_000) // claim.count
        half = part // 2
        assert half == bounty_of(self.fee, part) < 10 * self.fee
        return half

    @property
    def paid(self) -> int:
        return self.s.world.audit_owed.get((self.usd, self.s.accounts["erin owner"]), 0)


@scenario
def who_called_a_lie_clean_pays_who_found_it(s: Stage) -> None:
    a = AuditedLie(s, says_false=False)
    t, finder = a.t, s.accounts["guardian"]
    s.ok("referee", "seal", "guardian", sealed(finder, unit_of_update(t, "alice"), SALT))
    s.wait(s.preset.clocks.seal_lead_s)
    a.close_and_draw()
    a.speak()
    t.convict("alice")
    s.ok("referee", "open_seal", "stranger", t.job, t.claims["alice"], finder, SALT)
    a.settle()  # what is decided: whose lie it was to find is not
    assert s.world.statements[t.job, 0, a.erin, 0].left == verdicts_of([a.unit], [])
    assert a.paid == (len(a.said.units) - 1) * a.fee
    s.to(
        max(
            s.now,
            s.world.disputes.verdicts[claim_key(t.job, t.claims["alice"])].judged_at + s.preset.clocks.opening_s + 1,
        )
    )
    a.settle("nothing to settle")
    s.ok("referee", "reward", "stranger", t.job, t.claims["alice"])
    deposit = s.world.audit_funds_of(a.erin, a.usd).balance
    a.settle()
    loss = 50 * a.fee
    assert deposit - s.world.audit_funds_of(a.erin, a.usd).balance == loss
    assert s.world.audit_owed[a.usd, finder] == loss * 4 // 10
    assert s.world.audits_burned[a.usd] == loss - loss * 4 // 10
    s.ok("audits", "withdraw", "guardian", a.usd, finder)


@scenario
def a_lie_called_false_before_anyone_asked_earns_the_bounty(s: Stage) -> None:
    """Half of what is locked behind it where all is drawn, which is less than ten fees."""
    a = AuditedLie(s, says_false=True)
    a.close_and_draw()
    a.speak()
    s.wait(1)
    a.t.convict("alice")
    a.settle()
    assert a.paid == len(a.said.units) * a.fee + a.bounty
    assert s.world.budget_of(a.t.job).reserved == 0


@scenario
def a_lie_called_false_after_the_first_ask_earns_its_fee(s: Stage) -> None:
    """Asked about while the turn was open; a liar that falls silent changes nothing."""
    a = AuditedLie(s, says_false=True)
    t = a.t
    asked = t.explorer.first("alice", Kind.UPDATE, t.first_slot("alice"), by="stranger")
    a.close_and_draw()
    a.speak()
    a.settle()  # of what is decided
    assert a.paid == (len(a.said.units) - t.claims["alice"].count) * a.fee
    t.expire(asked)
    a.settle()
    assert a.paid == len(a.said.units) * a.fee


@scenario
def a_lie_called_false_after_the_first_ask_earns_its_fee_in_a_window_of_weeks_too(s: Stage) -> None:
    """How long before the deadline somebody asked is counted up to twelve days; a claim asked about in the open turn has as many, once
    a second ask found its deadline.
    """
    a = AuditedLie(s, says_false=True, reexecute_s=MOST_LEFT_S // 2)
    slot = a.t.first_slot("alice")
    asked = a.t.explorer.first("alice", Kind.UPDATE, slot, by="stranger")
    a.close_and_draw()
    a.t.explorer.first("alice", Kind.UPDATE, slot + 1, by="stranger")
    a.speak()
    assert s.world.draws[a.t.job, 0].deadline > s.now + MOST_LEFT_S
    a.t.expire(asked)
    a.settle()
    assert a.paid == len(a.said.units) * a.fee


def _called_false_after_the_ask(s: Stage, seconds: int) -> None:
    a = AuditedLie(s, says_false=True)
    t = a.t
    a.close_and_draw()
    asked = t.explorer.first("alice", Kind.UPDATE, t.first_slot("alice"), by="stranger")
    s.wait(seconds)
    a.speak()
    t.expire(asked)
    a.settle()
    assert a.paid == len(a.said.units) * a.fee


@scenario
def a_lie_called_false_in_the_second_of_the_first_ask_earns_its_fee(s: Stage) -> None:
    _called_false_after_the_ask(s, 0)


@scenario
def a_lie_called_false_a_second_after_the_first_ask_earns_its_fee(s: Stage) -> None:
    _called_false_after_the_ask(s, 1)


@scenario
def a_silent_lie_that_was_called_false_first_earns_the_bounty(s: Stage) -> None:
    a = AuditedLie(s, says_false=True)
    t = a.t
    a.close_and_draw()
    a.speak()
    s.wait(1)
    asked = t.explorer.first("alice", Kind.UPDATE, t.first_slot("alice"), by="stranger")
    t.expire(asked)
    a.settle()
    assert a.paid == len(a.said.units) * a.fee + a.bounty


@scenario
def one_lock_pays_for_the_bounty_of_its_first_conviction(s: Stage) -> None:
    """Lies in all pending turns, each called false before anyone asked: the first conviction takes the lock, later ones nothing."""
    t = ExploredJob(s, rounds=3, depth=2, token="usd", audit_bps=10_000, reexecute_s=400, slot_s=1000, aggregate_s=1000)
    job, usd, erin, fee = t.job, s.tokens["usd"], s.ids["erin"], s.world.terms[t.job].reserve
    s.ok("audits", "fund", "submitter", job, 100 * fee)
    for token, amount in (("zen", s.preset.audit_bond), ("usd", 50 * 20 * fee)):
        s.ok("audits", "deposit", "stranger", erin, s.tokens[token], amount)
    s.ok("audits", "offer", "erin owner", erin, 1)
    before, turns = s.world.deposit_of(s.ids["alice"], usd).balance, []
    for turn in range(2):
        t.commit("alice", "bob")
        t.close_turn()
        said = verdicts_of([], list(units_of(t.claims["alice"])))
        turns.append((t.claims, t.sides))
        t.claims, t.sides = dict(t.claims), dict(t.sides)
        for _ in range(2):
            s.wait(s.preset.draw_blocks + 2)
            s.ok("audits", "draw_units", "stranger", job, turn)
        s.ok("audits", "give_verdicts", "erin hot", job, turn, erin, said)
    s.wait(1)
    asked = []
    for t.claims, t.sides in turns:
        asked.append(t.explorer.first("alice", Kind.UPDATE, t.first_slot("alice"), by="stranger"))
    s.to(s.now + t.explorer.known[asked[-1]][1].clocks.committer_left_s + 1)
    for (claims, _), each in zip(turns, asked, strict=True):
        s.ok("referee", "expire", "stranger", job, claims["alice"], each, t.explorer.known[each][1])
    lost = before - s.world.deposit_of(s.ids["alice"], usd).balance
    paid: list[int] = []
    for turn, (claims, _) in enumerate(turns):
        s.to(max(s.now, s.world.draws[job, turn].deadline + 1))
        args = (job, turn, erin, 0, said, (claims["alice"],), Verdicts())
        s.ok("audits", "settle_verdicts", "stranger", *args)
        paid.append(s.world.audit_owed[usd, s.accounts["erin owner"]] - sum(paid))
    locks = [s.world.taken_of_lock[job, claims["alice"]] for claims, _ in turns]
    assert locks == [lost, 0] == [lock_of(turns[0][0]["alice"].price, 10_000), 0]
    assert paid == [2 * fee + lost // 2 // 2 * 2, 2 * fee]
    assert s.world.budget_of(job).reserved == 0


@scenario
def a_lie_convicted_in_the_open_turn_says_nothing_of_who_commits_in_its_place(s: Stage) -> None:
    """The auditor calls the honest claim that replaced it false: the conviction before was of another one."""
    a = AuditedLie(s, says_false=True)
    t, lie = a.t, a.t.claims["alice"]
    t.convict("alice")
    del t.claims["alice"]
    s.take_over(t.job, lie.seat, "carol")
    t.commit("carol")
    assert t.claims["carol"].scope == lie.scope
    a.close_and_draw()
    a.speak()
    s.to(s.world.draws[t.job, 0].deadline + 1)
    args = (t.job, 0, a.erin, 0, a.said, (lie,), Verdicts())
    s.no("audits: nothing to settle", "audits", "settle_verdicts", "stranger", *args)
    a.settle()
    assert a.paid == (len(a.said.units) - 1) * a.fee
