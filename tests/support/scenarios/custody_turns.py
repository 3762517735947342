"""Directed sequences about jobs with custodians: how they begin, and who takes part in a turn. See `opening`."""

from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import scenario
from tests.support.scenarios.custody import FEE, HOLDERS, LARGE, CustodyScenario
from zoo_compute.spec.audit_ends import units_of
from zoo_compute.spec.auditing import Verdicts, verdicts_of
from zoo_compute.spec.availability import least_deposit
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.spec.seats import deadline_of
from zoo_compute.spec.state import ClaimStatus, JobState


@scenario
def a_job_waits_until_custodians_hold_what_it_starts_from(s: Stage) -> None:
    t = CustodyScenario(s)
    job = t.job
    t.asked()
    t.offered(*LARGE)
    t.awarded()
    t.drawn()
    s.no("settlement: not running", "custody", "hold_start", "stranger", job, t.committee, t.start(0, 1))
    for name in HOLDERS:
        s.ready(job, name)
    run = s.world.run(job)
    assert (run.state, run.opened_at, run.aggregator_due) == (JobState.RUNNING, 0, s.now + s.preset.ready_window_s)
    s.no("settlement: depth reached", "settlement", "commit", "alice hot", job, 0, 0, b"r" * 32, b"b" * 32)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, 0)
    s.to(run.aggregator_due)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", job)
    t.ok("hold_start", "stranger", job, t.committee, t.start(1, 2))
    run = s.world.run(job)
    assert (run.opened_at, run.aggregator_due) == (s.now, run.inputs_close + run.aggregate_s + s.preset.ready_window_s)
    t.closed()


@scenario
def a_seat_that_too_few_custodians_hold_is_left_out(s: Stage) -> None:
    """Carol commits a root, answers every demand and serves nobody: no aggregator needs what she has."""
    t = CustodyScenario(s, depth=1).ready()
    job = t.job
    t.no("mask is open", "leave_out", "stranger", job, 0)
    t.commit_all()
    carol = s.seat_of(job, "carol")
    mask = 7 ^ 1 << carol
    claim = s.world.claims[job, carol, 0].claim
    s.no("settlement: turn is open", "settlement", "open_dispute", "referee", job, claim)
    demand = (job, claim, AGGREGATOR_SEAT, claim.scope >> 16, 0, 0)
    value = least_deposit(s.base_fee)
    s.no("availability: signers answer", "availability", "demand", "dave hot", *demand, value=value)
    demand += (0, t.committee)
    s.no("availability: turn is open", "availability", "demand_of_signer", "dave hot", *demand, value=value)
    t.hold(mask, 0, 1)
    t.no("inputs not held", "post_checkpoint", "dave hot", *t.post_args(0, 1))
    s.wait(s.preset.answer_s)
    t.no("mask is open", "leave_out", "stranger", job, 0)
    s.wait(1)
    t.no("mask is open", "leave_out", "stranger", job, 1)
    before = s.operator("carol")
    locked = s.world.deposit_of(s.ids["carol"], t.token)
    t.ok("leave_out", "stranger", job, 0)
    assert s.world.run(job).missing == 1 << carol
    s.to(deadline_of(s.world.run(job), s.world.seat(job, carol)) + 1)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, carol)
    s.no("settlement: inputs closed", "settlement", "commit", "carol hot", job, carol, 0, b"r" * 32, b"b" * 32)
    posted = t.posted(1, 2)
    assert (posted.scope, s.world.closed_turn(job, 0).pending) == (mask, 3)
    assert s.world.claims[job, carol, 0].status == ClaimStatus.ABSENT
    s.finalise(job)
    s.no("settlement: unknown claim", "settlement", "finalise", "stranger", job, (claim,))
    assert (s.operator("carol").stake, s.world.deposit_of(s.ids["carol"], t.token)) == (before.stake, locked)
    t.closed()
    s.finalise(job)
    t.count()
    t.commit_all()
    assert s.world.claims[job, carol, 0].status == ClaimStatus.PENDING, "her place in the ring is used again"
    t.posted(inputs=t.inputs(7, 0, 1))
    s.settle(job)


@scenario
def nobody_is_paid_for_auditing_a_claim_that_was_left_out(s: Stage) -> None:
    """Nobody may ask about it, so nobody could contradict: what verdicts on it reserved is free again, and pays nothing."""
    t = CustodyScenario(s, audit_bps=10_000, slot_s=300, aggregate_s=300).ready()
    job, frank, fee = t.job, s.ids["frank"], s.world.terms[t.job].reserve
    s.ok("audits", "fund", "submitter", job, 100 * fee)
    s.ok("audits", "deposit", "stranger", frank, t.token, s.preset.audit_bond + 10**6)
    s.ok("audits", "offer", "frank owner", frank, 1)
    t.commit_all()
    claims = [s.world.claims[job, s.seat_of(job, name), 0].claim for name in HOLDERS]
    units = [unit for claim in claims for unit in units_of(claim)]
    t.hold(0b001, 0, 1)
    s.wait(s.preset.answer_s + 1)
    t.ok("leave_out", "stranger", job, 0)
    t.posted(0, 1)
    s.wait(1)
    s.ok("audits", "draw_units", "stranger", job, 0)
    s.mine(s.preset.draw_blocks + 2)
    s.ok("audits", "draw_units", "stranger", job, 0)
    in_turn = [unit for unit, claim in zip(units, claims, strict=True) if claim.seat == 0]
    others = [unit for unit in units if unit not in in_turn]
    said = verdicts_of([*in_turn, others[0]], [others[1]])
    free = s.world.audit_funds_of(frank, t.token).free
    s.ok("audits", "give_verdicts", "frank hot", job, 0, frank, said)
    ((_, _, _, role),) = s.world.statements
    s.to(max(s.now, s.world.draws[job, 0].deadline + 1))
    s.ok("audits", "settle_verdicts", "stranger", job, 0, frank, role, said, tuple(claims), Verdicts())
    assert s.world.audit_owed[t.token, s.accounts["frank owner"]] == fee, "of the claim that took part"
    assert s.world.audit_funds_of(frank, t.token).free == free
    assert s.world.budget_of(job).reserved == 0


@scenario
def whoever_comes_once_custodians_hold_the_inputs_waits_for_the_next_turn(s: Stage) -> None:
    t = CustodyScenario(s).ready()
    job = t.job
    for name in ("alice", "bob"):
        s.commit(job, name)
    carol = s.seat_of(job, "carol")
    s.to(deadline_of(s.world.run(job), s.world.seat(job, carol)) + 1)
    s.ok("settlement", "time_out", "stranger", job, carol)
    t.hold(7 ^ 1 << carol, 0, 1)
    take = (job, carol, s.ids["erin"], 1, 10)
    s.no("settlement: inputs closed", "settlement", "take_over", "erin hot", *take)
    t.posted()
    s.take_over(job, carol, "erin")
    for name in ("alice", "bob", "erin"):
        s.commit(job, name)
    t.posted(inputs=t.inputs(7, 0, 1))
    s.finalise(job)
    t.count()


@scenario
def a_checkpoint_may_be_signed_by_those_drawn_meanwhile(s: Stage) -> None:
    t = CustodyScenario(s).ready()
    job, old = t.job, t.committee
    t.commit_all()
    t.hold(7, 0, 1)
    t.expelled(1)
    t.ok("resign", f"{t.name(2)} hot", job, t.committee, 2)
    t.offered("alice", "bob")
    t.drawn()
    assert {t.name(1), t.name(2)} == {"alice", "bob"}
    claim = t.posted(1, 2)  # by two that are new
    record = s.world.custody_records[job, 0]
    assert (record.version, record.inputs, record.checkpoint) == (t.version, 0b001, 0b110)
    t.no("committee differs", "hold_turn", "stranger", job, AGGREGATOR_SEAT, claim.turn, old, (), ())
    s.finalise(job)
    before = s.world.custody_funds[t.token, s.ids["alice"]]
    t.count()
    assert s.world.custody_funds[t.token, s.ids["alice"]] == before + FEE
    # A committee that changes after the inputs were signed stops nobody: that of the record may go on.
    t.commit_all()
    t.hold(7, 0, 1)
    before, places = t.committee, (t.inputs(7, 0), t.post_args(0, 1))
    s.ok("registry", "set_hot", "erin owner", s.ids["erin"], s.accounts["stranger"])
    changed = next((place for place in range(3) if t.name(place) == "erin"), None)
    if changed is not None:
        t.ok("note_key", "stranger", job, t.committee, changed)
    t.ok("hold_inputs", "stranger", job, 1, before, places[0])
    t.ok("post_checkpoint", "dave hot", *places[1])


@scenario
def inputs_that_were_held_stay_so_whoever_leaves(s: Stage) -> None:
    """Their signers left, or changed a key: nobody thins the record of a turn until the aggregator is late in vain."""
    t = CustodyScenario(s, aggregate_s=60).ready()
    job = t.job
    t.commit_all()
    t.hold(7, 0, 1)
    due, signed_at = s.world.run(job).aggregator_due, s.world.custody_records[job, 0].signed_at
    for place in (0, 1):
        t.expelled(place)
    third = t.name(2)
    s.ok("registry", "set_hot", f"{third} owner", s.ids[third], s.accounts["stranger"])
    t.ok("note_key", "stranger", job, t.committee, 2)
    t.no("too few signatures", "hold_inputs", "stranger", job, 0, t.committee, ())
    t.ok("hold_inputs", "stranger", job, 0, t.committee, t.inputs(7, 2))
    record = s.world.custody_records[job, 0]
    assert (record.mask, record.inputs, record.signed_at) == (7, 0b100, signed_at)
    t.offered("alice", "bob")
    t.drawn()
    s.wait(1)
    t.ok("leave_out", "stranger", job, 0)
    s.to(s.world.run(job).inputs_close + s.preset.answer_s + 1)
    t.no("inputs are held", "lapse", "stranger", job, t.committee, 2)
    assert s.world.run(job).aggregator_due == due
    t.posted(0, 1)


@scenario
def a_turn_whose_round_is_done_again_leaves_its_place_to_a_later_one(s: Stage) -> None:
    """Its inputs are held when the aggregation before it is convicted."""
    t = CustodyScenario(s).ready()
    job = t.job
    claim = t.closed()
    t.commit_all()
    t.hold(7, 0, 1)
    s.convict(job, claim)
    assert s.world.run(job).round == 0
    s.take_over(job, AGGREGATOR_SEAT, "erin")
    for _ in range(2):
        s.finalise(job)
        t.count()
        t.closed()
    s.finalise(job)
    t.count()
    t.commit_all()
    t.hold(7, 2)
    record = s.world.custody_records[job, 1]
    assert (record.turn, record.signed_at, record.answered) == (4, 0, 0b100)
    t.posted(inputs=t.inputs(7, 0, 1))
    s.settle(job)


@scenario
def a_checkpoint_is_posted_under_the_pointer_that_custodians_signed(s: Stage) -> None:
    """An aggregator that has honest signatures over the root posts no pointer behind which nobody finds the checkpoint."""
    t = CustodyScenario(s).ready()
    t.commit_all()
    args = list(t.post_args(1, 2, inputs=t.inputs(7, 1, 2)))
    args[4] = b"x" * 32
    t.no("not the custodian's signature", "post_checkpoint", "dave hot", *args)
    claim = t.posted(1, 2, inputs=t.inputs(7, 1, 2))
    other = t.checkpoint(claim, 0, cid=b"x" * 32)
    t.no(
        "not the custodian's signature",
        "hold_turn",
        "stranger",
        t.job,
        AGGREGATOR_SEAT,
        claim.turn,
        t.committee,
        (),
        other,
    )
    t.held_turn(claim, 0)


@scenario
def one_custodian_is_no_majority_however_often_it_signs(s: Stage) -> None:
    t = CustodyScenario(s)
    job, forged = t.job, "custody: not the custodian's signature"
    t.asked()
    t.offered(*LARGE)
    t.awarded()
    t.drawn()
    for name in HOLDERS:
        s.ready(job, name)
    s.no(forged, "custody", "hold_start", "stranger", job, t.committee, t.start(0, 0))
    t.ok("hold_start", "stranger", job, t.committee, t.start(0, 1))
    t.commit_all()
    s.no(forged, "custody", "hold_inputs", "stranger", job, 0, t.committee, t.inputs(7, 1, 1))
    t.hold(7, 0, 1)
    s.no(forged, "custody", "post_checkpoint", "dave hot", *t.post_args(2, 2))
    claim = t.posted(0, 1)
    s.no(
        forged, "custody", "hold_turn", "stranger", job, AGGREGATOR_SEAT, 0, t.committee, (), t.checkpoint(claim, 2, 2)
    )
    t.held_turn(claim, 2)


@scenario
def who_signed_for_an_older_turn_only_is_replaced(s: Stage) -> None:
    """The open turn's place of the ring still has the record of the turn that is two before it."""
    t = CustodyScenario(s, rounds=5, depth=1).ready()
    job = t.job
    for _ in range(2):
        t.closed()
        s.finalise(job)
    t.count()
    assert (t.turn, s.world.custody_records[job, 0].inputs) == (2, 0b011)
    s.to(s.world.run(job).inputs_close + s.preset.answer_s + 1)
    t.no("mask is open", "leave_out", "stranger", job, 2)
    t.ok("lapse", "stranger", job, t.committee, 0)
    t.hold(0, 1)  # the excuse
    t.no("it signed", "lapse", "stranger", job, t.committee, 1)


@scenario
def an_excuse_goes_with_whoever_gave_it(s: Stage) -> None:
    t = CustodyScenario(s).ready()
    t.commit_all()
    t.hold(7, 0)
    assert s.world.custody_records[t.job, 0].answered == 0b001
    t.expelled(0)
    t.offered("alice")
    t.drawn()
    t.hold(7, 1, 2)
    assert s.world.custody_records[t.job, 0].answered == 0


@scenario
def a_posted_checkpoint_stays_with_the_committee_that_signed_it(s: Stage) -> None:
    """Whoever is in a later one takes no pay for what others signed."""
    t = CustodyScenario(s).ready()
    t.closed()
    record, signed = s.world.custody_records[t.job, 0], t.committee
    t.expelled(1)
    t.no("committee differs", "hold_turn", "stranger", t.job, AGGREGATOR_SEAT, 0, t.committee, (), ())
    t.ok("hold_turn", "stranger", t.job, AGGREGATOR_SEAT, 0, signed, (), ())
    assert s.world.custody_records[t.job, 0] == record


@scenario
def nobody_signs_for_a_turn_that_waits(s: Stage) -> None:
    t = CustodyScenario(s, depth=1).ready()
    t.closed()
    assert (t.turn, s.world.run(t.job).opened_at) == (1, 0)
    t.no("not the open turn", "hold_inputs", "stranger", t.job, 1, t.committee, t.inputs(0, 0))
    t.no("no open turn", "lapse", "stranger", t.job, t.committee, 0)
    s.to(s.world.run(t.job).aggregator_due + 1)
    s.no("settlement: job can go on", "settlement", "abandon", "stranger", t.job)


@scenario
def a_seat_is_taken_over_while_the_next_turn_waits(s: Stage) -> None:
    """What custodians signed of the turn before closes nothing any more."""
    t = CustodyScenario(s, depth=1).ready()
    for name in ("alice", "bob"):
        s.commit(t.job, name)
    carol = s.seat_of(t.job, "carol")
    s.to(deadline_of(s.world.run(t.job), s.world.seat(t.job, carol)) + 1)
    s.ok("settlement", "time_out", "stranger", t.job, carol)
    t.hold(7 ^ 1 << carol, 0, 1)
    t.posted()
    assert s.world.run(t.job).opened_at == 0
    s.take_over(t.job, carol, "erin")
    s.finalise(t.job)
    for name in ("alice", "bob", "erin"):
        s.commit(t.job, name)
    t.posted(inputs=t.inputs(7, 0, 1))
