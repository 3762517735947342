"""Directed sequences from the award to the end of the rounds; see `opening` and `paying`."""

from zoo_compute.spec import seats
from zoo_compute.spec.params import slash_of
from zoo_compute.spec.state import JobState, Takeover, Vacancy

from .opening import AGGREGATORS, SLOTS, scenario
from .stage import Offer, Stage

TENTH_OF_LOCK = slash_of(2 * 160 * 3)  # of the default terms: 96


@scenario
def holders_say_that_they_are_ready(s: Stage) -> None:
    s.register_all()
    job = s.awarded(SLOTS, AGGREGATORS)
    alice, bob, carol = (s.ids[name] for name in ("alice", "bob", "carol"))
    for function, args in (("ready", (10,)), ("decline", ()), ("expire", ())):
        s.no("settlement: not awarded", "settlement", function, "alice hot", 99, alice, *args)
    for operator in (alice, 99, 0):
        s.no("settlement: not the hot key", "settlement", "ready", "alice owner", job, operator, 10)
        s.no("settlement: not the hot key", "settlement", "decline", "alice owner", job, operator)
    s.no("settlement: nothing to ready", "settlement", "ready", "carol hot", job, carol, 0)
    s.no("settlement: nothing to ready", "settlement", "decline", "carol hot", job, carol)
    for estimate_s in (0, 31, 2**256 - 1):
        s.no("settlement: estimate out of range", "settlement", "ready", "alice hot", job, alice, estimate_s)
    s.ready(job, "alice", 30)
    s.no("settlement: nothing to ready", "settlement", "ready", "alice hot", job, alice, 30)
    s.no("settlement: nothing to ready", "settlement", "decline", "alice hot", job, alice)
    s.no("settlement: not running", "settlement", "commit", "alice hot", job, 0, alice, 1, b"r" * 32, b"b" * 32)
    s.no("settlement: not running", "settlement", "time_out", "stranger", job, alice, 1)
    s.no("settlement: not running", "settlement", "post_checkpoint", "dave hot", job, 0, 4, 0, b"r" * 32, b"c" * 32)
    s.no("settlement: not running", "settlement", "time_out_aggregator", "stranger", job)
    s.no("settlement: not running", "settlement", "take_over_aggregator", "erin hot", job, s.ids["erin"])
    s.no("settlement: not running", "settlement", "abandon", "stranger", job)
    s.no("settlement: job not over", "settlement", "release", "stranger", job, alice)
    s.ready(job, "bob", 1)
    assert s.world.job(job).state == JobState.RUNNING
    s.no("settlement: not awarded", "settlement", "ready", "bob hot", job, bob, 10)
    s.no("settlement: not awarded", "settlement", "decline", "bob hot", job, bob)
    s.no("settlement: not awarded", "settlement", "expire", "stranger", job, bob)


@scenario
def silence_past_the_ready_window_is_a_decline(s: Stage) -> None:
    s.register_all()
    job = s.awarded(SLOTS, AGGREGATORS)
    alice, bob, carol = (s.ids[name] for name in ("alice", "bob", "carol"))
    s.no("settlement: ready window open", "settlement", "expire", "stranger", job, alice)
    s.ready(job, "alice")
    s.to(s.world.run(job).opened_at + s.preset.ready_window_s)
    s.no("settlement: ready window open", "settlement", "expire", "stranger", job, carol)
    s.wait(1)
    for operator in (carol, alice, 99):
        s.no("settlement: nothing to ready", "settlement", "expire", "stranger", job, operator)
    s.ok("settlement", "expire", "stranger", job, bob)
    run = s.world.run(job)
    assert (run.state, run.vacant, run.pot) == (JobState.RUNNING, 0b1100, 2 * TENTH_OF_LOCK)
    assert s.world.seat(job, bob).locked == 2 * (run.lock - TENTH_OF_LOCK)


@scenario
def a_slot_declined_before_the_start_is_taken_over_for_the_whole_job(s: Stage) -> None:
    s.register_all()
    job = s.awarded(SLOTS, AGGREGATORS, token="usd")
    alice, bob, carol = (s.ids[name] for name in ("alice", "bob", "carol"))
    price = s.world.seat(job, bob).price
    s.ok("settlement", "decline", "bob hot", job, bob)
    assert s.operator("bob").reputation == 0
    s.no("settlement: not running", "settlement", "take_over", "carol hot", 99, 2, carol, 10)
    s.no("settlement: not the hot key", "settlement", "take_over", "carol owner", job, 0, carol, 0)
    for slot in (0, 1, 4, 255, 256, 2**256 - 1):
        s.no("settlement: slot not vacant", "settlement", "take_over", "carol hot", job, slot, carol, 0)
    s.no("settlement: held it before", "settlement", "take_over", "bob hot", job, 2, bob, 0)
    for estimate_s in (0, 31):
        s.no(
            "settlement: estimate out of range",
            "settlement",
            "take_over",
            "dave hot",
            job,
            2,
            s.ids["dave"],
            estimate_s,
        )
    s.no("auction: no standby", "settlement", "take_over", "dave hot", job, 2, s.ids["dave"], 30)
    s.take_over(job, 2, "carol", 30)
    s.take_over(job, 3, "alice", 30)
    s.no("settlement: slot not vacant", "settlement", "take_over", "carol hot", job, 2, carol, 10)
    # Carol asks 80, as bob was paid: nothing of the slash is needed. Alice asks less: escrow pays her own 60.
    assert price == 80
    assert s.world.takeovers[job, 2, carol].escrow_price == 80
    assert s.world.takeovers[job, 3, alice].escrow_price == 60
    assert s.world.burned[s.tokens["usd"]] == 2 * TENTH_OF_LOCK
    s.ready(job, "alice")
    assert s.world.run(job).state == JobState.RUNNING
    for _ in range(3):
        s.play_round(job)
    s.settle(job)
    assert s.world.job_ledgers[job].paid + s.world.job_ledgers[job].fees == 3 * (2 * 80 + 80 + 60 + 40)


@scenario
def the_slash_pays_a_dearer_standby_the_difference(s: Stage) -> None:
    s.register_all()
    usd = s.tokens["usd"]
    slots = {"alice": Offer(60, 2, True), "bob": Offer(70, 2), "carol": Offer(70, 2, True), "erin": Offer(97, 2, True)}
    job = s.running(slots, {"dave": Offer(30)}, token="usd", rounds=4)
    alice, erin = s.ids["alice"], s.ids["erin"]
    assert s.world.seat(job, alice).price == 70  # carol's two losing units
    s.play_round(job)
    s.to(s.world.run(job).opened_at + 21)
    s.commit(job, "bob")
    s.ok("settlement", "time_out", "stranger", job, alice, 0b11)
    tenth = slash_of(s.world.run(job).lock)
    assert (s.world.run(job).pot, tenth) == (2 * tenth, 128)
    s.take_over(job, 1, "erin")
    # Erin asks 97, alice was paid 70: 27 more in each of 3 rounds, 81 of the 128; 47 are burned.
    assert s.world.takeovers[job, 1, erin] == Takeover(escrow_price=70, pot_price=27)
    assert s.world.burned[usd] == 47
    before = s.world.deposit_of(erin, usd).balance
    for _ in range(3):
        s.play_round(job)
    s.settle(job)
    assert s.world.deposit_of(erin, usd).balance == before + 81
    assert s.world.burned[usd] == 47 + 128  # nobody took slot 0
    assert s.world.run(job).pot == 0


@scenario
def a_small_slash_pays_a_standby_what_it_can(s: Stage) -> None:
    s.register_all()
    slots = {"alice": Offer(1, 2), "bob": Offer(1, 2), "carol": Offer(1, 2), "erin": Offer(90, 2, True)}
    job = s.running(slots, {"dave": Offer(30)}, max_price=100, rounds=9)
    run = s.world.run(job)
    s.to(run.opened_at + 21)
    s.ok("settlement", "time_out", "stranger", job, s.ids["alice"], 0b01)
    s.take_over(job, 0, "erin")
    # The slash is 80 = 2 * 100 * 4 // 10, the difference 89 in each of 9 rounds: 8 a round, and 8 are burned.
    assert s.world.takeovers[job, 0, s.ids["erin"]] == Takeover(escrow_price=82, pot_price=8)
    assert s.world.burned[s.tokens["zen"]] == 8
    # Erin is late too: what escrow paid her is the next one's base, and her own slash its pot.
    s.wait(s.world.run(job).slot_s)
    s.play_round(job)
    s.wait(31)
    s.ok("settlement", "time_out", "stranger", job, s.ids["erin"], 0b01)
    assert s.world.vacancies[job, 0] == Vacancy(82, 80)
    s.no("settlement: held it before", "settlement", "take_over", "erin hot", job, 0, s.ids["erin"], 10)
    s.to(s.world.run(job).inputs_close + 1)
    s.no("settlement: quorum not reached", "settlement", "post_checkpoint", "dave hot", *checkpoint_args(s, job))
    s.ok("settlement", "abandon", "stranger", job)
    s.settle(job)


@scenario
def results_are_committed_once_a_slot_while_inputs_are_open(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS)
    alice, bob = s.ids["alice"], s.ids["bob"]
    root, bundle = b"r" * 32, b"b" * 32

    def no(reason: str, sender: str, *args: int, round: int = 0) -> None:
        s.no(f"settlement: {reason}", "settlement", "commit", sender, job, round, *args, root, bundle)

    s.no("settlement: not running", "settlement", "commit", "alice hot", 99, 0, alice, 1, root, bundle)
    no("not the current round", "stranger", alice, 0, round=1)
    no("not the hot key", "alice owner", alice, 0)
    no("not the hot key", "alice hot", bob, 0)
    no("no slots", "alice hot", alice, 0)
    for bitmap in (0b0100, 0b0111, 0b10000, 2**255, 2**256 - 1):
        no("slot not held", "alice hot", alice, bitmap)
    s.commit(job, "alice", 0b10)
    no("slot already committed", "alice hot", alice, 0b10)
    no("slot already committed", "alice hot", alice, 0b11)
    s.commit(job, "alice", 0b01)
    s.to(s.world.run(job).inputs_close - 1)
    s.commit(job, "bob", 0b0100)
    s.to(s.world.run(job).inputs_close)
    no("inputs closed", "stranger", bob, 0)
    s.post_checkpoint(job)
    no("not the current round", "bob hot", bob, 0b1100, round=0)
    assert {key[2] for key in s.world.claims} == {0, 1, 2, 256}


@scenario
def a_holder_is_timed_out_after_its_own_deadline(s: Stage) -> None:
    s.register_all()
    job = s.awarded(SLOTS, AGGREGATORS)
    alice, bob = s.ids["alice"], s.ids["bob"]
    s.ready(job, "alice", 4)  # her deadline: twice her estimate
    s.ready(job, "bob", 20)  # his: the slot's most seconds, below twice his estimate
    opened = s.world.run(job).opened_at
    s.no("settlement: not running", "settlement", "time_out", "stranger", 99, alice, 0)
    s.no("settlement: no slots", "settlement", "time_out", "stranger", job, alice, 0)
    s.no("settlement: slot not held", "settlement", "time_out", "stranger", job, alice, 0b101)
    s.commit(job, "alice", 0b01)
    s.no("settlement: slot already committed", "settlement", "time_out", "stranger", job, alice, 0b11)
    for operator, bitmap, due in ((alice, 0b10, opened + 8), (bob, 0b0100, opened + 30)):
        for now in (due - 1, due):
            s.to(now)
            s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, operator, bitmap)
        s.to(due + 1)
        s.ok("settlement", "time_out", "stranger", job, operator, bitmap)
        s.no("settlement: slot not held", "settlement", "time_out", "stranger", job, operator, bitmap)
    s.take_over(job, 1, "carol", 30)
    late = s.now
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, s.ids["carol"], 0b10)
    s.to(late + 31)
    # Carol took over at second 31: her deadline, second 61, lies past the close of inputs at 60, so she is spared.
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, s.ids["carol"], 0b10)


@scenario
def a_takeover_whose_deadline_is_the_close_of_inputs_can_be_timed_out(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS)
    opened = s.world.run(job).opened_at
    s.commit(job, "alice")
    s.to(opened + 21)
    s.ok("settlement", "time_out", "stranger", job, s.ids["bob"], 0b1100)
    s.to(opened + 30)
    s.take_over(job, 2, "carol", 15)
    s.to(opened + 60)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, s.ids["carol"], 0b0100)
    s.to(opened + 61)
    s.ok("settlement", "time_out", "stranger", job, s.ids["carol"], 0b0100)
    s.post_checkpoint(job)
    s.take_over(job, 3, "carol", 15)  # she held slot 2 before, not slot 3; her capacity is spent now
    s.no("settlement: held it before", "settlement", "take_over", "carol hot", job, 2, s.ids["carol"], 15)


@scenario
def the_aggregator_closes_a_round_over_who_is_present(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, quorum=3)
    dave, erin = s.ids["dave"], s.ids["erin"]
    root, cid = b"r" * 32, b"c" * 32

    def no(reason: str, sender: str, round: int, operator: int, mask: int) -> None:
        s.no(f"settlement: {reason}", "settlement", "post_checkpoint", sender, job, round, operator, mask, root, cid)

    s.no("settlement: not running", "settlement", "post_checkpoint", "dave hot", 99, 0, dave, 0, root, cid)
    no("not the current round", "stranger", 1, erin, 0)
    no("not the aggregator", "stranger", 0, erin, 0)
    no("not the hot key", "stranger", 0, dave, 0)
    no("inputs open", "dave hot", 0, dave, 0b1)
    s.commit(job, "alice")
    no("inputs open", "dave hot", 0, dave, 0b11)
    s.to(s.world.run(job).inputs_close - 1)
    no("inputs open", "dave hot", 0, dave, 0b11)
    s.commit(job, "bob", 0b1000)
    s.to(s.world.run(job).inputs_close)
    for mask in (0b11, 0b1111, 2**256 - 1, 0):
        no("mask differs", "dave hot", 0, dave, mask)
    s.post_checkpoint(job)
    assert s.world.claims[job, 0, 256].bitmap == 0b1011
    assert s.world.run(job).outstanding == 4
    s.commit(job, "alice")
    s.to(s.world.run(job).inputs_close)
    no("quorum not reached", "dave hot", 1, dave, 0b0011)
    s.no("settlement: deadline not passed", "settlement", "time_out_aggregator", "stranger", job)
    s.to(s.world.run(job).aggregator_due + 1)
    s.no("settlement: quorum not reached", "settlement", "time_out_aggregator", "stranger", job)
    s.ok("settlement", "abandon", "stranger", job)
    assert s.world.job(job).state == JobState.ENDED
    assert s.world.run(job).outstanding == 6
    s.no("settlement: not running", "settlement", "abandon", "stranger", job)
    s.settle(job)


@scenario
def a_silent_aggregator_loses_its_seat_to_a_standby(s: Stage) -> None:
    s.register_all()
    aggregators = {"dave": Offer(30, 1, True), "erin": Offer(40, 1, True), "carol": Offer(45)}
    job = s.running(SLOTS, aggregators)
    dave, erin, carol = (s.ids[name] for name in ("dave", "erin", "carol"))
    s.commit_all(job)
    due = s.world.run(job).aggregator_due
    assert due == s.world.run(job).opened_at + 60 + 15
    s.no("settlement: not running", "settlement", "time_out_aggregator", "stranger", 99)
    s.no("settlement: not running", "settlement", "take_over_aggregator", "erin hot", 99, erin)
    s.no("settlement: not the hot key", "settlement", "take_over_aggregator", "erin owner", job, erin)
    s.no("settlement: aggregator not vacant", "settlement", "take_over_aggregator", "erin hot", job, erin)
    for now in (due - 1, due):
        s.to(now)
        s.no("settlement: deadline not passed", "settlement", "time_out_aggregator", "stranger", job)
        s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.to(due + 1)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.ok("settlement", "time_out_aggregator", "stranger", job)
    s.no("settlement: aggregator vacant", "settlement", "time_out_aggregator", "stranger", job)
    s.no(
        "settlement: not the aggregator",
        "settlement",
        "post_checkpoint",
        "dave hot",
        job,
        0,
        dave,
        15,
        b"r" * 32,
        b"c" * 32,
    )
    s.no(
        "settlement: not the hot key", "settlement", "post_checkpoint", "dave hot", job, 0, 0, 15, b"r" * 32, b"c" * 32
    )
    lock = s.world.lot(job, 1).lock
    assert s.world.aggregator_seats[job, dave].locked == lock - slash_of(lock)
    assert s.world.burned[s.tokens["zen"]] == slash_of(lock)
    s.no("settlement: held it before", "settlement", "take_over_aggregator", "dave hot", job, dave)
    s.no("auction: no standby", "settlement", "take_over_aggregator", "carol hot", job, carol)
    s.no("auction: no standby", "settlement", "take_over_aggregator", "alice hot", job, s.ids["alice"])
    s.to(s.world.run(job).aggregator_due)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.ok("settlement", "take_over_aggregator", "erin hot", job, erin)
    assert s.world.run(job).aggregator_due == s.now + 15
    s.no("settlement: aggregator not vacant", "settlement", "take_over_aggregator", "dave hot", job, dave)
    s.post_checkpoint(job)
    for _ in range(2):
        s.play_round(job)
    s.settle(job)
    assert s.world.aggregator_seats[job, erin].price == 40
    assert s.operator("dave").locks == s.operator("erin").locks == 0


@scenario
def a_job_without_aggregator_is_abandoned_and_pays_what_was_committed(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, token="usd")
    s.play_round(job)
    s.commit_all(job)
    s.to(s.world.run(job).aggregator_due + 1)
    s.ok("settlement", "time_out_aggregator", "stranger", job)
    s.to(s.world.run(job).aggregator_due)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    s.wait(1)
    s.no("settlement: not running", "settlement", "abandon", "stranger", 99)
    s.ok("settlement", "abandon", "stranger", job)
    assert s.world.run(job).outstanding == 4 + 1 + 4
    for name, function, args in (("erin", "take_over_aggregator", ()), ("carol", "take_over", (10,))):
        slot = (0,) if function == "take_over" else ()
        s.no("settlement: not running", "settlement", function, f"{name} hot", job, *slot, s.ids[name], *args)
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
        s.ok("settlement", "release", "stranger", job, s.ids[name])
    s.no("settlement: nothing locked", "settlement", "release", "stranger", job, s.ids["alice"])
    s.no("settlement: nothing locked", "settlement", "release", "stranger", job, 99)
    s.withdraw_all()


@scenario
def a_winner_that_lost_its_slot_never_takes_it_back(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS)
    alice = s.ids["alice"]
    s.play_round(job)
    s.wait(21)
    s.commit(job, "bob")
    s.ok("settlement", "time_out", "stranger", job, alice, 0b11)
    s.no("settlement: held it before", "settlement", "take_over", "alice hot", job, 0, alice, 10)
    s.no("settlement: held it before", "settlement", "take_over", "alice hot", job, 1, alice, 10)
    s.take_over(job, 1, "carol")
    s.play_round(job)
    s.play_round(job)
    s.settle(job)


@scenario
def a_winner_with_capacity_left_stands_by_for_its_neighbours(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS)
    alice, bob = s.ids["alice"], s.ids["bob"]
    s.commit(job, "alice")
    s.wait(21)
    s.ok("settlement", "time_out", "stranger", job, bob, 0b1100)
    s.ok("registry", "withdraw", "alice owner", alice, s.tokens["zen"], s.world.deposit_of(alice, s.tokens["zen"]).free)
    s.no("registry: amount exceeds free collateral", "settlement", "take_over", "alice hot", job, 2, alice, 10)
    s.ok("registry", "deposit", "stranger", alice, s.tokens["zen"], s.world.run(job).lock)
    s.take_over(job, 2, "alice")
    s.no("auction: no standby", "settlement", "take_over", "alice hot", job, 3, alice, 10)
    assert s.operator("alice").locks == 1
    s.commit(job, "alice", 0b100)
    s.to(s.world.run(job).inputs_close)
    s.post_checkpoint(job)
    s.commit_all(job)
    s.to(s.world.run(job).inputs_close)
    s.post_checkpoint(job)
    s.commit_all(job)
    s.to(s.world.run(job).inputs_close)
    s.post_checkpoint(job)
    s.settle(job)
    # Two slots won at 80, one taken over at her own 60, in 3 rounds; bob's slash was burned, escrow keeps his slot.
    paid = 3 * (2 * 80 + 60 + 40)
    assert s.world.job_ledgers[job].paid + s.world.job_ledgers[job].fees == paid


@scenario
def an_aggregator_may_stand_by_for_slots_too(s: Stage) -> None:
    s.register_all()
    job = s.running({"alice": Offer(60, 4), "dave": Offer(70, 1, True)}, {"dave": Offer(30)})
    s.wait(21)
    s.commit(job, "alice", 0b0111)
    s.ok("settlement", "time_out", "stranger", job, s.ids["alice"], 0b1000)
    assert s.operator("dave").locks == 1
    s.take_over(job, 3, "dave")
    assert s.operator("dave").locks == 2
    for _ in range(3):
        s.play_round(job)
    s.settle(job)
    assert s.operator("dave").locks == 0


def checkpoint_args(s: Stage, job: int) -> tuple[object, ...]:
    """What the aggregator would post now."""
    run = s.world.run(job)
    return (job, run.round, run.aggregator, seats.present(run), b"r" * 32, b"c" * 32)
