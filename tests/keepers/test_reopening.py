"""An auction never dies: keepers' decisions on the auction contract, among paupers, latecomers and the hostile."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from keepers.decisions.reopening import AT_ONCE, MAX_BACKOFF_S
from tests.support.auction_simulation import ATTEMPT_S, AuctionSimulation, SimulatedOperator
from zoo_compute.spec.params import DEVNET

AT_MAXIMUM = {"reserve": 1_000, "max_price": 1_000, "aggregator_reserve": 500, "aggregator_max_price": 500}
DAY_S = 86_400
RESTS = 14  # doublings of the reveal window, 6 s, until a rest is a day


@pytest.fixture
def network(play: Any) -> AuctionSimulation:
    return AuctionSimulation(play, **AT_MAXIMUM, slots=6, quorum=4)


def providers(network: AuctionSimulation, count: int = 3) -> list[SimulatedOperator]:
    return [network.node(f"provider {index}") for index in range(count)]


# -- paupers and latecomers


def test_a_pauper_alone__reopens_nothing(network: AuctionSimulation):
    pauper = network.node("pauper", deposit=0)
    network.run(until=400)
    assert (network.attempt, pauper.sent) == (1, {})


def test_a_pauper_among_operators_that_can_bid__pays_for_nothing_and_keeps_nobody_from_the_job(
    network: AuctionSimulation,
):
    pauper = network.node("pauper", deposit=0)
    providers(network)
    network.aggregator("aggregator")
    network.run(until=60)
    assert (network.awarded, network.attempt, pauper.sent) == (True, 1, {})


def test_an_aggregator_that_comes_after_ten_failed_attempts__is_awarded_the_job(network: AuctionSimulation):
    network.node("pauper", deposit=0)
    providers(network)
    while network.attempt <= 10:
        network.run(until=network.at + DAY_S)
    late = network.aggregator("late", since=network.at)
    network.run(until=network.at + 3 * ATTEMPT_S)
    assert network.awarded
    assert late.sent["bid"] == 1, "the providers joined it in its first attempt"


def test_a_provider_whose_price_is_above_the_first_reserve__raises_it_up_to_its_price_and_the_others_join(play: Any):
    network = AuctionSimulation(play, **AT_MAXIMUM | {"reserve": 300}, slots=6, quorum=4)
    cheap = [network.node(f"cheap {index}", price=300) for index in range(2)]
    network.node("dear", price=950)
    network.aggregator("aggregator")
    network.run(until=10 * ATTEMPT_S)
    assert network.awarded
    assert network.attempt <= 9, "the reserve grows by a quarter an attempt: from 300 to 1,000 in six"
    assert all(node.sent["bid"] < network.attempt for node in cheap)


def test_a_provider_that_gets_more_collateral__fills_the_job_at_once(network: AuctionSimulation, play: Any):
    lock = play.kit.auction.lots(network.job, 0).lock
    network.aggregator("aggregator")
    network.node("other", capacity=3)
    poor = network.node("poor", capacity=3, deposit=int(lock * 1.5))
    network.run(until=DAY_S // 4)
    assert not network.awarded
    play.fund(poor.operator.owner, 2 * lock, play.kit.registry)
    play.kit.registry.deposit(poor.operator.id, play.token, 2 * lock, sender=poor.operator.owner)
    network.note(play.kit.registry)
    network.run(until=network.at + 3 * ATTEMPT_S)
    assert network.awarded


# -- what waiting costs


def test_without_any_aggregator__providers_get_their_collateral_back_and_bid_ever_less_often(
    network: AuctionSimulation,
):
    nodes = providers(network)
    network.run(until=DAY_S)
    assert all(node.sent["bid"] <= AT_ONCE + RESTS for node in nodes)
    assert all(locked(network, node) == 0 for node in nodes)
    before = {node.operator.id: Counter(node.sent) for node in nodes}
    network.run(until=2 * DAY_S)
    for node in nodes:
        day = node.sent - before[node.operator.id]
        assert day["bid"] <= 2
        assert day.total() <= 5 * day["bid"], "bid, reveal, reclaim, and at most every re-opening that frees it"


def test_a_job_that_is_cancelled_while_bids_stand__frees_them_and_costs_nothing_more(
    network: AuctionSimulation, play: Any
):
    nodes = providers(network)
    network.run(until=ATTEMPT_S - 1)
    assert all(locked(network, node) for node in nodes)
    play.kit.tasks.cancel(network.job, sender=play.submitter)
    network.note(play.kit.tasks)
    network.run(until=DAY_S)
    assert all(node.sent == Counter(bid=1, reveal=1, reclaim=1) for node in nodes)
    assert all(locked(network, node) == 0 for node in nodes)


def locked(network: AuctionSimulation, node: SimulatedOperator) -> int:
    return int(network.play.kit.registry.collateral(node.operator.id, network.play.token).locked)


# -- the hostile


def test_a_stranger_that_reopens_whenever_it_may__makes_no_operator_bid_more_often(
    network: AuctionSimulation, play: Any
):
    nodes = providers(network)
    while network.attempt < 40:
        network.run(until=network.at + ATTEMPT_S)
        network.reopen(play.anyone)
    assert all(node.sent["bid"] <= AT_ONCE + 8 for node in nodes), "12 minutes have seven doublings of 6 s"
    late = network.aggregator("late", since=network.at)
    for _ in range(10):
        network.run(until=network.at + ATTEMPT_S)
        network.reopen(play.anyone)
    assert network.awarded
    assert late.sent["bid"] <= 2


def test_a_newcomer_whose_bids_the_contract_refuses__stops_reopening(network: AuctionSimulation, play: Any):
    play.kit.auction.pause(2**40 - 1, sender=play.kit.guardian)
    nodes = [*providers(network), network.aggregator("aggregator")]
    network.run(until=600)
    assert sum(node.sent["reopen"] for node in nodes) <= AT_ONCE + 7
    play.kit.auction.pause(0, sender=play.kit.guardian)
    network.run(until=network.at + MAX_BACKOFF_S)
    assert network.awarded


def test_bids_that_are_never_revealed__cost_those_that_seal_them_and_keep_nobody_from_the_job(
    network: AuctionSimulation,
):
    silent = [network.node(f"silent {index}", reveals=False, until=6 * ATTEMPT_S) for index in range(2)]
    honest = providers(network)
    network.run(until=2 * ATTEMPT_S)
    network.aggregator("aggregator", since=network.at)
    network.run(until=network.at + 3 * ATTEMPT_S)
    assert network.awarded
    assert all(node.sent["reclaim"] for node in silent), "each of these forfeits the reserve for every unit"
    assert all(node.sent["bid"] <= AT_ONCE + 1 for node in honest)


def test_bidders_that_could_fill_the_job_with_one_that_is_gone__do_not_bid_whenever_a_stranger_reopens(
    network: AuctionSimulation, play: Any
):
    network.node("gone", reveals=False, until=DEVNET.bid_window_s)
    honest = [*providers(network, 2), network.aggregator("aggregator")]
    while network.attempt < 40:
        network.run(until=network.at + ATTEMPT_S)
        network.reopen(play.anyone)
    assert all(node.sent["bid"] <= AT_ONCE + 8 for node in honest)


def test_a_provider_whose_place_in_the_ring_has_a_dead_bid__frees_it_and_is_awarded_the_later_job(play: Any):
    first = AuctionSimulation(play, **AT_MAXIMUM, slots=6, quorum=4)
    nodes = [first.node(f"provider {index}") for index in range(3)]
    first.run(until=2 * ATTEMPT_S)
    for _ in range(255):
        play.post(**AT_MAXIMUM)
    later = AuctionSimulation(play, **AT_MAXIMUM, slots=6, quorum=4)
    assert later.job == first.job + 256
    later.nodes = nodes
    later.aggregator("aggregator")
    while not later.awarded and later.at < 10 * ATTEMPT_S:
        first.run(until=first.at + 1)
        later.run(until=later.at + 1)
    assert later.awarded


# -- operators that suffice always meet


@pytest.mark.parametrize("seed", range(3))
def test_operators_that_suffice__meet__however_they_come_and_go(play: Any, seed: int):
    rng = random.Random(seed)
    network = AuctionSimulation(play, **AT_MAXIMUM, slots=6, quorum=4)
    span = 30 * ATTEMPT_S
    for index in range(3):
        since = rng.randrange(span)
        node = network.node(f"provider {index}", since=since)
        node.until = since + rng.randrange(ATTEMPT_S, 20 * ATTEMPT_S)  # it is stopped, and started again below
    network.aggregator("aggregator", since=rng.randrange(span))
    for _ in range(30):
        network.run(until=network.at + ATTEMPT_S)
        if rng.random() < 0.3:
            network.reopen(play.anyone)
    for node in network.nodes:
        node.since, node.until = 0, 10**12
    together, bids = network.at, Counter({node.operator.id: node.sent["bid"] for node in network.nodes})
    network.run(until=together + MAX_BACKOFF_S)
    assert network.awarded
    assert network.at - together <= 3 * ATTEMPT_S + max(DEVNET.reveal_window_s << n for n in bids.values())
