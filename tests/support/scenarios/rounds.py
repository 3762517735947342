"""Directed sequences from the award to the end of the rounds; see `opening`, `paying` and `judging`."""

from tests.support.job_driver import Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, scenario
from zoo_compute.spec import seats
from zoo_compute.spec.params import AGGREGATOR_SEAT, DEFAULT_AUDIT_BPS, lock_of, restitution, slash_of
from zoo_compute.spec.state import JobState, Seat


def lock(price: int) -> int:
    """What is locked behind a claim of this price, at the default audit rate."""
    return lock_of(price, DEFAULT_AUDIT_BPS)


ROOT, CID = b"r" * 32, b"c" * 32
HUGE = 2**256 - 1


@scenario
def holders_say_that_they_are_ready(s: Stage) -> None:
    s.register_all()
    job = s.awarded(SLOTS, AGGREGATORS)
    alice, bob = s.seat_of(job, "alice"), s.seat_of(job, "bob")
    s.no("settlement: not awarded", "settlement", "ready", "alice hot", 99, alice, 10)
    s.no("settlement: not running", "settlement", "decline", "alice hot", 99, alice, 1)
    s.no("settlement: not awarded", "settlement", "expire", "stranger", 99, alice)
    for seat in (alice, 2, 99, HUGE):
        s.no("settlement: not the hot key", "settlement", "ready", "alice owner", job, seat, 10)
        s.no("settlement: not the hot key", "settlement", "decline", "alice owner", job, seat, 1)
    s.no("settlement: nothing to ready", "settlement", "ready", "dave hot", job, AGGREGATOR_SEAT, 0)
    s.no("settlement: already committed", "settlement", "decline", "dave hot", job, AGGREGATOR_SEAT, 1)
    for estimate_s in (0, 31, HUGE):
        s.no("settlement: estimate out of range", "settlement", "ready", "alice hot", job, alice, estimate_s)
    for count in (0, 3, HUGE):
        s.no("settlement: count out of range", "settlement", "decline", "alice hot", job, alice, count)
    s.ready(job, "alice", estimate_s=30)
    s.no("settlement: nothing to ready", "settlement", "ready", "alice hot", job, alice, 30)
    s.no("settlement: already committed", "settlement", "decline", "alice hot", job, alice, 1)
    s.no("settlement: not running", "settlement", "commit", "alice hot", job, alice, 0, ROOT, b"b" * 32)
    s.no("settlement: not running", "settlement", "time_out", "stranger", job, alice)
    s.no("settlement: not running", "settlement", "post_checkpoint", "dave hot", job, AGGREGATOR_SEAT, 0, 0, ROOT, CID)
    s.no("settlement: not running", "settlement", "abandon", "stranger", job)
    s.no("settlement: seat still occupied", "locks", "release", "stranger", job, s.ids["alice"])
    s.ready(job, "bob", estimate_s=1)
    assert s.world.job(job).state == JobState.RUNNING
    s.no("settlement: not awarded", "settlement", "ready", "bob hot", job, bob, 10)
    s.no("settlement: not awarded", "settlement", "expire", "stranger", job, bob)


@scenario
def silence_past_the_ready_window_is_a_decline(s: Stage) -> None:
    s.register_all()
    job = s.awarded(SLOTS, AGGREGATORS)
    alice, bob = s.seat_of(job, "alice"), s.seat_of(job, "bob")
    s.no("settlement: ready window open", "settlement", "expire", "stranger", job, alice)
    s.ready(job, "alice")
    s.to(s.world.run(job).opened_at + s.preset.ready_window_s)
    s.no("settlement: ready window open", "settlement", "expire", "stranger", job, bob)
    s.wait(1)
    for seat in (alice, 2, AGGREGATOR_SEAT, HUGE):
        s.no("settlement: nothing to ready", "settlement", "expire", "stranger", job, seat)
    s.ok("settlement", "expire", "stranger", job, bob)
    run = s.world.run(job)
    tenth = slash_of(lock(2 * 80))
    assert (run.state, run.missing, s.world.job_pots[job]) == (JobState.RUNNING, 0b11, tenth)
    assert s.world.seat(job, bob) == Seat(first=2, count=2, price=80, left_at=s.now)
    stake = s.world.stake_of(job, s.ids["bob"], False)
    assert (stake.locked, stake.held, stake.left_turn) == (lock(2 * 80) - tenth, 0, 0)
    # Bob has no claim and never will: his lock is free at once, and what he does next is his business.
    s.ok("locks", "release", "stranger", job, s.ids["bob"])
    s.no("locks: nothing locked", "locks", "release", "stranger", job, s.ids["bob"])
    assert s.operator("bob").locks == 0


@scenario
def part_of_a_seat_is_declined_and_taken_over_for_the_whole_job(s: Stage) -> None:
    s.register_all()
    job = s.awarded(SLOTS, AGGREGATORS, token="usd")
    alice, bob, carol = s.seat_of(job, "alice"), s.seat_of(job, "bob"), s.ids["carol"]
    s.ok("settlement", "decline", "bob hot", job, bob, 1)
    assert s.world.seat(job, bob) == Seat(operator=s.ids["bob"], first=2, count=1, price=80)
    assert s.world.seat(job, 2) == Seat(first=3, count=1, price=80, left_at=s.now)
    stake = s.world.stake_of(job, s.ids["bob"], False)
    assert (stake.locked, stake.held, stake.slots) == (lock(2 * 80) - slash_of(lock(80)), 1, 1)
    assert s.world.run(job).missing == 0b11  # what was given up is not waited for
    s.ok("settlement", "decline", "bob hot", job, bob, 1)
    s.no("settlement: not running", "settlement", "take_over", "carol hot", 99, 2, carol, 1, 10)
    s.no("auction: operator not eligible", "settlement", "take_over", "carol owner", job, 2, carol, 1, 0)
    s.no("auction: operator not eligible", "settlement", "take_over", "carol hot", job, 2, 99, 1, 0)
    for seat in (alice, 3, AGGREGATOR_SEAT, HUGE):
        s.no("settlement: seat not vacant", "settlement", "take_over", "carol hot", job, seat, carol, 0, 0)
    for count in (0, 2, HUGE):
        s.no("settlement: count out of range", "settlement", "take_over", "carol hot", job, 2, carol, count, 0)
    for estimate_s in (0, 31):
        s.no("settlement: estimate out of range", "settlement", "take_over", "carol hot", job, 2, carol, 1, estimate_s)
    s.take_over(job, 2, "carol", estimate_s=30)
    s.take_over(job, bob, "alice", estimate_s=30)
    s.no("settlement: seat not vacant", "settlement", "take_over", "carol hot", job, 2, carol, 1, 10)
    # Both are paid what bob was, whatever they bid: no turn has gone by. So nothing of the slash is needed.
    assert (s.world.seat(job, 2).price, s.world.seat(job, bob).price) == (80, 80)
    assert s.world.job_pots[job] == 2 * slash_of(lock(80))
    assert s.world.stake_of(job, s.ids["alice"], False).held == 2
    for seat in s.seats_of(job, "alice"):
        if s.world.run(job).missing >> seat & 1:
            s.ok("settlement", "ready", "alice hot", job, seat, 10)
    assert s.world.run(job).is_open
    for _ in range(3):
        s.play_round(job)
    s.settle(job)
    assert s.world.job_ledgers[job].paid + s.world.job_ledgers[job].fees == 3 * (4 * 80 + 40)
    assert s.world.burned[s.tokens["usd"]] == 2 * slash_of(lock(80))


@scenario
def a_vacant_seat_rises_by_a_tenth_a_turn_and_escrow_has_the_difference_from_the_slash(s: Stage) -> None:
    s.register_all()
    usd = s.tokens["usd"]
    slots = {"alice": Offer(60, 2), "bob": Offer(70, 2), "carol": Offer(70, 2)}
    job = s.running(slots, {"dave": Offer(30)}, token="usd", rounds=9, depth=9)
    alice = s.seat_of(job, "alice")
    assert s.world.seat(job, alice).price == 70  # carol's two losing units
    s.commit(job, "bob")
    s.to(s.world.run(job).opened_at + 21)
    s.ok("settlement", "time_out", "stranger", job, alice)
    tenth = slash_of(lock(2 * 70))
    assert s.world.job_pots[job] == tenth == 1_376
    s.post_checkpoint(job)
    restored = s.world.job_ledgers[job].restored
    # Erin never bid. In turn 1 the seat pays 77, rounded up from 70 and a tenth: 7 more in each of 8 rounds.
    taken = s.take_over(job, alice, "erin", 1)
    assert taken == 2
    assert s.world.seat(job, taken) == Seat(s.ids["erin"], 1, 1, 77, 0, 0, 10, s.now)
    assert s.world.seat(job, alice) == Seat(0, 0, 1, 70, 0, s.world.seat(job, alice).left_at, 10, 0)
    assert s.world.job_ledgers[job].restored - restored == 8 * 7
    assert s.world.job_pots[job] == tenth - 8 * 7
    for _ in range(3):
        s.play_round(job)
    # 70, 77, 85 (84.7), 94 (93.5), and the auction's reserve of 100
    s.take_over(job, alice, "erin")
    assert s.world.seat(job, alice).price == 100
    assert s.world.job_pots[job] == tenth - 8 * 7 - 5 * 30
    while s.world.job(job).state == JobState.RUNNING:
        s.play_round(job)
    s.settle(job)
    assert s.world.burned[usd] == tenth - 8 * 7 - 5 * 30


@scenario
def a_vacant_seat_costs_the_reserve_at_most_and_a_small_slash_pays_what_it_can(s: Stage) -> None:
    s.register_all()
    slots = {"alice": Offer(1, 2), "bob": Offer(1, 2), "carol": Offer(1, 2)}
    most = {"max_price": 9, "reserve": 3, "aggregator_reserve": 30, "aggregator_max_price": 30}
    job = s.running(slots, {"dave": Offer(30)}, rounds=9, depth=9, audit_bps=10_000, quorum=1, **most)
    alice = s.seat_of(job, "alice")
    assert s.world.stake_of(job, s.ids["alice"], False).locked == lock_of(2, 10_000) == 7
    s.commit(job, "bob")
    s.to(s.world.run(job).opened_at + 21)
    s.ok("settlement", "time_out", "stranger", job, alice)
    assert s.world.job_pots.get(job, 0) == 0  # a tenth of 7
    s.post_checkpoint(job)
    for _ in range(2):
        s.play_round(job)
    s.take_over(job, alice, "erin")
    assert s.world.seat(job, alice).price == 3  # 1, 2, 3, and no more
    assert s.world.job_ledgers[job].restored == 0
    while s.world.job(job).state == JobState.RUNNING:
        s.play_round(job)
    s.settle(job)


@scenario
def who_leaves_or_has_too_little_at_stake_takes_no_seat(s: Stage) -> None:
    s.register_all()
    job = s.awarded(SLOTS, AGGREGATORS)
    bob, erin = s.seat_of(job, "bob"), s.ids["erin"]
    s.ok("settlement", "decline", "bob hot", job, bob, 2)
    s.ok("registry", "request_exit", "erin owner", erin)
    s.no("auction: operator not eligible", "settlement", "take_over", "erin hot", job, bob, erin, 2, 10)
    s.take_over(job, bob, "carol")


@scenario
def results_are_committed_once_a_seat_while_inputs_are_open(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS)
    alice, bob = s.seat_of(job, "alice"), s.seat_of(job, "bob")

    def no(reason: str, sender: str, seat: int, turn: int = 0) -> None:
        s.no(f"settlement: {reason}", "settlement", "commit", sender, job, seat, turn, ROOT, b"b" * 32)

    s.no("settlement: not running", "settlement", "commit", "alice hot", 99, alice, 0, ROOT, b"b" * 32)
    no("not the current turn", "stranger", alice, turn=1)
    no("not the hot key", "alice owner", alice)
    no("not the hot key", "alice hot", bob)
    for seat in (2, 129, HUGE):
        no("not the hot key", "alice hot", seat)
    no("already committed", "dave hot", AGGREGATOR_SEAT)
    claim = s.commit(job, "alice")
    assert (claim.scope, claim.price, claim.round) == (0 << 16 | 2, 2 * 80, 0)
    assert claim.start_root == s.world.terms[job].state_root
    no("already committed", "alice hot", alice)
    s.to(s.world.run(job).inputs_close - 1)
    assert s.commit(job, "bob").scope == 2 << 16 | 2
    s.to(s.world.run(job).inputs_close)
    no("inputs closed", "stranger", bob)
    checkpoint = s.post_checkpoint(job)
    assert s.world.run(job).start_root == checkpoint.root
    no("not the current turn", "bob hot", bob)
    assert s.commit(job, "alice").start_root == checkpoint.root


@scenario
def a_holder_is_timed_out_after_its_own_deadline(s: Stage) -> None:
    s.register_all()
    job = s.awarded(SLOTS, AGGREGATORS)
    alice, bob = s.seat_of(job, "alice"), s.seat_of(job, "bob")
    s.ready(job, "alice", estimate_s=4)  # her deadline: twice her estimate
    s.ready(job, "bob", estimate_s=20)  # his: the slot's most seconds, below twice his estimate
    opened = s.world.run(job).opened_at
    s.no("settlement: not running", "settlement", "time_out", "stranger", 99, alice)
    for seat in (2, 127, 129, HUGE):
        s.no("settlement: seat vacant", "settlement", "time_out", "stranger", job, seat)
    for seat, due in ((alice, opened + 8), (bob, opened + 30)):
        for now in (due - 1, due):
            s.to(now)
            s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, seat)
        s.to(due + 1)
        s.ok("settlement", "time_out", "stranger", job, seat)
        s.no("settlement: seat vacant", "settlement", "time_out", "stranger", job, seat)
    s.take_over(job, alice, "carol", 1, 30)
    late = s.now
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, 2)
    s.to(late + 31)
    # Carol took over at second 31: her deadline, second 61, lies past the close of inputs at 60, so she is spared.
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, 2)


@scenario
def a_takeover_whose_deadline_is_the_close_of_inputs_can_be_timed_out(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS)
    bob, opened = s.seat_of(job, "bob"), s.world.run(job).opened_at
    s.commit(job, "alice")
    s.no("settlement: already committed", "settlement", "time_out", "stranger", job, s.seat_of(job, "alice"))
    s.to(opened + 21)
    s.ok("settlement", "time_out", "stranger", job, bob)
    s.to(opened + 30)
    carol = s.take_over(job, bob, "carol", 1, 15)
    s.to(opened + 60)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, carol)
    s.to(opened + 61)
    s.ok("settlement", "time_out", "stranger", job, carol)
    s.post_checkpoint(job)
    s.take_over(job, bob, "carol", estimate_s=15)
    s.take_over(job, carol, "carol", estimate_s=15)  # for a lock of its own


@scenario
def the_aggregator_closes_a_turn_over_who_is_present(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, quorum=3)

    def no(reason: str, sender: str, turn: int, mask: int) -> None:
        s.no(
            f"settlement: {reason}",
            "settlement",
            "post_checkpoint",
            sender,
            job,
            AGGREGATOR_SEAT,
            turn,
            mask,
            ROOT,
            CID,
        )

    s.no("settlement: not running", "settlement", "post_checkpoint", "dave hot", 99, AGGREGATOR_SEAT, 0, 0, ROOT, CID)
    no("not the current turn", "stranger", 1, 0)
    no("not the hot key", "erin hot", 0, 0)
    no("inputs open", "dave hot", 0, 0b1)
    s.commit(job, "alice")
    s.to(s.world.run(job).inputs_close - 1)
    no("inputs open", "dave hot", 0, 0b10)
    s.commit(job, "bob")
    for mask in (0b01, 0b10, 0b111, HUGE, 0):
        no("mask differs", "dave hot", 0, mask)
    claim = s.post_checkpoint(job)
    assert (claim.seat, claim.scope, claim.price) == (AGGREGATOR_SEAT, 0b11, 40)
    assert s.world.closed_turn(job, 0).pending == 3
    s.commit(job, "alice")
    s.to(s.world.run(job).inputs_close)
    no("mask differs", "dave hot", 1, 0b11)
    no("quorum not reached", "dave hot", 1, s.world.run(job).missing ^ 0b11)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
    s.to(s.world.run(job).aggregator_due + 1)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
    s.ok("settlement", "abandon", "stranger", job)
    assert s.world.job(job).state == JobState.ENDED
    assert s.world.closed_turn(job, 1).pending == 1
    s.no("settlement: not running", "settlement", "abandon", "stranger", job)
    s.settle(job)


@scenario
def a_silent_aggregator_loses_its_seat_to_a_standby(s: Stage) -> None:
    s.register_all()
    aggregators = {"dave": Offer(30), "erin": Offer(40), "carol": Offer(45)}
    job = s.running(SLOTS, aggregators)
    dave, erin, seat = s.ids["dave"], s.ids["erin"], AGGREGATOR_SEAT
    s.commit_all(job)
    due = s.world.run(job).aggregator_due
    assert due == s.world.run(job).opened_at + 60 + 15
    s.no("settlement: seat not vacant", "settlement", "take_over", "erin hot", job, seat, erin, 1, 10)
    for now in (due - 1, due):
        s.to(now)
        s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, seat)
        s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.to(due + 1)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.ok("settlement", "time_out", "stranger", job, seat)
    s.no("settlement: seat vacant", "settlement", "time_out", "stranger", job, seat)
    s.no(
        "settlement: not the hot key",
        "settlement",
        "post_checkpoint",
        "dave hot",
        job,
        AGGREGATOR_SEAT,
        0,
        0b11,
        ROOT,
        CID,
    )
    once = restitution(s.world.terms[job])
    assert once == 3 * (4 * 160 + 80)
    assert s.world.stake_of(job, dave, True).locked == once + lock(40) - slash_of(lock(40))
    assert s.world.job_pots[job] == slash_of(lock(40))
    s.no("settlement: count out of range", "settlement", "take_over", "erin hot", job, seat, erin, 2, 10)
    s.to(s.world.run(job).aggregator_due)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    # It rises sixteen times within the 15 seconds of an aggregation; so it costs its auction's reserve by now.
    s.take_over(job, seat, "erin")
    assert s.world.run(job).aggregator_due == s.now + 15
    assert s.world.seat(job, seat).price == 50
    assert s.world.stake_of(job, erin, True).locked == once + lock(50)
    assert s.world.job_ledgers[job].restored == 3 * 10
    s.post_checkpoint(job)
    for _ in range(2):
        s.play_round(job)
    s.settle(job)
    assert s.operator("dave").locks == s.operator("erin").locks == 0


@scenario
def a_job_without_aggregator_is_abandoned_and_pays_what_was_committed(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, token="usd")
    s.play_round(job)
    s.commit_all(job)
    s.to(s.world.run(job).aggregator_due + 1)
    s.ok("settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
    s.to(s.world.run(job).aggregator_due)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.wait(1)
    s.no("settlement: not running", "settlement", "abandon", "stranger", 99)
    s.ok("settlement", "abandon", "stranger", job)
    assert seats.pending_of(s.world, job) == 3 + 2
    erin = s.ids["erin"]
    s.no("settlement: not running", "settlement", "take_over", "erin hot", job, AGGREGATOR_SEAT, erin, 1, 10)
    s.no("settlement: not running", "settlement", "decline", "alice hot", job, s.seat_of(job, "alice"), 1)
    s.settle(job)
    ledger = s.world.job_ledgers[job]
    assert ledger.paid + ledger.fees == 2 * 4 * 80 + 40
    assert ledger.escrowed == ledger.paid + ledger.fees + ledger.refunded


@scenario
def a_job_nobody_works_on_is_abandoned_and_refunded(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS)
    close = s.world.run(job).inputs_close
    s.to(close - 1)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.to(close)
    s.ok("settlement", "abandon", "stranger", job)
    ledger = s.world.job_ledgers[job]
    assert ledger.refunded == ledger.escrowed
    for name in ("alice", "bob", "dave"):
        s.ok("locks", "release", "stranger", job, s.ids[name])
    s.no("locks: nothing locked", "locks", "release", "stranger", job, s.ids["alice"])
    s.no("locks: nothing locked", "locks", "release", "stranger", job, 99)
    s.withdraw_all()


@scenario
def a_winner_with_capacity_left_stands_by_for_its_neighbours(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS)
    alice, bob, zen = s.ids["alice"], s.seat_of(job, "bob"), s.tokens["zen"]
    s.commit(job, "alice")
    s.wait(21)
    s.ok("settlement", "time_out", "stranger", job, bob)
    s.ok("registry", "withdraw", "alice owner", alice, zen, s.world.deposit_of(alice, zen).free)
    args = ("settlement", "take_over", "alice hot", job, bob, alice, 1, 10)
    s.no("registry: amount exceeds free collateral", *args)
    s.ok("registry", "deposit", "stranger", alice, zen, lock(80) - 1)
    s.no("registry: amount exceeds free collateral", *args)
    s.ok("registry", "deposit", "stranger", alice, zen, 1)
    taken = s.take_over(job, bob, "alice", 1)
    assert s.operator("alice").locks == 1
    s.commit(job, "alice", taken)
    s.to(s.world.run(job).inputs_close)
    s.post_checkpoint(job)
    for _ in range(2):
        s.play_round(job)
    s.settle(job)
    # Two slots won at 80, one taken over at 80, in 3 rounds; bob's slash was burned, escrow keeps his slot.
    paid = 3 * (3 * 80 + 40)
    assert s.world.job_ledgers[job].paid + s.world.job_ledgers[job].fees == paid


@scenario
def an_aggregator_may_stand_by_for_slots_too(s: Stage) -> None:
    s.register_all()
    job = s.running({"alice": Offer(60, 4), "dave": Offer(70)}, {"dave": Offer(30)})
    s.ok("settlement", "decline", "alice hot", job, s.seat_of(job, "alice"), 1)
    assert s.operator("dave").locks == 1
    s.take_over(job, 1, "dave")
    assert s.operator("dave").locks == 2  # as a worker and as an aggregator
    for _ in range(3):
        s.play_round(job)
    s.settle(job)
    assert s.operator("dave").locks == 0


@scenario
def a_turn_waits_until_its_place_in_the_ring_is_free(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=4, depth=2)
    alice = s.seat_of(job, "alice")
    s.play_round(job)
    first = s.claims(job)
    s.play_round(job)
    run = s.world.run(job)
    assert (run.turn, run.round, run.opened_at, run.missing) == (2, 2, 0, 0b11)
    s.no("settlement: depth reached", "settlement", "commit", "alice hot", job, alice, 2, ROOT, b"b" * 32)
    s.no(
        "settlement: depth reached", "settlement", "post_checkpoint", "dave hot", job, AGGREGATOR_SEAT, 2, 0, ROOT, CID
    )
    s.wait(1_000)
    # However long it waits nobody is late, and the job is not short of anything.
    for seat in (alice, AGGREGATOR_SEAT):
        s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, seat)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.ok("settlement", "finalise", "stranger", job, first[:2])
    assert not s.world.run(job).is_open
    # Seats may change hands meanwhile.
    s.ok("settlement", "decline", "alice hot", job, alice, 1)
    taken = s.take_over(job, 2, "carol")
    s.ok("settlement", "finalise", "stranger", job, first[2:])
    run = s.world.run(job)
    assert (run.opened_at, run.missing, run.aggregator_due) == (s.now, 0b111, s.now + 60 + 15)
    s.commit(job, "carol", taken)
    s.play_round(job)
    s.play_round(job)
    assert s.world.job(job).state == JobState.ENDED
    s.settle(job)


@scenario
def a_job_of_depth_one_waits_for_every_window(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, depth=1, rounds=3)
    for turn in range(3):
        assert s.world.run(job).is_open
        s.play_round(job)
        assert not s.world.run(job).is_open
        if turn < 2:
            s.to(max(s.now, s.world.run(job).aggregator_due + 1))
            s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
            s.finalise(job)
    s.settle(job)
    assert s.world.run(job).round == 3


@scenario
def a_standby_takes_no_smaller_part_than_a_bid_may_be_for(s: Stage) -> None:
    s.register_all()
    s.back("alice", 130)
    s.back("carol", 130)
    job = s.running({"alice": Offer(60, 130), "carol": Offer(80, 130)}, AGGREGATORS, slots=130, quorum=1)
    s.ok("settlement", "decline", "alice hot", job, 0, 7)

    def no(count: int, seat: int) -> None:
        args = (job, seat, s.ids["carol"], count, 10)
        s.no("settlement: count out of range", "settlement", "take_over", "carol hot", *args)

    for count in (0, 1, 2, 8):
        no(count, 1)
    s.take_over(job, 1, "carol", 3)  # a 64th of 130, rounded up
    no(2, 1)
    s.take_over(job, 1, "carol", 3)
    assert s.world.seat(job, 1).count == 1
    s.take_over(job, 1, "carol", 1)  # all that is left may be less


@scenario
def a_job_has_at_most_128_seats(s: Stage) -> None:
    s.register_all()
    s.back("alice", 130)
    job = s.running({"alice": Offer(60, 130)}, AGGREGATORS, slots=130, quorum=1)
    for _ in range(127):
        s.ok("settlement", "decline", "alice hot", job, 0, 1)
    assert (s.world.run(job).seats, s.world.seat(job, 0).count) == (128, 3)
    s.no("settlement: too many seats", "settlement", "decline", "alice hot", job, 0, 1)
    s.no("settlement: count out of range", "settlement", "decline", "alice hot", job, 0, 4)
    s.play_round(job)
    s.ok("settlement", "decline", "alice hot", job, 0, 3)
    s.to(s.world.run(job).inputs_close)
    s.ok("settlement", "abandon", "stranger", job)
    s.settle(job)
