"""What a network lacks for a job: plain offers, and offers that are read from the contracts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.config import Settings
from tests.support.auction_simulation import ATTEMPT_S, AuctionSimulation
from tests.support.job_driver import Offer as Bid
from zoo_compute.chain.batch import Read
from zoo_compute.client.progress import progress_of
from zoo_compute.jobs import shortfall as module
from zoo_compute.jobs.shortfall import (
    GB,
    UNWILLING,
    USUAL_SLOTS,
    JobRequirements,
    Offer,
    low_price,
    meeting_line,
    missing,
    offers,
    shortfall,
)
from zoo_compute.spec.params import LEAST_PRICE
from zoo_compute.spec.requirements import Requirements
from zoo_compute.spec.schedule import APPLE, LIGHT_FLOPS

CARD = Offer(1, vram_gb=24, gpu_class=1, eligible=True, free_collateral=1_000)
NEEDS = JobRequirements(slots=6, memory_bytes=10 * GB, lock=100)


def cards(count: int, **changes: Any) -> list[Offer]:
    return [replace(CARD, operator=number + 1, **changes) for number in range(count)]


def test_a_network_that_suffices__lacks_nothing():
    assert shortfall(NEEDS, cards(3)) == []
    assert shortfall(JobRequirements(6, None), cards(2)) == []
    assert shortfall(NEEDS, [*cards(2), replace(CARD, vram_gb=8), replace(CARD, free_collateral=0)]) == []


@pytest.mark.parametrize(
    ("needs", "network_offers", "lacks"),
    [
        (NEEDS, [], "no operator is registered"),
        (NEEDS, cards(2, eligible=False), "no operator can bid: each one is leaving, or its stake is too small"),
        (replace(NEEDS, memory_bytes=130 * GB), cards(3), "no operator has 130 GB; the largest has 24 GB"),
        (replace(NEEDS, memory_bytes=24 * GB + 1), cards(3), "no operator has 25 GB; the largest has 24 GB"),
        (NEEDS, cards(3, free_collateral=0), "every operator's collateral is locked or empty"),
        (NEEDS, cards(3, free_collateral=99), "no operator's free collateral covers a slot"),
        (NEEDS, cards(2, free_collateral=250), "the free collateral of 2 operators covers 4 of 6 slots"),
        (
            JobRequirements(100, None),
            cards(3),
            "100 slots for 3 operators: each would train 34 in every round, and a node takes 4 unless its operator allows more",
        ),
        (
            replace(NEEDS, asks=Requirements(tier=2, vram_gb=80).word),
            [*cards(2, meets=False), replace(CARD, eligible=False)],
            "no operator that can bid meets the job's requirements: 80 GB, tier silver",
        ),
        (
            NEEDS,  # asks for nothing itself, but the network does
            cards(2, meets=False),
            "no operator that can bid meets the job's requirements: admitted",
        ),
        (
            replace(NEEDS, slots=5, lock=0, asks=Requirements(tier=2).word),
            [*cards(3, meets=False), CARD],
            "5 slots for 1 operator: each would train 5 in every round, and a node takes 4 unless its operator allows more",
        ),
        (
            replace(NEEDS, flops=LIGHT_FLOPS + 1),
            cards(2, gpu_class=APPLE),
            "every operator's card is of a class for light jobs, and this job's slots are heavy",
        ),
    ],
)
def test_what_a_network_lacks__is_one_plain_sentence(needs: JobRequirements, network_offers: list[Offer], lacks: str):
    assert shortfall(needs, network_offers) == [lacks]


def test_what_the_largest_card_lacks__is_not_made_up_by_a_card_that_may_not_bid():
    large = replace(CARD, operator=2, vram_gb=192, eligible=False)
    assert shortfall(replace(NEEDS, memory_bytes=130 * GB), [CARD, large]) == [
        "no operator has 130 GB; the largest has 24 GB"
    ]


def test_lacks_of_two_kinds__are_both_told():
    assert len(shortfall(replace(NEEDS, memory_bytes=130 * GB), cards(3, free_collateral=0))) == 2


def test_the_slots_that_a_node_takes_unless_it_says_otherwise__are_those_of_its_configuration():
    assert Settings("a", "b", operator=1).capacity == USUAL_SLOTS


# -- from the contracts


@pytest.fixture
def chain(play, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A chain whose reads go to the contracts in this process, and are counted."""
    made = SimpleNamespace(network=SimpleNamespace(contracts={"zen": play.kit.zen.address}), requests=0)
    made.head = lambda: SimpleNamespace(number=1)

    def read_all(_: Any, block: int, reads: Sequence[Read]) -> list[Any]:
        made.requests += -(-len(reads) // 100)
        values = [getattr(getattr(play.kit, read.contract), read.function)(*read.args) for read in reads]
        return [value._asdict() if hasattr(value, "_asdict") else value for value in values]

    monkeypatch.setattr(module, "read_all", read_all)
    return made


def test_offers__are_what_the_contracts_say_of_each_operator(chain: Any, play: Any):
    rich = play.register("rich", vram_gb=80, gpu_class=3, deposit=10**9)
    pauper = play.register("pauper", vram_gb=24, deposit=0)
    leaver = play.register("leaver")
    play.kit.registry.request_exit(leaver.id, sender=leaver.owner)
    job = play.post()
    play.bid(job, 0, rich, Bid(price=900, capacity=2))
    locked = 2 * play.kit.auction.lots(job, 0).lock
    by_operator = {offer.operator: offer for offer in offers(chain)}
    assert by_operator[rich.id] == Offer(rich.id, 80, 3, True, 10**9 - locked)
    assert by_operator[pauper.id] == Offer(pauper.id, 24, 1, True, 0)
    assert not by_operator[leaver.id].eligible
    assert shortfall(JobRequirements(3, 90 * GB), tuple(by_operator.values())) == [
        "no operator has 90 GB; the largest has 80 GB"
    ]


def test_offers__of_a_large_network_cost_a_bounded_number_of_requests(
    chain: Any, play: Any, monkeypatch: pytest.MonkeyPatch
):
    numbers = [play.register(f"operator {index}").id for index in range(4)]
    monkeypatch.setattr(module, "MOST", 3)
    assert [offer.operator for offer in offers(chain)] == numbers[-3:]
    assert chain.requests == 4


def test_offers__of_a_job_that_asks_for_something__say_who_meets_it(chain: Any, play: Any):
    rich = play.register("rich", vram_gb=80, gpu_class=3)
    small = play.register("small", vram_gb=24)
    leaver = play.register("leaver", vram_gb=80)
    play.kit.registry.request_exit(leaver.id, sender=leaver.owner)
    of = {offer.operator: offer.meets for offer in offers(chain, asks=Requirements(vram_gb=80).word)}
    assert of == {rich.id: True, small.id: False, leaver.id: True}
    assert meeting_line(offers(chain, asks=Requirements(vram_gb=80).word)) == "1 of 2 operators that can bid now"
    assert meeting_line(offers(chain)) == "2 of 2 operators that can bid now"


def test_offers__where_the_network_needs_admission__are_of_the_admitted(chain: Any, play: Any, monkeypatch: Any):
    play.register("alice")
    monkeypatch.setattr(play.kit, "tasks", SimpleNamespace(needs_admission=lambda: True))
    assert [offer.meets for offer in offers(chain)] == [False]


# -- an open job

RICH = cards(3, free_collateral=10**9)


def opened(play: Any, **terms: Any) -> AuctionSimulation:
    network = AuctionSimulation(play, **{"slots": 6, "quorum": 4} | terms)
    network.node("provider", capacity=2)
    return network


def test_an_open_job__says_which_bids_are_missing(play: Any):
    network = opened(play)
    assert missing(network.view(), RICH, None)[:2] == ["none of 6 slots have bids", "no aggregator has bid"]
    network.run(until=5)
    assert missing(network.view(), RICH, None) == ["2 of 6 slots have bids", "no aggregator has bid"]
    network.aggregator("aggregator")
    network.run(until=10)
    assert missing(network.view(), RICH, 130 * GB) == [
        "2 of 6 slots have bids",
        "no operator has 130 GB; the largest has 24 GB",
    ]
    for index in range(2):
        network.node(f"another {index}")
    network.run(until=100)
    assert network.awarded
    assert missing(network.view(), RICH, None) == []


def test_what_stands_behind_bids_in_the_job_itself__does_not_count_as_locked(play: Any):
    network = opened(play)
    network.run(until=5)
    lock = network.view().lots[0].lock
    [bidder] = network.nodes
    assert not shortfall(JobRequirements(6, None, 3 * lock), [replace(CARD, free_collateral=10 * lock)] * 2)
    mine = replace(CARD, operator=bidder.operator.id, free_collateral=0)
    lacks = missing(network.view(), [mine], None)
    assert "every operator's collateral is locked or empty" not in lacks
    assert "the free collateral of 1 operator covers 2 of 6 slots" in lacks


def test_bids_that_were_not_opened__are_told_from_bids_that_are_not_there(play: Any):
    network = opened(play)
    network.nodes.clear()
    for index in range(3):
        network.node(f"provider {index}", reveals=index > 0)
    network.aggregator("aggregator")
    network.run(until=ATTEMPT_S)
    assert "bids for only 4 of 6 units were revealed" in missing(network.view(), cards(3), None)


def test_three_bidders_of_which_one_offers_most__fill_the_lot(play: Any):
    network = opened(play)
    network.nodes.clear()
    for index, capacity in enumerate((4, 1, 1)):
        network.node(f"provider {index}", capacity=capacity)
    network.aggregator("aggregator")
    network.run(until=ATTEMPT_S)
    assert missing(network.view(), RICH, None) == []
    network.run(until=2 * ATTEMPT_S)
    assert network.awarded
    assert network.attempt == 1


def test_a_job_that_pays_less_than_operators_ask__says_so_first(play: Any):
    view = opened(play, reserve=1_000, max_price=1_000).view()
    [said] = low_price(view, view.token)
    assert said.startswith("operators usually ask 1 ZEN a slot-round, and this job pays at most 1000 wei")
    assert low_price(view, "0x" + "ab" * 20) == [], "of another token the usual price is not known"
    usual = opened(play, reserve=1_000, max_price=LEAST_PRICE).view()
    assert low_price(usual, usual.token) == []


def test_a_job_at_its_maximum_price__says_so_and_never_that_it_is_reopened(play: Any):
    network = opened(play, reserve=1_000, max_price=1_000, aggregator_reserve=500, aggregator_max_price=500)
    network.run(until=3_600)
    view = network.view()
    progress = progress_of(view, spent=0, due=0, missing=missing(view, RICH, None))
    assert progress.waiting_for.startswith("too few bids; waiting at the maximum price for an operator that can bid")
    assert progress.failed_attempts >= 3
    assert progress.advice == (
        "missing: 2 of 6 slots have bids",
        "missing: no aggregator has bid",
        f"missing: {UNWILLING}",
        f"to stop waiting, run `zoo job cancel {network.job}`: the whole escrow comes back, and the posting deposit",
    )
    below = opened(play)
    below.nodes.clear()
    below.run(until=ATTEMPT_S)
    progress = progress_of(below.view(), spent=0, due=0)
    assert "then the reserve grows by a quarter" in progress.waiting_for
    assert progress.failed_attempts == 1
