"""How disputes end, and whose the prepaid fees are then; each call in step with the specification."""

from dataclasses import replace

import pytest

from tests.referee.exploration_driver import JOB, PRICE, REEXECUTE_S, TRAINER
from tests.support.evm import chain
from tests.support.sources import storage_slot
from zoo_compute.spec.clocks import PRODUCTION, End, aged_at
from zoo_compute.spec.disputed_claims import claim_key
from zoo_compute.spec.frames import Kind
from zoo_compute.spec.params import COIN

GWEI = 10**9


def key(exploring):
    return claim_key(JOB, exploring.claims["bob"])


def claim(exploring):
    return exploring.world.claims[key(exploring)]


def settle(exploring, explorer, *ids):
    known = [explorer.known[id] for id in ids]
    exploring.call("settle", "mallory", tuple(ids), tuple(each[1] for each in known), tuple(each[2] for each in known))


def owed(exploring, name, token=COIN):
    return exploring.world.owed.get((token, exploring.accounts[name]), 0)


def fee(explorer, id):
    return explorer.known[id][1].payment.fee * GWEI


def test_final_claim__its_fees__go_to_who_answered(exploring, explorer):
    root, trace = explorer.first("bob"), explorer.first("bob", Kind.UPDATE, 5)
    explorer.answer(trace)
    exploring.wait(PRODUCTION.exclusive_s)
    explorer.answer(root, by="eve")
    exploring.to(exploring.deadline + PRODUCTION.asker_s + 1)
    exploring.call("close", "mallory", JOB, exploring.claims["bob"])
    assert claim(exploring).end == End.FINAL
    settle(exploring, explorer, root, trace)
    assert owed(exploring, "eve") == fee(explorer, root)
    assert owed(exploring, "owner") == fee(explorer, trace)
    assert owed(exploring, "owner", exploring.token.address) == PRICE
    assert owed(exploring, "dave") == 0


def test_judged_claim__fees_go_back__and_half_of_a_heavy_ask_off_the_path_burns(exploring, explorer):
    trace = explorer.answer(explorer.first("bob", leaf=3))
    other = explorer.answer(explorer.first("bob", Kind.UPDATE, 5, by="eve"))
    unanswered = explorer.first("bob", Kind.UPDATE, 6, by="eve")
    node = explorer.answer(explorer.down(trace, 2))
    explorer.convict(node, 0)
    settle(exploring, explorer, trace, other, unanswered, node)
    token = exploring.token.address
    assert owed(exploring, "dave", token) == PRICE
    assert owed(exploring, "eve", token) == 2 * (PRICE - PRICE // 2)
    assert exploring.world.burned[token] == 2 * (PRICE // 2)
    assert owed(exploring, "eve") == fee(explorer, other) + fee(explorer, unanswered)
    assert owed(exploring, "owner") == 0


def test_silent_claim__no_seal_is_rewarded_and_the_path_is_refunded(exploring, explorer):
    trace = explorer.first("bob", leaf=3)
    other = explorer.first("bob", Kind.UPDATE, 5, by="eve")
    node = explorer.known[trace][1]
    exploring.to(node.clocks.since + node.clocks.committer_left_s + 1)
    exploring.call("expire", "mallory", JOB, exploring.claims["bob"], trace, node)
    assert claim(exploring).end == End.SILENT
    assert exploring.world.heavy[JOB, TRAINER] == 0
    settle(exploring, explorer, trace, other)
    token = exploring.token.address
    assert (owed(exploring, "dave", token), owed(exploring, "eve", token)) == (PRICE, PRICE - PRICE // 2)
    exploring.no("referee: nothing to reward", "reward", "dave", JOB, exploring.claims["bob"])


def test_claim_of_an_open_turn__has_no_askers_clock_until_the_turn_closes(exploring, explorer):
    exploring.keep("bob", exploring.claims["bob"], 3, 0)
    root = explorer.answer(explorer.first("bob"))
    exploring.wait(10 * PRODUCTION.asker_s)
    leaf = explorer.ask(root, 2)
    assert explorer.known[leaf][1].clocks.asker_left_s == PRODUCTION.asker_s
    explorer.answer(leaf)
    exploring.wait(10**6)
    exploring.no("referee: not final", "close", "eve", JOB, exploring.claims["bob"])
    closed = chain.timestamp + 500
    exploring.close_turn(closed)
    exploring.to(closed + PRODUCTION.asker_s - 9)
    late = explorer.ask(root, 3)
    assert explorer.known[late][1].clocks.asker_left_s == 9
    assert claim(exploring).deadline == closed
    explorer.answer(late)
    exploring.wait(10)
    exploring.call("close", "eve", JOB, exploring.claims["bob"])


def test_aged_claim__is_void_and_everything_goes_back(exploring, explorer):
    trace = explorer.first("bob", leaf=3)
    last = aged_at(exploring.deadline, REEXECUTE_S, PRODUCTION)
    exploring.to(last)
    exploring.no("referee: not final", "close", "eve", JOB, exploring.claims["bob"])
    exploring.wait(1)
    exploring.call("close", "eve", JOB, exploring.claims["bob"])
    assert claim(exploring).end == End.AGED
    settle(exploring, explorer, trace)
    assert owed(exploring, "dave") == fee(explorer, trace)
    assert owed(exploring, "dave", exploring.token.address) == PRICE


@pytest.mark.parametrize("paid", [PRICE * 9, PRICE * 9 + 2, PRICE])
def test_heavy_asks__prepay_what_the_claim_is_paid_for_a_slot__and_the_reserve_at_least(exploring, explorer, paid):
    """Of a claim of three slots: re-openings of the auction raised its price."""
    exploring.keep("bob", replace(exploring.claims["bob"], price=paid), 3, exploring.deadline)
    price, token, dave = max(paid // 3, PRICE), exploring.token, exploring.accounts["dave"]
    had = token.balanceOf(dave)
    traces = [explorer.first("bob", leaf=3), explorer.first("bob", Kind.UPDATE, 5)]
    root = explorer.answer(explorer.first("bob", slot=6))
    assert had - token.balanceOf(dave) == 2 * price
    below = explorer.ask(root, 3)  # heavy, and far from the claim
    assert had - token.balanceOf(dave) == 3 * price
    for id in (*traces, below):
        explorer.answer(id)
    exploring.to(exploring.deadline + PRODUCTION.asker_s + 1)
    exploring.call("close", "mallory", JOB, exploring.claims["bob"])
    settle(exploring, explorer, *traces, root, below)
    assert owed(exploring, "owner", token.address) == 3 * price


def test_a_heavy_ask_of_an_aggregation__prepays_the_aggregators_price(exploring, explorer):
    exploring.keep("carol", replace(exploring.claims["carol"], price=5 * PRICE), 1, exploring.deadline)
    token, dave = exploring.token, exploring.accounts["dave"]
    had = token.balanceOf(dave)
    explorer.first("carol", Kind.AGGREGATION, 0)
    assert had - token.balanceOf(dave) == 5 * PRICE


def test_exhausting_asks__burn_half_of_what_they_prepaid(exploring, explorer):
    exploring.keep("bob", replace(exploring.claims["bob"], price=9 * PRICE), 3, exploring.deadline)
    explorer.answer(explorer.first("bob"))
    marked = explorer.first("bob", Kind.UPDATE, 5)
    holder = JOB << 28 | TRAINER
    more = 3 * PRODUCTION.counted_reexecutions
    chain.set_storage(exploring.contract, storage_slot("Referee", "heavy_asks", holder), (1 + more) << 128)
    exploring.world.heavy[JOB, TRAINER] += more
    last = explorer.first("bob", Kind.UPDATE, 6)
    node = explorer.known[last][1]
    assert node.clocks.exhausted
    exploring.to(node.clocks.since + node.clocks.committer_left_s + 1)
    exploring.call("expire", "eve", JOB, exploring.claims["bob"], last, node)
    assert exploring.court.calls[-1][-1] == 2 * (3 * PRICE // 2)
    settle(exploring, explorer, marked, last)
    assert exploring.world.burned[exploring.token.address] == 2 * (3 * PRICE // 2)


@pytest.mark.parametrize("when", ["while its turn is open", "in its window", "once it could be final"])
def test_a_claim_that_lost_its_data__is_closed_at_once_and_everything_goes_back(exploring, explorer, when):
    exploring.keep("bob", exploring.claims["bob"], 3, exploring.deadline if when != "while its turn is open" else 0)
    root = explorer.answer(explorer.first("bob"))
    trace = explorer.first("bob", Kind.UPDATE, 5)
    if when == "once it could be final":
        explorer.answer(trace)
        exploring.to(exploring.deadline + PRODUCTION.committer_s + PRODUCTION.asker_s)
    else:
        exploring.no("referee: not final", "close", "eve", JOB, exploring.claims["bob"])
    exploring.lose("bob")
    exploring.call("close", "eve", JOB, exploring.claims["bob"])
    assert claim(exploring).end == End.AGED
    assert exploring.world.heavy[JOB, TRAINER] == 0
    settle(exploring, explorer, root, trace)
    assert owed(exploring, "dave") == fee(explorer, root) + fee(explorer, trace)
    assert owed(exploring, "dave", exploring.token.address) == PRICE
    assert exploring.world.burned.get(exploring.token.address, 0) == 0


def test_heavy_asks__open_of_a_claim_that_falls_elsewhere__are_counted_down(exploring, explorer):
    waiting = [explorer.first("bob", Kind.UPDATE, slot) for slot in (4, 5, 6)]
    assert exploring.world.heavy[JOB, TRAINER] == 3
    root = explorer.answer(explorer.first("bob"))
    explorer.convict(explorer.answer(explorer.down(root, 0)), 0)
    assert exploring.world.heavy[JOB, TRAINER] == 0
    settle(exploring, explorer, *waiting)


def test_heavy_counter__once_written__is_never_zero_again(exploring, explorer):
    """A word that goes back to zero costs 17,100 gas more at the next ask."""
    explorer.answer(explorer.first("bob", Kind.UPDATE, 4))
    assert exploring.contract.open_heavy(JOB, TRAINER) == 0
    slot = storage_slot("Referee", "heavy_asks", JOB << 28 | TRAINER)
    assert chain.storage(exploring.contract, slot) == 1 << 128 | 1


def full_of(exploring, **fields: int) -> None:
    """The claim's word with these counts at 65,535, on both sides."""
    at = {"open": 52, "heavy_open": 36, "heavy_made": 20}
    slot = storage_slot("Referee", "claims", int.from_bytes(key(exploring), "big"))
    word = chain.storage(exploring.contract, slot)
    for field, value in fields.items():
        word = word & ~((2**16 - 1) << at[field]) | value << at[field]
    chain.set_storage(exploring.contract, slot, word)
    exploring.world.claims[key(exploring)] = replace(claim(exploring), **fields)


def test_claim__with_all_asks_open__refuses_more(exploring, explorer):
    """Heavy ones too: they are counted beside the others."""
    root = explorer.answer(explorer.first("bob"))
    full_of(exploring, open=2**16 - 1, heavy_open=2**16 - 1, heavy_made=2**16 - 1)
    for function, args in (("ask", explorer.ask_args(root, 2)), ("ask_claim", explorer.first_args("bob", 1, 5))):
        exploring.no("referee: too many asks", function, "dave", *args, value=10**22)


def test_claim__with_all_heavy_asks_made__is_asked_for_more(exploring, explorer):
    """A liar cannot use the count up by asks of its own, to keep others from its lie."""
    explorer.answer(explorer.first("bob"))
    full_of(exploring, heavy_made=2**16 - 1)
    explorer.first("bob", Kind.UPDATE, 5)
    assert (claim(exploring).heavy_made, claim(exploring).heavy_open) == (2**16 - 1, 1)


@pytest.mark.parametrize(("seconds", "used"), [(1, 1), (100_000, 43_200 + REEXECUTE_S)])
def test_used_seconds__beyond_what_heavy_asks_add__are_reported(exploring, explorer, seconds, used):
    trace = explorer.first("bob", leaf=3)
    exploring.wait(min(seconds, PRODUCTION.committer_s + REEXECUTE_S))
    explorer.answer(trace)
    expected = max(0, min(used, PRODUCTION.committer_s + REEXECUTE_S) - REEXECUTE_S)
    assert claim(exploring).used_s == expected
