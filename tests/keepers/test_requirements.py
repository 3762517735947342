"""A keeper and jobs that ask for more than its node is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keepers.decisions.duties import duties
from keepers.decisions.obstacles import is_permanent, reasons_not_to_bid
from keepers.decisions.orders import Prepare, Progress, SealBid
from tests.keepers.test_duties import CHAIR, LOT, ME_PROVIDER, OTHERS, SEAT, TERMS, TIMED, opening, sends, view
from zoo_compute.chain.views import AGGREGATOR_SEAT, Kind
from zoo_compute.spec.requirements import Capability, Requirements

ASKED = Requirements(region=0x45550000, vram_gb=40, classes=1 << 3 | 1 << 2, hours=24, tier=2, admitted=True)
ABLE = Capability(gpu_class=3, vram_gb=40, is_admitted=True, region=0x45554445, tier=2, hours=24)
LACKS = {
    "class": (
        {"gpu_class": 1},
        "it asks for class professional or datacenter, and this node is registered as consumer",
    ),
    "memory": ({"vram_gb": 39}, "it asks for 40 GB, and this node is registered with 39 GB"),
    "admission": (
        {"is_admitted": False},
        "it asks for machines that passed a trial, and this node's did not; zoo node admit",
    ),
    "tier": (
        {"tier": 1},
        "it asks for tier silver in this epoch and the next, and this node's is bronze; zoo node declare --tier silver --hours 0-23",
    ),
    "hours": (
        {"hours": 23},
        "it asks for 24 promised hours in this epoch and the next, and this node promises 23; zoo node declare --hours",
    ),
    "region": (
        {"region": 0x41530000},
        "it asks for region EU, and this node declares AS; zoo node declare --region",
    ),
}


@pytest.mark.parametrize("lack", LACKS)
def test_a_job_that_asks_for_more_than_this_node_is__is_skipped_before_its_files_are_fetched(lack: str):
    """The owner reads why; nothing is traced, no gas is spent, and no seat of it is taken over."""
    less, why = LACKS[lack]
    asking = opening(1_000, terms=replace(TERMS, requirements=ASKED.word))
    able = replace(ME_PROVIDER, capability=ABLE)
    assert duties(asking, able, Progress()) == [Prepare()]
    assert any(isinstance(duty, SealBid) for duty in duties(asking, able, TIMED))
    lacking = replace(able, capability=replace(ABLE, **less))  # type: ignore[arg-type]
    assert duties(asking, lacking, Progress()) == duties(asking, lacking, TIMED) == []
    assert reasons_not_to_bid(asking, lacking, TIMED) == why
    assert reasons_not_to_bid(opening(1_000), lacking, TIMED) == ""
    assert is_permanent(asking, lacking, Kind.SLOTS) is (lack in ("class", "memory"))
    failed = opening(1_100, lots={0: LOT}, terms=replace(TERMS, requirements=ASKED.word))
    assert (sends(duties(failed, able, TIMED)), duties(failed, lacking, TIMED)) == (["reopen"], [])
    chair = replace(lacking, is_provider=False, is_aggregator=True)
    assert reasons_not_to_bid(asking, chair, TIMED) == why, "both lots ask for it"


def test_a_vacant_seat__is_left_to_nodes_that_are_what_the_job_asks_for():
    asked = replace(TERMS, requirements=ASKED.word)
    vacant = view(1_001, terms=asked, seats={0: replace(SEAT, operator=0), 1: OTHERS, AGGREGATOR_SEAT: CHAIR})
    able = replace(ME_PROVIDER, capability=ABLE)
    assert "take_over" in sends(duties(vacant, able, TIMED))
    for less, _ in LACKS.values():
        lacking = replace(able, capability=replace(ABLE, **less))  # type: ignore[arg-type]
        assert duties(vacant, lacking, Progress()) == duties(vacant, lacking, TIMED) == []
