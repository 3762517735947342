"""Who demanded which data of a job, from its events and from what the contract keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zoo_compute.chain.demands import claim_hash, demands_of, demands_to_read, with_contract_state
from zoo_compute.chain.events import Event
from zoo_compute.chain.views import ClaimState, Commit

FIRST = Commit(2, 1, 0, 1, 3, 10, bytes(32), b"\1" * 32, 50, block=10)
OTHER = replace(FIRST, seat=1, operator=2, block=11)
AGAIN = replace(FIRST, operator=3, root=b"\2" * 32, block=20)  # after the first was convicted


def event(name: str, block: int, claim: Commit, lane: int = 130, **args: Any) -> Event:
    of = {"turn": claim.turn, "seat": claim.seat, "author": claim.operator, "operator": claim.operator, "lane": lane}
    return Event(name, "availability", block, 0, "0x0", b"", of | args)


def demanded(block: int, claim: Commit, lane: int = 130, tensor: int = 4) -> Event:
    place = {"slot": 1, "tensor": tensor, "group": 5, "deposit": 7, "holds": True, "demander": "0xD"}
    return event("ChunkDemanded", block, claim, lane, **place)


def unanswered(
    block: int, claim: Commit, lane: int = 130, *, convicted: bool = False, forfeited: bool = False
) -> Event:
    return event("DemandUnanswered", block, claim, lane, convicted=convicted, forfeited=forfeited)


def test_a_demand_of_a_custodian__names_it_beside_the_claims_author():
    asked = demanded(12, FIRST)
    asked.args["operator"] = 9
    [demand] = demands_of([asked, unanswered(14, FIRST, forfeited=True)], [FIRST])
    assert (demand.claim, demand.operator, demand.end, demand.refunded) == (FIRST, 9, "forfeited", True)
    assert (demand.demander, demand.has_bytes, demand.holds) == ("0xD", False, True)


def test_a_demand_that_somebody_helped_with__is_open_and_shown__and_brings_nothing_back():
    helped = replace(event("DemandHelped", 13, FIRST), tx="0x7")
    [open_] = demands_of([demanded(12, FIRST), helped], [FIRST])
    assert (open_.is_open, open_.has_bytes, open_.help_tx, open_.holds) == (True, True, "0x7", False)
    for end, in_vain in ((unanswered(14, FIRST, forfeited=True), True), (event("DemandAnswered", 14, FIRST), False)):
        [ended] = demands_of([demanded(12, FIRST), helped, end], [FIRST])
        assert (ended.is_open, ended.has_bytes, ended.in_vain, ended.refunded) == (False, True, in_vain, False)


def test_demands__end_lane_by_lane_and_claim_by_claim():
    events = [
        demanded(12, FIRST), demanded(13, FIRST, 128), demanded(13, OTHER),
        event("DemandAnswered", 14, FIRST), demanded(15, FIRST, tensor=9),
        unanswered(18, FIRST, 128, convicted=True), demanded(22, AGAIN),
        unanswered(23, FIRST), event("DemandAnswered", 24, OTHER),
    ]  # fmt: skip
    demands = demands_of(events, [FIRST, OTHER, AGAIN])
    assert [(d.claim, d.lane, d.tensor, d.end, d.end_block) for d in demands] == [
        (FIRST, 130, 4, "bytes", 14),
        (FIRST, 128, 4, "convicted", 18),
        (OTHER, 130, 4, "bytes", 24),
        (FIRST, 130, 9, "unanswered", 23),
        (AGAIN, 130, 4, "", 0),
    ]
    assert [d.refunded for d in demands] == [False, True, False, True, False]


def test_the_contract__is_asked_for_what_can_still_matter_and_tells_of_the_newest():
    over = replace(OTHER, state=ClaimState.PAID)
    answered = event("DemandAnswered", 13, FIRST)
    events = [demanded(12, FIRST), answered, demanded(14, FIRST, tensor=9), demanded(14, OTHER), demanded(14, AGAIN)]
    lost = replace(AGAIN, block=14, state=ClaimState.CONVICTED)
    demands = demands_of([*events, event("DemandAnswered", 15, OTHER)], [FIRST, over, lost])
    assert demands_to_read(demands) == sorted([(claim_hash(FIRST), 130), (claim_hash(AGAIN), 130)])
    kept = {(claim_hash(FIRST), 130): {"opened_at": 40}}
    assert [d.opened_at for d in with_contract_state(demands, kept)][:2] == [0, 40]
