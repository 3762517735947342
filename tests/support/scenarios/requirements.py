"""Directed sequences about what jobs ask of their operators; see `opening`."""

from dataclasses import replace

from tests.support.job_driver import Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.admissions import admit
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, bid_args, scenario
from zoo_compute.spec.requirements import ADMITTED, Requirements

NOT_MET = "auction: requirements not met"
ALL = 2**24 - 1
EU, EU_DE, EU_FR, AS_JP = 0x45550000, 0x45554445, 0x45554652, 0x41534A50
DATACENTER, PROFESSIONAL = 1 << 3, 1 << 2


def bids(s: Stage, name: str, asks: Requirements) -> bool:
    """Whether the operator may bid in a job that asks for this, for slots and for the aggregator's seat alike."""
    job = s.post(requirements=asks.word)
    refusals = {s.attempt("auction", "bid", f"{name} hot", *bid_args(s, job, kind, name)) for kind in (1, 0)}
    assert refusals in ({None}, {NOT_MET}), refusals
    return refusals == {None}


def declare(s: Stage, name: str, tier: int, hours: int) -> None:
    s.ok("registry", "declare", f"{name} owner", s.ids[name], tier, hours)


def next_epoch(s: Stage) -> None:
    s.to((s.now // s.preset.epoch_s + 1) * s.preset.epoch_s)


@scenario
def a_job_may_ask_for_classes_memory_and_admission(s: Stage) -> None:
    s.register("alice", gpu_class=3, vram_gb=80)
    s.register("bob", gpu_class=2, vram_gb=48)
    assert bids(s, "alice", Requirements(classes=DATACENTER))
    assert not bids(s, "bob", Requirements(classes=DATACENTER))
    assert bids(s, "bob", Requirements(classes=DATACENTER | PROFESSIONAL))
    assert bids(s, "alice", Requirements(vram_gb=80))
    assert not bids(s, "alice", Requirements(vram_gb=81))
    assert not bids(s, "bob", Requirements(vram_gb=80))
    assert not bids(s, "alice", Requirements(admitted=True))
    admit(s, "alice")
    assert bids(s, "alice", Requirements(admitted=True))
    assert bids(s, "alice", Requirements(classes=DATACENTER, vram_gb=80, admitted=True))
    assert not bids(s, "alice", Requirements(classes=PROFESSIONAL, vram_gb=80, admitted=True))
    assert not bids(s, "bob", Requirements(admitted=True))


@scenario
def a_job_may_ask_for_a_declared_region_or_a_country_in_it(s: Stage) -> None:
    s.register_all("alice", "bob")
    alice = s.ids["alice"]
    s.no("registry: not the owner", "registry", "declare_region", "alice hot", alice, EU)
    s.no("registry: not the owner", "registry", "declare_region", "alice owner", 99, EU)
    s.no("registry: region out of range", "registry", "declare_region", "alice owner", alice, 2**32)
    assert not bids(s, "alice", Requirements(region=EU))
    s.ok("registry", "declare_region", "alice owner", alice, EU_DE)
    declare(s, "alice", 0, 1)  # leaves the region as it is
    assert s.world.declarations[alice].region == EU_DE
    assert [bids(s, "alice", Requirements(region=asked)) for asked in (EU, EU_DE, EU_FR, AS_JP)] == [
        True,
        True,
        False,
        False,
    ]
    s.ok("registry", "declare_region", "alice owner", alice, EU)  # of no country: at once
    assert bids(s, "alice", Requirements(region=EU))
    assert not bids(s, "alice", Requirements(region=EU_DE))
    assert not bids(s, "bob", Requirements(region=EU))
    s.ok("registry", "declare_region", "alice owner", alice, 2**32 - 1)
    s.ok("registry", "declare_region", "alice owner", alice, 0)
    assert not bids(s, "alice", Requirements(region=EU))


@scenario
def a_promise_counts_for_a_bid_if_it_binds_in_this_epoch_and_the_next(s: Stage) -> None:
    s.register("carol", gpu_class=3, vram_gb=80)
    silver, two = Requirements(tier=2), Requirements(hours=2)
    declare(s, "carol", 2, 0b11)
    assert not bids(s, "carol", silver)  # it binds from the next epoch on
    assert not bids(s, "carol", two)
    next_epoch(s)
    assert bids(s, "carol", silver)
    assert bids(s, "carol", two)
    assert bids(s, "carol", Requirements(tier=1, hours=1))
    assert not bids(s, "carol", Requirements(tier=3))
    assert not bids(s, "carol", Requirements(hours=3))
    assert not bids(s, "carol", replace(silver, hours=3))
    next_epoch(s)
    declare(s, "carol", 1, ALL)  # takes a part of it back, and promises more hours
    assert not bids(s, "carol", silver)
    assert bids(s, "carol", Requirements(tier=1, hours=2))
    assert not bids(s, "carol", Requirements(hours=24))
    next_epoch(s)
    assert bids(s, "carol", Requirements(tier=1, hours=24))


@scenario
def a_breach_ends_what_a_tier_lets_an_operator_bid_for_and_leaves_the_seats_it_has(s: Stage) -> None:
    for name, gpu_class in (("alice", 3), ("bob", 2), ("dave", 3)):
        s.register(name, gpu_class=gpu_class, vram_gb=80)
    for name in ("alice", "dave"):
        s.back(name, 32)  # a breach takes a part of the stake
        declare(s, name, 1, 1)
    next_epoch(s)
    bronze = Requirements(tier=1).word
    clocks = {"rounds": 2, "slot_s": 300, "aggregate_s": 300}
    job = s.running({"alice": Offer(60, 4)}, {"dave": Offer(30)}, requirements=bronze, **clocks)
    promised_in = s.now // s.preset.epoch_s
    s.to((promised_in + 1) * s.preset.epoch_s)
    s.ok("registry", "breach", "stranger", s.ids["alice"], promised_in)
    asked = s.post(requirements=bronze)
    # The tier binds still, for receipts are signed by it already; but it ends with this epoch.
    s.no(NOT_MET, "auction", "bid", "alice hot", *bid_args(s, asked, 0, "alice"))
    assert s.world.declarations[s.ids["alice"]].barred_from == promised_in + 2
    s.ok("auction", "bid", "dave hot", *bid_args(s, asked, 0, "dave"))
    s.play_round(job)  # what alice was when it bid counts for as long as it has its seat
    assert s.world.seat(job, s.seat_of(job, "alice")).operator == s.ids["alice"]
    # A vacant seat is for operators that are what the job asks for too.
    seat = s.seat_of(job, "alice")
    s.ok("settlement", "decline", "alice hot", job, seat, 4)
    for name in ("alice", "bob"):
        s.no(NOT_MET, "settlement", "take_over", f"{name} hot", job, seat, s.ids[name], 4, 10)
    s.no("auction: operator not eligible", "settlement", "take_over", "bob owner", job, seat, s.ids["bob"], 4, 10)
    s.take_over(job, seat, "dave")
    s.play_round(job)
    s.settle(job)


@scenario
def only_bids_that_meet_the_requirements_fill_a_lot_and_every_attempt_asks_for_them(s: Stage) -> None:
    s.register_all()  # bob is professional, carol datacenter, the others are not
    asks = Requirements(classes=DATACENTER | PROFESSIONAL).word
    job = s.post(requirements=asks)
    for kind in (0, 1):
        for name in ("alice", "dave", "erin"):
            s.no(NOT_MET, "auction", "bid", f"{name} hot", *bid_args(s, job, kind, name))
    s.no(NOT_MET, "auction", "bid", "alice owner", job, 0, 99, s.seal(job, 0, "alice", Offer(50)), 1)
    s.bid(job, 0, "bob", Offer(60, 2))
    s.to(s.world.lot(job, 0).bid_end)
    s.reveal(job, 0, "bob")
    s.to(s.world.lot(job, 0).reveal_end)
    s.ok("auction", "reopen", "stranger", job, 0)
    s.no(NOT_MET, "auction", "bid", "alice hot", *bid_args(s, job, 0, "alice"))
    s.ok("auction", "reclaim", "stranger", job, 0, s.ids["bob"])
    s.bid_all(job, {"bob": Offer(60, 2), "carol": Offer(70, 2)}, {"carol": Offer(40)})
    s.reveal_all(job, {"bob": Offer(60, 2), "carol": Offer(70, 2)}, {"carol": Offer(40)})
    s.award_all(job)
    s.ready(job, "bob", "carol")
    while s.world.run(job).round < s.world.run(job).rounds:
        s.play_round(job)
    s.settle(job)
    plain = s.awarded(SLOTS, AGGREGATORS)  # asks for nothing
    assert s.world.terms[plain].requirements == 0
    assert Requirements(admitted=True).word == ADMITTED
