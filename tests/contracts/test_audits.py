"""Audits on the deployed contracts, the specification beside them: what a review showed to be broken, and dozens of real lies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.evm import chain
from tests.support.job_driver import Offer
from tests.support.lockstep.contract_mirror import persistent_deployment
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.stage import Stage
from tests.support.protocol_driver import load
from tests.support.scenarios.audits import UNITS, AuditScenario
from zoo_compute.chain.generated.bindings.audits import Verdicts as Bitmaps
from zoo_compute.spec import audit_ends, audits
from zoo_compute.spec.auditing import Role, Verdicts, verdicts_of
from zoo_compute.spec.params import AGGREGATOR_SEAT, PLACE_CHANGES_READ

RATE_BPS, LIES = 2_000, 48
AGGREGATORS = {"dave": Offer(40)}


@pytest.fixture(name="stage")
def stage_fixture() -> Iterator[Stage]:
    with chain.anchor():
        yield Stage(Coverage(), persistent_deployment("devnet"))


def audits_of(s: Stage):
    return s.mirror.contracts["audits"]


# --- what the review showed (money.md)


def test_h2__a_claim_of_a_turn_that_stayed_open_for_hours__is_audited_within_its_window(stage: Stage) -> None:
    """A liar commits at once, and a friendly aggregator uses all of its time: the window counts from the turn's close."""
    s = stage
    s.register_all()
    job = s.running({"alice": Offer(40, 4)}, AGGREGATORS, audit_bps=10_000, slot_s=300, aggregate_s=300, reexecute_s=5)
    s.ok("audits", "fund", "submitter", job, 10_000)
    for token in ("zen",):
        s.ok("audits", "deposit", "stranger", s.ids["erin"], s.tokens[token], s.preset.audit_bond + 50_000)
    s.ok("audits", "offer", "erin owner", s.ids["erin"], 1)
    claim = s.commit(job, "alice")
    s.wait(550)  # many windows of fifteen seconds
    s.post_checkpoint(job)
    s.ok("audits", "draw_units", "stranger", job, 0)
    s.wait(s.preset.draw_blocks + 2)
    s.ok("audits", "draw_units", "stranger", job, 0)
    units = list(audit_ends.units_of(claim))
    s.ok("audits", "give_verdicts", "erin hot", job, 0, s.ids["erin"], verdicts_of([], units))
    assert s.now < s.deadline(job, claim)
    s.ok("settlement", "open_dispute", "referee", job, claim)


def test_h5__waiting_until_the_draws_block_is_forgotten__draws_no_more_than_the_rate(stage: Stage) -> None:
    s = stage
    t = AuditScenario(s, audit_bps=200, token="usd")
    t.ok("fund", "submitter", t.job, 10_000)
    t.enlist("erin")
    s.wait(1)
    t.ok("draw_units", "stranger", t.job, 0)
    s.wait(300)
    t.ok("draw_units", "stranger", t.job, 0)
    assert not audits_of(s).draws(t.job, 0).is_drawn
    assert [audits_of(s).assigned(t.job, 0, unit, 0, 0) for unit in UNITS] == [0] * len(UNITS)
    s.wait(s.preset.draw_blocks + 2)
    t.ok("draw_units", "stranger", t.job, 0)
    drawn = [unit for unit in UNITS if audits_of(s).assigned(t.job, 0, unit, 0, 0)]
    assert len(drawn) < 3  # of seven at two in a hundred


def test_m1__who_contradicts_a_liar__is_paid_though_nobody_recorded_the_conviction(stage: Stage) -> None:
    s = stage
    t = AuditScenario(s, token="usd")
    t.ok("fund", "submitter", t.job, 10_000)
    t.enlist("erin")
    t.drawn()
    t.give("erin", said := verdicts_of([], [16, 17]))
    s.convict(t.job, t.claims[0])
    t.after_window()
    t.settle("erin", said)
    assert t.paid("erin") == 200
    assert s.world.audit_funds_of(s.ids["erin"], t.token).balance == 10**6


def test_a_copied_verdict_of_who_was_not_drawn__costs_a_fee_and_earns_nothing(stage: Stage) -> None:
    """H5: who copies what an auditor said."""
    s = stage
    t = AuditScenario(s, token="usd")
    t.ok("fund", "submitter", t.job, 10_000)
    t.enlist("erin")
    t.enlist("frank", places=3)
    t.drawn()
    said = verdicts_of([unit for unit in t.units_of("frank") if unit], [])
    t.give("frank", said)
    t.give("erin", said)
    t.after_window()
    t.settle("frank", said)
    t.settle("erin", said, "nothing to settle")
    assert t.paid("erin") == 0


def test_a_place_that_changed_more_often_than_is_read__was_nobodys(stage: Stage) -> None:
    """Reading back costs gas: whoever changed it so often paid for each change."""
    s = stage
    s.register("erin")
    erin = s.ids["erin"]
    s.ok("audits", "deposit", "stranger", erin, s.tokens["zen"], s.preset.audit_bond)
    s.ok("audits", "offer", "erin owner", erin, 1)
    s.wait(1)
    at = s.now
    for change in range(PLACE_CHANGES_READ):
        assert audits_of(s).holders(0, 1, at) == [erin]
        args = ("offer", "erin owner", erin, 1) if change % 2 else ("leave", "erin owner", erin, (0,))
        s.ok("audits", *args)
    assert audits_of(s).holders(0, 1, at) == [audits.holder(s.world, 0, at)] == [0]


# --- chance


def test_dozens_of_real_lies__are_drawn_as_often_as_the_formula_says_and_called_false(stage: Stage) -> None:
    """One liar holds three slots and lies in all of them, turn for turn: 1 - (1 - s)^3 of its lies are drawn."""
    s = stage
    s.register_all()
    token = s.tokens["usd"]
    offers = {"alice": Offer(40, 3), "bob": Offer(50, 3)}
    job = s.running(offers, AGGREGATORS, slots=6, rounds=LIES, depth=4, token="usd", audit_bps=RATE_BPS)
    s.ok("audits", "fund", "submitter", job, 10**6)
    for of, amount in ((s.tokens["zen"], s.preset.audit_bond), (token, 10**6)):
        s.ok("audits", "deposit", "stranger", s.ids["erin"], of, amount)
    s.ok("audits", "offer", "erin owner", s.ids["erin"], 1)
    caught = 0
    for turn in range(LIES):
        s.until_open(job)
        s.play_round(job)
        for _ in range(2):
            s.wait(s.preset.draw_blocks + 2)
            s.ok("audits", "draw_units", "stranger", job, turn)
        made = [each for each in s.claims(job) if each.turn == turn]
        draw = s.world.draws[job, turn]
        owed = {
            unit: claim.operator
            for claim in made
            for unit in audit_ends.units_of(claim)
            if audits.judge_of(s.world, draw, unit, claim.operator, Role.AUDITOR) == s.ids["erin"]
        }
        seen = [audits_of(s).assigned(job, turn, unit, author, 0) for unit, author in owed.items()]
        assert seen == [s.ids["erin"]] * len(owed), "the contract draws the same"
        wrong = [unit for unit, author in owed.items() if author == s.ids["alice"]]
        caught += bool(wrong)
        if owed:
            said = verdicts_of([unit for unit in owed if unit not in wrong], wrong)
            s.ok("audits", "give_verdicts", "erin hot", job, turn, s.ids["erin"], said)
    expected = 1 - (1 - RATE_BPS / 10_000) ** 3
    assert abs(caught / LIES - expected) < 0.29, f"{caught} of {LIES} lies, {expected:.2f} expected"  # four deviations
    assert caught > 0


# --- events


def test_audits__tell_of_deposits_places_draws_and_verdicts(stage: Stage) -> None:
    s = stage
    t = AuditScenario(s, token="usd")
    contract, erin, usd = audits_of(s), s.ids["erin"], s.tokens["usd"]
    zen, bond = s.tokens["zen"], s.preset.audit_bond

    def events_since() -> list[tuple[str, dict]]:
        logs = [log for log in contract.get_logs(s.mirror.last) if log.address == contract.address]
        return [(type(log).__name__, {k: v for k, v in log._asdict().items() if k != "address"}) for log in logs]

    t.ok("fund", "submitter", t.job, 10_000)
    assert events_since() == [("AuditsFunded", {"job": t.job, "amount": 10_000})]
    t.ok("deposit", "stranger", erin, zen, bond)
    assert events_since() == [("AuditorFunded", {"operator": erin, "token": zen, "amount": bond})]
    t.ok("offer", "erin owner", erin, 1)
    assert events_since() == [("PlacesChanged", {"operator": erin, "held": 1, "places": 1})]
    t.ok("deposit", "stranger", erin, usd, 50_000)
    t.ok("pay_out", "erin owner", erin, usd, 1)
    assert events_since() == [("AuditorPaidOut", {"operator": erin, "token": usd, "amount": 1})]
    s.wait(1)
    t.ok("draw_units", "stranger", t.job, 0)
    assert events_since() == [("DrawNamed", {"job": t.job, "turn": 0, "block": s.block + 1})]
    s.wait(s.preset.draw_blocks + 2)
    t.ok("draw_units", "stranger", t.job, 0)
    assert events_since() == [("UnitsDrawn", {"job": t.job, "turn": 0, "seed": contract.draws(t.job, 0).seed})]
    t.give("erin", said := verdicts_of([0, 16], []))
    where = {"job": t.job, "operator": erin, "turn": 0, "role": 0}
    [(name, args)] = events_since()
    assert (name, {key: args[key] for key in where}) == ("VerdictsGiven", where)
    assert Bitmaps(*args["verdicts"]) == Bitmaps([1 << 16 | 1], [])
    t.ok("leave", "erin owner", erin, (0,))
    assert events_since() == [("PlacesChanged", {"operator": erin, "held": 0, "places": 0})]
    t.after_window()
    t.settle("erin", said, claims=(t.claims[AGGREGATOR_SEAT],))
    [(name, args)] = events_since()
    settled = {**where, "settled": 1, "paid": 50, "slashed": 0}
    assert (name, {key: args[key] for key in settled}) == ("VerdictsSettled", settled)
    assert Bitmaps(*args["left"]) == Bitmaps([1 << 16], [])
    t.ok("withdraw", "stranger", usd, s.accounts["erin owner"])
    assert events_since() == [("Withdrawn", {"token": usd, "account": s.accounts["erin owner"], "amount": 50})]
    s.to(t.deadline + audit_seconds(s))
    t.ok("lapse_verdicts", "stranger", t.job, 0, erin, 0, s.world.statements[t.job, 0, erin, 0].left)
    assert events_since() == [("VerdictsLapsed", {**where, "lapsed": 1, "slashed": 100})]


def audit_seconds(s: Stage) -> int:
    """From a deadline until verdicts have lapsed, of a job whose re-execution takes 200 s."""
    return int(audits_of(s).lapse_s()) + 64 * 200 + 1


def test_wire__by_the_deployer_once() -> None:
    with chain.anchor():
        deployer, other = chain.account("deployer"), chain.account("other")
        numbers = (1, 1, 1)
        contract = load("Audits").deploy(*(5 * [other]), *numbers, sender=deployer)
        from tests.support.evm import reverts

        with reverts("audits: not the deployer"):
            contract.wire(other, sender=other)
        contract.wire(other, sender=deployer)
        with reverts("audits: already wired"):
            contract.wire(other, sender=deployer)
        assert Verdicts() == verdicts_of([], [])
