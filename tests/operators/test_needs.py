"""What an operator lacks, and the command that mends it: every need alone, and all of them together."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from zoo_compute.chain.views import OperatorView
from zoo_compute.operators.needs import ChainFacts, NodeSetup, Reachability, find_problems
from zoo_compute.spec.params import ZEN

HOT = "0x" + "11" * 20
TOKEN = "0x" + "22" * 20
ENDPOINT = "http://203.0.113.7:8600"
VIEW = OperatorView(
    operator=3, block=9, now=1_000, owner="0xO", hot=HOT, stake=1_000 * ZEN, gpu_class=1, vram_gb=24, reputation=0, locks=0,
    exit_at=0, tier=0, hours=0, discount_bps=0, eligible=True, admitted=False, multiplier_percent=100, endpoint=ENDPOINT,
    collateral={TOKEN: (500 * ZEN, 0)}, owed={}, hot_coin=ZEN,
)  # fmt: skip
SETUP = NodeSetup(
    operator=3, roles=("provider", "aggregator"), price="1", aggregator_price="1", gateway_host="0.0.0.0", endpoint=ENDPOINT,
    hot=HOT, network="/net.json",
)  # fmt: skip
FACTS = ChainFacts("production", 1_000 * ZEN, 1_000 * ZEN, hot_coin=ZEN, least_coin=10**15, view=VIEW)
SERVED = Reachability(True, 2, ENDPOINT)


def problems(
    setup: NodeSetup = SETUP, facts: ChainFacts | None = FACTS, reach: Reachability | None = SERVED
) -> list[tuple[str, str]]:
    return [(need.what, need.do) for need in find_problems(setup, facts, reach)]


def seen(**changes: Any) -> ChainFacts:
    return replace(FACTS, view=replace(VIEW, **changes))


def test_an_operator_that_lacks_nothing__needs_nothing() -> None:
    assert problems() == []
    assert problems(reach=None) == [], "what was not tried is not missing"
    assert problems(facts=replace(seen(admitted=True), needs_admission=True)) == []


@pytest.mark.parametrize(
    ("setup", "facts", "reach", "what", "do"),
    [
        ({"hot": ""}, FACTS, SERVED, "hot key's file is missing", "zoo node register"),
        ({"running": False}, FACTS, SERVED, "does not run", "zoo node start"),
        ({"draining": True}, FACTS, SERVED, "draining", "zoo node drain --undo"),
        ({"price": ""}, FACTS, SERVED, "no price for the role provider", "zoo node configure --price 1"),
        ({"aggregator_price": ""}, FACTS, SERVED, "the role aggregator", "zoo node configure --aggregator-price 1"),
        ({}, None, SERVED, "no RPC", "`rpcs` in /net.json"),
        ({}, replace(FACTS, chain_min_stake=100 * ZEN), SERVED, "preset production", "--network-file FILE"),
        ({}, replace(FACTS, other="devnet"), SERVED, "another network", "export ZOO_NETWORK=/net.json"),
        ({}, replace(FACTS, view=None), SERVED, "no operator 3", "zoo node register"),
        ({"hot": "0xother"}, FACTS, SERVED, "signs with", "zoo node register --home FOLDER"),
        ({}, seen(stake=850 * ZEN), SERVED, "850 ZEN is below the minimum, 1,000 ZEN", "zoo node stake 150"),
        ({}, seen(exit_at=5), SERVED, "the exit is requested", "zoo node unstake"),
        ({}, seen(collateral={TOKEN: (0, 0)}), SERVED, "no collateral", "zoo node deposit 2500"),
        ({}, replace(FACTS, needs_admission=True), SERVED, "has not passed a trial", "zoo node admit"),
        ({}, replace(FACTS, hot_coin=0), SERVED, f"no coin for gas on the hot key {HOT}", "--hot-coin 0.02 --deposit 0"),
        ({}, replace(FACTS, hot_coin=10**14), SERVED, "0.0001 coin for gas", "--hot-coin 0.02"),
        ({"endpoint": ""}, seen(endpoint=""), None, "no endpoint", "zoo node configure --endpoint"),
        ({}, FACTS, Reachability(False, 2, ENDPOINT), "2 peers could not fetch a block from http://203", "open the endpoint's port"),
        ({}, FACTS, Reachability(False, 0, ENDPOINT), "this machine could not fetch", "open the endpoint's port"),
        ({"gateway_host": "127.0.0.1"}, FACTS, Reachability(False, 1, ENDPOINT), "1 peer could not", "--gateway-host 0.0.0.0"),
    ],
)  # fmt: skip
def test_each_thing_that_is_missing__is_the_only_need_and_names_what_mends_it(
    setup: dict[str, Any], facts: ChainFacts | None, reach: Reachability | None, what: str, do: str
) -> None:
    needs = problems(replace(SETUP, **setup), facts, reach)
    assert len(needs) == 1, needs
    assert what in needs[0][0]
    assert do in needs[0][1]


# Each is missing by itself whatever else is: none hides another.
SEVERAL: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "does not run": ({"running": False}, {}, {}),
    "draining": ({"draining": True}, {}, {}),
    "role provider": ({"price": ""}, {}, {}),
    "role aggregator": ({"aggregator_price": ""}, {}, {}),
    "deployed with other numbers": ({}, {"chain_min_stake": 1}, {}),
    "another network": ({}, {"other": "devnet"}, {}),
    "below the minimum": ({}, {}, {"stake": 1}),
    "no collateral": ({}, {}, {"collateral": {}}),
    "coin for gas": ({}, {"hot_coin": 0}, {}),
    "could not fetch": ({"gateway_host": "127.0.0.1"}, {}, {}),
}


def test_every_combination__tells_each_thing_once() -> None:
    for count in range(len(SEVERAL) + 1):
        for names in itertools.combinations(SEVERAL, count):
            setup, facts, view = SETUP, FACTS, VIEW
            for name in names:
                of_setup, of_facts, of_view = SEVERAL[name]
                setup, facts, view = replace(setup, **of_setup), replace(facts, **of_facts), replace(view, **of_view)
            reach = Reachability("could not fetch" not in names, 1, ENDPOINT)
            needs = [what for what, _ in problems(setup, replace(facts, view=view), reach)]
            assert len(needs) == count
            assert all(sum(name in what for what in needs) == 1 for name in names)


def test_what_no_keeper_can_work_with__stops_and_all_else_does_not() -> None:
    is_blocking = [
        (replace(SETUP, hot=""), FACTS),
        (SETUP, replace(FACTS, view=None)),
        (replace(SETUP, hot="0xother"), FACTS),
        (SETUP, replace(FACTS, chain_min_stake=1)),
    ]
    assert all(any(need.is_blocking for need in find_problems(*case)) for case in is_blocking)
    goes_on = [
        (SETUP, None),
        (SETUP, seen(stake=1, collateral={})),
        (SETUP, replace(FACTS, hot_coin=0, other="devnet")),
        (replace(SETUP, draining=True, price=""), FACTS),
    ]
    assert not any(need.is_blocking for case in goes_on for need in find_problems(*case))


def test_collateral_in_any_token__is_collateral() -> None:
    assert problems(facts=seen(collateral={TOKEN: (0, 0), "0xusdc": (5, 5)})) == []


def test_a_verifier__needs_no_registration_no_collateral_and_no_endpoint() -> None:
    eye = replace(SETUP, operator=0, roles=("verifier",), price="", aggregator_price="", endpoint="")
    facts = replace(FACTS, view=None)
    assert problems(eye, facts, None) == []
    assert problems(eye, replace(facts, hot_coin=0), None) == [
        (f"no coin for gas on the hot key {HOT}", "send it 0.02")
    ]


def test_another_folder__is_named_in_every_command_of_zoo_node() -> None:
    setup = replace(SETUP, home=" --home /n2", draining=True, price="", running=False)
    facts = replace(seen(stake=1, collateral={}), hot_coin=0)
    needs = problems(setup, facts, Reachability(False, 1, ENDPOINT))
    assert len(needs) == 7
    assert all("--home /n2" in do for _, do in needs if do.startswith("zoo node"))


def test_a_port_of_a_devnet__is_no_reason_to_listen_on_all_addresses() -> None:
    local = "http://127.0.0.1:8600"
    setup = replace(SETUP, gateway_host="127.0.0.1", endpoint=local)
    assert "0.0.0.0" not in problems(setup, reach=Reachability(False, 1, local))[0][1]


def test_a_need_for_people_and_for_scripts__says_the_same() -> None:
    need = find_problems(SETUP, seen(collateral={}), SERVED)[0]
    assert str(need) == "needs you: no collateral: zoo node deposit 2500"
    assert need.to_dict() == {"what": "no collateral", "do": "zoo node deposit 2500"}
