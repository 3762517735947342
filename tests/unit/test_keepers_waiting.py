"""An auction never dies: keepers' decisions on the auction contract, among paupers, latecomers and the hostile."""

from __future__ import annotations

from typing import Any

import pytest

from tests.auction_kit import Network

AT_MAXIMUM = {"reserve": 1_000, "max_price": 1_000, "aggregator_reserve": 500, "aggregator_max_price": 500}


@pytest.fixture
def network(play: Any) -> Network:
    return Network(play, **AT_MAXIMUM, slots=6, quorum=4)


def able(network: Network, count: int = 3) -> None:
    for index in range(count):
        network.node(f"provider {index}")


def test_a_pauper_alone__reopens_nothing(network: Network):
    pauper = network.node("pauper", deposit=0)
    network.run(until=400)
    assert (network.attempt, pauper.sent) == (1, {})


def test_an_aggregator_that_comes_after_ten_failed_attempts__is_awarded_the_job(network: Network):
    network.node("pauper", deposit=0)
    able(network)
    network.run(until=4_000, step=2)
    while network.attempt < 11:
        network.run(until=network.at + 18)
        network.reopen(network.play.anyone)
    network.aggregator("late", since=network.at)
    network.run(until=network.at + 60)
    assert network.awarded
