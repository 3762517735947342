"""Directed sequences of delayed jobs, and of rounds that wait for no seat that nobody holds."""

from tests.support.job_driver import Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, scenario
from tests.support.scenarios.disputes import STANDBYS
from tests.support.scenarios.rounds import CID, ROOT
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.spec.state import JobState


def waits(s: Stage, job: int, mask: int) -> None:
    """The open turn may not be closed yet over the seats that committed."""
    turn = s.world.run(job).turn
    s.no(
        "settlement: inputs open",
        "settlement",
        "post_checkpoint",
        "dave hot",
        job,
        AGGREGATOR_SEAT,
        turn,
        mask,
        ROOT,
        CID,
    )


@scenario
def slots_of_a_delayed_job_start_one_checkpoint_behind(s: Stage) -> None:
    s.register_all()
    for policy in (0, 2):
        job = s.running(SLOTS, AGGREGATORS, policy=policy, rounds=4, depth=2)
        starts, made = [], [s.world.terms[job].state_root]
        for _ in range(4):
            s.until_open(job)
            starts.append([s.commit(job, name).start_root for name in ("alice", "bob")])
            claim = s.post_checkpoint(job)
            assert claim.start_root == made[-1]
            made.append(claim.root)
        behind = [made[0], *made[:3]] if policy else made[:4]
        assert starts == [[root, root] for root in behind]
        assert len(set(made)) == 5
        s.settle(job)


@scenario
def a_round_waits_for_no_seat_that_nobody_holds(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, quorum=2)
    alice, bob = s.seat_of(job, "alice"), s.seat_of(job, "bob")
    s.ok("settlement", "decline", "bob hot", job, bob, 2)
    waits(s, job, 0)
    s.commit(job, "alice")
    assert s.now < s.world.run(job).inputs_close
    s.post_checkpoint(job)
    # Who takes it over meanwhile is waited for.
    s.until_open(job)
    s.take_over(job, bob, "carol")
    s.commit(job, "alice")
    waits(s, job, 1 << alice)
    s.commit(job, "carol")
    s.post_checkpoint(job)


@scenario
def without_its_quorum_a_round_waits_for_a_vacant_seat(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, quorum=3)
    s.ok("settlement", "decline", "bob hot", job, s.seat_of(job, "bob"), 2)
    claim = s.commit(job, "alice")
    waits(s, job, 1 << claim.seat)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)


@scenario
def a_delayed_job_that_is_rolled_back_starts_from_the_checkpoint_itself(s: Stage) -> None:
    s.register_all()
    for lies_in_turn in (0, 1, 2):
        job = s.running(STANDBYS, AGGREGATORS, policy=3, rounds=5, depth=4, token="usd")
        lie, made = None, [s.world.terms[job].state_root]
        for turn in range(3):
            claim = s.commit(job, "alice")
            lie = claim if turn == lies_in_turn else lie
            s.commit_all(job)
            made.append(s.post_checkpoint(job).root)
        assert lie is not None
        assert lie.start_root == made[max(0, lies_in_turn - 1)]
        s.convict(job, lie, "stranger")
        run = s.world.run(job)
        assert (run.round, run.start_root) == (lies_in_turn, made[lies_in_turn])
        s.until_open(job)
        s.take_over(job, lie.seat, "carol")
        again = s.commit(job, "carol")
        assert (again.round, again.start_root) == (lies_in_turn, made[lies_in_turn])
        s.commit_all(job)
        s.post_checkpoint(job)
        s.until_open(job)
        assert s.commit(job, "carol").start_root == made[lies_in_turn]
        while s.world.run(job).state == JobState.RUNNING:
            s.play_round(job)
        s.settle(job)


@scenario
def a_false_aggregation_of_a_delayed_job_is_done_again(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, {"dave": Offer(30), "erin": Offer(31)}, policy=2, rounds=4, depth=4)
    s.play_round(job)
    s.commit_all(job)
    lie = s.post_checkpoint(job)
    s.commit_all(job)
    s.convict(job, lie, "stranger")
    run = s.world.run(job)
    assert (run.round, run.start_root) == (1, lie.start_root)
    s.until_open(job)
    s.take_over(job, AGGREGATOR_SEAT, "erin")
    assert s.commit(job, "alice").start_root == lie.start_root
    while s.world.run(job).state == JobState.RUNNING:
        s.play_round(job)
    s.settle(job)
