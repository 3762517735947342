"""Directed sequences about the protocol's time: a chain that stands still for six hours takes half an hour of any clock. See `opening`.

In production, whose time stops after half an hour without a beat; other sequences beat on their way (`Stage.to`).
"""

from __future__ import annotations

from typing import Any

from tests.support.explorations.explored_job import ExploredJob
from tests.support.job_driver import Offer
from tests.support.lockstep.stage import Stage, block_hash
from tests.support.scenarios.admissions import answered, enter, small
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, bid_args, scenario
from tests.support.scenarios.promises import ALL
from zoo_compute.spec import seats
from zoo_compute.spec.admissions import is_drawn
from zoo_compute.spec.clocks import End, asks_end
from zoo_compute.spec.frames import Kind
from zoo_compute.spec.params import AGGREGATOR_SEAT, MAX_STOPPED_EPOCHS, STRANGERS_LANE
from zoo_compute.spec.state import ClaimStatus

HALT_S = 6 * 3_600
FOUR = {name: Offer(60, 1) for name in ("alice", "bob", "carol", "erin")}
TIMES = {"slot_s": 7_200, "aggregate_s": 3_600, "reexecute_s": 600}


def beat(s: Stage, sender: str = "stranger") -> None:
    """Whoever beats, and how often: it never changes the time."""
    before = s.time
    s.ok("registry", "beat", sender)
    assert s.time == before


def after_a_halt(s: Stage, second: int) -> None:
    """It is this second of the protocol's time: the chain stood still for six hours before, and nobody has beaten since."""
    s.to(s.now + second - s.preset.clocks.outage_s - s.time)
    beat(s)
    s.halt(HALT_S)
    assert s.time == second


def only_after(s: Stage, reason: str, *call: Any) -> None:
    """Refused in this second, with a beat and without; accepted in the next one."""
    s.no(reason, *call)
    beat(s)
    beat(s, "alice hot")
    s.no(reason, *call)
    s.wait(1)
    s.ok(*call)


@scenario
def a_halt_takes_no_bidder_its_time_in_production(s: Stage) -> None:
    s.register_all()
    job = s.post()
    after_a_halt(s, s.world.lot(job, 0).bid_end - 1)
    s.bid_all(job, SLOTS, AGGREGATORS)
    s.wait(1)
    s.no("auction: not bidding", "auction", "bid", "erin hot", *bid_args(s, job, 0, "erin"))
    job = s.post()
    s.bid_all(job, SLOTS, AGGREGATORS)
    lot = s.world.lot(job, 0)
    late = ("auction", "reveal", "stranger", job, 0, s.ids["bob"], SLOTS["bob"].price, s.salt("bob"))
    s.no("auction: not revealing", *late)
    after_a_halt(s, lot.reveal_end - 1)
    s.reveal(job, 0, "alice")
    only_after(s, "auction: bid still active", "auction", "reclaim", "stranger", job, 0, s.ids["bob"])
    s.no("auction: not revealing", *late)


@scenario
def a_halt_takes_no_seat_its_time_in_production(s: Stage) -> None:
    s.register_all()
    job = s.awarded(FOUR, AGGREGATORS, quorum=1, rounds=1, **TIMES)
    bob, carol, erin = (s.seat_of(job, name) for name in ("bob", "carol", "erin"))
    s.ready(job, "alice", "erin")
    after_a_halt(s, s.world.run(job).opened_at + s.preset.ready_window_s)
    s.ready(job, "carol")
    only_after(s, "settlement: ready window open", "settlement", "expire", "stranger", job, bob)
    after_a_halt(s, seats.deadline_of(s.world.run(job), s.world.seat(job, carol)))
    only_after(s, "settlement: deadline not passed", "settlement", "time_out", "stranger", job, carol)
    after_a_halt(s, s.world.run(job).inputs_close - 1)
    s.commit(job, "alice")
    s.wait(1)
    s.no("settlement: inputs closed", "settlement", "commit", "erin hot", job, erin, 0, b"r" * 32, b"b" * 32)
    after_a_halt(s, s.world.run(job).aggregator_due)
    only_after(s, "settlement: deadline not passed", "settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)


@scenario
def a_halt_makes_no_claim_final_in_production(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=2, **TIMES)
    claim = s.commit(job, "alice")
    s.commit_all(job)
    s.post_checkpoint(job)
    demanded = s.time
    s.demand(job, claim, STRANGERS_LANE, "stranger")
    after_a_halt(s, demanded + s.preset.answer_s)
    other = next(each for each in s.claims(job) if each != claim)
    s.no("availability: window open", "availability", "close", "stranger", job, claim, STRANGERS_LANE)
    after_a_halt(s, s.deadline(job, other))
    only_after(s, "settlement: window open", "settlement", "finalise", "stranger", job, (other,))
    s.ok("availability", "close", "stranger", job, claim, STRANGERS_LANE)


@scenario
def a_machine_is_as_fast_over_a_halt_as_the_walls_clock_says_in_production(s: Stage) -> None:
    """Its trial, once answered, is disputed in the protocol's time."""
    small(s)
    enter(s, "bob")
    s.mine(2)
    beat(s)
    s.halt(HALT_S)
    late = ("admissions", "answer", "bob hot", s.ids["bob"], b"s" * 32, b"r" * 32)
    s.no("admissions: answer too late", *late)
    claim = answered(s, "bob")
    trial = s.world.trials[s.ids["bob"]]
    assert trial.score == s.world.workloads[40].flops // 5
    after_a_halt(s, trial.deadline)
    only_after(s, "admissions: window open", "admissions", "settle", "stranger", claim)
    for _ in range(200):
        epoch = s.now // s.preset.epoch_s + 1
        s.halt(epoch * s.preset.epoch_s - s.now)
        if is_drawn(block_hash(s.block + 1), epoch, s.ids["bob"]):
            break
    s.ok("admissions", "schedule", "stranger")
    s.mine(2)
    s.ok("admissions", "recall", "stranger", s.ids["bob"])
    beat(s)
    after_a_halt(s, s.world.recalls[s.ids["bob"]].due)
    only_after(s, "admissions: recall not over", "admissions", "lapse", "stranger", s.ids["bob"])


@scenario
def a_halt_lets_no_stake_out_early_in_production(s: Stage) -> None:
    alice = s.register("alice")
    s.ok("registry", "request_exit", "alice owner", alice)
    s.halt(100 * s.preset.exit_delay_s)
    s.no("registry: exit delay runs", "registry", "withdraw_stake", "alice owner", alice)
    beat(s)
    after_a_halt(s, s.world.operator(alice).exit_at - 1)
    only_after(s, "registry: exit delay runs", "registry", "withdraw_stake", "alice owner", alice)


@scenario
def nobody_breaks_a_promise_by_a_halt_in_production(s: Stage) -> None:
    alice, length = s.register("alice"), s.preset.epoch_s
    first = s.now // length + 1
    s.ok("registry", "declare", "alice owner", alice, 0, ALL)
    s.to(first * length)
    s.ok("registry", "heartbeat", "alice hot", alice)  # a beat
    s.halt(s.preset.clocks.outage_s)
    beat(s)
    assert not s.world.stopped_epochs
    s.halt(s.preset.clocks.outage_s + 1)
    beat(s)
    assert (s.world.stopped_epochs, s.world.stopped_s) == ({first: True}, 1)
    s.halt((first + 1) * length - s.now + HALT_S)
    beat(s)
    s.to((first + 2) * length)
    for epoch in (first, first + 1):
        s.no("registry: time stood still", "registry", "breach", "stranger", alice, epoch)
    s.to((first + 3) * length)
    s.ok("registry", "breach", "stranger", alice, first + 2)
    beat(s)
    last = s.now // length + MAX_STOPPED_EPOCHS
    s.halt((last + 1) * length - s.now)
    beat(s)  # of a gap that is longer, the first epochs are marked
    s.no("registry: time stood still", "registry", "breach", "stranger", alice, last - 1)
    s.ok("registry", "breach", "stranger", alice, last)


@scenario
def a_liar_that_waits_for_a_halt_is_convicted_by_the_asker_that_returns_in_production(s: Stage) -> None:
    t = ExploredJob(s, rounds=1, token="usd", **TIMES)
    t.commit("alice", "bob")
    slot, clock = t.first_slot("alice"), s.preset.clocks
    trace = t.explorer.answer(t.explorer.first("alice", Kind.UPDATE, slot, by="stranger"))
    t.close_turn()
    deadline = s.deadline(t.job, t.claims["alice"])
    close = ("referee", "close", "alice hot", t.job, t.claims["alice"])
    s.to(deadline)
    beat(s)
    s.halt(HALT_S)
    assert s.now > deadline + clock.asker_s  # by block time the lie would be final
    s.no("referee: not final", *close)
    for _ in range(3):
        beat(s, "alice hot")
        s.no("referee: not final", *close)
    last = asks_end(t.explorer.known[trace][1].clocks, deadline)
    assert last - s.time == clock.asker_s - clock.outage_s
    after_a_halt(s, last)
    s.no("referee: not final", *close)
    below = t.explorer.down(trace, 0, "stranger")
    beat(s)
    t.explorer.convict(t.explorer.answer(below), 0, "stranger")
    assert (t.word("alice").end, t.status("alice")) == (End.JUDGED, ClaimStatus.CONVICTED)


@scenario
def an_honest_committer_is_not_convicted_by_silence_over_a_halt_in_production(s: Stage) -> None:
    t = ExploredJob(s, rounds=1, token="usd", **TIMES)
    t.commit("alice", "bob")
    first = t.explorer.first("alice", Kind.UPDATE, t.first_slot("alice"), by="stranger")
    silent = t.explorer.first("bob", Kind.UPDATE, t.first_slot("bob"), by="stranger")
    t.close_turn()

    def expire(id: bytes) -> tuple[Any, ...]:
        name, node, _, _ = t.explorer.known[id]
        return ("referee", "expire", "sink", t.job, t.claims[name], id, node)

    node = t.explorer.known[first][1]
    after_a_halt(s, node.clocks.since + node.clocks.committer_left_s)
    s.no("referee: time left", *expire(first))
    beat(s, "sink")
    s.no("referee: time left", *expire(first))
    t.explorer.answer(first)
    node = t.explorer.known[silent][1]
    assert s.time == node.clocks.since + node.clocks.committer_left_s
    only_after(s, "referee: time left", *expire(silent))
    assert (t.word("bob").end, t.status("bob")) == (End.SILENT, ClaimStatus.CONVICTED)
    after_a_halt(s, t.word("alice").latest)
    only_after(s, "referee: not final", "referee", "close", "sink", t.job, t.claims["alice"])
    assert (t.word("alice").end, t.status("alice")) == (End.FINAL, ClaimStatus.PAID)
