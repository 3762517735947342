"""Custody: every event with every field."""

import pytest

from tests.differential.custody_driver import LISTENED, custody_stage, events_of, last_events
from tests.support.lockstep.custody_records import member_words
from zoo_compute.spec.params import SIGNED_BYTES


@pytest.fixture(name="t")
def custody_fixture():
    with custody_stage() as scenario:
        yield scenario


def test_a_request_and_its_escrow__are_logged(t):
    s, job = t.s, t.job
    t.ok("request", "submitter", job, 7, SIGNED_BYTES)
    reserve = s.world.custody_requests[job].reserve
    asked = {"job": job, "custodians": 3, "fee": 7, "reserve": reserve, "closes_at": s.now + s.preset.bid_window_s}
    assert last_events(t) == [("CustodyRequested", asked)]
    t.ok("fund", "stranger", job, 30)
    assert last_events(t) == [("CustodyFunded", {"job": job, "amount": 30})]
    s.ok("tasks", "cancel", "submitter", job)
    t.ok("refund", "stranger", job)
    assert last_events(t) == [("CustodyRefunded", {"job": job, "amount": 30})]


def test_funds_and_stake__are_logged(t):
    s, alice = t.s, t.s.ids["alice"]
    t.ok("deposit", "stranger", alice, t.token, 9)
    assert last_events(t) == [("FundsDeposited", {"operator": alice, "token": t.token, "amount": 9})]
    t.ok("withdraw", "alice owner", alice, t.token, 4)
    assert last_events(t) == [("FundsWithdrawn", {"operator": alice, "token": t.token, "amount": 4})]
    s.ok("registry", "add_stake", "stranger", alice, 10**12)
    t.ok("note_stake", "alice hot", alice)
    stake = s.operator("alice").stake // 10**12
    assert last_events(t) == [("StakeNoted", {"operator": alice, "stake": stake, "since": s.now})]


def test_offers_and_draws__are_logged(t):
    s, job = t.s, t.job
    t.asked()
    t.offered("alice")
    weight = s.operator("alice").stake // 10**12
    assert last_events(t) == [("CustodyOffered", {"job": job, "operator": s.ids["alice"], "weight": weight})]
    t.ok("retire", "alice hot", job, 0)
    assert last_events(t) == [("OfferEnded", {"job": job, "operator": s.ids["alice"]})]
    t.offered("erin", "frank", "grace")
    t.awarded()
    t.ok("schedule", "stranger", job)
    assert last_events(t) == [("CommitteeScheduled", {"job": job, "block": s.block + 1})]
    s.mine(300)
    t.ok("draw", "stranger", job, ())
    assert last_events(t) == [("DrawLost", {"job": job})]
    t.drawn()
    members = [member_words(member) for member in t.committee]
    assert last_events(t) == [("CommitteeChanged", {"job": job, "version": 1, "committee": members})]


def test_signatures_and_pay__are_logged(t):
    s, job = t.s, t.job
    t.ready()
    assert last_events(t) == [("StartSigned", {"job": job, "signers": 0b011})]
    t.commit_all()
    t.hold(0b011, 0, 1)
    assert last_events(t) == [("InputsSigned", {"job": job, "turn": 0, "mask": 0b011, "inputs": 0b011, "answered": 0})]
    t.hold(0b111, 2)
    assert last_events(t) == [("InputsSigned", {"job": job, "turn": 0, "mask": 0b011, "inputs": 0b111, "answered": 0})]
    s.wait(s.preset.answer_s + 1)
    t.ok("leave_out", "stranger", job, 0)
    absent = [event for event in events_of(t, "settlement") if event[0] == "SeatsAbsent"]
    assert absent == [("SeatsAbsent", {"job": job, "turn": 0, "seats": 0b100})]
    t.posted(1, 2)
    assert last_events(t) == [("CheckpointSigned", {"job": job, "turn": 0, "seat": 128, "signers": 0b110})]
    s.finalise(job)
    t.count()
    assert last_events(t) == [("CustodiansPaid", {"job": job, "turns": 1, "fee": 7, "signed": 5})]


def test_those_who_leave__are_logged(t):
    s, job = t.s, t.job
    t.ready()
    reserve, places = s.world.custody_requests[job].reserve, [member.operator for member in t.committee]
    t.ok("resign", f"{t.name(2)} hot", job, t.committee, 2)
    assert last_events(t) == [("CustodianResigned", {"job": job, "operator": places[2]})]
    for kept, burned in ((7, reserve - 7), (0, 7)):
        t.ok("forfeit", s.world.config.availability, job, places[1], kept)
        assert last_events(t) == [("ReserveForfeited", {"job": job, "operator": places[1], "burned": burned})]
    t.ok("forfeit", s.world.config.availability, job, places[1], 0)
    assert last_events(t) == []
    t.ok("expel", "stranger", job, t.committee, 1)
    assert last_events(t)[0] == ("CustodianExpelled", {"job": job, "operator": places[1]})
    s.to(s.world.run(job).inputs_close + s.preset.answer_s + 1)
    t.ok("lapse", "stranger", job, t.committee, 0)
    lapsed = {"job": job, "operator": places[0], "turn": 0, "burned": reserve // 100}
    assert last_events(t)[0] == ("CustodianLapsed", lapsed)
    members = [member_words(member) for member in t.committee]
    assert last_events(t)[1] == ("CommitteeChanged", {"job": job, "version": 3, "committee": members})
    s.to(s.world.run(job).aggregator_due + 1)
    s.ok("settlement", "abandon", "stranger", job)
    t.ok("count", "stranger", job, t.version, t.committee) if s.world.run(job).turn else None
    s.settle(job)
    if s.world.custody[job].counted < s.world.run(job).turn:
        t.count()
    t.ok("release", "stranger", job, places[2])
    assert last_events(t) == [("ReserveReleased", {"job": job, "operator": places[2], "amount": reserve})]


def test_every_event__is_in_one_of_these_tests():
    import inspect
    import sys

    source = inspect.getsource(sys.modules[__name__])
    assert [name for name in LISTENED if f'"{name}"' not in source] == []
