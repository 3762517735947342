"""What contracts tell of a change: every event with every field. Those of Settlement, Audits and Availability are in theirs."""

from __future__ import annotations

import pytest

from tests.support.evm import chain
from tests.support.job_driver import AGGREGATOR, POSTING_DEPOSIT, SLOTS, Offer
from tests.support.protocol_driver import DEVNET, events_of
from tests.support.rewards_driver import ZEN, deployed_fixture, stage_fixture  # noqa: F401
from zoo_compute.spec.params import COIN as ZERO
from zoo_compute.spec.params import STAKE_UNIT

ENDED = 4  # state of a job


@pytest.fixture
def ada(play):
    return play.register("ada", gpu_class=3, vram_gb=80)


# --- NodeRegistry


def test_registry__tells_of_an_operators_own_changes(kit, play, ada):
    registry, own = kit.registry, {"operator": ada.id}
    play.fund(ada.owner, 50 + 2 * STAKE_UNIT, registry)
    collateral = {**own, "token": kit.zen.address}
    registry.announce(ada.id, "http://there", sender=ada.hot)
    assert events_of(registry) == [("EndpointAnnounced", {**own, "endpoint": "http://there"})]
    registry.add_stake(ada.id, 2 * STAKE_UNIT, sender=ada.owner)
    assert events_of(registry) == [("StakeAdded", {**own, "amount": 2 * STAKE_UNIT})]
    registry.deposit(ada.id, kit.zen, 30, sender=ada.owner)
    assert events_of(registry) == [("CollateralDeposited", {**collateral, "amount": 30})]
    registry.withdraw(ada.id, kit.zen, 11, sender=ada.owner)
    assert events_of(registry) == [("CollateralWithdrawn", {**collateral, "amount": 11})]
    hot = chain.account("next hot")
    registry.set_hot(ada.id, hot, sender=ada.owner)
    assert events_of(registry) == [("HotKeyChanged", {**own, "hot": hot})]
    registry.allow_answers(ada.id, hot, True, sender=ada.owner)
    assert events_of(registry) == [("AnswerKeyChanged", {**own, "account": hot, "allowed": True})]
    registry.offer_owner(ada.id, hot, sender=ada.owner)
    assert events_of(registry) == [("OwnerOffered", {**own, "account": hot})]
    registry.accept_owner(ada.id, sender=hot)
    assert events_of(registry) == [("OwnerChanged", {**own, "owner": hot})]
    registry.offer_owner(ada.id, ada.owner, sender=hot)
    registry.accept_owner(ada.id, sender=ada.owner)
    registry.request_exit(ada.id, sender=ada.owner)
    exit_at = play.now + DEVNET.exit_delay_s
    assert events_of(registry) == [("ExitRequested", {**own, "exit_at": exit_at})]
    play.to(exit_at)
    registry.withdraw_stake(ada.id, sender=ada.owner)
    assert events_of(registry) == [("StakeWithdrawn", {**own, "amount": DEVNET.min_stake + 2 * STAKE_UNIT})]


def test_registry__tells_of_promises_and_of_stake_that_a_breach_costs(kit, play, ada):
    registry, own = kit.registry, {"operator": ada.id}
    hours, first = 2**24 - 1, play.now // DEVNET.epoch_s + 1
    registry.declare(ada.id, 3, hours, sender=ada.owner)
    assert events_of(registry) == [("AvailabilityDeclared", {**own, "tier": 3, "hours": hours, "since": first})]
    play.to((first + 1) * DEVNET.epoch_s - 1)
    registry.heartbeat(ada.id, sender=ada.hot)
    assert events_of(registry) == [("HeartbeatCounted", {**own, "epoch": first, "period": 23})]
    play.to((first + 1) * DEVNET.epoch_s)
    stake = registry.stake_of(ada.id)
    registry.breach(ada.id, first, sender=play.anyone)
    breached, cut = events_of(registry)
    slashed = stake - registry.stake_of(ada.id)
    assert breached == ("AvailabilityBreached", {**own, "epoch": first, "missed": 23})
    assert cut == ("StakeSlashed", {**own, "amount": slashed})
    assert slashed > 0


def test_registry__tells_of_what_the_protocol_does_to_collateral(kit, ada):
    registry, zen = kit.registry, kit.zen.address
    protocol, collateral = kit.locks.address, {"operator": ada.id, "token": kit.zen.address}
    registry.lock(ada.id, zen, 900, True, sender=protocol)
    assert events_of(registry) == [("CollateralLocked", {**collateral, "amount": 900})]
    registry.unlock(ada.id, zen, 200, False, sender=protocol)
    assert events_of(registry) == [("CollateralUnlocked", {**collateral, "amount": 200})]
    registry.slash(ada.id, zen, 300, False, sender=protocol)
    assert events_of(registry) == [("CollateralSlashed", {**collateral, "amount": 300})]
    registry.pay_out(zen, 50, sender=protocol)
    assert events_of(registry) == [("PotPaidOut", {"token": zen, "amount": 50})]
    registry.burn(zen, 60, sender=protocol)
    assert events_of(registry) == [("PotBurned", {"token": zen, "amount": 60})]


# --- Auction


def test_auction__tells_of_a_lot_from_its_bids_to_its_winners(kit, play):
    auction = kit.auction
    ada, bob, eve = play.register_all(3)
    job = play.post(slots=2)
    lots = events_of(kit.tasks, auction)
    times = {"bid_end": play.now + DEVNET.bid_window_s}
    times["reveal_end"] = times["bid_end"] + DEVNET.reveal_window_s
    assert lots == [
        ("LotOpened", {"job": job, "kind": SLOTS, "attempt": 1, "reserve": 1_000, **times}),
        ("LotOpened", {"job": job, "kind": AGGREGATOR, "attempt": 1, "reserve": 500, **times}),
    ]
    slots, aggregator = {ada: Offer(700), bob: Offer(800), eve: Offer(900)}, {eve: Offer(400), bob: Offer(450)}
    play.bid(job, SLOTS, ada, slots[ada])
    assert events_of(auction) == [("BidSealed", {"job": job, "operator": ada.id, "kind": SLOTS, "capacity": 1})]
    play.bid_all(job, {bob: slots[bob], eve: slots[eve]}, aggregator)
    play.to(times["bid_end"])
    play.reveal(job, SLOTS, ada)
    revealed = {"job": job, "operator": ada.id, "kind": SLOTS, "price": 700, "discount_bps": 0}
    assert events_of(auction) == [("BidRevealed", revealed)]
    play.reveal_all(job, {bob: slots[bob], eve: slots[eve]}, aggregator)
    auction.clear(job, SLOTS, [ada.id, bob.id, eve.id], sender=play.anyone)
    assert events_of(auction) == [("BidsCleared", {"job": job, "kind": SLOTS, "cleared": 3, "sold": 2})]
    auction.clear(job, AGGREGATOR, [eve.id, bob.id], sender=play.anyone)
    auction.award(job, SLOTS, [ada.id, bob.id], sender=play.anyone)
    awards = events_of(auction)
    seats = [kit.settlement.seats(job, seat) for seat in range(2)]
    assert [seat.operator for seat in seats] == [ada.id, bob.id]
    assert awards == [
        (
            "SeatAwarded",
            {"job": job, "operator": seat.operator, "kind": SLOTS, "price": 900, "first": first, "count": 1},
        )
        for first, seat in enumerate(seats)
    ]


def test_auction__emits_what_a_reclaimed_bid_forfeits(kit, play):
    auction, ada = kit.auction, play.register("ada")
    job = play.post()
    play.bid(job, SLOTS, ada, Offer(600, 2))
    play.to(auction.lots(job, SLOTS).reveal_end)
    auction.reclaim(job, SLOTS, ada.id, sender=play.anyone)
    forfeited = {"job": job, "operator": ada.id, "kind": SLOTS, "forfeited": 2 * 1_000}
    assert events_of(auction) == [("BidReclaimed", forfeited)]
    auction.reopen(job, SLOTS, sender=play.anyone)
    assert [(name, fields["attempt"], fields["reserve"]) for name, fields in events_of(auction)] == [
        ("LotOpened", 2, 1_250),
        ("LotOpened", 2, 625),
    ]


# --- TaskRegistry and Treasury


def test_tasks__tell_of_a_job_and_of_its_money(kit, play):
    tasks, zen = kit.tasks, kit.zen.address
    terms = play.terms(rounds=7, slots=5)
    escrow = (2_000 * 5 + 1_000) * 7
    job = tasks.post(terms, sender=play.submitter, value=POSTING_DEPOSIT)
    ((name, posted),) = events_of(tasks)
    assert (name, tuple(posted.pop("terms"))) == ("JobPosted", terms)
    assert posted == {"job": job, "submitter": play.submitter, "manifest": b"m" * 32, "escrow": escrow}
    protocol = kit.settlement.address
    tasks.advance(job, 3, sender=protocol)
    assert events_of(tasks) == [("JobAdvanced", {"job": job, "state": 3})]
    tasks.pay(job, play.anyone, 199, sender=protocol)
    assert events_of(tasks) == [("Paid", {"job": job, "account": play.anyone, "net": 189, "fee": 10})]
    tasks.restore(job, 12, play.anyone, 11, sender=kit.locks.address)
    owed = ("Owed", {"token": zen, "account": play.anyone, "amount": 11})
    assert events_of(tasks) == [("JobFunded", {"job": job, "amount": 12}), owed]
    tasks.close(job, 70, sender=protocol)  # a parked claim may still be paid so much
    returned = ("Owed", {"token": ZERO, "account": play.submitter, "amount": POSTING_DEPOSIT})
    assert events_of(tasks) == [("JobClosed", {"job": job, "refunded": escrow - 199 + 12 - 70}), returned]
    tasks.close(job, 0, sender=protocol)
    assert events_of(tasks) == [("JobClosed", {"job": job, "refunded": 70})]
    tasks.withdraw(zen, play.anyone, sender=play.submitter)
    assert events_of(tasks) == [("Withdrawn", {"token": zen, "account": play.anyone, "amount": 200})]
    other = play.post()
    tasks.cancel(other, sender=play.submitter)
    assert events_of(tasks) == [("JobCancelled", {"job": other}), returned]
    tasks.withdraw(ZERO, play.submitter, sender=play.anyone)
    assert events_of(tasks) == [
        ("Withdrawn", {"token": ZERO, "account": play.submitter, "amount": 2 * POSTING_DEPOSIT})
    ]
    for allowed in (False, True):
        tasks.allow(zen, allowed, 7, sender=kit.deployer)
        assert events_of(tasks) == [("TokenAllowed", {"token": zen, "allowed": allowed, "window_value": 7})]


def test_treasury__tells_of_what_comes_in_and_goes_out(kit, play):
    treasury, zen = kit.treasury, kit.zen.address
    kit.zen.transfer(treasury, 1_009, sender=kit.deployer)
    treasury.collect(zen, sender=play.anyone)
    assert events_of(treasury) == [("Collected", {"token": zen, "development": 506, "audits": 302, "grants": 201})]
    treasury.spend(zen, 1, play.anyone, 300, sender=kit.timelock.address)
    assert events_of(treasury) == [("Spent", {"token": zen, "bucket": 1, "to": play.anyone, "amount": 300})]


# --- Rewards and Datasets


def test_rewards__tell_of_what_is_recorded_and_paid(s):
    rewards, epoch = s.rewards, s.epoch
    ada, bob = s.register(), s.register()
    s.fund(100 * ZEN)
    assert events_of(rewards) == [("PoolFunded", {"amount": 100 * ZEN})]
    s.record(1, ada, 10**40, 1_000)
    most = 1_000 * DEVNET.weight_per_fee
    work = {"epoch": epoch, "job": 1}
    assert events_of(rewards) == [("ComputeRecorded", {**work, "operator": ada.id, "weight": most, "fee": 1_000})]
    s.verify(bob, 1, 5)
    assert events_of(rewards) == [("VerificationRecorded", {**work, "auditor": bob.id, "weight": 5, "called": 200})]
    s.data(s.anyone, 1, 3, 4)
    data = {**work, "contributor": s.anyone, "weight": 3, "most": 4, "called": 100}
    assert events_of(rewards) == [("DataRecorded", data)]
    s.next_epoch()
    s.claim(ada, epoch, 1)
    paid = events_of(rewards)
    assert paid == [("RewardClaimed", {"operator": ada.id, "epoch": epoch, "amount": s.zen.balanceOf(ada.owner)})]
    assert s.zen.balanceOf(ada.owner) > 0
    rewards.claim_verification(bob.id, 1, epoch, sender=s.anyone)
    assert events_of(rewards) == [("VerificationClaimed", {**work, "auditor": bob.id, "amount": 200})]
    rewards.claim_data(s.anyone, 1, epoch, sender=s.anyone)
    assert events_of(rewards) == [("DataClaimed", {**work, "contributor": s.anyone, "amount": 75})]


def test_rewards__tell_of_receipts_and_of_those_that_are_void(s):
    ada, bob = s.register(), s.register()
    receipt = {"server": ada.id, "client": bob.id, "epoch": s.epoch}
    s.redeem(ada, bob, 500)
    assert events_of(s.rewards) == [("ReceiptRedeemed", {**receipt, "total": 500, "counted": 500})]
    s.redeem(ada, bob, 700)
    assert events_of(s.rewards) == [("ReceiptRedeemed", {**receipt, "total": 700, "counted": 200})]


def test_datasets__tell_of_data_its_citation_and_its_score(s):
    datasets = s.datasets
    number = datasets.contribute(b"\x01" * 32, b"\x02" * 32, 77, b"\x03" * 32, sender=s.anyone)
    contributed = {"dataset": number, "contributor": s.anyone, "root": b"\x01" * 32, "cid": b"\x02" * 32, "size": 77}
    contributed["name"] = b"\x03" * 32
    assert events_of(datasets) == [("DatasetContributed", contributed)]

    s.tasks.set_job(1, s.submitter, 3, 0)
    datasets.cite(1, [number], sender=s.submitter)
    assert events_of(datasets) == [("DatasetsCited", {"job": 1, "cited": [number]})]
    s.tasks.set_job(1, s.submitter, ENDED, 0)
    datasets.score(1, [50], sender=s.submitter)
    assert events_of(datasets) == [("DatasetsScored", {"job": 1, "qualities": [50]})]
    assert events_of(datasets, s.rewards)[0][1]["weight"] == 50 * 77
