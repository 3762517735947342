"""The specification as a whole: pure steps, money conserved, the directed sequences without any contract."""

from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.job_driver import Offer
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.invariants import check_invariants
from tests.support.lockstep.stage import OPERATORS, Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS
from tests.support.scenarios.catalogue import EXPLORING, SCENARIOS
from zoo_compute.spec import auction
from zoo_compute.spec.params import AGGREGATOR_SEAT, PRESETS
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import JobState, Phase
from zoo_compute.spec.world import EXTERNAL, PROTOCOL_ONLY, Call, apply


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in EXPLORING])
def test_the_specification_says_that(name: str) -> None:
    SCENARIOS[name](Stage(Coverage(), preset=PRESETS["production" if "production" in name else "devnet"]))


def test_a_step_never_changes_the_world_it_was_given() -> None:
    stage = Stage(Coverage())
    stage.register_all()
    job = stage.running(SLOTS, AGGREGATORS)
    before, snapshot = stage.world, deepcopy(stage.world)
    for seconds in (0, 21):
        stage.wait(seconds)
        for name in ("alice", "bob"):
            for contract, function, args in (
                ("settlement", "commit", (job, stage.seat_of(job, name), 0, b"r" * 32, b"b" * 32)),
                ("settlement", "time_out", (job, 2)),
                ("registry", "withdraw", (stage.ids[name], stage.tokens["zen"], 1)),
            ):
                stage.attempt(contract, function, f"{name} hot", *args)
    assert stage.world != before
    assert before == snapshot


def test_a_refused_step_raises_its_reason_and_changes_nothing() -> None:
    stage = Stage(Coverage())
    snapshot = deepcopy(stage.world)
    with pytest.raises(Refused) as refusal:
        apply(stage.world, Call("tasks", "cancel", "submitter", stage.now, (1,)))
    assert refusal.value.reason == str(refusal.value) == "tasks: not the submitter"
    assert stage.world == snapshot


def test_the_last_of_several_claims_refused_undoes_the_others() -> None:
    stage = Stage(Coverage())
    stage.register_all()
    job = stage.running(SLOTS, AGGREGATORS)
    stage.play_round(job)
    claims = stage.claims(job)
    stage.to(stage.deadline(job, *claims) + 1)
    before = stage.world
    stage.no("settlement: unknown claim", "settlement", "finalise", "stranger", job, (*claims, claims[0]))
    assert replace(stage.world, block_hashes=before.block_hashes) == before


@pytest.mark.parametrize("value", [-1, 2**256])
def test_what_is_no_uint256_is_the_callers_mistake(value: int) -> None:
    with pytest.raises(ValueError, match="not a uint256"):
        apply(Stage(Coverage()).world, Call("rewards", "fund", "stranger", 0, (value,)))


def test_what_fits_no_list_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="at most 64"):
        apply(Stage(Coverage()).world, Call("auction", "award", "stranger", 0, (1, 0, tuple(range(65)))))


def test_no_function_is_both_open_and_closed_to_accounts() -> None:
    for contract, functions in PROTOCOL_ONLY.items():
        assert not set(functions) & set(EXTERNAL[contract])


def test_an_invariant_that_breaks_is_noticed() -> None:
    stage = Stage(Coverage())
    stage.register_all()
    job = stage.running(SLOTS, AGGREGATORS)
    for break_it in (
        lambda w: w.balances.update({(stage.tokens["zen"], "registry"): 1}),
        lambda w: w.owed.update({(stage.tokens["zen"], "stranger"): 1}),
        lambda w: w.pots.update({stage.tokens["zen"]: 1}),
        lambda w: w.seats.pop((job, 0)),
    ):
        wrong = stage.world.fork()
        break_it(wrong)
        with pytest.raises(AssertionError):
            check_invariants(wrong)


def test_a_whole_job_conserves_every_token() -> None:
    stage = Stage(Coverage())
    stage.register_all()
    before = sum(amount for (token, _), amount in stage.world.balances.items() if token == stage.tokens["usd"])
    job = stage.running(SLOTS, AGGREGATORS, token="usd")
    for _ in range(3):
        stage.play_round(job)
    stage.settle(job)
    after = sum(amount for (token, _), amount in stage.world.balances.items() if token == stage.tokens["usd"])
    assert before == after
    assert stage.world.job(job).state == JobState.ENDED
    assert stage.world.balances[stage.tokens["usd"], stage.world.config.tasks] == 0


@given(
    prices=st.lists(st.integers(1, 100), min_size=5, max_size=5),
    capacities=st.lists(st.integers(1, 4), min_size=5, max_size=5),
    slots=st.integers(1, 8),
    calls=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), max_size=6),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_however_clearing_was_disturbed_it_ends_as_the_pure_allocation(
    prices: list[int], capacities: list[int], slots: int, calls: list[list[int]]
) -> None:
    stage = Stage(Coverage())
    stage.register_all()
    offers = {
        name: Offer(price, min(capacity, slots))
        for name, price, capacity in zip(OPERATORS, prices, capacities, strict=True)
    }
    job = stage.post(slots=slots, quorum=1)
    stage.bid_all(job, offers, {"erin": Offer(30)})
    stage.reveal_all(job, offers, {"erin": Offer(30)})
    every = [auction.RevealedBid(stage.ids[name], offer.price, 0, offer.capacity) for name, offer in offers.items()]
    if not auction.is_enough(every, slots):
        return
    order = stage.order(job, 0)
    for call in calls:  # rogues: any operators, any order, whatever the answer
        stage.attempt("auction", "clear", "stranger", job, 0, tuple(order[index] for index in call))
    stage.attempt("auction", "clear", "stranger", job, 0, order)
    if stage.world.lot(job, 0).phase == Phase.CLEARING:  # order[0] was cleared in this pass: the rest follows
        first = next(
            i
            for i in range(5)
            if stage.world.bid(job, 0, order[i]).cleared_pass < stage.world.lot(job, 0).clearing_pass
        )
        stage.attempt("auction", "clear", "stranger", job, 0, order[first:])
        if stage.world.lot(job, 0).phase == Phase.CLEARING:
            stage.ok("auction", "clear", "stranger", job, 0, order)
    allocation = auction.allocate(auction.order_bids(every), slots)
    won = {operator: stage.world.bid(job, 0, operator).won for operator in order}
    assert {operator: count for operator, count in won.items() if count} == {
        w.operator: w.units for w in allocation.wins
    }
    assert stage.world.lot(job, 0).losing == allocation.losing
    stage.ok("auction", "award", "stranger", job, 0, stage.winners(job, 0))
    seats = (seat for (of, number), seat in stage.world.seats.items() if of == job and number != AGGREGATOR_SEAT)
    paid = {seat.operator: seat.price for seat in seats}
    assert paid == auction.critical_prices(every, slots, 100)
